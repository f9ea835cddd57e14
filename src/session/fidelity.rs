//! Decides how exactly each kind of event is recorded.
//!
//! Events that a diagnosis or the list of runs is based on are kept in full. Readings that come
//! many times a second and only draw a curve are kept at full rate for the last minutes and around
//! an OOM, and thinned out before. This knows nothing of files.

use crate::event::EventKind;
use crate::units::{Pid, Uuid};

/// How an event is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fidelity {
    /// Always, regardless of its size: the recording is unreadable without it. There are few of
    /// them.
    Vital,
    /// In full, within the budget for OOMs, and the readings just before are kept as well.
    Oom,
    /// In full, within the budget for occasional events.
    Exact,
    /// One of a stream of readings, whose smallest, largest and last values are kept.
    Thinned(ReadingStream, u64),
    /// Not recorded: a kind that this version can't write.
    Nothing,
}

/// A stream of readings that are compared with each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ReadingStream {
    Sample(Pid, u32),
    Step(Pid, u32),
    Device(Uuid),
    Output,
}

/// How `what` is kept. The number of a reading is the one whose extremes matter: a sample's
/// allocated bytes, a step's peak, a device's used bytes, the log's length.
pub(super) fn fidelity(what: &EventKind) -> Fidelity {
    match what {
        EventKind::SessionStarted(_)
        | EventKind::Started(_)
        | EventKind::SpawnFailed(_)
        | EventKind::Exited(_)
        | EventKind::StopRequested(_) => Fidelity::Vital,
        EventKind::Oom(_) | EventKind::OomText(_) => Fidelity::Oom,
        EventKind::Nvml(_)
        | EventKind::Hello(_)
        | EventKind::Structure(_)
        | EventKind::Patchable(_)
        | EventKind::Rehearsal(_)
        | EventKind::Knobs(_)
        | EventKind::StepTrace(_)
        | EventKind::Retainers(_)
        | EventKind::SourceText(_)
        | EventKind::Patch(_)
        | EventKind::UncaughtOom(_)
        | EventKind::ProbeErrors(_)
        | EventKind::ProbeGone(_)
        | EventKind::Epoch(_)
        | EventKind::Consequence(_)
        | EventKind::PredictionOutcome(_)
        | EventKind::Note(_)
        | EventKind::Dropped(_) => Fidelity::Exact,
        EventKind::Device(reading) if reading.lost.is_some() => Fidelity::Exact,
        EventKind::Device(reading) => Fidelity::Thinned(
            ReadingStream::Device(reading.uuid.clone()),
            reading.used.unwrap_or_default().0,
        ),
        EventKind::Sample(sample) => Fidelity::Thinned(
            ReadingStream::Sample(sample.pid, sample.device),
            sample.allocated.0,
        ),
        EventKind::Step(step) => Fidelity::Thinned(
            ReadingStream::Step(step.pid, step.device),
            step.after.peak.max(step.before.peak).0,
        ),
        EventKind::Logged(logged) => Fidelity::Thinned(ReadingStream::Output, logged.bytes.0),
        EventKind::Unknown => Fidelity::Nothing,
    }
}
