//! Observations of earlier sessions of the same program on this machine, read from their recordings
//! beside the loop once memory has run out, and by `fit` before its first run.
//!
//! Nothing is read while a training runs, because that would cost the training. Recordings that can't
//! be read, or are of another program, are skipped.

use crate::command::CommandLine;
use crate::event::EventKind;
use crate::forecast::Observation;
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::recording::{self, BaseDirs};
use crate::state::{RunOutcome, State};
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
        .flat_map(|stored| of_recording(&stored.directory, &reading))
        .collect()
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

/// The observations of a recorded session's runs, without those that are still running, or failed for
/// another reason before their second step.
pub(crate) fn of_recording(path: &Path, reading: &WorkloadKey) -> Vec<Observation> {
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
    Observation::of_runs(&state.runs, reading, &LaunchEnvironment::default())
}
