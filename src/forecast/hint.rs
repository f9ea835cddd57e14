//! What there is to say while all is well: room that is not used, and an end that is coming.
//!
//! Said only when the model is sure: a hint that turns out wrong costs somebody a run.

use super::estimate::ActivationReduction;
use super::estimate::{Allocator, Target};
use super::largest::ForecastInputs;
use super::largest::rounded;
use super::memory::{Forecast, Model};
use super::observation::{ForwardBackwardPeak, Observation, Unseen};
use super::replay::AllocatorSettings;
use super::traced::{InputShape, TracedRoom, TracedSearch};
use crate::calibration::NON_TORCH_USUAL;
use crate::command::CommandLine;
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::state::{RankState, Run, RunOutcome, State};
use crate::units::Bytes;
use std::fmt;

/// Steps after which a peak that has not risen counts as settled.
const SETTLED: u64 = 20;

/// From this gain on another batch is worth a word.
const WORTH: f64 = 1.25;

/// A hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// A larger batch would fit.
    RoomForBatch(BatchRoom),
    /// The second step will not survive the optimizer's state, which the first has made.
    StateWillNotFit {
        /// What the second step needs at the least.
        needs: Bytes,
        /// What there is.
        room: Bytes,
    },
}

impl Hint {
    /// Whether another one says the same, by whatever step.
    pub fn says_as(&self, other: &Hint) -> bool {
        match (self, other) {
            (Hint::RoomForBatch(one), Hint::RoomForBatch(other)) => {
                (one.could, one.now, one.parts) == (other.could, other.now, other.parts)
                    && matches!(one.basis, RoomBasis::Step(_))
                        == matches!(other.basis, RoomBasis::Step(_))
            }
            (one, other) => one == other,
        }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hint::RoomForBatch(room) => room.fmt(f),
            Hint::StateWillNotFit { needs, room } => write!(
                f,
                "won't fit in step 2, when the optimizer state is added: needs {needs}, {room} available"
            ),
        }
    }
}

/// How far the batch could go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchRoom {
    /// What the device takes at once now.
    pub now: u64,
    /// What it could take.
    pub could: u64,
    pub basis: RoomBasis,
    /// Whether it counts the GPU as this process's alone, since NVML does not say what others hold.
    pub is_alone: bool,
    /// In how many parts a step takes it, where the command accumulates gradients.
    pub parts: u64,
}

impl BatchRoom {
    /// `44`, or with the parts in which a step takes it `44 × 2 = 88`: as the command has the two numbers, and what that is together.
    pub fn batch_words(&self) -> String {
        self.in_parts(self.could)
    }

    /// The batch that ran, in the same way.
    pub fn now_words(&self) -> String {
        self.in_parts(self.now)
    }

    fn in_parts(&self, at_once: u64) -> String {
        match self.parts {
            0 | 1 => at_once.to_string(),
            // Beside the batch that was asked for it is the whole that counts.
            parts => format!("{at_once} × {parts} = {}", at_once.saturating_mul(parts)),
        }
    }

    /// Of a larger batch than ran, whether it would fit, in the words in which the largest one is told; `None` of one that is
    /// none of those. `steps` have ended.
    pub fn verdict(&self, batch: u64, steps: u64) -> Option<&'static str> {
        (self.now + 1..=self.could)
            .contains(&batch)
            .then(|| match self.is_shown_by(steps) {
                true => "would fit",
                false => "may fit",
            })
    }

    /// Whether a run of so many steps shows it: after few of them a later one may need more.
    pub fn is_shown_by(&self, steps: u64) -> bool {
        match self.basis {
            RoomBasis::Step(_) => steps >= SETTLED,
            RoomBasis::Peaks => false,
        }
    }

    /// The inputs for which it was worked out: later steps of the run may be given larger ones.
    pub fn inputs(&self) -> Option<InputShape> {
        match self.basis {
            RoomBasis::Step(traced) => traced.inputs,
            RoomBasis::Peaks => None,
        }
    }

    /// From this gain on it is worth a word.
    fn is_worth_it(self) -> bool {
        self.could as f64 / self.now as f64 >= WORTH
    }
}

/// By what steps that is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomBasis {
    /// By the peaks of the run's steps.
    Peaks,
    /// By one step's allocations, replayed at other batches.
    Step(TracedRoom),
}

impl fmt::Display for BatchRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BatchRoom {
            basis, is_alone, ..
        } = self;
        let (could, now) = (self.batch_words(), self.now_words());
        let alone = match is_alone {
            true => "; other processes are not counted (no NVML)",
            false => "",
        };
        let RoomBasis::Step(traced) = basis else {
            return write!(f, "room for batch {could} (now {now}){alone}");
        };
        let step = traced.step;
        let with = traced
            .inputs
            .map_or(String::new(), |inputs| format!(" with inputs of {inputs}"));
        write!(
            f,
            "batch {could} would fit{with} (now {now}): step {step} replayed"
        )?;
        if let Some(larger) = traced.as_large_as {
            write!(f, " as large as step {larger}")?;
        }
        f.write_str(alone)?;
        f.write_str("; oomph fit measures it")
    }
}

/// The hint for the current run, if there is one.
pub fn hint(
    command: &CommandLine,
    state: &State,
    launch: &LaunchEnvironment<'_>,
    inputs: &ForecastInputs<'_>,
) -> Option<Hint> {
    let run = state.run()?;
    if run.outcome() != RunOutcome::Running || run.oom_count > 0 {
        return None;
    }
    let rank = run.ranks.iter().max_by_key(|rank| rank.allocated_peak)?;
    let room = room(state, rank)?;
    match rank.steps.count {
        0 => None,
        // What others may hold can only make it worse, but how much of the room is theirs is not known.
        1 if room.is_alone => None,
        1 => without_state(run, room.bytes, launch),
        _ if !has_settled(rank) => None,
        _ => larger(command, run, rank, room, launch, inputs).map(Hint::RoomForBatch),
    }
}

/// What a process may reserve of its device in all.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessRoom {
    pub bytes: Bytes,
    /// Without NVML: of a device that nobody else uses, less what a process usually holds outside PyTorch.
    pub is_alone: bool,
}

fn room(state: &State, rank: &RankState) -> Option<ProcessRoom> {
    let device = state.device(rank.device.as_ref()?)?;
    let headroom = device.headroom(state)?;
    let reserved = rank.sample.as_ref().map(|(_, sample)| sample.reserved)?;
    let all = reserved + headroom.bytes;
    Some(match headroom.is_upper_bound {
        false => ProcessRoom {
            bytes: all,
            is_alone: false,
        },
        true => ProcessRoom {
            bytes: all.min(device.capacity? - NON_TORCH_USUAL),
            is_alone: true,
        },
    })
}

fn without_state(run: &Run, room: Bytes, launch: &LaunchEnvironment<'_>) -> Option<Hint> {
    match Observation::of_run(run, launch)?.passes {
        ForwardBackwardPeak::Within(needs, _) if needs > room => {
            Some(Hint::StateWillNotFit { needs, room })
        }
        ForwardBackwardPeak::Within(..)
        | ForwardBackwardPeak::Seen(_)
        | ForwardBackwardPeak::AtLeast(_, Unseen::NoStep | Unseen::NoState | Unseen::Wanted(_)) => {
            None
        }
    }
}

/// By the peaks of the run's steps, where another batch is a gain.
pub(super) fn larger(
    command: &CommandLine,
    run: &Run,
    rank: &RankState,
    room: ProcessRoom,
    launch: &LaunchEnvironment<'_>,
    inputs: &ForecastInputs<'_>,
) -> Option<BatchRoom> {
    let workload = WorkloadKey::new(command, launch);
    workload.batch?;
    let earlier = Observation::of_earlier(inputs.earlier, command, &workload);
    // A few steps of `oomph fit` may have been given smaller inputs than the steps of a run; what ran out is no less a bound.
    let is_shown = |seen: &&Observation| seen.steps >= SETTLED || seen.ran_out();
    let mut observations: Vec<Observation> = earlier.iter().filter(is_shown).cloned().collect();
    observations.extend(Observation::of_run(run, launch));
    let model = Model::of_sessions(observations);
    let like = Target {
        batch: workload.at_once,
        keeps_gradients: workload.keeps_gradients(),
        treatment: ActivationReduction::default(),
        allocator: match rank.hello.expandable_segments {
            Some(true) => Allocator::Expandable,
            Some(false) | None => Allocator::Fixed,
        },
    };
    // What would not fit even now by the interval's upper end is no base to build on.
    let Forecast::Within(_) = model.needs(&like) else {
        return None;
    };
    let could = rounded(model.largest(&like, room.bytes, inputs.margin, u64::MAX / 2)?);
    let found = BatchRoom {
        now: workload.at_once,
        could,
        basis: RoomBasis::Peaks,
        is_alone: room.is_alone,
        parts: workload.accumulation,
    };
    found.is_worth_it().then_some(found)
}

/// Whether the largest batch can be searched for.
#[derive(Debug)]
pub enum RoomSearch {
    /// It takes too long for a loop: run it elsewhere.
    Ready(Box<TracedSearch>),
    /// A step was traced, but a few more have to show that its peak stays.
    Unsettled,
    /// There is no traced step, no batch, or the run does not go well.
    Impossible,
}

/// The search for the largest batch by a traced step of the current run.
pub fn traced_search(
    command: &CommandLine,
    state: &State,
    launch: &LaunchEnvironment<'_>,
    inputs: &ForecastInputs<'_>,
) -> RoomSearch {
    match search_by(command, state, launch, inputs) {
        None => RoomSearch::Impossible,
        Some((_, false)) => RoomSearch::Unsettled,
        Some((search, true)) => RoomSearch::Ready(Box::new(search)),
    }
}

/// Also whether the peak has settled.
fn search_by(
    command: &CommandLine,
    state: &State,
    launch: &LaunchEnvironment<'_>,
    inputs: &ForecastInputs<'_>,
) -> Option<(TracedSearch, bool)> {
    let run = state.run()?;
    let rank = run.ranks.iter().max_by_key(|rank| rank.allocated_peak)?;
    let is_well =
        run.outcome() == RunOutcome::Running && run.oom_count == 0 && rank.retries.is_empty();
    let room = room(state, rank).filter(|_| is_well)?;
    let search = search_of(command, rank, room, launch, inputs)?;
    Some((search, has_settled(rank)))
}

/// The search by a process's latest whole traced step; `None` without one, or without a batch.
pub(super) fn search_of(
    command: &CommandLine,
    rank: &RankState,
    room: ProcessRoom,
    launch: &LaunchEnvironment<'_>,
    inputs: &ForecastInputs<'_>,
) -> Option<TracedSearch> {
    let workload = WorkloadKey::new(command, launch);
    workload.batch?;
    let hello = &rank.hello;
    let settings = AllocatorSettings::parse(hello.alloc_conf.as_deref().unwrap_or(""));
    Some(TracedSearch {
        step: rank.traces.all().rfind(|step| !step.failed)?.clone(),
        batch: workload.at_once,
        parts: workload.accumulation,
        settings: AllocatorSettings {
            expandable_segments: hello.expandable_segments == Some(true),
            ..settings
        },
        peak: rank.allocated_peak,
        reserved: rank.reserved_peak,
        peak_step: rank.peak_step,
        room: room.bytes,
        is_alone: room.is_alone,
        margin: inputs.margin,
    })
}

/// What came of the search for the largest batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TracedHint {
    /// The replay does not give what the run showed.
    NotBelieved,
    /// The batch could go a little further, or no further.
    NoGain,
    Gain(BatchRoom),
}

impl TracedHint {
    /// Searches, which may take a second.
    pub fn new(search: &TracedSearch) -> TracedHint {
        let Some(traced) = search.run() else {
            return TracedHint::NotBelieved;
        };
        let found = BatchRoom {
            now: search.batch,
            could: traced.batch,
            basis: RoomBasis::Step(traced),
            is_alone: search.is_alone,
            parts: search.parts,
        };
        match found.is_worth_it() {
            true => TracedHint::Gain(found),
            false => TracedHint::NoGain,
        }
    }
}

pub(super) fn has_settled(rank: &RankState) -> bool {
    let count = rank.steps.count;
    count >= SETTLED && rank.peak_step.unwrap_or(count) + SETTLED / 2 <= count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind, StepTrace};
    use crate::forecast::replay::{ReplayRoom, replay_until_steady};
    use crate::forecast::traced;
    use crate::state::tests::staged::{self, StagedSession};
    use crate::units::{Moment, Pid};

    fn gib(gib: f64) -> Bytes {
        Bytes((gib * (1u64 << 30) as f64) as u64)
    }

    fn command() -> CommandLine {
        CommandLine::typed("python train.py --batch-size 64")
    }

    /// A run of so many steps with this floor and peak, on a card that NVML sees.
    fn run(steps: u64, floor: f64, peak: f64) -> State {
        let mut scene = StagedSession::training();
        scene.sampled(1.5, floor, peak);
        for count in 1..=steps {
            scene.add(
                1.5 + count as f64,
                staged::step(100, count, gib(floor), gib(peak)),
            );
        }
        let now = 3.0 + steps as f64;
        scene.sampled(now, floor, peak);
        scene.add(
            now,
            EventKind::Nvml(crate::event::NvmlState::Live {
                driver: "580".into(),
                devices: 1,
            }),
        );
        let held = gib(peak) + Bytes::mib(518);
        scene.add(now, EventKind::Device(staged::reading(&[(100, held)])));
        scene.sampled(now + 0.1, floor, peak);
        scene.state.now = Moment::from_secs_f64(now + 0.2);
        scene.state
    }

    #[test]
    fn a_larger_batch_is_named_once_the_peak_has_settled() {
        let (launch, inputs) = (LaunchEnvironment::default(), ForecastInputs::default());
        let said = |state: &State| hint(&command(), state, &launch, &inputs).map(|n| n.to_string());
        let early = run(5, 2.0, 6.0);
        assert_eq!(said(&early), None);
        let settled = said(&run(40, 2.0, 6.0));
        let words = settled.expect("a hint");
        assert!(words.starts_with("room for batch "), "{words}");
        assert!(words.ends_with("(now 64)"), "{words}");
        assert_eq!(said(&run(40, 2.0, 21.0)), None, "a little more is no gain");
    }

    /// `oomph fit` had run a larger batch for a few steps, whose inputs were smaller than those of later ones.
    #[test]
    fn what_a_few_steps_of_an_earlier_run_needed_is_no_measure() {
        let launch = LaunchEnvironment::default();
        let other = CommandLine::typed("python train.py --batch-size 96");
        let could = |steps: u64| {
            let mut run = run(steps, 2.0, 3.0).runs.pop().expect("a run");
            run.command = other.clone();
            let earlier = [Observation::of_run(&run, &launch).expect("seen")];
            let inputs = ForecastInputs {
                earlier: &earlier,
                ..ForecastInputs::default()
            };
            match hint(&command(), &self::run(40, 2.0, 6.0), &launch, &inputs) {
                Some(Hint::RoomForBatch(room)) => room.could,
                other => panic!("{other:?}"),
            }
        };
        let alone = hint(
            &command(),
            &run(40, 2.0, 6.0),
            &launch,
            &ForecastInputs::default(),
        );
        assert!(matches!(alone, Some(Hint::RoomForBatch(room)) if room.could == could(4)));
        assert!(could(30) > could(4));
    }

    #[test]
    fn a_traced_step_says_how_far_the_batch_could_go_and_by_what() {
        let step = traced::tests::step(64);
        let played = replay_until_steady(
            &step.trace.parse().unwrap(),
            3,
            &AllocatorSettings::default(),
            ReplayRoom::default(),
        );
        let peak = played.allocated_peak as f64 / (1u64 << 30) as f64;
        let mut state = run(40, 2.0, peak);
        let (launch, inputs) = (LaunchEnvironment::default(), ForecastInputs::default());
        let search = |state: &State| traced_search(&command(), state, &launch, &inputs);
        let is_impossible = matches!(search(&state), RoomSearch::Impossible);
        assert!(is_impossible, "no step was traced");
        let trace = StepTrace {
            pid: Pid(100),
            ..step
        };
        let event = Event {
            at: state.now,
            what: EventKind::StepTrace(Box::new(trace)),
        };
        state.apply(&event);
        let mut early = state.clone();
        early.runs[0].ranks[0].steps.count = 5;
        assert!(matches!(search(&early), RoomSearch::Unsettled), "5 steps");
        let RoomSearch::Ready(mut search) = search(&state) else {
            panic!("40 steps");
        };
        assert_eq!(search.batch, 64);
        search.reserved = Bytes(played.reserved_peak);
        let TracedHint::Gain(found) = TracedHint::new(&search) else {
            panic!("{search:?}");
        };
        let words = Hint::RoomForBatch(found).to_string();
        let begins = format!("batch {} would fit (now 64): ", found.could);
        let ends = "step 3 replayed; oomph fit measures it";
        assert_eq!(words, format!("{begins}{ends}"));
        // Less room, no gain; and what the run does not show is not believed.
        search.room = search.reserved.scale(1.1);
        assert_eq!(TracedHint::new(&search), TracedHint::NoGain);
        search.reserved = search.reserved.scale(2.0);
        assert_eq!(TracedHint::new(&search), TracedHint::NotBelieved);
    }

    #[test]
    fn without_nvml_the_gpu_is_counted_as_the_processs_own() {
        let (launch, inputs) = (LaunchEnvironment::default(), ForecastInputs::default());
        let found = |state: &State| match hint(&command(), state, &launch, &inputs) {
            Some(Hint::RoomForBatch(room)) => room,
            other => panic!("{other:?}"),
        };
        let mut state = run(40, 2.0, 6.0);
        let with = found(&state);
        assert!(!with.is_alone);
        state.nvml = Some(crate::event::NvmlState::Off);
        let without = found(&state);
        assert!(
            without.is_alone && without.could <= with.could,
            "{without:?}"
        );
        let words = without.to_string();
        assert!(words.ends_with("not counted (no NVML)"), "{words}");
        // Of a step to come it says nothing.
        state.runs[0].ranks[0].steps.count = 1;
        assert_eq!(hint(&command(), &state, &launch, &inputs), None);
    }

    #[test]
    fn an_end_in_the_second_step_is_foretold() {
        let mut state = run(1, 12.0, 20.0);
        let first = state.runs[0].ranks[0]
            .steps
            .first_step
            .as_mut()
            .expect("a step");
        // The first step made a state of eight gibibytes.
        first.before.allocated = gib(4.0);
        let (launch, inputs) = (LaunchEnvironment::default(), ForecastInputs::default());
        let words = hint(&command(), &state, &launch, &inputs)
            .expect("a hint")
            .to_string();
        assert!(words.contains("needs 28.0 GiB, "), "{words}");
    }
}
