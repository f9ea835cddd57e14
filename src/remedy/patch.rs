//! Remedies inside the process, for programs without an argument for it. The probe finds what can
//! be patched when memory runs out; only that is offered. A patch is an edit of one variable of the
//! command, so it stays from run to run and is visible with the command.

use super::batch::{BatchEdit, Kept, check_scale, reduced};
use super::draft::Draft;
use super::edit::Edit;
use super::inputs::RemedyInputs;
use crate::command::CommandLine;
use crate::event::{Blocks, Patch, PatchOutcome, Patchable};
use crate::state::RankState;
use crate::units::Bytes;

/// Blocks with a smaller share of the allocated memory aren't worth checkpointing.
const WORTH: f64 = 0.05;

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

/// Activation checkpointing around the program's blocks.
pub(super) fn recompute(
    command: &CommandLine,
    inputs: &RemedyInputs<'_>,
    found: &Patchable,
) -> Result<Draft, String> {
    open(command, inputs, Patch::Recompute)?;
    let usable: Vec<&Blocks> = found.blocks.iter().filter(|b| b.left.is_none()).collect();
    if usable.is_empty() {
        return Err(match found.blocks.first() {
            Some(Blocks {
                class,
                count,
                left: Some(why),
                ..
            }) => format!("its {count} {class} cannot be patched: {why}"),
            _ => "its model has no repeated blocks".into(),
        });
    }
    if let Some((held, all)) = held_of(&usable, inputs)
        && held.0 as f64 <= WORTH * all.0 as f64
    {
        return Err(format!(
            "its repeated blocks used {held} of {all} when memory ran out: too little to gain"
        ));
    }
    let names: Vec<String> = usable
        .iter()
        .map(|blocks| format!("{} {}", blocks.count, blocks.class))
        .collect();
    let shown = format!("patched at runtime: checkpoint {}", names.join(", "));
    Ok(draft(Patch::Recompute, shown))
}

/// What the model's blocks had allocated when memory ran out, for display; `None` if unknown.
pub(super) fn held(inputs: &RemedyInputs<'_>) -> Option<String> {
    let all: Vec<&Blocks> = patchable(inputs)?.blocks.iter().collect();
    let (held, all) = held_of(&all, inputs)?;
    Some(format!(
        "its repeated blocks used {held} of {all} when memory ran out"
    ))
}

fn held_of(blocks: &[&Blocks], inputs: &RemedyInputs<'_>) -> Option<(Bytes, Bytes)> {
    let held = blocks.iter().filter_map(|blocks| blocks.held);
    let held = held.reduce(|sum, held| sum + held)?;
    Some((held, inputs.forecast.oom?.allocated()?))
}

/// bf16 autocast around the program's model.
pub(super) fn amp(
    command: &CommandLine,
    inputs: &RemedyInputs<'_>,
    found: &Patchable,
) -> Result<Draft, String> {
    open(command, inputs, Patch::Amp)?;
    if let Some(own) = &found.precision {
        return Err(format!("it sets its own precision: {own}"));
    }
    if !found.bf16 || inputs.bf16 == Some(false) {
        return Err("the GPU has no bf16".into());
    }
    if found.models.is_empty() {
        return Err("no model in training was found".into());
    }
    let models = found.models.join(", ");
    let shown = format!("patched at runtime: bf16 autocast around {models}");
    Ok(draft(Patch::Amp, shown))
}

/// A smaller batch in the program's DataLoaders.
pub(super) fn batch(
    command: &CommandLine,
    inputs: &RemedyInputs<'_>,
    found: &Patchable,
) -> Result<BatchEdit, String> {
    let Some(batch) = found.batch else {
        return Err(match &found.batch_left {
            Some(why) => why.clone(),
            None => "no DataLoader was found".into(),
        });
    };
    let asked = found.batch_asked.unwrap_or(batch);
    let scale = inputs.batch_scale;
    check_scale(scale)?;
    let smaller = reduced(batch, scale)
        .ok_or_else(|| format!("its DataLoaders already use a batch size of {batch}"))?;
    let patch = Patch::Batch {
        from: asked,
        to: smaller,
    };
    open(command, inputs, patch)?;
    let shown = format!("patched at runtime: DataLoader batch {batch}→{smaller}");
    let mut edit = BatchEdit::of(draft(patch, shown), (batch, smaller), Kept::None, None);
    edit.cost += ", and so do schedules counted in steps";
    Ok(edit)
}

/// Why this patch can't be added: it is in force, or it was declined in this run.
fn open(command: &CommandLine, inputs: &RemedyInputs<'_>, patch: Patch) -> Result<(), String> {
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

fn draft(patch: Patch, shown: String) -> Draft {
    Draft {
        edits: vec![Edit::Patch(patch)],
        shown: vec![shown],
        ..Draft::default()
    }
}

#[cfg(test)]
mod tests;
