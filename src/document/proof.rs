//! What is said of a promise that the training's numbers stay as they are: what was compared, or why nothing was.

use crate::event::Numerics;
use crate::remedy::{Compared, LossesFrom, NumericsProof, ProofOutcome, ROUNDING, Unchecked};
use crate::state::Run;
use crate::units::RunNumber;
use serde::Serialize;

/// What became of one run's promise, for programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunProof {
    pub run: RunNumber,
    pub promised: Numerics,
    /// `equal`, `differs` or `not_checked`.
    pub verdict: &'static str,
    /// The run that it was compared with.
    pub with: Option<RunNumber>,
    /// The steps that both made.
    pub steps: Option<usize>,
    /// `process` or `output`.
    pub by: Option<&'static str>,
    /// The first step that differs, as the program or the probe counts, and the largest difference as a share of the loss.
    pub from_step: Option<String>,
    pub at_most: Option<f64>,
    pub words: String,
}

impl RunProof {
    /// `None` where nothing was promised. `runs` are those of the session.
    pub fn new(runs: &[Run], run: &Run) -> Option<RunProof> {
        let proof = NumericsProof::new(runs, run)?;
        let found = match &proof.found {
            ProofOutcome::Compared(found) => Some(found),
            ProofOutcome::NotChecked(_) => None,
        };
        let differs = found.and_then(|found| found.differs.clone());
        Some(RunProof {
            run: run.number,
            promised: proof.promised,
            verdict: match (found, &differs) {
                (None, _) => "not_checked",
                (Some(_), None) => "equal",
                (Some(_), Some(_)) => "differs",
            },
            with: found.map(|found| found.with),
            steps: found.map(|found| found.steps),
            by: found.map(|found| match found.by {
                LossesFrom::Process => "process",
                LossesFrom::Output => "output",
            }),
            at_most: differs.as_ref().map(|(_, share)| *share),
            from_step: differs.map(|(step, _)| step),
            words: proof_words(&proof),
        })
    }
}

/// "losses of 7 steps are the same, bit for bit", "not checked: the batch changed".
pub fn proof_words(proof: &NumericsProof) -> String {
    match &proof.found {
        ProofOutcome::Compared(found) => compared(found, proof.promised),
        ProofOutcome::NotChecked(why) => format!("losses not checked: {}", why_not(*why)),
    }
}

fn compared(found: &Compared, promised: Numerics) -> String {
    let plural = if found.steps == 1 { "" } else { "s" };
    let (losses, equal) = match found.by {
        LossesFrom::Process => ("losses", "bit for bit"),
        LossesFrom::Output => ("printed losses", "digit for digit"),
    };
    let of = format!("{losses} of {} step{plural}", found.steps);
    let Some((step, share)) = &found.differs else {
        return format!("{of} are the same, {equal}");
    };
    let verdict = match (*share <= ROUNDING, promised) {
        (true, Numerics::Rounding) => "equal to rounding",
        (true, _) => "as rounding does where kernels add in no fixed order",
        (false, _) => {
            "which is no rounding: check that every random number of the program has a seed"
        }
    };
    format!("{of} differ by at most {share:.0e} from step {step} on, {verdict}")
}

fn why_not(why: Unchecked) -> &'static str {
    match why {
        Unchecked::OtherSeed => "no fixed seed (torch's was another one in each run)",
        Unchecked::CommandDiffers => "no fixed seed (two runs of this command differ)",
        Unchecked::NoCommonStep => "the two runs printed no loss of the same step",
        Unchecked::Changed(what) => match what {
            Numerics::Batch => "the batch changed",
            Numerics::Samples => "the samples changed",
            Numerics::Precision => "the precision changed",
            Numerics::Optimizer => "the optimizer changed",
            Numerics::RandomNumbers => "the data is drawn by other random numbers",
            Numerics::Resumed => "the run goes on from a checkpoint",
            Numerics::Edited => "the command was edited as well",
            Numerics::Same | Numerics::Rounding | Numerics::Unknown => {
                "what the remedies change is not known"
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::RunNumber;

    fn words(promised: Numerics, by: LossesFrom, differs: Option<(&str, f64)>) -> String {
        let found = ProofOutcome::Compared(Compared {
            with: RunNumber(1),
            steps: 7,
            of: 7,
            by,
            differs: differs.map(|(step, share)| (step.into(), share)),
        });
        proof_words(&NumericsProof { promised, found })
    }

    #[test]
    fn what_was_compared_is_said_with_its_figures() {
        use LossesFrom::{Output, Process};
        use Numerics::{Rounding, Same};
        assert_eq!(
            words(Same, Process, None),
            "losses of 7 steps are the same, bit for bit"
        );
        assert_eq!(
            words(Same, Output, None),
            "printed losses of 7 steps are the same, digit for digit"
        );
        assert_eq!(
            words(Rounding, Process, Some(("2", 3.1e-7))),
            "losses of 7 steps differ by at most 3e-7 from step 2 on, equal to rounding"
        );
        let same = words(Same, Process, Some(("2", 3.1e-7)));
        assert!(
            same.ends_with("as rounding does where kernels add in no fixed order"),
            "{same}"
        );
        let far = words(Rounding, Process, Some(("1", 0.2)));
        assert!(
            far.contains("differ by at most 2e-1 from step 1 on, which is no rounding"),
            "{far}"
        );
    }

    #[test]
    fn what_was_not_compared_says_why() {
        let said = |why| {
            proof_words(&NumericsProof {
                promised: Numerics::Same,
                found: ProofOutcome::NotChecked(why),
            })
        };
        assert_eq!(
            said(Unchecked::Changed(Numerics::Batch)),
            "losses not checked: the batch changed"
        );
        assert_eq!(
            said(Unchecked::CommandDiffers),
            "losses not checked: no fixed seed (two runs of this command differ)"
        );
    }
}
