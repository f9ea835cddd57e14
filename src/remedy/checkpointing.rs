//! Activation checkpointing, by argument or around the model's repeated blocks at runtime: activations
//! are recomputed in the backward pass instead of being kept. Same numerics, more time.

use super::inputs::RemedyInputs;
use super::plan::{Alteration, Expectation};
use super::proposal::{Draft, Offering, Proposal};
use super::switch::{Switch, turn_around, turn_on};
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::event::{Blocks, Patch, Patchable, Rehearsal};
use crate::recognize::family;
use crate::recognize::spellings::is_no;
use crate::units::Bytes;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    alters: Some(Alteration::Recomputation),
    ..RemedySpec::new(
        'r',
        "activation checkpointing",
        RemedyEffect::LessAllocated,
        NeedFrom::ForecastIfKnown(|_, target| target.treatment.recomputed = true),
        propose,
    )
};

/// Blocks with a smaller share of the allocated memory aren't worth checkpointing.
const WORTH: f64 = 0.05;

/// The edits that turn it on, or why there are none.
fn recompute(offering: &Offering<'_>) -> Result<Draft, String> {
    let recognized = offering.recognized;
    recognized.check_open()?;
    let arguments = recognized.arguments();
    let Some(entry) = recognized.known else {
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

/// Activation checkpointing around the program's blocks.
fn patched(offering: &Offering<'_>, found: &Patchable) -> Result<Draft, String> {
    offering.check_patch(Patch::Recompute)?;
    if rehearsed(offering).is_some_and(|said| said.changes_outside) {
        return Err(
            "its forward pass changes what is no part of the model, and would again in backward"
                .into(),
        );
    }
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
    if let Some((held, all)) = held_of(&usable, offering.inputs)
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
    let shown = format!("checkpoint {}", names.join(", "));
    Ok(Draft::patching(Patch::Recompute, &shown))
}

/// The rehearsal of the step that ran out.
fn rehearsed<'a>(offering: &Offering<'a>) -> Option<&'a Rehearsal> {
    let oom = offering.inputs.forecast.oom?;
    let run = offering.inputs.forecast.state?.run()?;
    run.rank_of(oom)?.rehearsal.as_ref()
}

/// What the model's blocks had allocated when memory ran out, for display; `None` if unknown.
fn held(inputs: &RemedyInputs<'_>) -> Option<String> {
    let all: Vec<&Blocks> = inputs.patchable()?.blocks.iter().collect();
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

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let draft = offering.or_patched(recompute(offering), |found| patched(offering, found));
    let covers = held(offering.inputs)
        .unwrap_or_else(|| "how many of the activations it covers depends on the model".into());
    let cost = ["same numerics", "steps take longer, typically 10–35 %"];
    Some(Proposal::new(draft, cost).expecting(Expectation::unknown(covers)))
}
