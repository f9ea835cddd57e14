//! Fewer DataLoader workers, if the host's memory ran out. Each of them has its own copy of the
//! dataset's Python objects, and prefetched batches.

use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::diagnosis::{Cause, Help};
use crate::recognize::argument::{Hit, Name};
use crate::recognize::family;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    comes_before: Some((Help::LessHostMemory, RemedyId::Wait)),
    ..RemedySpec::new(
        'l',
        "fewer DataLoader workers",
        RemedyEffect::None,
        NeedFrom::Itself,
        propose,
    )
};

/// The edits for half as many, or why there are none.
fn fewer(offering: &Offering<'_>) -> Result<Draft, String> {
    offering.recognized.check_open()?;
    if offering
        .inputs
        .cause()
        .is_some_and(|cause| cause.spec().prefers != Help::LessHostMemory)
    {
        return Err("GPU memory ran out, not host memory".into());
    }
    let arguments = offering.recognized.arguments();
    let names = offering
        .recognized
        .known
        .map_or(&[][..], |entry| &entry.workers);
    let last = |name: &String| arguments.find(Name::new(name)).pop();
    let mut hits: Vec<Hit<'_>> = names.iter().filter_map(last).collect();
    if hits.is_empty() {
        hits = family::workers(&arguments);
    }
    let Some(hit) = hits.last() else {
        return Err("the command does not set the number of DataLoader workers".into());
    };
    let name = hit.name;
    if let Some(other) = hits.iter().find(|other| other.name != name) {
        return Err(format!("{} and {name} are both set", other.name));
    }
    let value = hit.value.ok_or_else(|| format!("{name} has no value"))?;
    let is_plain = value.text.bytes().all(|b| b.is_ascii_digit()) && !value.text.starts_with("00");
    match value.text.parse::<u32>().ok().filter(|_| is_plain) {
        None => Err(format!("{name} is {}, which isn't a number", value.text)),
        Some(0) => Err(format!(
            "{name} is already 0: data is loaded in the main process"
        )),
        Some(old) => {
            let mut draft = Draft::default();
            draft.set(name, value, &(old / 2).to_string());
            Ok(draft)
        }
    }
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let inputs = offering.inputs;
    let is_of_host = |cause: Cause| cause.spec().prefers == Help::LessHostMemory;
    if inputs.forecast.oom.is_some() && !inputs.cause().is_some_and(is_of_host) {
        return None;
    }
    let draft = fewer(offering);
    let cost = ["same numerics", "data loading may become slower"];
    let expectation = Expectation::unknown("each worker uses host memory");
    Some(Proposal::new(draft, cost).expecting(expectation))
}
