//! Activation checkpointing by argument: activations are recomputed in the backward pass instead of
//! being kept. Same numerics, more time.

use super::draft::Draft;
use super::patch;
use super::proposal::{Offering, Proposal, or_patched, unknown};
use super::switch::{Switch, turn_around, turn_on};
use crate::recognize::family;
use crate::recognize::recognition::arguments_of;
use crate::recognize::spellings::is_no;

/// The edits that turn it on, or why there are none.
fn recompute(offering: &Offering<'_>) -> Result<Draft, String> {
    let recognised = offering.recognised;
    recognised.check_open()?;
    let arguments = arguments_of(offering.command, &recognised.anatomy);
    let Some(entry) = recognised.known else {
        let reading = family::recomputation(&arguments);
        return turn_around(reading, &arguments, "activation checkpointing");
    };
    let spec = &entry.recompute;
    let switch = Switch {
        what: "activation checkpointing",
        spec,
        words: match spec.add.as_slice() {
            [] => Err("no way to enable it in this program is known"),
            words => Ok(words),
        },
        of_launcher: None,
        // (`full` means all activations here; as a precision it means off.)
        means_off: is_no,
        in_file: &entry.file.recompute,
    };
    turn_on(switch, offering, entry, arguments)
}

pub(super) fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let (command, inputs) = (offering.command, offering.inputs);
    let draft = or_patched(inputs, recompute(offering), |found| {
        patch::recompute(command, inputs, found)
    });
    let covers = patch::held(inputs)
        .unwrap_or_else(|| "how many of the activations it covers depends on the model".into());
    let cost = "same numerics; steps take longer, typically 10–35 %";
    Some(Proposal::of(draft, cost).expecting(unknown(&covers)))
}
