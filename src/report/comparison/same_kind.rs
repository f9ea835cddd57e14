//! Which traced steps of two runs are compared, and where in them: such as had inputs of the same sizes, but for the batch.
//! A step on short texts says nothing of one on long ones, and half a step nothing of a whole one: where memory ran out in
//! a step, the other one is looked at as far as that had come.

use crate::anatomy::{Category, StepAnatomy};
use crate::event::{Phase, SourceLine, StepTrace};
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::state::Run;
use crate::units::Bytes;
use std::cmp::Reverse;

/// A run's peak is in a step of which at least this share of it was seen.
const OF_THE_PEAK: f64 = 0.9;

/// The steps to compare.
#[derive(Debug)]
pub(super) enum Pairing<'a> {
    Steps(Box<PairedStep<'a>>, Box<PairedStep<'a>>),
    /// Steps were traced, but none of one kind; in words.
    Different(String),
    /// Of one of the runs no step was traced.
    NoSteps,
}

/// A traced step.
#[derive(Debug)]
pub(super) struct PairedStep<'a> {
    pub anatomy: StepAnatomy,
    /// The position in it at which it is compared.
    pub at: usize,
    /// The sizes of its inputs; empty where they are not known.
    pub inputs: &'a [u64],
}

/// Of the steps of the same kind the largest pair; one that ran out of memory first, since that is what is asked about.
pub(super) fn steps<'a>(before: &'a Run, after: &'a Run) -> Pairing<'a> {
    let (a, b) = (candidates(before), candidates(after));
    let (Some(largest_a), Some(largest_b)) = (a.first(), b.first()) else {
        return Pairing::NoSteps;
    };
    let ratio = at_once(after) as f64 / at_once(before) as f64;
    let mut pairs: Vec<_> = a
        .iter()
        .flat_map(|one| b.iter().map(move |other| (one, other)))
        .filter(|(one, other)| is_same_kind(&one.trace.inputs, &other.trace.inputs, ratio))
        .collect();
    if pairs.is_empty() {
        return Pairing::Different(format!(
            "no lines are compared: the traced steps are of different kinds ({} and {})",
            largest_a.words(),
            largest_b.words()
        ));
    }
    pairs.sort_by_key(|(one, other)| {
        let is_of_oom = one.trace.failed || other.trace.failed;
        Reverse((is_of_oom, one.peak + other.peak))
    });
    let mut unlike = None;
    for (one, other) in pairs {
        let (Some(a), Some(b)) = (one.read(), other.read()) else {
            continue;
        };
        if let Some((at, other_at)) = same_progress(&a, &b) {
            return Pairing::Steps(one.paired(a, at), other.paired(b, other_at));
        }
        unlike.get_or_insert_with(|| {
            format!(
                "no lines are compared: {} and {} have no point in common",
                one.how_far(&a),
                other.how_far(&b)
            )
        });
    }
    unlike.map_or(Pairing::NoSteps, Pairing::Different)
}

/// Where two steps are compared: each at its peak, or, where memory ran out in one, both where that had come to.
fn same_progress(one: &StepAnatomy, other: &StepAnatomy) -> Option<(usize, usize)> {
    let as_far_as_one = || Some((one.end(), PointReached::at_end_of(one)?.position_in(other)?));
    let as_far_as_other = || {
        Some((
            PointReached::at_end_of(other)?.position_in(one)?,
            other.end(),
        ))
    };
    match (one.failed, other.failed) {
        (false, false) => Some((one.peak(), other.peak())),
        (true, false) => as_far_as_one(),
        (false, true) => as_far_as_other(),
        // The one that had not come as far.
        (true, true) => as_far_as_one().or_else(as_far_as_other),
    }
}

/// How far a step has come: in which of its phases, and how many times the line had allocated in it that allocated last.
#[derive(Debug, PartialEq, Eq)]
struct PointReached<'a> {
    phase: Phase,
    /// The how manieth of that phase: with gradient accumulation a step has several.
    round: usize,
    line: Option<&'a SourceLine>,
    times: usize,
}

impl<'a> PointReached<'a> {
    fn at_end_of(step: &'a StepAnatomy) -> Option<PointReached<'a>> {
        let start = step.phases.last()?;
        let of_phase = (step.phases.iter()).filter(|other| other.phase == start.phase);
        let (mut line, mut times) = (None, 0);
        let allocated = allocated_in(step, start.from, step.end() + 1);
        if let Some((_, last)) = allocated.last() {
            line = *last;
            times = allocated.iter().filter(|(_, line)| line == last).count();
        }
        Some(PointReached {
            phase: start.phase,
            round: of_phase.count(),
            line,
            times,
        })
    }

    /// The position at which another step has come as far.
    fn position_in(&self, step: &StepAnatomy) -> Option<usize> {
        let mut of_phase = (step.phases.iter().enumerate())
            .filter(|(_, start)| start.phase == self.phase)
            .map(|(place, start)| (start.from, step.phases.get(place + 1)));
        let (from, next) = of_phase.nth(self.round - 1)?;
        let until = next.map_or(step.end() + 1, |next| next.from);
        match self.times {
            0 => Some(from),
            _ => allocated_in(step, from, until)
                .into_iter()
                .filter(|(_, line)| *line == self.line)
                .nth(self.times - 1)
                .map(|(position, _)| position),
        }
    }
}

/// What was allocated from one position up to another: where, and by which line.
fn allocated_in(
    step: &StepAnatomy,
    from: usize,
    until: usize,
) -> Vec<(usize, Option<&SourceLine>)> {
    let blocks = step.blocks.iter();
    blocks
        .filter(|block| block.from > 0 && (from..until).contains(&block.from))
        .map(|block| {
            let origin = block.origin.map(|origin| &step.origins[origin]);
            (block.from, origin.and_then(|origin| origin.line.as_ref()))
        })
        .collect()
}

impl PairedStep<'_> {
    /// Whether an optimizer had its state in it: a first step has none before its end.
    pub fn has_optimizer_state(&self) -> bool {
        let mut blocks = self.anatomy.blocks.iter();
        blocks.any(|block| block.category == Category::OptimizerState && block.is_alive(self.at))
    }
}

struct TracedCandidate<'a> {
    trace: &'a StepTrace,
    peak: Bytes,
}

impl<'a> TracedCandidate<'a> {
    fn read(&self) -> Option<StepAnatomy> {
        StepAnatomy::new(self.trace).ok()
    }

    fn paired(&self, anatomy: StepAnatomy, at: usize) -> Box<PairedStep<'a>> {
        let inputs = &self.trace.inputs;
        Box::new(PairedStep {
            anatomy,
            at,
            inputs,
        })
    }

    /// `step 1, which ran out of memory in backward`, `step 3`.
    fn how_far(&self, anatomy: &StepAnatomy) -> String {
        let step = format!("step {}", anatomy.step);
        match anatomy.failed {
            true => format!(
                "{step}, which ran out of memory{},",
                anatomy.in_phase(anatomy.end())
            ),
            false => step,
        }
    }

    /// `step 3 of 4.20 GiB, inputs 16×208`.
    fn words(&self) -> String {
        let inputs = shape(&self.trace.inputs);
        let inputs = inputs.map_or(String::new(), |inputs| format!(", inputs {inputs}"));
        format!("step {} of {}{inputs}", self.trace.step, self.peak)
    }
}

/// The traced steps of a run's largest process, the largest first. Where the sizes of inputs were not told, only one that
/// shows the run's peak is known to be like another run's.
fn candidates(run: &Run) -> Vec<TracedCandidate<'_>> {
    let ranks = run
        .ranks
        .iter()
        .filter(|rank| rank.traces.all().next().is_some());
    let Some(rank) = ranks.max_by_key(|rank| rank.allocated_peak) else {
        return Vec::new();
    };
    let mut found: Vec<TracedCandidate<'_>> = rank
        .traces
        .all()
        .map(|trace| TracedCandidate {
            trace,
            peak: trace.peak(),
        })
        .collect();
    let shows_peak =
        |step: &TracedCandidate<'_>| step.peak >= rank.allocated_peak.scale(OF_THE_PEAK);
    if found.iter().any(|step| step.trace.inputs.is_empty()) && found.iter().any(shows_peak) {
        found.retain(shows_peak);
    }
    found.sort_by_key(|step| Reverse(step.peak));
    found
}

/// Samples that a device of the run takes at once.
fn at_once(run: &Run) -> u64 {
    let workload = WorkloadKey::new(&run.command, &LaunchEnvironment::default());
    workload.at_once.max(1)
}

/// Whether these are of the same sizes, or differ in one dimension as the batches do. Of unknown sizes nothing speaks
/// against it.
fn is_same_kind(one: &[u64], other: &[u64], ratio: f64) -> bool {
    if one.is_empty() || other.is_empty() {
        return true;
    }
    if one.len() != other.len() {
        return false;
    }
    let mut differing = one.iter().zip(other).filter(|(one, other)| one != other);
    match (differing.next(), differing.next()) {
        (None, _) => true,
        (Some((one, other)), None) => {
            (*other as f64 / (*one).max(1) as f64 / ratio - 1.0).abs() < ROUNDED
        }
        (Some(_), Some(_)) => false,
    }
}

/// By so much a share of a batch is rounded.
const ROUNDED: f64 = 0.05;

/// `32×832`.
pub(super) fn shape(inputs: &[u64]) -> Option<String> {
    let sizes: Vec<String> = inputs.iter().map(u64::to_string).collect();
    (!sizes.is_empty()).then(|| sizes.join("×"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandLine;
    use crate::event::{BlockOrigin, PhaseStart};
    use crate::state::{RankState, StepTraces};

    fn run(batch: u64, steps: &[(u64, &[u64], u64)]) -> Run {
        let mut traces = StepTraces::default();
        for (step, inputs, mib) in steps {
            traces.keep(&StepTrace {
                step: *step,
                inputs: inputs.to_vec(),
                trace: format!("| {}", mib << 20),
                blocks: "0".into(),
                ..StepTrace::default()
            });
        }
        let mut run = Run {
            command: CommandLine::typed(&format!("python train.py --batch-size {batch}")),
            ..Run::default()
        };
        run.ranks.push(RankState {
            traces,
            allocated_peak: Bytes::mib(15_400),
            ..RankState::default()
        });
        run
    }

    fn said(before: &Run, after: &Run) -> String {
        match steps(before, after) {
            Pairing::Steps(one, other) => format!("{} {}", one.anatomy.step, other.anatomy.step),
            Pairing::Different(why) => why,
            Pairing::NoSteps => "none".into(),
        }
    }

    #[test]
    fn steps_with_inputs_of_the_same_sizes_are_compared() {
        let warms_up = run(64, &[(3, &[64, 208], 4_200), (30, &[64, 832], 15_400)]);
        let short = run(32, &[(3, &[32, 208], 2_100)]);
        assert_eq!(said(&warms_up, &short), "3 3");
        assert_eq!(said(&short, &warms_up), "3 3");
        let long = run(32, &[(3, &[32, 208], 2_100), (40, &[32, 832], 7_700)]);
        assert_eq!(said(&warms_up, &long), "30 40");
    }

    /// A step on one line each for forward and backward: so many allocations in either.
    fn of_lines(step: u64, batch: u64, forward: usize, backward: usize, failed: bool) -> StepTrace {
        let line = |line| BlockOrigin {
            line: Some(SourceLine {
                file: "train.py".into(),
                line,
                function: "step".into(),
            }),
            ..BlockOrigin::default()
        };
        let size = (batch << 20).to_string();
        StepTrace {
            step,
            failed,
            inputs: vec![batch, 832],
            trace: format!("512 | {}", vec![size; forward + backward].join(" ")),
            phases: [(Phase::Forward, 0), (Phase::Backward, forward)]
                .map(|(phase, from)| PhaseStart { phase, from })[..1 + usize::from(backward > 0)]
                .to_vec(),
            origins: vec![line(1), line(2), line(3)],
            blocks: format!("1 2*{forward} 3*{backward}"),
            ..StepTrace::default()
        }
    }

    fn run_of(batch: u64, trace: &StepTrace) -> Run {
        let mut run = run(batch, &[]);
        run.ranks[0].traces.keep(trace);
        run
    }

    #[test]
    fn a_step_that_ran_out_of_memory_is_compared_as_far_as_it_had_come() {
        let whole = run_of(32, &of_lines(3, 32, 8, 4, false));
        let in_forward = run_of(64, &of_lines(1, 64, 6, 0, true));
        let at = |before: &Run, after: &Run| match steps(before, after) {
            Pairing::Steps(one, other) => {
                let allocated = |step: &PairedStep| step.anatomy.allocated[step.at].0 >> 20;
                (allocated(&one), allocated(&other))
            }
            Pairing::Different(why) => panic!("{why}"),
            Pairing::NoSteps => panic!("no steps"),
        };
        assert_eq!(at(&in_forward, &whole), (6 * 64, 6 * 32));
        assert_eq!(at(&whole, &in_forward), (6 * 32, 6 * 64));
        let in_backward = run_of(64, &of_lines(1, 64, 8, 2, true));
        assert_eq!(at(&in_backward, &whole), (10 * 64, 10 * 32));
        // Of two that failed the one that had not come as far says where.
        assert_eq!(at(&in_backward, &in_forward), (6 * 64, 6 * 64));
    }

    #[test]
    fn one_that_has_no_such_point_is_not_and_that_is_said() {
        let checkpointed = run_of(64, &of_lines(3, 64, 2, 4, false));
        let in_forward = run_of(64, &of_lines(1, 64, 6, 0, true));
        assert_eq!(
            said(&in_forward, &checkpointed),
            "no lines are compared: step 1, which ran out of memory in forward, and step 3 have no point in common"
        );
    }

    #[test]
    fn others_are_not_and_that_is_said() {
        let (long, short) = (
            run(64, &[(30, &[64, 832], 15_360)]),
            run(64, &[(3, &[64, 208], 4_300)]),
        );
        assert_eq!(
            said(&long, &short),
            "no lines are compared: the traced steps are of different kinds (step 30 of 15.0 GiB, inputs 64×832 and step 3 of 4.20 GiB, inputs 64×208)"
        );
        assert_eq!(said(&long, &Run::default()), "none");
    }
}
