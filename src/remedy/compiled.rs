//! What torch.compile can be told: to keep less of what its graphs would save for backward, and to compile once for all sizes.
//! What either needs follows from the graphs that the compiler then makes, and the peak does not always sink with the budget: so
//! nothing is predicted, and the run that is started measures it.

use super::plan::{Alteration, Expectation};
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::diagnosis::Phrase;
use crate::event::{Compiled, Patch};

/// The version of PyTorch that has a budget for activations.
const SINCE: (u32, u32) = (2, 5);
/// Percent of what graphs save, one after the other; below that little is left to recompute.
const BUDGETS: [u32; 2] = [50, 25];
/// So many graphs of other sizes are more than a last batch that is smaller.
const OFTEN: u64 = 2;

const MEASURED: &str = "its need is not known before: the run measures it";
/// In so many short runs of the command as it is and with each.
const IN_SHORT_RUNS: &str =
    "before that: oomph fit --patch budget=50,budget=25 -- COMMAND, three short runs";
const DYNAMIC_IN_SHORT_RUNS: &str =
    "before that: oomph fit --patch dynamic=on -- COMMAND, two short runs";

/// Activations are recomputed up to a share of what graphs would save.
pub(in crate::remedy) mod budget {
    use super::*;

    pub(in crate::remedy) const REMEDY: RemedySpec = RemedySpec {
        alters: Some(Alteration::Recomputation),
        ..RemedySpec::new(
            'B',
            "activation budget",
            RemedyEffect::LessAllocated,
            NeedFrom::Itself,
            propose,
        )
    };

    fn propose(offering: &Offering<'_>) -> Option<Proposal> {
        let compiled = compiled(offering)?;
        let now = compiled.budget.unwrap_or(100);
        let next = BUDGETS.into_iter().find(|percent| *percent < now);
        let draft = match (offering.inputs.torch(), next) {
            (Some(version), _) if (version.major, version.minor) < SINCE => {
                Err("this needs PyTorch 2.5 or later".into())
            }
            (_, None) => Err(format!(
                "its graphs keep {now} % of their activations already"
            )),
            (_, Some(percent)) => offering.check_patch(Patch::Budget(percent)).map(|()| {
                let budget = f64::from(percent) / 100.0;
                let shown = format!("activation_memory_budget={budget} in torch.compile");
                Draft::patching(Patch::Budget(percent), &shown)
            }),
        };
        let expectation = Expectation::unknown(
            Phrase::from(MEASURED)
                .and("; ", "a peak need not sink with the budget")
                .and("; ", IN_SHORT_RUNS),
        );
        let cost = [
            "equal to rounding",
            "backward computes again what graphs no longer keep: slower, and compiled anew",
        ];
        Some(Proposal::new(draft, cost).expecting(expectation))
    }
}

/// Sizes are variables of the graphs.
pub(in crate::remedy) mod dynamic {
    use super::*;

    pub(in crate::remedy) const REMEDY: RemedySpec = RemedySpec::new(
        'D',
        "compile for all sizes",
        RemedyEffect::LessAllocated,
        NeedFrom::Itself,
        propose,
    );

    fn propose(offering: &Offering<'_>) -> Option<Proposal> {
        let compiled = compiled(offering).filter(|compiled| compiled.resized >= OFTEN)?;
        let draft = offering
            .check_patch(Patch::Dynamic)
            .map(|()| Draft::patching(Patch::Dynamic, "torch.compile(dynamic=True)"));
        let of = compiled
            .of
            .as_deref()
            .map_or(String::new(), |of| format!(" ({of})"));
        let again = format!(
            "compiled again for other sizes {} times{of}",
            compiled.resized
        );
        let cost = Phrase::from("equal to rounding")
            .and("; ", again)
            .and("; ", "kernels for all sizes may be slower than for one");
        Some(Proposal::new(draft, cost).expecting(Expectation::unknown(
            Phrase::from(MEASURED).and("; ", DYNAMIC_IN_SHORT_RUNS),
        )))
    }
}

/// What was compiled in the process that ran out of memory.
fn compiled<'a>(offering: &Offering<'a>) -> Option<&'a Compiled> {
    offering.inputs.forecast.oom?;
    offering.inputs.patchable()?.compiled.as_ref()
}
