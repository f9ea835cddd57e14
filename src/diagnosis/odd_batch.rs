//! A batch that is larger than the others, such as one with a long sequence: this step needed more
//! than any before it, and the baseline has not changed.
//!
//! The run's peak before this step is exact, and so is what this step had allocated when it failed;
//! a typical step's need is exact only if some step's own peak is known.

use super::baseline_growth::{baseline_growth, median};
use super::finding::with_figures;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding};
use crate::event::{GivenSize, Phase};
use crate::state::StepMark;
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("outlier batch", examine)
    .explains_capacity()
    .of_one_rank();

/// The minimum number of completed steps: the second is the first with the optimizer's state, the
/// third is the first typical one.
const FEWEST: u64 = 4;

/// The minimum number of similar steps before an outlier: with fewer, lengths or sizes may still be
/// warming up. If steps varied before, there is no such warm-up.
const ALIKE: u64 = 25;

/// As many, if it takes [`FAR`] more than any of them: no warm-up grows like that.
const ALIKE_BEFORE_FAR: u64 = 8;

/// The difference between known peaks, as a share of the largest, from which steps are called
/// dissimilar.
const UNLIKE: f64 = 0.02;

/// How many times the memory of any step before it this one must take, on top of the baseline.
const ODD: f64 = 1.1;

/// From this ratio on the batch is the cause, even if fragmented memory would have been enough for
/// the failed allocation.
const FAR: f64 = 3.0;

/// The ratio to a typical step, if lengths vary so much that earlier steps came near.
const UNUSUAL: f64 = 1.5;

/// From this share of parameters and optimizer state on, what else there is after a step is told.
const NOTABLY_MORE: f64 = 0.05;

/// How far the baseline may have moved, as a share of the GPU, for steps to be similar.
const SAME_BASELINE: f64 = 0.02;

fn examine(case: &OomContext) -> Option<Finding> {
    match case.phase {
        Phase::Forward | Phase::Backward | Phase::Unknown => {}
        Phase::Load | Phase::Optimizer | Phase::Evaluation => return None,
    }
    let steps = &case.rank?.steps;
    if steps.count < FEWEST || baseline_growth(steps, case.capacity).is_some() {
        return None;
    }
    if case.by_last_sample {
        return None;
    }
    let (_, baseline) = *steps.baselines.last()?;
    let before: Vec<&StepMark> = steps.marks.ended.iter().filter(|m| m.count > 2).collect();
    let median_of = |of: fn(&StepMark) -> Bytes| {
        let mut values: Vec<f64> = before.iter().map(|mark| of(mark).0 as f64).collect();
        median(&mut values).map(|bytes| Bytes(bytes as u64))
    };
    let moved = baseline - median_of(|mark| mark.baseline)?;
    if moved > case.capacity?.scale(SAME_BASELINE) {
        return None;
    }
    let this = case.needed()? - baseline;
    let largest = steps.peak? - baseline;
    let usual = median_of(|mark| mark.peak - mark.baseline)?;
    let ratio = this.fraction_of(largest)?;
    // A typical step's own peak, not an upper bound of it.
    let usual_is_exact = before.iter().filter(|mark| mark.is_exact).count() * 2 > before.len();
    let against_usual = this.fraction_of(usual).filter(|_| usual_is_exact);
    if ratio < FAR && !case.is_full()? {
        // If freeing fragments or another process's memory would have been enough, those are the
        // cause.
        return None;
    }
    let certainty = match (ratio >= ODD, against_usual) {
        (true, _) if ratio >= FAR && steps.count >= ALIKE => Certainty::Certain,
        (true, _) if ratio >= FAR && steps.count >= ALIKE_BEFORE_FAR => Certainty::Likely,
        (true, _) if steps.count < ALIKE && !differ(&before) => Certainty::Possible,
        (true, _) => Certainty::Likely,
        (false, Some(times)) if times >= UNUSUAL => Certainty::Likely,
        (false, _) => return None,
    };
    let step = case.step.unwrap_or(steps.count + 1);
    let given = given(case).unwrap_or_default();
    let headline = if ratio >= ODD {
        let count = steps.count;
        with_figures(
            &format!("Step {step}{given} needs more memory than any of the {count} before it"),
            format!(
                "at least {this} on top of the {baseline} allocated after a step; the largest before took {largest}"
            ),
        )
    } else {
        with_figures(
            &format!("Step {step}{given} needs far more memory than usual"),
            format!(
                "at least {this} on top of the {baseline} allocated after a step; half of the steps took {usual} or less"
            ),
        )
    };
    Some(
        case.finding(Cause::OddBatch, certainty, headline)
            .says("A longer sequence, a larger image, or more items than usual in this batch; what is allocated after each step has not grown.")
            .says_if(case.failed_where())
            .says_if((ratio >= ODD && steps.count < ALIKE && !differ(&before)).then_some(
                match usual_is_exact {
                    true => "It may also be the first of many: it came early, and the steps before it were alike.",
                    // Samples fall on any part of a step: how alike they were is not known.
                    false => "It may also be the first of many: it came early.",
                },
            ))
            .says_if(still_there(case, baseline))
            .shows_first([
                ("this step (at least)", this),
                ("largest step before", largest),
                ("allocated after a step", baseline),
            ])
            .advises([
                "limit the length or size of an item (truncation, max_length), or of a batch (by tokens)",
                "batch items of similar length; longest first, so that a failure comes at once",
                "a smaller batch, so that the longest item fits",
            ]),
    )
}

/// What the model was given in the step that failed, where that was more than before: `64×768; the smallest so far was 64×192`.
fn given(case: &OomContext) -> Option<String> {
    let knobs = case.run?.knobs.as_ref()?;
    if knobs.evaluated || !knobs.failed {
        return None;
    }
    let items = |shape: &[u64]| -> u64 { shape.iter().product() };
    let larger = |given: &&GivenSize| {
        given.shape.len() == given.least.len() && items(&given.shape) > items(&given.least)
    };
    let given = knobs.given.iter().find(larger)?;
    let [now, before] = [&given.shape, &given.least].map(|shape| {
        let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
        sizes.join("×")
    });
    Some(format!(" (input {now}; the smallest so far was {before})"))
}

/// Why what is allocated after a step is more than the program itself reads before the next one.
fn still_there(case: &OomContext, after_step: Bytes) -> Option<String> {
    let of = case.record()?.structure.as_deref()?;
    let (model, gradients) = (of.parameters + of.optimizer_state, of.gradients);
    let outputs = after_step - model - gradients;
    (outputs > model.scale(NOTABLY_MORE)).then(|| {
        format!(
            "Right after a step there are the gradients ({gradients}) beside the {model} of parameters and optimizer state, and {outputs} of other tensors, such as the last batch's outputs."
        )
    })
}

/// Whether the steps before were dissimilar, as far as their own peaks are known.
fn differ(marks: &[&StepMark]) -> bool {
    let exact = || {
        let exact = marks.iter().filter(|mark| mark.is_exact);
        exact.map(|mark| mark.peak - mark.baseline)
    };
    let range = exact().max().zip(exact().min());
    range.is_some_and(|(most, least)| (most - least).fraction_of(most) > Some(UNLIKE))
}
