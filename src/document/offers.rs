//! The remedies of a command outside of the dialog: those worth a try with the command to copy, of the others that there are some.

use super::{DocumentBlock, Relaunch};
use crate::command::CommandLine;
use crate::diagnosis::LittleUse;
use crate::event::to_paste;
use crate::remedy::{Availability, FitVerdict, Plan, Remedy};

/// A remedy and the command it makes; `facts` without those that are empty.
pub fn relaunch(command: &CommandLine, remedy: &Remedy, facts: &[&str]) -> DocumentBlock {
    let facts = facts.iter().filter(|fact| !fact.is_empty());
    DocumentBlock::Relaunch(Relaunch {
        what: remedy.title.clone(),
        facts: facts.map(|fact| fact.to_string()).collect(),
        command: to_paste(&Plan::new(command, &[remedy]).command),
    })
}

/// The remedies that can be applied, with their commands, then those that cannot, with why.
pub fn offers<'r>(
    command: &CommandLine,
    remedies: &'r [Remedy],
    facts: impl Fn(&'r Remedy) -> Vec<&'r str>,
) -> Vec<DocumentBlock> {
    let offered = remedies.iter().filter(|remedy| remedy.is_offered());
    let offered = offered.map(|remedy| relaunch(command, remedy, &facts(remedy)));
    offered.chain(refused(remedies)).collect()
}

/// The remedies that cannot be applied, with why.
pub fn refused<'r>(
    remedies: impl IntoIterator<Item = &'r Remedy>,
) -> impl Iterator<Item = DocumentBlock> {
    remedies.into_iter().filter_map(|remedy| {
        let Availability::NotOffered(reason) = &remedy.availability else {
            return None;
        };
        let words = format!("{}: not offered: {reason}", remedy.title);
        Some(DocumentBlock::detail(words))
    })
}

/// Whether it can be applied and leaves the cause in place: no command to copy.
pub fn is_of_little_use(remedy: &Remedy) -> bool {
    use_of(remedy).is_some()
}

fn use_of(remedy: &Remedy) -> Option<LittleUse> {
    match remedy.expectation.verdict() {
        FitVerdict::OfLittleUse(what) => remedy.is_offered().then_some(what),
        FitVerdict::Fits
        | FitVerdict::LikelyFits
        | FitVerdict::WontFit
        | FitVerdict::LikelyWontFit
        | FitVerdict::MayNotFit
        | FitVerdict::Unknown => None,
    }
}

/// "4 remedies only delay the OOM: smaller batch, …"; `shown_by` is the command that shows what they change.
pub fn of_little_use(remedies: &[Remedy], shown_by: Option<&str>) -> Option<String> {
    let of = |what: LittleUse| {
        let those = remedies
            .iter()
            .filter(|remedy| use_of(remedy) == Some(what));
        let names: Vec<&str> = those.map(|remedy| remedy.title.as_str()).collect();
        let (one, more) = match what {
            LittleUse::OnlyDelays => ("only delays the OOM", "only delay the OOM"),
            LittleUse::UnlikelyToHelp => ("is unlikely to help", "are unlikely to help"),
        };
        match names.as_slice() {
            [] => None,
            [name] => Some(format!("{name} {one}")),
            [before @ .., last] => Some(format!("{} and {last} {more}", before.join(", "))),
        }
    };
    let said: Vec<String> = [LittleUse::OnlyDelays, LittleUse::UnlikelyToHelp]
        .into_iter()
        .filter_map(of)
        .collect();
    if said.is_empty() {
        return None;
    }
    let shown = shown_by.map_or(String::new(), |command| format!(" ({command} shows them)"));
    Some(format!("{}{shown}", said.join("; ")))
}
