//! Sets up NVML's thread, the recording, the output log, the probe's socket, and the way to ranks of other
//! nodes: a directory that they share, made before the first run of a command that may have some, and
//! followed until the session ends. The session continues without those that fail.

use super::Recording;
use super::config::{HandoverState, SessionConfig};
use super::probe_setup::ProbeSetup;
use crate::collect::probe_socket::{self, ProbeRequests};
use crate::collect::spool::{self, SpoolOptions, SpoolWatch};
use crate::collect::{host, nvml};
use crate::event::{Clock, Event};
use crate::probe;
use crate::recognize::{self, LaunchEnvironment, Recognized};
use crate::recording::{
    self, Claimed, Directories, Presence, Recorder, RecorderOptions, SpoolPlace, make_spool,
};
use crate::state::HostState;
use crate::units::Pid;
use anyhow::Context;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;
use std::time::Duration;
use tokio::sync::mpsc;

/// What stands before the session's name where somebody asked for that.
pub(crate) const ANNOUNCES: &str = "oomph-session: ";

/// Tells on standard error what the session is called; nobody reads either stream from then on, nor what the training writes
/// to them, which is in the session's log.
pub(super) fn announce(id: &str) {
    let _ = writeln!(io::stderr(), "{ANNOUNCES}{id}");
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdout(&null);
        let _ = nix::unistd::dup2_stderr(&null);
    }
}

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
                remove(spool);
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

/// Looks at the host's memory for the run below `keeper`.
pub(super) fn watch_host(
    keeper: Pid,
    known: &HostState,
    clock: Clock,
    events: mpsc::Sender<Event>,
) -> host::HostWatch {
    let processes = known.latest().map(|(_, memory)| memory.processes.clone());
    let earlier = known.kills().map(|kills| host::HostEarlier {
        kills,
        processes: processes.unwrap_or_default(),
    });
    let system = std::env::var_os("OOMPH_HOST_FILES").map_or_else(|| "/".into(), PathBuf::from);
    let this = i32::try_from(std::process::id()).unwrap_or(0);
    host::watch(
        host::HostOptions {
            system,
            root: keeper.0,
            but: vec![this],
            interval: Duration::from_secs(1),
            earlier,
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

/// How long a shared file system may take to make the directory: the command waits for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// And to remove it, at the end.
const PATIENCE_AT_END: Duration = Duration::from_secs(2);

/// How far the files were read, in the session's private directory.
const PLACES: &str = "spool.json";

/// Makes the directory, if the command may have ranks on other nodes and there is a place that those
/// see. What went wrong goes to `notes`.
pub(super) fn make_shared(
    options: &SessionConfig,
    reach: Reached,
    directories: &Directories,
    notes: &mut Vec<String>,
) -> Option<PathBuf> {
    if !options.probe {
        return None;
    }
    let given = options.spool.as_ref().map(|word| PathBuf::from(&word.0));
    if reach == Reached::ThisNode {
        return None;
    }
    let (id, state) = (directories.id.clone(), directories.state.clone());
    let asked = given.is_some();
    let work = move || -> Result<Option<PathBuf>, String> {
        let place = match (&given, &state) {
            (Some(given), _) => SpoolPlace::Given(given),
            (None, Some(state)) => SpoolPlace::SessionDirectory(state),
            (None, None) => return Ok(None),
        };
        let made = make_spool(place, &id)?;
        if let Some(directory) = &made {
            probe::install_in_spool(directory).map_err(|error| error.to_string())?;
        }
        Ok(made)
    };
    match within(PATIENCE, work) {
        Some(Ok(made)) => made,
        Some(Err(why)) => {
            notes.push(format!("ranks of other nodes are not seen: {why}"));
            None
        }
        None => {
            let what = match asked {
                true => "the directory of --spool",
                false => "the session's directory",
            };
            notes.push(format!(
                "ranks of other nodes are not seen: {what} did not answer within {} s",
                PATIENCE.as_secs()
            ));
            None
        }
    }
}

/// Where the command's processes may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    ThisNode,
    OtherNodes,
}

pub(super) fn reach(options: &SessionConfig) -> Reached {
    if !options.probe {
        return Reached::ThisNode;
    }
    match options.spool.is_some() || may_reach_other_nodes(options) {
        true => Reached::OtherNodes,
        false => Reached::ThisNode,
    }
}

/// The directory that PYTHONPATH names for processes of other nodes: in the spool, or a copy below the
/// user's home. Nobody else could have made these there either, unlike the session's own below /tmp or
/// /run.
///
/// # Errors
/// There is none, and why.
pub(super) fn modules(reach: Reached, spool: Option<&Path>) -> Result<Option<PathBuf>, String> {
    match (reach, spool) {
        (Reached::ThisNode, _) => Ok(None),
        (Reached::OtherNodes, Some(spool)) => Ok(Some(probe::in_spool(spool))),
        (Reached::OtherNodes, None) => {
            let made = within(PATIENCE, || {
                let place = recording::place_below_home()?;
                let copy = probe::install_by_content(&place).map_err(|error| error.to_string())?;
                recording::is_safe_to_load(&copy).map(|()| copy)
            });
            let made = made.unwrap_or_else(|| Err("the home directory does not answer".into()));
            made.map(Some).map_err(|why| {
                format!(
                    "no probe: its processes may run on other nodes, and there is no directory for its files that nobody else could make there ({why}); --spool DIR names one that the nodes share"
                )
            })
        }
    }
}

fn may_reach_other_nodes(options: &SessionConfig) -> bool {
    let environment: Vec<(String, String)> = recognize::environment_read()
        .filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?)))
        .collect();
    let launch = LaunchEnvironment {
        environment: &environment,
        ..LaunchEnvironment::default()
    };
    Recognized::new(&options.command, &launch).reach().is_far()
}

/// Follows it.
pub(super) fn follow_files(
    handover: &HandoverState,
    clock: Clock,
    events: &mpsc::Sender<Event>,
) -> Option<SpoolWatch> {
    let directory = handover
        .config
        .spool
        .as_ref()
        .map(|word| PathBuf::from(&word.0))?;
    let runtime = handover.runtime.as_ref();
    let options = SpoolOptions {
        directory,
        places: runtime.map(|runtime| Path::new(&runtime.0).join(PLACES)),
        is_ours: true,
    };
    Some(spool::watch(options, clock, events.clone()))
}

/// Removes it with the session. On a file system that hangs the next session does.
fn remove(directory: PathBuf) {
    within(PATIENCE_AT_END, move || {
        // What stays is removed by the next session.
        let _ = fs::remove_dir_all(directory);
    });
}

/// Does something that may hang on a thread of its own, and waits so long at most.
fn within<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = blocking::sync_channel(1);
    let thread = std::thread::Builder::new().name("shared".into());
    thread
        .spawn(move || {
            // If nobody waits any more, it was too late.
            let _ = done.send(work());
        })
        .ok()?;
    result.recv_timeout(patience).ok()
}

/// Nothing is followed without a probe in the command.
pub(super) fn kept(environment: &ProbeSetup, directory: Option<PathBuf>) -> Option<PathBuf> {
    directory.filter(|_| environment.has_probe())
}
