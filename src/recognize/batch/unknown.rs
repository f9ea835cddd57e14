//! A smaller batch for a program that no entry knows: by the families of spelling, or by variables
//! in front of the command, and only where there is one reading.

use super::super::argument::{Arguments, Hit, Name, Value, same, text};
use super::super::draft::Draft;
use super::super::environment::LaunchEnvironment;
use super::super::family;
use super::super::launcher::{ProgramKind, file_name};
use super::super::recognition::Recognised;
use super::super::spellings::BatchArgument;
use super::accumulation::set_accumulation;
use super::deepspeed;
use super::{BatchEdit, Kept, count, parsed, reduced, times};
use crate::command::CommandLine;

pub(super) fn smaller(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    arguments: &Arguments<'_>,
    launch: &LaunchEnvironment<'_>,
    scale: f64,
) -> Result<BatchEdit, String> {
    let found = family::batches(arguments);
    let assigned = assigned_batches(command, recognised);
    if found.is_empty()
        && assigned.is_empty()
        && let Some(smaller) = deepspeed::smaller(arguments, launch, scale)
    {
        return smaller;
    }
    if found.is_empty() {
        return by_environment(command, recognised, assigned, scale);
    }
    if !assigned.is_empty() {
        return Err(format!(
            "{} and {} are both set",
            assigned[0].name, found[0].1.name
        ));
    }
    if let Some((_, part)) = found
        .iter()
        .find(|(level, _)| *level == BatchArgument::Unsure)
    {
        return Err(format!(
            "whether {} is the micro-batch or the whole batch is not known",
            part.name
        ));
    }
    let program = command
        .argv
        .get(recognised.anatomy.program)
        .map_or("", text);
    let at_level = |levels: &[BatchArgument]| -> Result<Option<Hit<'_>>, String> {
        let of: Vec<&Hit<'_>> = found
            .iter()
            .filter(|(level, _)| levels.contains(level))
            .map(|(_, hit)| hit)
            .collect();
        match of.last() {
            None => Ok(None),
            Some(hit) => match of.iter().find(|other| !same(other.name, hit.name)) {
                Some(other) => Err(format!(
                    "{} and {} both look like the batch size",
                    other.name, hit.name
                )),
                None => Ok(Some(**hit)),
            },
        }
    };
    let steps = family::accumulations(arguments);
    if let Some((one, two)) = steps
        .first()
        .zip(steps.iter().find(|s| !same(s.name, steps[0].name)))
    {
        return Err(format!(
            "{} and {} both look like accumulation",
            one.name, two.name
        ));
    }
    let (hit, total) = match at_level(&[BatchArgument::Micro])? {
        Some(hit) => (
            hit,
            found
                .iter()
                .find(|(level, _)| *level != BatchArgument::Micro),
        ),
        None => {
            if let Some((_, total)) = found
                .iter()
                .find(|(level, _)| *level == BatchArgument::Total)
            {
                return Err(format!(
                    "{} is a total; the command does not set the micro-batch size",
                    total.name
                ));
            }
            let Some(hit) = at_level(&[BatchArgument::Plain, BatchArgument::Divided])? else {
                return Err("no batch size in the command".into());
            };
            let is_divided = found
                .iter()
                .any(|(level, _)| *level == BatchArgument::Divided);
            if is_divided && let Some(steps) = steps.last() {
                return Err(format!(
                    "whether {program} divides {} by {} is not known",
                    hit.name, steps.name
                ));
            }
            (hit, None)
        }
    };
    if let Some(option) = ["--deepspeed_config", "--deepspeed-config"]
        .iter()
        .find(|option| arguments.has(Name::new(option)))
    {
        return Err(format!(
            "the file given with {option} may set the batch size too, and they must agree"
        ));
    }
    let old = count(&hit)?;
    let new = reduced(old, scale, hit.name)?;
    let mut draft = Draft::default();
    if let Some(value) = hit.value {
        draft.set(hit.name, value, &new.to_string());
    }
    let kept = match (steps.last(), total) {
        (Some(steps), _) => set_accumulation(&mut draft, arguments, steps, scale)?,
        (None, Some((_, total))) => Kept::Whole(format!(
            "{} stays; most programs then take more micro-batches",
            total.name
        )),
        (None, None) => Kept::None,
    };
    let mut edit = BatchEdit::of(draft, (old, new), kept, None);
    edit.accumulates |= total.is_some();
    Ok(edit)
}

/// A variable in front of the command that says a batch or an accumulation.
struct Assigned<'a> {
    name: &'a str,
    value: &'a str,
    /// The word, or nothing where it was typed before oomph's command began.
    at: Option<usize>,
}

fn assigned<'a>(
    command: &'a CommandLine,
    recognised: &Recognised<'_>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<Assigned<'a>> {
    let typed = command.env.iter().filter_map(|change| {
        Some(Assigned {
            name: change.name.as_str()?,
            value: change.value.as_ref()?.as_str()?,
            at: None,
        })
    });
    let words = recognised.anatomy.assignments.iter().filter_map(|at| {
        let (name, value) = text(&command.argv[*at]).split_once('=')?;
        Some(Assigned {
            name,
            value,
            at: Some(*at),
        })
    });
    typed.chain(words).filter(|a| wanted(a.name)).collect()
}

fn assigned_batches<'a>(
    command: &'a CommandLine,
    recognised: &Recognised<'_>,
) -> Vec<Assigned<'a>> {
    assigned(command, recognised, |name| {
        matches!(
            family::batch_level(name),
            Some(BatchArgument::Micro | BatchArgument::Plain | BatchArgument::Divided)
        )
    })
}

/// Programs that read their settings from the environment (`BATCH_SIZE=32 python train.py`).
fn by_environment(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    batches: Vec<Assigned<'_>>,
    scale: f64,
) -> Result<BatchEdit, String> {
    let [batch] = batches.as_slice() else {
        return Err(match batches.as_slice() {
            [one, two, ..] => format!(
                "{} and {} both look like the batch size",
                one.name, two.name
            ),
            _ => match recognised.anatomy.kind {
                ProgramKind::ShellScript => {
                    let script = command
                        .argv
                        .get(recognised.anatomy.program)
                        .map_or("", text);
                    format!("the batch size is inside {}", file_name(script))
                }
                _ => "no batch size in the command".into(),
            },
        });
    };
    let old = parsed(batch.value, batch.name)?;
    let new = reduced(old, scale, batch.name)?;
    let mut draft = Draft::default();
    assign(&mut draft, batch, new);
    let steps = assigned(command, recognised, family::is_accumulation);
    let kept = match steps.as_slice() {
        [] => Kept::None,
        [steps] => {
            let number = parsed(steps.value, steps.name)?;
            assign(&mut draft, steps, times(number, scale));
            Kept::By(number, times(number, scale))
        }
        [one, two, ..] => return Err(format!("{} and {} are both set", one.name, two.name)),
    };
    Ok(BatchEdit::of(draft, (old, new), kept, None))
}

fn assign(draft: &mut Draft, assigned: &Assigned<'_>, new: u64) {
    match assigned.at {
        Some(at) => draft.set(
            assigned.name,
            Value {
                text: assigned.value,
                at,
                from: assigned.name.len() + 1,
            },
            &new.to_string(),
        ),
        None => draft.set_env(assigned.name, Some(assigned.value), &new.to_string()),
    }
}
