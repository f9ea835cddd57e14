//! Parses a line of the probe into an event, accepting only kinds that a probe may send. No I/O.

use crate::event::{Event, EventKind};
use crate::units::{Moment, Pid};
use serde::Deserialize;

/// What every line begins with: `{"ns": …, "event": "sample", …}`.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct LineHead<'a> {
    /// Its number; only lines in files have one.
    pub seq: Option<u64>,
    /// `time.monotonic_ns()` when it happened.
    pub ns: u64,
    pub event: &'a str,
}

/// The head of a line (without its end); `None` if it is none of a probe.
pub(super) fn head(bytes: &[u8]) -> Option<LineHead<'_>> {
    serde_json::from_slice(bytes).ok()
}

/// Parses a line with this head. `peer` is the process as reported by the kernel, or as this
/// session numbers one of another node, and overrides the line's own PID; `None` if the kernel has no
/// PID for it here. `stamp` turns the process's monotonic nanoseconds into a moment. Returns `None`
/// for anything but a probe's events: a start or an exit would be a forgery here.
pub(super) fn event(
    head: LineHead<'_>,
    bytes: &[u8],
    peer: Option<Pid>,
    stamp: impl Fn(u64) -> Moment,
) -> Option<Event> {
    let mut what = what(head.event, bytes)?;
    match &mut what {
        EventKind::Hello(hello) => set(&mut hello.pid, peer),
        EventKind::Sample(sample) => set(&mut sample.pid, peer),
        EventKind::Step(step) => set(&mut step.pid, peer),
        EventKind::Structure(structure) => set(&mut structure.pid, peer),
        EventKind::Oom(record) => {
            set(&mut record.pid, peer);
            set(&mut record.sample.pid, peer);
            if let Some(structure) = &mut record.structure {
                set(&mut structure.pid, peer);
            }
        }
        EventKind::Patchable(patchable) => set(&mut patchable.pid, peer),
        EventKind::Rehearsal(rehearsal) => set(&mut rehearsal.pid, peer),
        EventKind::Knobs(knobs) => set(&mut knobs.pid, peer),
        EventKind::Called(called) => set(&mut called.pid, peer),
        EventKind::Losses(read) => set(&mut read.pid, peer),
        EventKind::ProcessHost(said) => set(&mut said.pid, peer),
        EventKind::PeakActivity(said) => set(&mut said.pid, peer),
        EventKind::StepTrace(trace) => set(&mut trace.pid, peer),
        EventKind::Retainers(found) => set(&mut found.pid, peer),
        EventKind::Patch(patched) => set(&mut patched.pid, peer),
        EventKind::UncaughtOom(ended) => set(&mut ended.pid, peer),
        EventKind::ProbeErrors(errors) => set(&mut errors.pid, peer),
        EventKind::Note(_) | EventKind::Dropped(_) => {}
        EventKind::SessionStarted(_)
        | EventKind::LaunchFacts(_)
        | EventKind::Started(_)
        | EventKind::SpawnFailed(_)
        | EventKind::Exited(_)
        | EventKind::Nvml(_)
        | EventKind::Device(_)
        | EventKind::HostMemory(_)
        | EventKind::HostKill(_)
        | EventKind::ProbeGone(_)
        | EventKind::OomText(_)
        | EventKind::PredictionOutcome(_)
        | EventKind::SourceText(_)
        | EventKind::Logged(_)
        | EventKind::PrintedLoss(_)
        | EventKind::Epoch(_)
        | EventKind::Consequence(_)
        | EventKind::StopRequested(_)
        | EventKind::Unknown => return None,
    }
    Some(Event {
        at: stamp(head.ns),
        what,
    })
}

/// Readings are nearly all of what comes, hundreds a second of many ranks: they are read in one pass,
/// where the enum with its tag takes two.
fn what(event: &str, bytes: &[u8]) -> Option<EventKind> {
    match event {
        "sample" => serde_json::from_slice(bytes).ok().map(EventKind::Sample),
        "step" => serde_json::from_slice(bytes).ok().map(EventKind::Step),
        _ => serde_json::from_slice(bytes).ok(),
    }
}

/// Parses a line of which nothing is known yet.
pub(super) fn read(
    bytes: &[u8],
    peer: Option<Pid>,
    stamp: impl Fn(u64) -> Moment,
) -> Option<Event> {
    event(head(bytes)?, bytes, peer, stamp)
}

fn set(pid: &mut Pid, peer: Option<Pid>) {
    if let Some(peer) = peer {
        *pid = peer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Clock, Sample};
    use crate::units::Bytes;

    const SAMPLE: &str = r#"{"ns":9000,"event":"sample","pid":7,"device":1,"allocated":1024,"reserved":4096,"allocated_peak":2048,"reserved_peak":4096,"a_field_of_later":[1]}"#;

    fn clock(ns: u64) -> Moment {
        Clock::with_origin(4).at_monotonic_ns(ns)
    }

    #[test]
    fn figures_that_a_torch_does_not_say_are_none() {
        let event = read(SAMPLE.as_bytes(), None, clock).unwrap();
        assert_eq!(event.at, Moment(5));
        assert_eq!(
            event.what,
            EventKind::Sample(Sample {
                pid: Pid(7),
                device: 1,
                allocated: Bytes(1024),
                reserved: Bytes(4096),
                allocated_peak: Bytes(2048),
                reserved_peak: Bytes(4096),
                ..Sample::default()
            })
        );
    }

    #[test]
    fn the_kernels_word_for_the_process_counts() {
        let event = read(SAMPLE.as_bytes(), Some(Pid(42)), clock).unwrap();
        let EventKind::Sample(sample) = event.what else {
            panic!("{event:?}")
        };
        assert_eq!(sample.pid, Pid(42));
        let oom = format!(
            r#"{{"ns":1,"event":"oom","pid":7,"device":0,"requested":1,"total":2,"free":3,"sample":{},"structure":{{"pid":7,"device":0,"parameters":1,"gradients":2,"optimizer_state":3}}}}"#,
            SAMPLE.replace(r#""ns":9000,"event":"sample","#, "")
        );
        let event = read(oom.as_bytes(), Some(Pid(42)), clock).unwrap();
        let EventKind::Oom(record) = event.what else {
            panic!("{event:?}")
        };
        let structure = record.structure.unwrap();
        assert_eq!([record.pid, record.sample.pid, structure.pid], [Pid(42); 3]);
    }

    #[test]
    fn what_is_no_event_of_a_probe_is_nothing() {
        for line in [
            "",
            "{}",
            "garbage",
            "[1,2,3]",
            r#"{"event":"sample"}"#,
            r#"{"ns":1,"event":"never heard of"}"#,
            // A missing figure, a negative figure, and an invalid stamp.
            r#"{"ns":1,"event":"sample","pid":7,"device":1,"reserved":4096}"#,
            r#"{"ns":1,"event":"structure","pid":7,"device":1,"parameters":-1,"gradients":0,"optimizer_state":0}"#,
            r#"{"ns":-5,"event":"note","level":"info","text":""}"#,
            // Events that other sources send.
            r#"{"ns":1,"event":"exited","run":1,"exit":{"code":0}}"#,
            r#"{"ns":1,"event":"stop_requested","signal":15,"from_keyboard":true}"#,
        ] {
            assert_eq!(read(line.as_bytes(), None, clock), None, "{line}");
        }
        assert_eq!(read(b"\xff\xfe\x00", None, clock), None);
    }
}
