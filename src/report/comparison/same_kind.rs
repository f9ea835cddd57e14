//! Which traced steps of two runs are compared: such as had inputs of the same sizes, but for the batch. A step on short
//! texts says nothing of one on long ones.

use crate::anatomy::StepAnatomy;
use crate::event::StepTrace;
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
    let pairs = a
        .iter()
        .flat_map(|one| b.iter().map(move |other| (one, other)));
    let found = pairs
        .filter(|(one, other)| is_same_kind(&one.trace.inputs, &other.trace.inputs, ratio))
        .max_by_key(|(one, other)| {
            (
                one.trace.failed || other.trace.failed,
                one.peak + other.peak,
            )
        });
    let read = |step: &TracedCandidate<'a>| {
        let anatomy = StepAnatomy::new(step.trace).ok()?;
        let inputs = &step.trace.inputs;
        Some(Box::new(PairedStep { anatomy, inputs }))
    };
    match found.map(|(one, other)| (read(one), read(other))) {
        Some((Some(one), Some(other))) => Pairing::Steps(one, other),
        Some((None, _) | (_, None)) => Pairing::NoSteps,
        None => Pairing::Different(format!(
            "no lines are compared: the traced steps are of different kinds ({} and {})",
            largest_a.words(),
            largest_b.words()
        )),
    }
}

struct TracedCandidate<'a> {
    trace: &'a StepTrace,
    peak: Bytes,
}

impl TracedCandidate<'_> {
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
