//! Sets up NVML's thread, the recording, the output log and the probe's socket. The session continues
//! without those that fail.

use super::spool;
use crate::collect::nvml;
use crate::collect::probe_socket::{self, ProbeRequests};
use crate::event::{Clock, Event};
use crate::live::Recording;
use crate::session::{self, Directories, Presence, Recorder, RecorderOptions};
use anyhow::Context;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

pub(super) struct SessionGuard {
    pub _nvml: Option<nvml::NvmlWatch>,
    /// What tells other machines of the session.
    pub presence: Option<Presence>,
    /// The directory for ranks of other nodes.
    pub spool: Option<PathBuf>,
    pub directories: Directories,
    /// A session that continues without us still needs its directory.
    pub released: bool,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if !self.released {
            // If it fails, the system clears that directory later.
            let _ = self.directories.remove_runtime();
            if let Some(spool) = self.spool.take() {
                spool::remove(spool);
            }
            if let Some(presence) = self.presence.take() {
                presence.end();
            }
        }
    }
}

pub(super) fn watch_nvml(
    interval: Duration,
    clock: Clock,
    events: mpsc::Sender<Event>,
) -> nvml::NvmlWatch {
    let library = std::env::var_os("OOMPH_NVML_LIBRARY").map(PathBuf::from);
    nvml::watch(
        nvml::Options {
            interval,
            library,
            ..nvml::Options::default()
        },
        clock,
        events,
    )
}

/// Opens the recording. If the user named a file that can't be opened, that is an error; without
/// the one in the state directory the session continues.
pub(super) fn record(
    recording: &Recording,
    directories: &Directories,
    notes: &mut Vec<String>,
) -> anyhow::Result<Recorder> {
    let options = RecorderOptions::default();
    match recording {
        Recording::Off => Ok(Recorder::off()),
        Recording::To(path) => {
            refuse_own_output(path)?;
            Recorder::create(path, options).with_context(|| format!("--record {}", path.display()))
        }
        Recording::InStateDirectory => {
            let created = directories
                .recording()
                .map(|path| Recorder::create(&path, options));
            match created {
                Some(Ok(recorder)) => Ok(recorder),
                Some(Err(error)) => {
                    notes.push(format!("{error:#}; this session is not recorded"));
                    Ok(Recorder::off())
                }
                None => Ok(Recorder::off()),
            }
        }
    }
}

/// Where to record if the given file exists: a requeued job is started with the same arguments and
/// must not fail because of them. Returns the name with a number, and a note.
pub(super) fn untaken(recording: &Recording) -> (Recording, Option<String>) {
    let Recording::To(path) = recording else {
        return (recording.clone(), None);
    };
    let is_taken =
        |path: &Path| std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() > 0);
    if !is_taken(path) || refuse_own_output(path).is_err() {
        return (recording.clone(), None);
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path
        .extension()
        .map(|ext| format!(".{}", ext.to_string_lossy()));
    let numbered = |n: u32| {
        path.with_file_name(format!(
            "{stem}-{n}{}",
            extension.as_deref().unwrap_or_default()
        ))
    };
    let free = (2..).map(numbered).find(|path| !is_taken(path));
    let free = free.unwrap_or_else(|| path.clone());
    let words = format!(
        "--record {}: it exists already; recording to {}",
        path.display(),
        free.display()
    );
    (Recording::To(free), Some(words))
}

/// The recording must not go to the program's own output file, though the shell has just truncated it.
fn refuse_own_output(path: &Path) -> anyhow::Result<()> {
    let Ok(named) = std::fs::metadata(path) else {
        return Ok(());
    };
    let is_it = |about: std::fs::Metadata| {
        (about.is_file()) && (about.dev(), about.ino()) == (named.dev(), named.ino())
    };
    let own = ["/dev/stdout", "/dev/stderr"];
    let taken = own
        .iter()
        .any(|name| std::fs::metadata(name).is_ok_and(is_it));
    anyhow::ensure!(
        !taken,
        "--record {}: the program's output goes there; name another file",
        path.display()
    );
    Ok(())
}

/// The keeper's log is next to the recording if that is a regular file; nothing is created next to
/// `/dev/stdout` or a pipe. The recording must be open.
pub(super) fn output_log(recording: &Recording, directories: &Directories) -> Option<PathBuf> {
    match recording {
        Recording::Off => None,
        Recording::To(path) => {
            let file = path.symlink_metadata().is_ok_and(|about| about.is_file());
            (file && !path.starts_with("/dev"))
                .then(|| path.with_extension(session::NAMED_LOG))
                .and_then(|path| std::path::absolute(path).ok())
        }
        Recording::InStateDirectory => directories.output_log(),
    }
}

pub(super) fn listen(
    directories: &Directories,
    clock: Clock,
    requests: ProbeRequests,
    events: mpsc::Sender<Event>,
    notes: &mut Vec<String>,
) -> Option<PathBuf> {
    let path = directories.probe_socket()?;
    match probe_socket::bind(&path) {
        Ok(listener) => {
            tokio::spawn(probe_socket::serve(listener, clock, requests, events));
            Some(path)
        }
        Err(error) => {
            notes.push(format!(
                "the probe's socket {} cannot be opened ({error}); continuing without the probe",
                path.display()
            ));
            None
        }
    }
}
