//! How exactly each kind of event is kept. This is the one place that decides it.
//!
//! What a diagnosis or the list of runs rests on is kept as it came. What comes many times a second
//! and only draws a curve is kept at full rate for the last minutes and around an out-of-memory,
//! and thinned before. It knows nothing of files.

use crate::event::What;
use crate::units::{Pid, Uuid};

/// How an event is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fidelity {
    /// Always, whatever it costs: without it the recording cannot be read. There are few of them.
    Vital,
    /// As it came, within the share of out-of-memory; what came just before is kept with it.
    Oom,
    /// As it came, within the share of what happens now and then.
    Exact,
    /// One of a stream of readings, of which the smallest, the largest and the last are kept.
    Thinned(ReadingStream, u64),
    /// Not at all: a kind that this version cannot write.
    Nothing,
}

/// What readings are compared with each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ReadingStream {
    Sample(Pid, u32),
    Step(Pid, u32),
    Device(Uuid),
}

/// How `what` is kept. The figure of a reading is the one whose extremes matter: a sample's
/// allocated bytes, a step's peak, a device's used bytes.
pub(super) fn fidelity(what: &What) -> Fidelity {
    match what {
        What::SessionStarted(_)
        | What::Started(_)
        | What::SpawnFailed(_)
        | What::Exited(_)
        | What::StopRequested(_) => Fidelity::Vital,
        What::Oom(_) | What::OomText(_) => Fidelity::Oom,
        What::Nvml(_)
        | What::Hello(_)
        | What::Structure(_)
        | What::Patchable(_)
        | What::Rehearsal(_)
        | What::StepTrace(_)
        | What::Patch(_)
        | What::ProbeGone(_)
        | What::Epoch(_)
        | What::Note(_)
        | What::Dropped(_) => Fidelity::Exact,
        What::Device(reading) if reading.lost.is_some() => Fidelity::Exact,
        What::Device(reading) => Fidelity::Thinned(
            ReadingStream::Device(reading.uuid.clone()),
            reading.used.unwrap_or_default().0,
        ),
        What::Sample(sample) => Fidelity::Thinned(
            ReadingStream::Sample(sample.pid, sample.device),
            sample.allocated.0,
        ),
        What::Step(step) => Fidelity::Thinned(
            ReadingStream::Step(step.pid, step.device),
            step.after.peak.max(step.before.peak).0,
        ),
        What::Unknown => Fidelity::Nothing,
    }
}
