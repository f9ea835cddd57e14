//! A smaller batch, the effective batch kept where the program can accumulate gradients.
//!
//! A known program's entry says which argument counts and how accumulation is counted (`known`);
//! for any other the families of spelling are asked (`unknown`), and where two readings are possible
//! nothing is edited.

mod accumulation;
mod deepspeed;
mod demands;
mod edit;
mod in_file;
mod known;
mod unknown;

use super::argument::Arguments;
use super::argument::{Hit, Name};
use super::environment::LaunchEnvironment;
use super::family;
use super::program::{ProgramEntry, Scope};
use super::recognition::{Recognised, arguments_of, opened};
use super::spellings::BatchArgument;
use crate::command::CommandLine;
pub(crate) use edit::{BatchEdit, Kept};

/// The batch of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// What it is.
    pub value: u64,
    /// What it counts for.
    pub scope: Scope,
    /// The argument, as typed.
    pub argument: String,
}

/// The batch that a command says, if one can be read.
pub fn batch_of(command: &CommandLine, recognised: &Recognised<'_>) -> Option<Batch> {
    let arguments = arguments_of(command, &recognised.anatomy);
    let read = |hit: Hit<'_>, scope| {
        Some(Batch {
            value: count(&hit).ok()?,
            scope,
            argument: hit.name.to_string(),
        })
    };
    match recognised.known {
        Some(entry) => {
            let arguments = opened(arguments, entry).ok()?;
            let hit = entry
                .batch
                .names
                .iter()
                .find_map(|n| last(&arguments, n, entry))?;
            read(hit, entry.batch.scope)
        }
        None => {
            let found = family::batches(&arguments);
            let of = |level| {
                found
                    .iter()
                    .rev()
                    .find(|(l, _)| *l == level)
                    .map(|(_, h)| *h)
            };
            if let Some(hit) = of(BatchArgument::Micro)
                .or(of(BatchArgument::Plain))
                .or(of(BatchArgument::Divided))
            {
                return read(hit, Scope::Micro);
            }
            read(of(BatchArgument::Total)?, Scope::Global)
        }
    }
}

/// A batch of `scale` times the one that is, or why there is none.
pub(crate) fn smaller(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    launch: &LaunchEnvironment<'_>,
    scale: f64,
) -> Result<BatchEdit, String> {
    if let Some(reason) = &recognised.closed {
        return Err(reason.clone());
    }
    if !(scale > 0.0 && scale < 1.0) {
        return Err(format!(
            "{scale} isn't a valid scale: it must be between 0 and 1"
        ));
    }
    let arguments = arguments_of(command, &recognised.anatomy);
    match recognised.known {
        Some(entry) => known::smaller(opened(arguments, entry)?, entry, recognised, launch, scale),
        None => unknown::smaller(command, recognised, &arguments, launch, scale),
    }
}

/// The argument that counts: of several of one name the last.
fn last<'a>(arguments: &Arguments<'a>, name: &str, entry: &ProgramEntry) -> Option<Hit<'a>> {
    let wanted = Name::new(name);
    let hits = if entry.abbreviates {
        let others: Vec<Name<'_>> = entry
            .look_alikes
            .iter()
            .chain(&entry.batch.names)
            .chain(&entry.accumulation.names)
            .map(|other| Name::new(other))
            .collect();
        arguments.find_abbreviated(wanted, &others)
    } else {
        arguments.find(wanted)
    };
    hits.last().copied()
}

/// An argument's value as a number of samples.
fn count(hit: &Hit<'_>) -> Result<u64, String> {
    match hit.value {
        Some(value) => parsed(value.text, hit.name),
        None => Err(format!("{} has no value", hit.name)),
    }
}

fn parsed(text: &str, name: &str) -> Result<u64, String> {
    // Signs, spaces and leading zeros would not come back as they went.
    let is_plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    match text.parse::<u64>() {
        Ok(number) if is_plain => Ok(number),
        _ if matches!(text, "-1" | "auto")
            || text.parse::<f64>().is_ok_and(|f| f > 0.0 && f < 1.0) =>
        {
            Err(format!(
                "{name} is {text}: the program finds a batch size that fits by itself"
            ))
        }
        _ if text.contains(',') => Err(format!(
            "{name} is a list, {text}: several runs or several batch sizes"
        )),
        _ => Err(format!("{name} is {text}, which isn't a number of samples")),
    }
}

/// `scale` times the value, at least 1.
fn reduced(old: u64, scale: f64, name: &str) -> Result<u64, String> {
    let new = ((old as f64 * scale).floor() as u64).max(1);
    if old == 1 {
        Err(format!("{} is already 1", name.trim_start_matches('+')))
    } else if new >= old {
        Err(format!("{old} × {scale} isn't smaller"))
    } else {
        Ok(new)
    }
}

/// How many accumulation steps make up for a batch of `scale` times.
fn times(steps: u64, scale: f64) -> u64 {
    ((steps as f64 / scale).round() as u64).max(steps)
}
