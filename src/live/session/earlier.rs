//! What earlier sessions of the same program on this machine showed, read from their recordings
//! beside the loop once memory has run out, and by `fit` before its first run.
//!
//! Nothing is read while a training runs, because that would cost the training. Recordings that can't
//! be read, or are of another program, are skipped.

use crate::calibration::NON_TORCH_USUAL;
use crate::command::CommandLine;
use crate::diagnosis::{self, Cause};
use crate::event::{Event, SessionStarted};
use crate::forecast::{
    ActivationReduction, Allocator, EarlierOutcome, EarlierRun, MARGIN, Model, Observation, SeenIn,
    Target,
};
use crate::live::program_text;
use crate::recognize::{LaunchEnvironment, Recognized, WorkloadKey};
use crate::recording::{self, BaseDirs};
use crate::state::{OomIncident, RankState, Run, RunOutcome, State};
use crate::units::{Bytes, Moment};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The number of sessions whose first line is read.
const LOOKED_AT: usize = 256;
/// The number of sessions that are read completely.
const READ: usize = 6;
/// The bytes of the recordings that only an outline is read of: what their commands took.
const OUTLINED: u64 = 64 << 20;
/// Larger recordings would take seconds.
const LARGEST: u64 = 32 << 20;

/// What earlier sessions showed, the earliest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Earlier {
    /// Of runs whose command is like this one's but for the batch, of the program as it is.
    pub observations: Vec<Observation>,
    /// Of all runs of the program.
    pub runs: Vec<EarlierRun>,
    /// The latest process of the program, as it is, that told what can be patched in it.
    pub rank: Option<Box<RankState>>,
}

impl Earlier {
    /// The version of torch that the program had, where its process told.
    pub fn torch(&self) -> Option<&str> {
        Some(self.rank.as_ref()?.hello.torch.as_str())
    }
}

/// Until when something was seen before a session's own run ended: what came later is not earlier, or the same session would be told
/// with other figures each time somebody reads it again.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Before {
    /// The session itself.
    own: String,
    /// When it began; none: whatever there is counts.
    began: Option<f64>,
    /// When its first run that ran out of memory had ended, or its last one.
    until: Option<f64>,
}

impl Before {
    /// Before the run of a session in which memory ran out first.
    pub(crate) fn of(state: &State) -> Before {
        let Some(header) = &state.session else {
            return Before::default();
        };
        let has_ended = |run: &&Run| run.ended.is_some();
        let ran_out = |run: &&Run| run.outcome() == RunOutcome::OutOfMemory || run.oom_count > 0;
        let mut ended = state.runs.iter().filter(has_ended);
        let decisive = (ended.clone().find(ran_out)).or(ended.next_back());
        let until = decisive.and_then(|run| run.ended).map(|(at, _)| at);
        Before {
            own: header.id.clone(),
            began: Some(header.wall),
            until: until.map(|at| wall(header, at)),
        }
    }

    /// Whether a session is an earlier one, by its first line.
    fn is_after(&self, header: &SessionStarted) -> bool {
        header.id != self.own && self.began.is_none_or(|began| header.wall < began)
    }

    /// Whether an event of an earlier session had happened by then.
    fn has_seen(&self, header: &SessionStarted, at: Moment) -> bool {
        self.until.is_none_or(|until| wall(header, at) <= until)
    }
}

/// The wall clock at a moment of a session.
fn wall(header: &SessionStarted, at: Moment) -> f64 {
    header.wall + at.since(Moment::ZERO).as_secs_f64()
}

/// What earlier sessions with the program of `command` showed.
pub(crate) fn read(command: &CommandLine, before: &Before) -> Earlier {
    read_in(&BaseDirs::of_this_user(), command, before)
}

fn read_in(places: &BaseDirs, command: &CommandLine, before: &Before) -> Earlier {
    let changed = last_change(command);
    let today = day_of(before.began);
    let mut earlier = Earlier::default();
    for session in sessions_of(places, command, before) {
        let is_outdated = changed.is_some_and(|changed| changed > session.header.wall);
        let state = state_of(&session, before);
        let of_run = |run: &Run| {
            let began = clock(wall(&session.header, run.started), today);
            earlier_run(&session.header, &state, run, began, is_outdated)
        };
        earlier.runs.extend(state.runs.iter().filter_map(of_run));
        // A program that has changed since may need something else for a batch of any size.
        if session.reading == HowMuchRead::Whole && !is_outdated {
            let mut ranks = state.runs.iter().rev().flat_map(|run| &run.ranks);
            let told = ranks.find(|rank| rank.patchable.is_some());
            earlier.rank = told.cloned().map(Box::new).or(earlier.rank);
            let reading = WorkloadKey::new(command, &LaunchEnvironment::default());
            let seen = Observation::of_runs(&state.runs, &reading, &LaunchEnvironment::default());
            // Its runs have numbers of their own.
            let seen = seen.into_iter().map(|seen| Observation {
                seen_in: SeenIn::EarlierSession,
                ..seen
            });
            earlier.observations.extend(seen);
        }
    }
    earlier
}

/// The day of a moment; none: today.
fn day_of(began: Option<f64>) -> Date {
    let then = began.and_then(|wall| Timestamp::from_second(wall as i64).ok());
    (then.unwrap_or_else(Timestamp::now))
        .to_zoned(TimeZone::system())
        .date()
}

/// `16:46`; of another day `28 Nov 16:46`.
fn clock(wall: f64, today: Date) -> String {
    let Ok(at) = Timestamp::from_second(wall as i64) else {
        return String::new();
    };
    let at = at.to_zoned(TimeZone::system());
    let format = match at.date() == today {
        true => "%H:%M",
        false => "%-d %b %H:%M",
    };
    at.strftime(format).to_string()
}

/// An earlier session of the same program.
struct EarlierSession {
    header: SessionStarted,
    directory: PathBuf,
    reading: HowMuchRead,
}

/// How much of a recording is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HowMuchRead {
    /// All of it: its command is the same but for the batch.
    Whole,
    /// What its runs were and took.
    Outline,
}

/// The earliest first.
fn sessions_of(places: &BaseDirs, command: &CommandLine, before: &Before) -> Vec<EarlierSession> {
    let reading = WorkloadKey::new(command, &LaunchEnvironment::default());
    let mut whole = 0;
    let mut left = OUTLINED;
    let mut sessions: Vec<EarlierSession> = recording::list(places)
        .into_iter()
        .take(LOOKED_AT)
        .filter_map(|stored| {
            let (header, size) = header_of(&stored.directory)?;
            let is_meant = before.is_after(&header) && is_same_program(&header.command, command);
            is_meant.then_some((header, size, stored.directory))
        })
        .filter_map(|(header, size, directory)| {
            let is_whole = whole < READ && is_like(&header, command, &reading);
            let reading = match is_whole {
                true => {
                    whole += 1;
                    HowMuchRead::Whole
                }
                false => {
                    left = left.checked_sub(size)?;
                    HowMuchRead::Outline
                }
            };
            Some(EarlierSession {
                header,
                directory,
                reading,
            })
        })
        .collect();
    sessions.sort_by(|a, b| a.header.wall.total_cmp(&b.header.wall));
    sessions
}

/// Whether two commands start the same program in the same directory.
fn is_same_program(one: &CommandLine, other: &CommandLine) -> bool {
    let program = |command: &CommandLine| {
        let layout = Recognized::new(command, &LaunchEnvironment::default()).layout;
        command.argv.get(layout.program).cloned()
    };
    one.cwd == other.cwd && program(one) == program(other)
}

/// When a file of the program was last changed, in seconds since 1970; `None` where none is found.
fn last_change(command: &CommandLine) -> Option<f64> {
    let recognized = Recognized::new(command, &LaunchEnvironment::default());
    let files = program_text::program_files(&recognized).into_iter();
    let changed = files.filter_map(|(path, _)| {
        let changed = std::fs::metadata(command.cwd.join(path))
            .ok()?
            .modified()
            .ok()?;
        Some(changed.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
    });
    changed.max_by(f64::total_cmp)
}

/// What one of its runs took: none where no process of it was seen, or the GPU's size is not known.
fn earlier_run(
    header: &SessionStarted,
    state: &State,
    run: &Run,
    began: String,
    is_outdated: bool,
) -> Option<EarlierRun> {
    let rank = (run.ranks.iter()).max_by_key(|rank| rank.allocated_peak)?;
    let ran_out = run.outcome() == RunOutcome::OutOfMemory || run.oom_count > 0;
    let of_device = || state.device(rank.device.as_ref()?)?.capacity;
    let capacity = of_device().or_else(|| run.oom()?.capacity())?;
    Some(EarlierRun {
        command: run.command.without_secrets(),
        session: header.id.clone(),
        began,
        is_outdated,
        steps: run.steps(),
        outcome: match ran_out {
            true => EarlierOutcome::RanOut,
            false => EarlierOutcome::Trained {
                allocated: rank.allocated_peak,
                reserved: rank.reserved_peak,
            },
        },
        capacity,
    })
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
    /// The largest batch that was expected to fit by what the run showed, at once.
    pub foreseen: Option<u64>,
    /// Whether what was free lay in pieces that were too small.
    pub is_fragmentation: bool,
}

/// A run of an earlier session that ended by itself: all of its steps were seen.
#[derive(Debug, Clone)]
pub(crate) struct EarlierFinish {
    pub run: Run,
    /// When it began.
    pub began: String,
    /// What its process could reserve at the most.
    pub room: Bytes,
}

/// How the runs of earlier sessions with a program like that of a command ended, the earliest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct EarlierEnds {
    pub ooms: Vec<EarlierOom>,
    /// Of the program as it is.
    pub finished: Vec<EarlierFinish>,
}

impl EarlierOom {
    fn of_run(state: &State, run: &Run) -> Option<EarlierOom> {
        let is_end = run.outcome() == RunOutcome::OutOfMemory;
        let oom = run.oom().filter(|_| is_end)?;
        let reading = WorkloadKey::new(&run.command, &LaunchEnvironment::default());
        let grew_by = diagnosis::grows_by(run);
        Some(EarlierOom {
            at_once: reading.at_once,
            step: run.steps() + 1,
            room: oom.room(),
            grew_by,
            is_fragmentation: (diagnosis::diagnose_incident(state, Some(run), oom).first())
                .is_some_and(|finding| finding.cause == Cause::Fragmentation),
            // What leaks runs out with any batch.
            foreseen: (grew_by.is_none())
                .then(|| foreseen(run, oom, &reading))
                .flatten(),
        })
    }
}

fn foreseen(run: &Run, oom: &OomIncident, reading: &WorkloadKey) -> Option<u64> {
    let rank = run.rank_of(oom);
    let seen = Observation::new(rank, Some(oom), reading)?;
    let like = Target {
        batch: 1,
        keeps_gradients: reading.keeps_gradients(),
        treatment: ActivationReduction::default(),
        allocator: match rank.and_then(|rank| rank.hello.expandable_segments) {
            Some(true) => Allocator::Expandable,
            Some(false) | None => Allocator::Fixed,
        },
    };
    let most = reading.at_once.saturating_sub(1);
    Model::new(vec![seen]).largest(&like, oom.room()?, MARGIN, most)
}

/// How earlier sessions with a program like that of `command` ended.
pub(crate) fn ends(command: &CommandLine) -> EarlierEnds {
    ends_in(&BaseDirs::of_this_user(), command)
}

fn ends_in(places: &BaseDirs, command: &CommandLine) -> EarlierEnds {
    let reading = WorkloadKey::new(command, &LaunchEnvironment::default());
    let is_like = |run: &&Run| {
        WorkloadKey::new(&run.command, &LaunchEnvironment::default()).likeness == reading.likeness
    };
    let (changed, today) = (last_change(command), day_of(None));
    let before = Before::default();
    let mut ends = EarlierEnds::default();
    for session in sessions_of(places, command, &before) {
        if session.reading != HowMuchRead::Whole {
            continue;
        }
        let is_outdated = changed.is_some_and(|changed| changed > session.header.wall);
        let state = state_of(&session, &before);
        for run in state.runs.iter().filter(is_like) {
            ends.ooms.extend(EarlierOom::of_run(&state, run));
            let began = || clock(wall(&session.header, run.started), today);
            let room = || room_of(&state, run);
            if run.outcome() == RunOutcome::Finished && run.oom_count == 0 && !is_outdated {
                ends.finished.extend(room().map(|room| EarlierFinish {
                    run: run.clone(),
                    began: began(),
                    room,
                }));
            }
        }
    }
    ends
}

/// What the process that needed the most could reserve.
fn room_of(state: &State, run: &Run) -> Option<Bytes> {
    let rank = run.ranks.iter().max_by_key(|rank| rank.allocated_peak)?;
    let device = state.device(rank.device.as_ref()?)?;
    device
        .limit
        .or_else(|| Some(device.capacity? - NON_TORCH_USUAL))
}

/// The first line of a recording that is not too large to read, and its size.
fn header_of(directory: &Path) -> Option<(SessionStarted, u64)> {
    let recording = directory.join(recording::RECORDING);
    let size = std::fs::metadata(&recording).ok()?.len();
    let header = (size <= LARGEST).then(|| recording::header(&recording))??;
    Some((header, size))
}

/// Whether a recording is of the same program.
fn is_like(header: &SessionStarted, command: &CommandLine, reading: &WorkloadKey) -> bool {
    header.command.cwd == command.cwd
        && WorkloadKey::new(&header.command, &LaunchEnvironment::default()).likeness
            == reading.likeness
}

/// A recorded session with its runs as they were by then, without those that had failed for another reason, or had come no further than
/// their first step.
fn state_of(session: &EarlierSession, before: &Before) -> State {
    let mut state = State::default();
    let by_then = |event: &Event| before.has_seen(&session.header, event.at);
    match session.reading {
        HowMuchRead::Whole => {
            let Ok(events) = recording::read(&session.directory) else {
                return state;
            };
            for event in events.flatten().take_while(by_then) {
                state.apply(&event);
            }
        }
        HowMuchRead::Outline => {
            let mut each = |event: &Event| {
                if by_then(event) {
                    state.apply(event);
                }
            };
            // What could be read of it counts.
            let _ = recording::outline(&session.directory, &mut each);
        }
    }
    state.runs.retain(|run| match run.outcome() {
        RunOutcome::Finished | RunOutcome::OutOfMemory => true,
        RunOutcome::Running
        | RunOutcome::TrainedNothing
        | RunOutcome::Stopped
        | RunOutcome::Failed(_) => run.steps() > 1,
    });
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Exit, SCHEMA};
    use crate::recording::{BaseDir, Recorder, RecorderOptions};
    use crate::state::tests::staged::{command, exited, gib, hello, sample, started, step};
    use std::time::Duration;

    const LIKE: &str = "python train.py --batch-size 64";

    fn header(id: &str, wall: f64) -> SessionStarted {
        SessionStarted {
            id: id.into(),
            wall,
            monotonic: 0,
            schema: SCHEMA,
            version: "0".into(),
            command: command(LIKE),
            probe: true,
            nvml: true,
            job: None,
            host: None,
            again_of: None,
        }
    }

    /// A session whose one run ended so many seconds after it began, three steps after a fifth of them each, the third of which was
    /// the largest.
    fn events(header: SessionStarted, seconds: f64) -> Vec<Event> {
        events_of(header, seconds, LIKE)
    }

    fn events_of(header: SessionStarted, seconds: f64, words: &str) -> Vec<Event> {
        let event = |at, what| Event {
            at: Moment::from_secs_f64(at),
            what,
        };
        let step =
            |share: f64, count, peak| event(seconds * share, step(100, count, gib(2.0), gib(peak)));
        vec![
            event(0.0, EventKind::SessionStarted(header)),
            event(0.0, started(1, 100, words)),
            event(1.0, hello(1, 100, None)),
            event(1.0, EventKind::Sample(sample(100, 0, gib(1.0), gib(1.0)))),
            step(0.2, 1, 8.0),
            step(0.4, 2, 8.0),
            step(0.6, 3, 12.0),
            event(seconds, exited(1, Exit::Code(0))),
        ]
    }

    /// A session is told with the same figures whenever it is told: others that began after it, or itself, say nothing of it, and
    /// of one that ran beside it only what had happened when it ended.
    #[test]
    fn only_what_was_seen_before_counts() {
        let home = tempfile::tempdir().expect("a directory");
        let places = BaseDirs {
            state: vec![BaseDir::Own(home.path().to_path_buf())],
            runtime: Vec::new(),
            elsewhere: Vec::new(),
        };
        let own = header("own", 1_000.0);
        let mut state = State::default();
        for event in events(own.clone(), 30.0) {
            state.apply(&event);
        }
        let before = Before::of(&state);
        let peaks = || -> Vec<_> {
            let seen = read_in(&places, &command(LIKE), &before);
            let seen = seen.observations.iter();
            seen.map(|seen| seen.passes).collect()
        };
        let record_of = |header: SessionStarted, seconds: f64, words: &str| {
            let directory = home.path().join("oomph/sessions").join(&header.id);
            std::fs::create_dir_all(&directory).expect("a directory");
            let path = directory.join(recording::RECORDING);
            let mut recorder =
                Recorder::create(&path, RecorderOptions::default()).expect("a recorder");
            for event in events_of(header, seconds, words) {
                recorder.write(&event);
            }
            assert_eq!(recorder.finish(std::time::Duration::from_secs(20)), Ok(()));
        };
        let record = |header, seconds| record_of(header, seconds, LIKE);
        record(own, 30.0);
        record(header("later", 1_001.0), 10.0);
        assert_eq!(peaks(), []);
        use crate::forecast::ForwardBackwardPeak::Seen;
        record(header("beside", 990.0), 100.0);
        assert_eq!(peaks(), [Seen(gib(8.0))], "it had come to 1030");
        record(header("earlier", 900.0), 90.0);
        assert_eq!(peaks(), [Seen(gib(12.0)), Seen(gib(8.0))]);
        // With another setting it says nothing of this command, but what it took with that one.
        let amp = "python train.py --batch-size 64 --amp";
        let header = SessionStarted {
            command: command(amp),
            ..header("amp", 950.0)
        };
        record_of(header, 40.0, amp);
        assert_eq!(peaks(), [Seen(gib(12.0)), Seen(gib(8.0))]);
        let runs = read_in(&places, &command(LIKE), &before).runs;
        let sessions: Vec<_> = runs.iter().map(|run| run.session.as_str()).collect();
        assert_eq!(sessions, ["earlier", "amp", "beside"]);
        assert!(matches!(runs[1].outcome, EarlierOutcome::Trained { .. }));
        assert_eq!(runs[1].command, command(amp));
    }

    /// What ran before the program was changed is known as that, and foretells no other batch.
    #[test]
    fn a_program_that_has_changed_since_may_need_something_else() {
        let home = tempfile::tempdir().expect("a directory");
        let script = home.path().join("train.py");
        std::fs::write(&script, "").expect("a file");
        let places = BaseDirs {
            state: vec![BaseDir::Own(home.path().to_path_buf())],
            runtime: Vec::new(),
            elsewhere: Vec::new(),
        };
        let command = CommandLine {
            cwd: home.path().to_path_buf(),
            ..command(LIKE)
        };
        let header = SessionStarted {
            command: command.clone(),
            ..header("earlier", 1_000.0)
        };
        let directory = home.path().join("oomph/sessions/earlier");
        std::fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join(recording::RECORDING);
        let mut recorder = Recorder::create(&path, RecorderOptions::default()).expect("a recorder");
        for event in events(header, 30.0) {
            recorder.write(&event);
        }
        assert_eq!(recorder.finish(Duration::from_secs(20)), Ok(()));
        for (changed, is_outdated, observations) in [(900, false, 1), (1_100, true, 0)] {
            let file = std::fs::File::options().write(true).open(&script);
            let at = UNIX_EPOCH + Duration::from_secs(changed);
            file.and_then(|file| file.set_modified(at)).expect("a time");
            let read = read_in(&places, &command, &Before::default());
            assert_eq!(read.observations.len(), observations);
            let outdated: Vec<bool> = read.runs.iter().map(|run| run.is_outdated).collect();
            assert_eq!(outdated, [is_outdated], "changed at {changed}");
        }
    }
}
