//! The way to ranks of other nodes: a directory that they share, made before the first run of a command
//! that may have some, and followed until the session ends.

use crate::collect::spool::{self, SpoolOptions, SpoolWatch};
use crate::event::{Clock, Event};
use crate::live::RunOptions;
use crate::live::link::ProbeSetup;
use crate::live::session::HandoverState;
use crate::probe;
use crate::recognize::{self, LaunchEnvironment, Recognized};
use crate::recording::{self, Directories, SpoolPlace, make_spool};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a shared file system may take to make the directory: the command waits for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// And to remove it, at the end.
const PATIENCE_AT_END: Duration = Duration::from_secs(2);

/// How far the files were read, in the session's private directory.
const PLACES: &str = "spool.json";

/// Makes the directory, if the command may have ranks on other nodes and there is a place that those
/// see. What went wrong goes to `notes`.
pub(super) fn make(
    options: &RunOptions,
    reach: Reached,
    directories: &Directories,
    notes: &mut Vec<String>,
) -> Option<PathBuf> {
    if !options.probe {
        return None;
    }
    let given = options.spool.clone();
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

pub(super) fn reach(options: &RunOptions) -> Reached {
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

fn may_reach_other_nodes(options: &RunOptions) -> bool {
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
pub(super) fn watch(
    handover: &HandoverState,
    clock: Clock,
    events: &mpsc::Sender<Event>,
) -> Option<SpoolWatch> {
    let directory = handover.spool.as_ref().map(|word| PathBuf::from(&word.0))?;
    let runtime = handover.runtime.as_ref();
    let options = SpoolOptions {
        directory,
        places: runtime.map(|runtime| Path::new(&runtime.0).join(PLACES)),
        is_ours: true,
    };
    Some(spool::watch(options, clock, events.clone()))
}

/// Removes it with the session. On a file system that hangs the next session does.
pub(super) fn remove(directory: PathBuf) {
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
