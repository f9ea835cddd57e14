//! Sets up NVML's thread, the recording, the output log and the probe's socket. The session continues
//! without those that fail.

use super::spool;
use crate::collect::nvml;
use crate::collect::probe_socket::{self, ProbeRequests};
use crate::event::{Clock, Event};
use crate::live::Recording;
use crate::recording::{self, Claimed, Directories, Presence, Recorder, RecorderOptions};
use anyhow::Context;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// As many names with a number are tried for a recording.
const NUMBERED: u32 = 10_000;

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

/// A recording that was begun.
pub(super) struct Begun {
    pub recorder: Recorder,
    /// Where it is, which need not be where it was asked for.
    pub place: Recording,
    /// Why, if it is not.
    pub moved: Option<String>,
}

/// Begins the recording. If the user named a file that can't be opened, that is an error; without
/// the one in the state directory the session continues.
pub(super) fn record(
    recording: &Recording,
    directories: &Directories,
    notes: &mut Vec<String>,
) -> anyhow::Result<Begun> {
    let own = |notes: &mut Vec<String>| {
        let created = directories
            .recording()
            .map(|path| Recorder::create(&path, RecorderOptions::default()));
        match created {
            Some(Ok(recorder)) => recorder,
            Some(Err(error)) => {
                notes.push(format!("{error:#}; this session is not recorded"));
                Recorder::off()
            }
            None => Recorder::off(),
        }
    };
    let begun = |recorder, place| Begun {
        recorder,
        place,
        moved: None,
    };
    match recording {
        Recording::Off => Ok(begun(Recorder::off(), Recording::Off)),
        Recording::InStateDirectory => Ok(begun(own(notes), Recording::InStateDirectory)),
        Recording::To(path) => {
            refuse_own_output(path)?;
            let why = match named(path)? {
                Named::As(recorder, place) => {
                    let moved = (place != *path).then(|| {
                        format!(
                            "--record {}: it exists already; recording to {}",
                            path.display(),
                            place.display()
                        )
                    });
                    return Ok(Begun {
                        recorder: *recorder,
                        place: Recording::To(place),
                        moved,
                    });
                }
                Named::Refused(why) => why,
            };
            let recorder = own(notes);
            let instead = match recorder.path() {
                Some(place) => format!("recording to {}", place.display()),
                None => "this session is not recorded".into(),
            };
            Ok(Begun {
                recorder,
                place: Recording::InStateDirectory,
                moved: Some(format!("--record {}: {why}; {instead}", path.display())),
            })
        }
    }
}

enum Named {
    As(Box<Recorder>, PathBuf),
    /// It cannot be had, but another session or another user may have it.
    Refused(String),
}

/// Records to the given file, or to one with a number if it exists: a requeued job is started with the
/// same arguments and must not fail because of them.
fn named(path: &Path) -> anyhow::Result<Named> {
    let claim = |path: &Path| Recorder::claim(path, RecorderOptions::default());
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
    match claim(path) {
        Ok(Claimed::Ours(recorder)) => return Ok(Named::As(recorder, path.to_path_buf())),
        Ok(Claimed::Busy) => return Ok(Named::Refused("another session records to it".into())),
        Ok(Claimed::Used) => {}
        Err(error) => {
            let is_of_others = error
                .downcast_ref::<std::io::Error>()
                .or_else(|| error.root_cause().downcast_ref())
                .is_some_and(|error| {
                    error.kind() == std::io::ErrorKind::PermissionDenied
                        && error.raw_os_error().is_none()
                });
            return match is_of_others {
                true => Ok(Named::Refused(error.root_cause().to_string())),
                false => Err(error).with_context(|| format!("--record {}", path.display())),
            };
        }
    }
    for place in (2..NUMBERED).map(numbered) {
        if let Claimed::Ours(recorder) =
            claim(&place).with_context(|| format!("--record {}", place.display()))?
        {
            return Ok(Named::As(recorder, place));
        }
    }
    Ok(Named::Refused("it exists already".into()))
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
                .then(|| path.with_extension(recording::NAMED_LOG))
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
