//! What remedies inside the process have in common, for programs without an argument for them. The
//! probe finds what can be patched when memory runs out; only that is offered. A patch is an edit of
//! one variable of the command, so it stays from run to run and is visible with the command.

use super::draft::Draft;
use super::edit::Edit;
use super::inputs::RemedyInputs;
use crate::command::CommandLine;
use crate::event::{Patch, PatchOutcome, Patchable};
use crate::state::RankState;

/// What an earlier run's probe found patchable; `None` if it reported nothing.
pub(super) fn patchable<'a>(inputs: &RemedyInputs<'a>) -> Option<&'a Patchable> {
    rank(inputs)?.patchable.as_ref()
}

/// The process that ran out of memory, if its probe found anything patchable; else any process with
/// findings, since the ranks of a training are alike.
fn rank<'a>(inputs: &RemedyInputs<'a>) -> Option<&'a RankState> {
    let run = inputs.forecast.state?.run()?;
    let of_oom = inputs.forecast.oom.and_then(|oom| run.rank_of(oom));
    let all = run.ranks.iter();
    of_oom
        .into_iter()
        .chain(all)
        .find(|rank| rank.patchable.is_some())
}

/// Why this patch can't be added: it is in force, or it was declined in this run.
pub(super) fn open(
    command: &CommandLine,
    inputs: &RemedyInputs<'_>,
    patch: Patch,
) -> Result<(), String> {
    let patched = rank(inputs).and_then(|rank| {
        let mut patched = rank.patches.iter();
        patched.find(|patched| patched.patch == patch.name())
    });
    if let Some(patched) = patched.filter(|patched| patched.outcome == PatchOutcome::Declined) {
        return Err(format!(
            "the patch was not applied in this run: {}",
            patched.words
        ));
    }
    if Patch::of(command).contains(&patch) {
        return Err("already patched at runtime".into());
    }
    Ok(())
}

/// The edit that adds a patch, and what is shown of it.
pub(super) fn draft(patch: Patch, shown: String) -> Draft {
    Draft {
        edits: vec![Edit::Patch(patch)],
        shown: vec![shown],
        ..Draft::default()
    }
}

#[cfg(test)]
mod tests;
