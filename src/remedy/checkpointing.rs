//! Activation checkpointing by argument: activations are computed again in backward instead of being
//! kept. The same numbers for more time.

use super::draft::Draft;
use super::inputs::RemedyInputs;
use super::patch;
use super::proposal::{Offering, Proposal, or_patched, unknown};
use super::switch::{Switch, shown, turn_on};
use crate::command::CommandLine;
use crate::recognize::family::{self, SwitchReading};
use crate::recognize::recognition::{Recognised, arguments_of};
use crate::recognize::spellings::is_no;

/// The edits that switch it on, or why there are none.
fn recompute(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
) -> Result<Draft, String> {
    if let Some(reason) = &recognised.closed {
        return Err(reason.clone());
    }
    let arguments = arguments_of(command, &recognised.anatomy);
    if let Some(entry) = recognised.known {
        let recompute = &entry.recompute;
        let switch = Switch {
            what: "activation checkpointing",
            default: recompute.default,
            note: recompute.note.as_deref(),
            on: &recompute.on,
            valued: &recompute.valued,
            off: &recompute.off,
            words: match recompute.add.as_slice() {
                [] => Err("how to enable it in this program is not known"),
                words => Ok(words),
            },
            place: recompute.place,
            spaced: recompute.spaced,
            of_launcher: None,
            // (`full` is all of it, of a precision it is the opposite.)
            means_off: is_no,
            in_file: &entry.file.recompute,
            inputs,
        };
        return turn_on(switch, command, recognised, entry, arguments);
    }
    let mut draft = Draft::default();
    match family::recomputation(&arguments) {
        SwitchReading::On(hit) => Err(format!("already on: {}", shown(&hit))),
        SwitchReading::Unclear(hit) => Err(format!(
            "which values {} takes in this program is not known",
            hit.name
        )),
        SwitchReading::Off(off) => {
            match (off.with, off.hit.value) {
                (Some(with), Some(value)) => draft.set(off.hit.name, value, with),
                _ => draft.remove(&arguments, &off.hit, false),
            }
            Ok(draft)
        }
        SwitchReading::Nothing => {
            Err("no activation checkpointing option is known for this program".into())
        }
    }
}

pub(super) fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let (command, inputs) = (offering.command, offering.inputs);
    let by_argument = recompute(command, offering.recognised, inputs);
    let draft = or_patched(inputs, by_argument, |found| {
        patch::recompute(command, inputs, found)
    });
    let covers = patch::held(inputs)
        .unwrap_or_else(|| "how many of the activations it covers depends on the model".into());
    let cost = "same numerics; steps take longer, typically 10–35 %";
    Some(Proposal::of(draft, cost).expecting(unknown(&covers)))
}
