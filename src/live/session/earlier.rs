//! Observations of earlier sessions of the same program on this machine, read from their recordings
//! beside the loop once memory has run out, and by `fit` before its first run.
//!
//! Nothing is read while a training runs, because that would cost the training. Recordings that can't
//! be read, or are of another program, are skipped.

use crate::command::CommandLine;
use crate::diagnosis;
use crate::event::EventKind;
use crate::forecast::{Observation, SeenIn};
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::recording::{self, BaseDirs};
use crate::state::{Run, RunOutcome, State};
use crate::units::Bytes;
use std::path::Path;

/// The number of sessions whose first line is read.
const LOOKED_AT: usize = 64;
/// The number of sessions that are read completely.
const READ: usize = 6;
/// Larger recordings would take seconds.
const LARGEST: u64 = 32 << 20;

/// Of earlier sessions, the earliest first.
pub(crate) type Observations = Vec<Observation>;

/// The observations of earlier sessions with a program like that of `command`, without `own`; the
/// earliest first.
pub(crate) fn read(command: &CommandLine, own: &str) -> Observations {
    read_all(command, own, |runs, reading| {
        let seen = Observation::of_runs(runs, reading, &LaunchEnvironment::default());
        // Its runs have numbers of their own.
        let earlier = seen.into_iter().map(|seen| Observation {
            seen_in: SeenIn::EarlierSession,
            ..seen
        });
        earlier.collect()
    })
}

fn read_all<T>(
    command: &CommandLine,
    own: &str,
    of_runs: impl Fn(&[Run], &WorkloadKey) -> Vec<T>,
) -> Vec<T> {
    let places = &BaseDirs::of_this_user();
    let reading = WorkloadKey::new(command, &LaunchEnvironment::default());
    let mut sessions: Vec<_> = recording::list(places)
        .into_iter()
        .filter(|stored| stored.id != own)
        .take(LOOKED_AT)
        .filter(|stored| is_like(&stored.directory, command, &reading))
        .take(READ)
        .collect();
    sessions.reverse();
    sessions
        .iter()
        .flat_map(|stored| of_runs(&runs_of(&stored.directory), &reading))
        .collect()
}

/// An out-of-memory of an earlier session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EarlierOom {
    /// Samples that the device took at once.
    pub at_once: u64,
    /// The step that failed, counted from 1.
    pub step: u64,
    /// What its process could reserve, where the OOM says so.
    pub room: Option<Bytes>,
    /// By how much what is allocated between steps grew each step.
    pub grew_by: Option<Bytes>,
}

impl EarlierOom {
    fn of_run(run: &Run) -> Option<EarlierOom> {
        let is_end = run.outcome() == RunOutcome::OutOfMemory;
        let oom = run.oom().filter(|_| is_end)?;
        Some(EarlierOom {
            at_once: WorkloadKey::new(&run.command, &LaunchEnvironment::default()).at_once,
            step: run.steps() + 1,
            room: oom.room(),
            grew_by: diagnosis::grows_by(run),
        })
    }
}

/// The OOMs of earlier sessions with a program like that of `command`, the earliest first.
pub(crate) fn ooms(command: &CommandLine) -> Vec<EarlierOom> {
    let of_run = |runs: &[Run], reading: &WorkloadKey| {
        let is_like = |run: &&Run| {
            WorkloadKey::new(&run.command, &LaunchEnvironment::default()).likeness
                == reading.likeness
        };
        let like = runs.iter().filter(is_like);
        like.filter_map(EarlierOom::of_run).collect()
    };
    read_all(command, "", of_run)
}

/// Whether a recording is of the same program, by its first line.
fn is_like(directory: &Path, command: &CommandLine, reading: &WorkloadKey) -> bool {
    let recording = directory.join(recording::RECORDING);
    let small = std::fs::metadata(&recording).is_ok_and(|about| about.len() <= LARGEST);
    if !small {
        return false;
    }
    let Ok(file) = recording::open_stored(&recording) else {
        return false;
    };
    let mut line = String::new();
    use std::io::{BufRead, Read};
    let read = std::io::BufReader::new(file.take(1 << 20)).read_line(&mut line);
    let Ok(event) = serde_json::from_str::<crate::event::Event>(&line) else {
        return false;
    };
    match event.what {
        EventKind::SessionStarted(header) if read.is_ok() => {
            header.command.cwd == command.cwd
                && WorkloadKey::new(&header.command, &LaunchEnvironment::default()).likeness
                    == reading.likeness
        }
        _ => false,
    }
}

/// A recorded session's runs, without those that are still running, or failed for another reason before their
/// second step.
fn runs_of(path: &Path) -> Vec<Run> {
    let Ok(events) = recording::read(path) else {
        return Vec::new();
    };
    let mut state = State::default();
    for event in events.flatten() {
        state.apply(&event);
    }
    state.runs.retain(|run| match run.outcome() {
        RunOutcome::Finished | RunOutcome::OutOfMemory => true,
        RunOutcome::Running
        | RunOutcome::TrainedNothing
        | RunOutcome::Stopped
        | RunOutcome::Failed(_) => run.steps() > 1,
    });
    state.runs
}
