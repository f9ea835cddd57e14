//! Fewer processes that load data: where the host's memory ran out, not the device's. Each of them
//! holds its own copy of what the dataset keeps in Python, and the batches that it has made ahead.

use super::draft::Draft;
use super::inputs::RemedyInputs;
use super::proposal::{Offering, Proposal, unknown};
use crate::command::CommandLine;
use crate::diagnosis::Cause;
use crate::recognize::argument::{Hit, Name};
use crate::recognize::family;
use crate::recognize::recognition::{Recognised, arguments_of};

/// The edits for half as many, or why there are none.
fn fewer(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
) -> Result<Draft, String> {
    recognised.check_open()?;
    if inputs
        .findings
        .first()
        .is_some_and(|finding| finding.cause != Cause::HostMemory)
    {
        return Err("GPU memory ran out, not host memory".into());
    }
    let arguments = arguments_of(command, &recognised.anatomy);
    let hits: Vec<Hit<'_>> = match recognised.known {
        Some(entry) => {
            let named = entry.workers.iter();
            let of_entry: Vec<Hit<'_>> = named
                .filter_map(|name| arguments.find(Name::new(name)).last().copied())
                .collect();
            if of_entry.is_empty() {
                family::workers(&arguments)
            } else {
                of_entry
            }
        }
        None => family::workers(&arguments),
    };
    let Some(hit) = hits.last() else {
        return Err("the command does not set the number of DataLoader workers".into());
    };
    if let Some(other) = hits.iter().find(|h| h.name != hit.name) {
        return Err(format!("{} and {} are both set", other.name, hit.name));
    }
    let value = hit
        .value
        .ok_or_else(|| format!("{} has no value", hit.name))?;
    let is_plain = value.text.bytes().all(|b| b.is_ascii_digit()) && !value.text.starts_with("00");
    let old: u32 = match value.text.parse() {
        Ok(old) if is_plain => old,
        _ => {
            return Err(format!(
                "{} is {}, which isn't a number",
                hit.name, value.text
            ));
        }
    };
    if old == 0 {
        return Err(format!(
            "{} is already 0: data is loaded in the main process",
            hit.name
        ));
    }
    let mut draft = Draft::default();
    draft.set(hit.name, value, &(old / 2).to_string());
    Ok(draft)
}

pub(super) fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let inputs = offering.inputs;
    if inputs.forecast.oom.is_some() && offering.cause != Some(Cause::HostMemory) {
        return None;
    }
    let draft = fewer(offering.command, offering.recognised, inputs);
    let cost = "same numerics; data loading may become slower";
    let expectation = unknown("each worker uses host memory");
    Some(Proposal::of(draft, cost).expecting(expectation))
}
