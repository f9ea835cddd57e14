//! Remedies that use an `oomph.toml` name that file and never choose another program: the file may
//! have come with a repository.

use super::edit::Edit;
use super::plan::{Availability, Plan, Remedy};
use crate::command::CommandLine;
use crate::recognize::{CommandLayout, Recognized};

/// Names the user's file whose entry a remedy uses. A remedy that would start another program is
/// not offered.
pub(super) fn attribute(remedy: &mut Remedy, recognized: &Recognized<'_>) {
    let Some(source) = recognized.known.and_then(|entry| entry.source.as_deref()) else {
        return;
    };
    let by_entry = |edit: &Edit| {
        matches!(
            edit,
            Edit::Splice { .. } | Edit::Insert { .. } | Edit::Remove { .. }
        )
    };
    if !remedy.edits.iter().any(by_entry) {
        return;
    }
    let edited = Plan::new(recognized.command, &[remedy]).command;
    let runs = |command: &CommandLine, layout: &CommandLayout| {
        let program = command.argv.get(layout.program).cloned();
        (command.argv.first().cloned(), program)
    };
    if runs(recognized.command, &recognized.layout) != runs(&edited, &CommandLayout::new(&edited)) {
        remedy.availability =
            Availability::NotOffered(format!("{source} would start another program").into());
        return;
    }
    remedy.cost.push("; ", format!("arguments by {source}"));
}
