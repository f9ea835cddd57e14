//! The size of one call beside a total: an option that limits what a device takes at once and has no number of its own
//! (`--batch-gpu` beside `--batch 512`). Set, the total and so the training stay, and the program takes more micro-batches.

use super::batch::{BatchSource, Knob, WholeBatch};
use super::family;
use crate::event::ParsedNumber;

/// Whether an option is the size of a device's call by its name, and has no number.
pub(super) fn is_unset(number: &ParsedNumber) -> bool {
    let names = number.options.iter().chain([&number.name]);
    let mut names = names.map(|name| name.trim_end_matches('='));
    number.value == 0
        && !number.typed
        && number.reads_command
        && !number.options.is_empty()
        && names.any(family::is_batch_of_device)
}

/// A total that a program divides among its devices, and where it is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct DividedTotal<'n> {
    pub name: &'n str,
    pub value: u64,
    pub ranks: u64,
}

/// The option, which `knob` writes, as what sets the batch, each device's share of the total being what it takes now. `None`
/// where the total has no equal shares.
pub(super) fn source<'a>(
    option: &'a ParsedNumber,
    total: DividedTotal<'_>,
    mut knob: Knob<'a>,
) -> Option<BatchSource<'a>> {
    let ranks = total.ranks.max(1);
    let share = total.value / ranks;
    if share < 2 || !total.value.is_multiple_of(ranks) {
        return None;
    }
    // The command may have it by now.
    if knob.value == 0 {
        knob.value = share;
    }
    let mut source = BatchSource::new(vec![knob]);
    source.bounds.choices = &option.choices;
    source.bounds.divisor_of = Some(share);
    source.whole = WholeBatch::Kept(format!("{} {} stays", total.name, total.value));
    Some(source)
}
