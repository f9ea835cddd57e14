//! A front that is left open for a month: what is known stays as large as it was after a day.

use crate::event::*;
use crate::state::tests::staged::*;
use crate::state::{RunOutcome, State};
use crate::units::{Bytes, Moment, Pid};
use std::fmt::{self, Write};

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// Ranks that train from the beginning to the end.
const RANKS: i32 = 2;

/// Counts the values of everything that is known: each is named once in the debug output, that of
/// a list that somebody adds later too.
struct ValueCount(usize);

impl Write for ValueCount {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.bytes().filter(|byte| matches!(byte, b',')).count();
        Ok(())
    }
}

fn values(state: &State) -> usize {
    let mut values = ValueCount(0);
    write!(values, "{state:?}").unwrap();
    values.0
}

/// A figure that is a new one each time.
fn varied(n: u64, more: u64) -> Bytes {
    Bytes::mib(4_000 + more) + Bytes(n.wrapping_mul(2_654_435_761) % (1 << 30))
}

/// What a training says in the second `now`, of which `count` were told before.
fn tell(session: &mut State, now: u64, count: u64) {
    let mut tell = |what| {
        session.apply(&Event {
            at: Moment(now * 1_000_000),
            what,
        });
    };
    for pid in 100..100 + RANKS {
        let allocated = varied(count + pid as u64, 0);
        let more = Sample {
            alloc_retries: count / 10,
            ..sample(pid, (pid % 2) as u32, allocated, varied(count, 2_000))
        };
        tell(EventKind::Sample(more));
        tell(step(pid, count, allocated, varied(count, 1_000)));
    }
    // Other people's processes come and go.
    let other = 5_000 + (count % 20_000) as i32;
    let processes = [(100, varied(count, 3_000)), (other, varied(count, 10))];
    tell(EventKind::Device(reading(&processes)));
    if count.is_multiple_of(2) {
        tell(EventKind::Epoch(Epoch { number: count / 2 }));
        tell(EventKind::Note(Note::new(
            Level::Warning,
            "something was noticed",
        )));
        tell(EventKind::Dropped(Dropped {
            samples: 1,
            ..Dropped::default()
        }));
    }
    if count.is_multiple_of(50) {
        // A worker that is started anew each time, and a step that is tried again.
        let worker = 30_000 + (count / 50 % 30_000) as i32;
        tell(hello(1, worker, None));
        tell(EventKind::Sample(sample(
            worker,
            0,
            Bytes(count),
            Bytes(count),
        )));
        tell(EventKind::ProbeGone(ProbeGone {
            pid: Pid(worker),
            reason: Some("it ended".into()),
            said_end: false,
        }));
        let failed = record(
            100,
            varied(count, 0),
            varied(count, 9),
            Bytes(count),
            Bytes(0),
        );
        tell(EventKind::Oom(failed));
    }
}

#[test]
fn a_month_takes_no_more_than_its_first_day() {
    let mut state = State::default();
    let mut begin = |what| {
        state.apply(&Event {
            at: Moment::ZERO,
            what,
        });
    };
    begin(started(1, 100, "python train.py"));
    for rank in 0..RANKS {
        begin(hello(1, 100 + rank, Some(rank as u32)));
    }
    let mut most = 0;
    // Every six seconds at first, so that every list is full soon.
    let moments = (0..DAY).step_by(6).chain((DAY..30 * DAY).step_by(300));
    for (count, now) in (1..).zip(moments) {
        tell(&mut state, now, count);
        if now < DAY && now.is_multiple_of(HOUR) {
            most = most.max(values(&state));
        }
        if now > DAY && now.is_multiple_of(6 * HOUR) {
            let now_values = values(&state);
            // Not all series are at their fullest at the same time.
            assert!(
                now_values <= most + most / 16,
                "day {}: {now_values} values, {most} in the first day",
                now / DAY
            );
        }
    }
    assert!(most < 250_000, "{most} values");
}

/// A run of a session that relaunches: two ranks, steps, an OOM.
fn relaunch(state: &mut State, run: u32) {
    let second = u64::from(run) * 600;
    let mut tell = |more: u64, what| {
        state.apply(&Event {
            at: Moment((second + more) * 1_000_000),
            what,
        });
    };
    let pid = |rank: i32| run as i32 * 10 + rank;
    tell(0, started(run, pid(0), "python train.py --batch-size 64"));
    for rank in 0..RANKS {
        tell(1, hello(run, pid(rank), Some(rank as u32)));
        for n in 1..40 {
            let allocated = varied(n, u64::from(run));
            tell(
                n,
                EventKind::Sample(sample(pid(rank), rank as u32, allocated, allocated)),
            );
            tell(n, step(pid(rank), n, allocated, varied(n, 1_000)));
            tell(n, EventKind::Epoch(Epoch { number: n }));
        }
        let failed = record(pid(rank), Bytes(1), varied(9, 9), Bytes(9), Bytes(0));
        tell(50, EventKind::Oom(failed));
    }
    tell(60, exited(run, Exit::Code(1)));
}

#[test]
fn a_month_of_relaunches_is_bounded_and_keeps_what_a_report_shows() {
    let mut state = State::default();
    let mut most = 0;
    for run in 1..=1_200 {
        relaunch(&mut state, run);
        match run {
            300 => most = values(&state),
            600 | 1_200 => {
                let now_values = values(&state);
                assert!(
                    now_values <= most + most / 16,
                    "run {run}: {now_values}, {most}"
                );
            }
            _ => {}
        }
    }
    let numbers: Vec<u32> = state.runs.iter().map(|run| run.number.0).collect();
    assert_eq!((numbers[0], numbers[numbers.len() - 1]), (1, 1_200));
    let (first, last) = (&state.runs[0], &state.runs[numbers.len() - 1]);
    for run in [first, last] {
        assert_eq!(run.outcome(), RunOutcome::OutOfMemory);
        assert_eq!((run.steps(), run.oom_count), (39, 2));
        assert!(run.peak().is_some() && run.oom().is_some_and(|oom| oom.record.is_some()));
    }
    assert_eq!(first.epochs.latest(), Some(39));
    assert_eq!(
        first.ranks[0].steps.baselines.last(),
        Some(&(39, varied(39, 1)))
    );
    assert!(last.ranks[0].steps.marks.ended.len() > first.ranks[0].steps.marks.ended.len());
}
