//! What surrounds a session: NVML's thread, the recording, the output log, the probe's socket. Where
//! one of them cannot be had the session goes on without it.

use crate::app::Recording;
use crate::collect::{nvml, probe_socket};
use crate::event::{Clock, Event};
use crate::session::{Directories, Recorder, RecorderOptions};
use anyhow::Context;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// What must live as long as the session.
pub(super) struct SessionGuard {
    pub _nvml: Option<nvml::NvmlWatch>,
    pub directories: Directories,
    /// A session that goes on without us still needs its directory.
    pub released: bool,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if !self.released {
            // What cannot be removed lies in a directory that the system clears.
            let _ = self.directories.remove_runtime();
        }
    }
}

/// Starts to ask NVML.
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

/// Opens the recording. One that the user named and that cannot be had is a mistake of his; the
/// one of the state directory is done without.
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

/// Where to record, if the name that was given is taken: a job that is queued again is started with
/// the same words, and is not to fail for them. The name with a number, and what to say of it.
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

/// The program's own output is no place for the recording, though the shell has just made it empty.
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

/// The keeper's log lies beside the recording, where that is a file: beside `/dev/stdout` or a pipe
/// nothing is to be made. The recording has been opened by now.
pub(super) fn output_log(recording: &Recording, directories: &Directories) -> Option<PathBuf> {
    match recording {
        Recording::Off => None,
        Recording::To(path) => {
            let file = path.symlink_metadata().is_ok_and(|about| about.is_file());
            (file && !path.starts_with("/dev"))
                .then(|| path.with_extension("output.log"))
                .and_then(|path| std::path::absolute(path).ok())
        }
        Recording::InStateDirectory => directories.output_log(),
    }
}

/// Opens the probe's socket.
pub(super) fn listen(
    directories: &Directories,
    clock: Clock,
    events: mpsc::Sender<Event>,
    notes: &mut Vec<String>,
) -> Option<PathBuf> {
    let path = directories.probe_socket()?;
    match probe_socket::bind(&path) {
        Ok(listener) => {
            tokio::spawn(probe_socket::serve(listener, clock, events));
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
