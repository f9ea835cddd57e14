//! Another GPU of this machine with enough memory: `CUDA_VISIBLE_DEVICES` rewritten in the user's
//! form, by index or by UUID.
//!
//! CUDA orders devices by speed unless `CUDA_DEVICE_ORDER` says otherwise, so an index is written
//! only if what the program saw shows that both orders are the same.

use super::inputs::RemedyInputs;
use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::calibration::{EXPANDABLE, NON_TORCH_USUAL};
use crate::command::CommandLine;
use crate::diagnosis::{Cause, Help};
use crate::event::Hello;
use crate::recognize::Recognized;
use crate::recognize::argument::{Arguments, Name};
use crate::recognize::layout::{EnvPropagation, Variable};
use crate::recognize::spellings::spellings;
use crate::state::{DeviceState, RankState};
use crate::units::{Bytes, Uuid};

pub(super) const REMEDY: RemedySpec = RemedySpec {
    comes_before: Some((Help::AnotherDevice, RemedyId::Wait)),
    verify: Some(verify),
    ..RemedySpec::new(
        'g',
        "another GPU",
        RemedyEffect::MoreFree,
        NeedFrom::Itself,
        propose,
    )
};

pub(super) const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The edits that move the run to another device, and the memory free there; or why there are none.
fn another(
    command: &CommandLine,
    recognized: &Recognized<'_>,
    inputs: &RemedyInputs<'_>,
) -> Result<(Draft, Bytes), String> {
    let (Some(state), Some(oom)) = (inputs.forecast.state, inputs.forecast.oom) else {
        return Err(match inputs.findings {
            [] => "known only once memory has run out".into(),
            [_, ..] => "a log does not say which other GPUs there are".into(),
        });
    };
    let failed = oom
        .device
        .as_ref()
        .and_then(|uuid| state.device(uuid))
        .ok_or("it is unknown which GPU ran out of memory")?;
    if failed.node.is_some() {
        return Err("it ran out on another node, where the launcher chooses the devices".into());
    }
    if oom.limit().is_some() {
        // A cap is a share of any device, or set by the program.
        return Err("the memory limit it hit applies on another GPU too".into());
    }
    let wanted = oom
        .allocated()
        .zip(oom.requested())
        .map(|(allocated, requested)| (allocated + requested).scale(EXPANDABLE.2) + NON_TORCH_USUAL)
        .ok_or("the memory that the run needs is unknown")?;
    let ranks = state.run().map_or(&[][..], |run| &run.ranks);
    let used: Vec<&Uuid> = ranks
        .iter()
        .flat_map(|rank| &rank.usages)
        .map(|h| &h.device)
        .collect();
    let (other, free) = state
        .devices
        .iter()
        .filter(|device| device.uuid != failed.uuid && !device.uuid.is_simulated())
        .filter(|device| device.node.is_none() && !used.contains(&&device.uuid))
        .filter_map(|device| Some((device, device.reading.as_ref()?.1.free?)))
        .filter(|(_, free)| *free >= wanted)
        .max_by_key(|(_, free)| *free)
        .ok_or_else(|| format!("no other GPU here has the {wanted} it needs free"))?;
    refuse_choosers(command, recognized)?;
    let rank = ranks
        .iter()
        .find(|rank| rank.device.as_ref() == Some(&failed.uuid))
        .ok_or("it is unknown which of its visible GPUs the program uses")?;
    if let Some(name) = several(ranks, &failed.uuid) {
        return Err(name);
    }
    let mut draft = Draft::default();
    let inherited = inputs.launch.inherited_value(VISIBLE);
    let set = Variable::find(command, &recognized.layout, VISIBLE, inherited);
    let new = rewritten(set.map(|set| set.text()), rank, failed, other)?;
    draft.set_variable(VISIBLE, set, &new);
    Ok((draft, free))
}

fn refuse_choosers(command: &CommandLine, recognized: &Recognized<'_>) -> Result<(), String> {
    let choosers = &spellings().device_choosers;
    let is_cut = |way| !matches!(way, EnvPropagation::Inherited);
    if let Some(launcher) = recognized
        .launchers()
        .iter()
        .find(|launcher| is_cut(launcher.environment))
    {
        return Err(format!("{} chooses the devices", launcher.name));
    }
    for launcher in recognized.launchers() {
        let words = &command.argv[launcher.words.clone()];
        let options = Arguments::of_words(words, launcher.words.start);
        if let Some(option) = choosers.iter().find(|o| options.has(Name::new(o))) {
            return Err(format!("{}'s {option} chooses the devices", launcher.name));
        }
    }
    let arguments = recognized.arguments();
    let of_entry = recognized.known.map_or(&[][..], |entry| &entry.devices);
    let chooser = of_entry
        .iter()
        .chain(choosers)
        .find(|option| arguments.has(Name::new(option)));
    match chooser {
        Some(option) => Err(format!("the program's {option} chooses the device")),
        None => Ok(()),
    }
}

/// Why the device of one process can't be changed alone, if there are several processes or devices.
fn several(ranks: &[RankState], failed: &Uuid) -> Option<String> {
    let on_it = ranks
        .iter()
        .filter(|rank| rank.usage_on(failed).is_some() || rank.device.as_ref() == Some(failed))
        .count();
    if on_it > 1 {
        return Some(format!("{on_it} of its processes use that GPU"));
    }
    let spread = ranks
        .iter()
        .any(|rank| rank.device.as_ref() == Some(failed) && rank.usages.len() > 1);
    spread.then(|| "the process uses several GPUs at once".into())
}

/// The list with the device that ran out of memory replaced.
fn rewritten(
    list: Option<&str>,
    rank: &RankState,
    failed: &DeviceState,
    other: &DeviceState,
) -> Result<String, String> {
    let seen = &rank.hello.devices;
    let place = seen
        .iter()
        .position(|device| device.uuid.as_ref() == Some(&failed.uuid))
        .ok_or("the GPUs that the program sees cannot be identified here")?;
    let Some(list) = list.map(str::trim).filter(|list| !list.is_empty()) else {
        // All devices are visible. A UUID works in any order; a program that uses another device
        // than the first finds the new one at the same index.
        if place == 0 {
            return Ok(name_of(&other.uuid));
        }
        let at = seen
            .iter()
            .position(|device| device.uuid.as_ref() == Some(&other.uuid));
        let mut names: Vec<String> = seen
            .iter()
            .map(|device| device.uuid.as_ref().map(name_of))
            .collect::<Option<_>>()
            .ok_or("the GPUs that the program sees cannot be identified here")?;
        match at {
            Some(at) => names.swap(place, at),
            None => names[place] = name_of(&other.uuid),
        }
        return Ok(names.join(","));
    };
    let mut tokens: Vec<String> = list.split(',').map(|t| t.trim().to_string()).collect();
    if tokens.len() != seen.len() {
        return Err(format!(
            "{VISIBLE}={list} does not match the GPUs that the program saw"
        ));
    }
    let is_index = |token: &str| token.bytes().all(|b| b.is_ascii_digit()) && !token.is_empty();
    let new = if is_index(&tokens[place]) {
        if tokens[place] != failed.index.to_string() {
            return Err(format!(
                "{VISIBLE}={list} is not in the driver's order; set CUDA_DEVICE_ORDER=PCI_BUS_ID to make them agree"
            ));
        }
        other.index.to_string()
    } else {
        name_of(&other.uuid)
    };
    if let Some(at) = tokens.iter().position(|token| *token == new) {
        tokens.swap(place, at);
    } else {
        tokens[place] = new;
    }
    Ok(tokens.join(","))
}

/// A device in the syntax of `CUDA_VISIBLE_DEVICES`.
fn name_of(uuid: &Uuid) -> String {
    if uuid.as_str().starts_with("MIG-") {
        return uuid.to_string();
    }
    format!("GPU-{uuid}")
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let inputs = offering.inputs;
    let found = another(offering.command, offering.recognized, inputs);
    let is_offered = found.is_ok() && offering.recognized.part_of_a_job.is_none();
    let is_asked_for = inputs.forecast.oom.is_none()
        || matches!(
            inputs.cause(),
            Some(Cause::ForeignProcess | Cause::LeftoverProcess)
        );
    if !is_offered && !is_asked_for {
        return None;
    }
    let expectation = match &found {
        Ok((_, free)) => offering
            .predictor
            .on(*free)
            .unwrap_or_else(|| Expectation::unknown(format!("{free} free there"))),
        Err(_) => Expectation::unknown("no other device is known"),
    };
    let draft = found.map(|(draft, _)| draft);
    Some(Proposal::new(draft, "same numerics").expecting(expectation))
}

/// Reports a run that is still on the device that ran out of memory.
fn verify(hello: &Hello, failed: Option<&Uuid>) -> Option<String> {
    let [only] = hello.devices.as_slice() else {
        return None;
    };
    (only.uuid.is_some() && only.uuid.as_ref() == failed)
        .then(|| "the run is on the same GPU as before: the program selects it itself".into())
}
