//! A smaller batch in the program's DataLoaders, at runtime.

use super::{BatchEdit, Kept, check_scale, reduced};
use crate::command::CommandLine;
use crate::event::{Patch, Patchable};
use crate::remedy::inputs::RemedyInputs;
use crate::remedy::patch;

/// The edit, or why the loaders can't be patched.
pub(super) fn patched(
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
    let wanted = Patch::Batch {
        from: asked,
        to: smaller,
    };
    patch::open(command, inputs, wanted)?;
    let shown = format!("patched at runtime: DataLoader batch {batch}→{smaller}");
    let mut edit = BatchEdit::of(
        patch::draft(wanted, shown),
        (batch, smaller),
        Kept::None,
        None,
    );
    edit.cost.extend(", and so do schedules counted in steps");
    Ok(edit)
}
