//! Activation checkpointing that the program has switched on and that saves nothing, by what its blocks keep all the same: a
//! word beside capacity, since without it the step may fit.

use super::Finding;
use super::finding::because;
use super::oom_context::OomContext;
use crate::units::Bytes;

/// The share of allocated memory from which what the blocks keep is worth a word.
const NOTABLE: f64 = 0.1;

/// The finding with that said, where it is so.
pub(super) fn beside(case: &OomContext, finding: Finding) -> Finding {
    let Some((words, why)) = said(case) else {
        return finding;
    };
    let mut finding = finding.says(words);
    let mends = because("activation checkpointing that takes effect", &why);
    finding.advice.insert(0, mends);
    finding
}

fn said(case: &OomContext) -> Option<(String, String)> {
    let found = case.rank?.patchable.as_ref()?;
    let idle = found.blocks.iter().filter(|blocks| blocks.idle.is_some());
    let most = idle.max_by_key(|blocks| blocks.held)?;
    let (held, why) = (most.held?, most.idle.as_deref()?);
    let allocated = case.allocated.unwrap_or(Bytes::ZERO);
    (held > allocated.scale(NOTABLE)).then(|| {
        let (count, class) = (most.count, &most.class);
        let words = format!(
            "Activation checkpointing is switched on and saves nothing: the {count} {class} keep {held}; {why}."
        );
        (words, why.to_string())
    })
}
