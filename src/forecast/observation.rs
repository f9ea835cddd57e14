//! What one run showed of its memory, as far as the model needs it.
//!
//! The probe reads the allocator at both edges of every optimizer step. PyTorch's own peak, read
//! before `step()`, is what forward and backward reached; where it is more after `step()`, the
//! optimizer reached it, and that does not depend on the batch. A run that ended before its first
//! whole step leaves a bound.

use super::estimate::Estimate;
use super::estimate::Target;
use super::spread::InputSpread;
use crate::calibration::{
    ADAM_STATE, BACKWARD_SPREAD, EXPANDABLE_PAGE, FOREACH_TEMPORARIES, FORWARD_SPREAD, LOSS_COPIES,
};
use crate::command::CommandLine;
use crate::event::{Knobs, OomRecord, Phase, SourceLine};
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::state::{OomIncident, RankState, Run, StepTrack};
use crate::units::{Bytes, RunNumber};
use serde::Serialize;

/// Above this step a new peak means that steps differ from each other (lengths that vary).
const SETTLED: u64 = 4;

/// Peaks within this of each other are the same.
const SAME: f64 = 1.01;

/// So many times what the optimizer knows is a model that it trains a small part of.
const MOSTLY: f64 = 8.0;

/// How far above what is computed from the first step the second may come.
const STATE_SPREAD: f64 = 1.02;

/// Where something was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SeenIn {
    /// A run of this session.
    Run(RunNumber),
    #[default]
    EarlierSession,
}

/// What one run showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    pub seen_in: SeenIn,
    /// Samples that the device took at once.
    pub batch: u64,
    /// Allocated when a forward begins: parameters, optimizer state, buffers, and the gradients where
    /// they are kept. Within this.
    pub base: Estimate,
    /// Bytes of the gradients.
    pub gradients: Option<Bytes>,
    /// Bytes of the parameters.
    pub parameters: Option<Bytes>,
    /// Whether gradients are kept through the forward, as the command says it.
    pub keeps_gradients: bool,
    /// What forward and backward reach.
    pub passes: ForwardBackwardPeak,
    /// What the optimizer's step reaches, which does not depend on the batch.
    pub optimizer: Estimate,
    /// Steps that ended.
    pub steps: u64,
    /// Whether steps differ from each other.
    pub varies: bool,
    /// How far its inputs differ in size, where the program told of them.
    pub spread: Option<InputSpread>,
    /// The most that was reserved as a share of the most that was allocated, while nothing had to be
    /// given back: what the allocator's habits cost at the most.
    pub overhead: Option<f64>,
    /// The most that lay in pieces beside blocks in use, which cannot be given back, as a share of
    /// the most that was allocated.
    pub pieces: Option<f64>,
    /// Of the step that memory ran out in: what it would have needed, where that can be estimated.
    pub partial_step: Option<PartialStep>,
    /// The overhead at an out-of-memory, when the allocator had given back all that it could; as a share
    /// like `overhead`.
    pub left_over: Option<f64>,
    /// Whether all that was free then lay in holes smaller than a page of expandable segments.
    pub in_small_holes: bool,
}

/// What forward and backward of a whole step reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardBackwardPeak {
    /// Seen whole.
    Seen(Bytes),
    /// Within this: a part of it was seen, the rest follows.
    Within(Bytes, Bytes),
    /// No less than this, and why no more is known.
    AtLeast(Bytes, Unseen),
}

/// Why no whole step is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unseen {
    /// None had ended.
    NoStep,
    /// Steps had ended, but the one that failed wanted more than they had needed; where it failed.
    Wanted(Phase),
    /// The only one that ended did so before the optimizer had a state.
    NoState,
}

impl Observation {
    /// What a run showed, by the process that held or wanted the most; `None` where no probe spoke.
    pub fn of_run(run: &Run, launch: &LaunchEnvironment<'_>) -> Option<Observation> {
        Observation::of_workload(run, &WorkloadKey::new(&run.command, launch))
    }

    fn of_workload(run: &Run, workload: &WorkloadKey) -> Option<Observation> {
        let oom = run.oom();
        let rank = match oom.and_then(|oom| run.rank_of(oom)) {
            Some(rank) => Some(rank),
            None if run.ranks.len() == 1 || oom.is_none() => {
                run.ranks.iter().max_by_key(|rank| rank.allocated_peak)
            }
            None => None,
        };
        let seen = Observation::new(rank, oom, workload)?;
        Some(seen.in_run(run.number))
    }

    /// Whether memory ran out in the end.
    pub(super) fn ran_out(&self) -> bool {
        self.left_over.is_some()
    }

    /// Of this run of the session.
    pub fn in_run(self, number: RunNumber) -> Observation {
        Observation {
            seen_in: SeenIn::Run(number),
            ..self
        }
    }

    /// With what this very run told of its inputs' sizes.
    pub fn with_inputs(self, told: Option<&Knobs>, rank: Option<&RankState>) -> Observation {
        Observation {
            spread: told.and_then(|told| InputSpread::new(told, rank, self.batch)),
            ..self
        }
    }

    /// Those of these runs whose command is that of `workload` but for the batch.
    pub fn of_runs(
        runs: &[Run],
        workload: &WorkloadKey,
        launch: &LaunchEnvironment<'_>,
    ) -> Vec<Observation> {
        let of_run = |run: &Run| {
            // What its own process told: in its command the batch may be a default that a later run's has typed.
            let launch = LaunchEnvironment {
                told: run.knobs.as_deref().or(launch.told),
                ..*launch
            };
            let own = WorkloadKey::new(&run.command, &launch);
            (own.likeness == workload.likeness)
                .then(|| Observation::of_workload(run, &own))
                .flatten()
        };
        runs.iter().filter_map(of_run).collect()
    }

    /// Those of earlier sessions that say something of this command, whose workload is `known`. Of those sessions only the
    /// command is read: where the batch is a default, in a config file or in the program's text, theirs is not known, and
    /// may have been another one.
    pub fn of_earlier<'a>(
        earlier: &'a [Observation],
        command: &CommandLine,
        known: &WorkloadKey,
    ) -> &'a [Observation] {
        // Most commands have no earlier session: they need not be read once more.
        let by_command = || WorkloadKey::new(command, &LaunchEnvironment::default());
        match earlier.is_empty() || by_command().at_once == known.at_once {
            true => earlier,
            false => &[],
        }
    }

    /// From a process's figures and the out-of-memory that ended it.
    pub fn new(
        rank: Option<&RankState>,
        oom: Option<&OomIncident>,
        workload: &WorkloadKey,
    ) -> Option<Observation> {
        let record = oom.and_then(|oom| oom.record.as_ref());
        let phase = record.map_or(Phase::Unknown, |record| record.phase);
        // What is wanted in an evaluation says nothing of the steps.
        let wanted = oom
            .filter(|_| phase != Phase::Evaluation)
            .and_then(|oom| Some(oom.allocated()? + oom.requested()?));
        let steps = rank.map(|rank| &rank.steps);
        let count = steps.map_or(0, |steps| steps.count);
        let structure = record
            .and_then(|record| record.structure.as_deref())
            .or(rank.and_then(|rank| rank.structure.as_ref()));
        let parameters = structure.map(|structure| structure.parameters);
        let gradients = structure.map(|structure| structure.gradients);
        let stays = structure.map(|structure| structure.parameters + structure.optimizer_state);
        let floor = steps.and_then(|steps| steps.baselines.last().map(|(_, floor)| *floor));
        let frozen = steps.and_then(|steps| frozen(steps, gradients?, stays?));
        let failed = record.filter(|_| wanted.is_some());
        let varies = rank.is_some_and(|rank| rank.peak_step.is_some_and(|step| step > SETTLED));
        let keeps = workload.keeps_gradients();
        let weights = parameters.unwrap_or(Bytes::ZERO) + frozen.unwrap_or(Bytes::ZERO);
        let base_for = |known| base(floor, gradients, weights, stays, keeps, known);
        let optimizer_for = |known| optimizer(steps, floor, parameters, known);
        let partial_step = match steps {
            Some(steps) if steps.count > 0 => failed.and_then(|record| {
                let known = steps.peak.max(wanted)?;
                let gradients = gradients.unwrap_or(Bytes::ZERO);
                PartialStep::of_later(record, base_for(known), optimizer_for(known), gradients)
            }),
            Some(_) | None => failed.and_then(PartialStep::of_first),
        };
        let passes = match steps {
            Some(steps) if count > 0 => {
                let this = partial_step.map(|partial_step| partial_step.whole());
                longer(
                    passes_of(steps, wanted, phase)?,
                    steps,
                    wanted,
                    varies,
                    this,
                )
            }
            Some(_) | None => ForwardBackwardPeak::AtLeast(wanted?, Unseen::NoStep),
        };
        let known = match passes {
            ForwardBackwardPeak::Seen(peak)
            | ForwardBackwardPeak::Within(peak, _)
            | ForwardBackwardPeak::AtLeast(peak, _) => peak,
        };
        Some(Observation {
            seen_in: SeenIn::default(),
            batch: workload.at_once,
            base: base_for(known),
            gradients,
            parameters,
            keeps_gradients: keeps,
            passes,
            optimizer: optimizer_for(known),
            steps: count,
            varies,
            spread: None,
            overhead: rank.and_then(|rank| overhead(rank, known)),
            pieces: rank.and_then(pieces),
            partial_step,
            left_over: oom.and_then(|oom| oom.reserved()?.fraction_of(oom.allocated()?)),
            in_small_holes: record
                .and_then(|record| record.largest_free)
                .is_some_and(|largest| largest < EXPANDABLE_PAGE),
        })
    }
}

/// What a whole step with the optimizer's state there from its beginning reaches, by the first one,
/// which had none.
fn with_state(steps: &StepTrack) -> Option<Bytes> {
    let first = steps.first_step.as_ref()?;
    let state = first.after.allocated - first.before.allocated;
    Some(first.before.peak.max(first.before.allocated) + state)
}

/// Where steps differ from each other, the one that failed may have been longer than all that were
/// seen whole: then what it would have reached counts as well, and what the first one would have
/// reached with the optimizer's state.
fn longer(
    passes: ForwardBackwardPeak,
    steps: &StepTrack,
    wanted: Option<Bytes>,
    varies: bool,
    this: Option<Estimate>,
) -> ForwardBackwardPeak {
    let (ForwardBackwardPeak::Seen(peak), Some(wanted)) = (passes, wanted) else {
        return passes;
    };
    let first = with_state(steps).filter(|first| *first > peak.scale(SAME));
    if first.is_none() && !varies {
        return passes;
    }
    let this = this.filter(|this| this.likely > peak).map(|this| this.high);
    match this.max(first.map(|first| first.scale(STATE_SPREAD))) {
        Some(most) => ForwardBackwardPeak::Within(peak.max(wanted), most.max(wanted)),
        None => passes,
    }
}

fn passes_of(
    steps: &StepTrack,
    wanted: Option<Bytes>,
    phase: Phase,
) -> Option<ForwardBackwardPeak> {
    let peak = steps.peak?;
    let with_state = with_state(steps);
    if steps.count < 2 {
        return Some(match (with_state, wanted) {
            // It failed where the second step was expected to.
            (Some(expected), Some(wanted)) if wanted > expected.scale(SAME) => {
                ForwardBackwardPeak::AtLeast(wanted, Unseen::Wanted(phase))
            }
            (Some(expected), _) => {
                ForwardBackwardPeak::Within(expected, expected.scale(STATE_SPREAD))
            }
            (None, Some(wanted)) if wanted > peak => {
                ForwardBackwardPeak::AtLeast(wanted, Unseen::Wanted(phase))
            }
            (None, _) => ForwardBackwardPeak::AtLeast(peak, Unseen::NoState),
        });
    }
    if let Some(wanted) = wanted
        && wanted > peak
    {
        return Some(ForwardBackwardPeak::AtLeast(wanted, Unseen::Wanted(phase)));
    }
    Some(match (steps.optimizer_peak, steps.passes_peak) {
        (Some(optimizer), passes) if passes.is_none_or(|passes| passes < optimizer) => {
            let least = with_state.max(passes).unwrap_or(Bytes::ZERO).min(optimizer);
            ForwardBackwardPeak::Within(least, optimizer)
        }
        (_, passes) => ForwardBackwardPeak::Seen(passes.unwrap_or(peak)),
    })
}

/// Weights that the optimizer does not know: where many times more stayed from the first step on than
/// what it does know, that is a frozen model (LoRA). What comes later is none.
fn frozen(steps: &StepTrack, gradients: Bytes, stays: Bytes) -> Option<Bytes> {
    let (_, least) = steps.baselines.iter().min_by_key(|(_, floor)| *floor)?;
    let unknown = *least - gradients - stays;
    (unknown > stays.scale(MOSTLY)).then_some(unknown)
}

/// What is allocated when a forward begins. After `step()` the gradients are still there; most
/// programs free them before the next forward, and autocast puts half-sized copies of the weights
/// in their place, of frozen ones as well.
fn base(
    floor: Option<Bytes>,
    gradients: Option<Bytes>,
    weights: Bytes,
    stays: Option<Bytes>,
    kept: bool,
    known: Bytes,
) -> Estimate {
    let Some(floor) = floor else {
        let least = stays.unwrap_or(Bytes::ZERO);
        return Estimate::new(least, least, known);
    };
    let without = floor - gradients.unwrap_or(Bytes::ZERO);
    let casts = weights.scale(0.5);
    match gradients {
        Some(_) if !kept => {
            let least = stays.map_or(without, |stays| stays.min(without));
            Estimate::new(least, without, floor.max(without + casts))
        }
        Some(_) => Estimate::new(floor, floor, floor + casts),
        // Where no structure is known the gradients may be anything up to a third of the floor.
        None if !kept => Estimate::new(floor.scale(0.66), floor, floor),
        None => Estimate::exact(floor),
    }
}

/// What the optimizer's step needs: all that stays, the gradients, and temporaries of up to the
/// parameters' size (`foreach`). Known where it set the peak, else bounded by it.
fn optimizer(
    steps: Option<&StepTrack>,
    floor: Option<Bytes>,
    parameters: Option<Bytes>,
    known: Bytes,
) -> Estimate {
    let Some(floor) = floor else {
        return Estimate::exact(Bytes::ZERO);
    };
    let set_the_peak = steps.and_then(|steps| {
        let optimizer = steps.optimizer_peak?;
        (steps.count > 1 && Some(optimizer) == steps.peak).then_some(optimizer)
    });
    if let Some(peak) = set_the_peak {
        return Estimate::exact(peak);
    }
    let most = (floor + parameters.unwrap_or(Bytes::ZERO)).min(known.max(floor));
    Estimate::new(floor, most, most)
}

fn overhead(rank: &RankState, known: Bytes) -> Option<f64> {
    let (allocated, reserved) = rank.peaks_before_retry?;
    // What was reserved before the run had come far says nothing of its peak.
    (allocated >= known.scale(0.5)).then(|| reserved.fraction_of(allocated))?
}

fn pieces(rank: &RankState) -> Option<f64> {
    // With expandable segments the figure is 0 always and says nothing.
    let most = rank
        .inactive_split_peak
        .filter(|most| *most > Bytes::ZERO)?;
    most.fraction_of(rank.allocated_peak)
}

/// A share below this says too little.
const LEAST_SHARE: f64 = 0.1;

/// How far the step had come in which memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// This share of its forward was past.
    Forward(f64),
    /// It was in backward.
    Backward,
}

impl Progress {
    /// By the observer's record; `None` where it does not say.
    pub(super) fn from_record(record: &OomRecord) -> Option<Progress> {
        match record.phase {
            // More of the forward follows a gradient that is asked for in between.
            Phase::Backward if is_asked_between(record) => None,
            Phase::Backward => Some(Progress::Backward),
            Phase::Forward => record
                .progress
                .filter(|share| (LEAST_SHARE..=1.0).contains(share))
                .map(Progress::Forward),
            Phase::Load | Phase::Optimizer | Phase::Evaluation | Phase::Unknown => None,
        }
    }

    /// The share of the activations that were there.
    pub(super) fn share(self) -> f64 {
        match self {
            Progress::Forward(share) => share,
            Progress::Backward => 1.0,
        }
    }

    fn spread(self) -> f64 {
        match self {
            Progress::Forward(_) => FORWARD_SPREAD,
            Progress::Backward => BACKWARD_SPREAD,
        }
    }

    /// "the forward pass was 53 % done".
    pub fn shown(self) -> String {
        match self {
            Progress::Forward(share) if share < 0.995 => {
                format!("the forward pass was {:.0} % done", share * 100.0)
            }
            Progress::Forward(_) => "the forward pass was nearly done".into(),
            Progress::Backward => "the backward pass had begun".into(),
        }
    }
}

/// A step that was not seen whole, and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartialStep {
    /// How far it had come.
    pub progress: Progress,
    /// What it had reached: allocated, and what was asked for.
    reached: Bytes,
    /// What was asked for.
    requested: Bytes,
    /// What of it does not grow with the batch.
    held: Bytes,
    /// What does not grow with the batch in the steps that follow.
    base: Estimate,
    /// What the optimizer's step reaches.
    optimizer: Estimate,
    /// The gradients.
    gradients: Bytes,
}

impl PartialStep {
    /// Of a first step: nothing is known of the optimizer. `None` where the record does not say how
    /// far it had come, or nothing says how large the model is.
    fn of_first(record: &OomRecord) -> Option<PartialStep> {
        if record.step > 0 {
            return PartialStep::of_structure(record);
        }
        let progress = Progress::from_record(record)?;
        let (parameters, trained) = model(record)?;
        let wanted = record.sample.allocated + record.requested;
        let reached = match progress {
            Progress::Forward(_) => wanted,
            // Where the forward ended it may have been more.
            Progress::Backward => wanted.max(record.sample.allocated_peak),
        };
        let state = trained.scale(ADAM_STATE);
        // Other tensors of the program's were there before the step: they grow with no batch.
        let others = record.before.unwrap_or(Bytes::ZERO) - parameters;
        let parameters = parameters + others;
        Some(PartialStep {
            progress,
            reached,
            requested: record.requested,
            held: parameters.min(reached),
            // Gradients come as activations go; where they stay from one step to the next they are
            // there at the peak.
            base: Estimate::new(parameters, parameters + state, parameters + state + trained),
            optimizer: Estimate::new(
                parameters,
                parameters + state + trained,
                parameters + state + trained + trained.scale(FOREACH_TEMPORARIES),
            ),
            gradients: trained,
        })
    }

    /// Of a step after the first, where the steps themselves were not heard of.
    fn of_structure(record: &OomRecord) -> Option<PartialStep> {
        let structure = record.structure.as_deref()?;
        let stays = structure.parameters + structure.optimizer_state;
        let ended = stays + structure.gradients;
        let base = Estimate::new(stays, stays, ended);
        let optimizer = Estimate::new(
            ended,
            ended,
            ended + structure.parameters.scale(FOREACH_TEMPORARIES),
        );
        PartialStep::of_later(record, base, optimizer, structure.gradients)
    }

    /// Of a later step, with what the steps before it showed.
    fn of_later(
        record: &OomRecord,
        base: Estimate,
        optimizer: Estimate,
        gradients: Bytes,
    ) -> Option<PartialStep> {
        let reached = record.sample.allocated + record.requested;
        Some(PartialStep {
            progress: Progress::from_record(record)?,
            reached,
            requested: record.requested,
            held: base.likely.min(reached),
            base,
            optimizer,
            gradients,
        })
    }

    /// What forward and backward of the step itself would have reached; its low end is what they had.
    pub(super) fn whole(&self) -> Estimate {
        let (likely, most) = self.activations();
        Estimate::new(
            self.reached,
            Bytes(likely as u64) + self.base.likely,
            Bytes(most as u64) + self.base.high,
        )
    }

    /// The peak of a target that takes `ratio` times the batch; no less than `least`, and with steps that take up to `larger`
    /// times as much as this one in proportion. `kept`: gradients stay through the forward, and did not.
    pub(super) fn peak(
        &self,
        target: &Target,
        ratio: f64,
        larger: f64,
        kept: bool,
        least: Bytes,
    ) -> Estimate {
        let (likely, most) = self.activations();
        let most = most.max(likely * larger);
        let of = |base: Bytes, activations: f64| {
            let (_, likely, high) = target.treatment.passes(base.0 as f64, activations * ratio);
            (Bytes(likely as u64), Bytes(high as u64))
        };
        let kept = if kept { self.gradients } else { Bytes::ZERO };
        let likely = of(self.base.likely, likely).0 + kept;
        // Gradients that are kept are a part of the upper end already.
        let high = of(self.base.high, most).1;
        let passes = Estimate::new(least, likely.max(least), high.max(likely).max(least));
        passes.max(self.optimizer)
    }

    /// Activations of the whole step, in bytes: likely, and at the most.
    fn activations(&self) -> (f64, f64) {
        let seen = (self.reached - self.held).0 as f64;
        let likely = seen / self.progress.share();
        let in_loss = match self.progress {
            Progress::Forward(_) => seen + LOSS_COPIES * self.requested.0 as f64,
            Progress::Backward => 0.0,
        };
        (likely, (likely * self.progress.spread()).max(in_loss))
    }
}

/// Bytes of the model's parameters and of those that are trained, before an optimizer has shown them: by the lines that made
/// them and by the model that runs, and no less than what the optimizer was given.
fn model(record: &OomRecord) -> Option<(Bytes, Bytes)> {
    let built = record
        .lines
        .iter()
        .filter(|held| held.inside.as_ref().is_some_and(builds_a_model));
    let bytes = built.fold(Bytes::ZERO, |sum, held| sum + held.bytes);
    let (given, given_trained) = match record.optimizer.as_deref() {
        Some(optimizer) => (optimizer.parameters(), optimizer.trained),
        None => (Bytes::ZERO, Bytes::ZERO),
    };
    // The model that runs may be one of several; what the lines say more is taken for trained.
    let (parameters, trained) = match record.model.as_deref() {
        Some(model) => (
            model.parameters.max(bytes),
            model.trained + (bytes - model.parameters),
        ),
        None => (bytes, bytes),
    };
    let (parameters, trained) = (parameters.max(given), trained.max(given_trained));
    (parameters > Bytes::ZERO).then_some((parameters, trained))
}

/// Whether a backward is one of `torch.autograd.grad`: of an inner loop, a penalty, an attack.
fn is_asked_between(record: &OomRecord) -> bool {
    let mut lines = record.stack.iter();
    lines.any(|line| line.function == "grad" && line.file.ends_with("torch/autograd/__init__.py"))
}

/// torch's lines that allocate parameters: `Module.to`, a recurrent layer that lays its weights
/// together, and layers that are made on the device.
fn builds_a_model(inside: &SourceLine) -> bool {
    let Some((_, file)) = inside.file.rsplit_once("/torch/nn/modules/") else {
        return false;
    };
    match inside.function.as_str() {
        "convert" | "_apply" => file == "module.py",
        "flatten_parameters" => file == "rnn.py",
        "__init__" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mib(count: f64) -> Bytes {
        Bytes::mib(1).scale(count)
    }

    #[test]
    fn a_gradient_that_is_asked_for_in_between_is_not_the_end_of_the_forward() {
        let at = |file: &str, function: &str| OomRecord {
            phase: Phase::Backward,
            stack: vec![SourceLine {
                file: file.into(),
                line: 1,
                function: function.into(),
            }],
            ..crate::state::tests::staged::record(
                100,
                mib(200.0),
                mib(200.0),
                mib(20.0),
                Bytes::ZERO,
            )
        };
        let end = at("/v/torch/_tensor.py", "backward");
        assert_eq!(Progress::from_record(&end), Some(Progress::Backward));
        let between = at("/v/torch/autograd/__init__.py", "grad");
        assert_eq!(Progress::from_record(&between), None);
    }

    /// An adapter of low rank under bf16 autocast, batch 16 (torch 2.11): the optimizer knows 10 MiB of
    /// the 593 that stay; the line through all batches starts at 817.
    #[test]
    fn copies_of_frozen_weights_are_within_the_base() {
        let (trained, stays) = (mib(3.4), mib(10.1));
        let with = |baselines: &[f64]| {
            let steps = StepTrack {
                baselines: (1..)
                    .zip(baselines.iter().map(|floor| mib(*floor)))
                    .collect(),
                ..StepTrack::default()
            };
            let weights = trained + frozen(&steps, trained, stays).unwrap_or(Bytes::ZERO);
            let floor = steps.baselines.last().map(|(_, floor)| *floor);
            base(
                floor,
                Some(trained),
                weights,
                Some(stays),
                false,
                mib(5195.0),
            )
        };
        assert!(with(&[586.0, 593.0]).holds(mib(817.0)));
        // What leaks is no model.
        assert!(!with(&[16.0, 593.0]).holds(mib(817.0)));
    }
}
