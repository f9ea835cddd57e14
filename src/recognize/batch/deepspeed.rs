//! A smaller batch in the file of DeepSpeed's engine, which splits batches itself: the total is the
//! micro-batch times the accumulation times the processes, and of the three any two may be said.

use super::super::argument::Arguments;
use super::super::draft::Draft;
use super::super::environment::{ConfigFile, LaunchEnvironment};
use super::super::file::{self, FoundValue, Lookup};
use super::{BatchEdit, Kept, parsed, reduced, times};

const MICRO: &str = "train_micro_batch_size_per_gpu";
const STEPS: &str = "gradient_accumulation_steps";
const TOTAL: &str = "train_batch_size";

/// What the file says of each; `auto` is what the program around it says.
struct Said {
    micro: Option<(FoundValue, u64)>,
    steps: Option<(FoundValue, u64)>,
    total: Option<(FoundValue, u64)>,
}

impl Said {
    fn by(file: &ConfigFile) -> Result<Said, String> {
        let number = |name: &str| match file.scalar(name) {
            Lookup::Found(value) if value.text == "auto" => Ok(None),
            Lookup::Found(value) => {
                let number = parsed(&value.text, name)?;
                Ok(Some((value, number)))
            }
            Lookup::Absent => Ok(None),
            Lookup::Unclear(why) => Err(why),
        };
        Ok(Said {
            micro: number(MICRO)?,
            steps: number(STEPS)?,
            total: number(TOTAL)?,
        })
    }
}

/// A smaller batch for a command that says none itself; nothing where no file was read.
pub(super) fn smaller(
    arguments: &Arguments<'_>,
    launch: &LaunchEnvironment<'_>,
    scale: f64,
) -> Option<Result<BatchEdit, String>> {
    let file = file::of_deepspeed(arguments, launch)?;
    Some(in_copy(file, launch, scale))
}

fn in_copy(
    file: &ConfigFile,
    launch: &LaunchEnvironment<'_>,
    scale: f64,
) -> Result<BatchEdit, String> {
    let said = Said::by(file)?;
    let name = file.shown();
    let Some(copies) = launch.copies else {
        return Err(format!(
            "its batch size is in {name}: a relaunch by key edits a copy of it"
        ));
    };
    let mut draft = Draft::default();
    let mut set = |value: &FoundValue, new: u64| {
        draft.set_in_copy(file, value, &new.to_string(), copies);
    };
    let (from, to, kept) = match (&said.micro, &said.steps, &said.total) {
        (Some((value, old)), steps, total) => {
            let new = reduced(*old, scale, MICRO)?;
            let exact = old.is_multiple_of(new);
            if total.is_some() && !exact {
                return Err(format!(
                    "{TOTAL} in {name} would no longer be {MICRO} × {STEPS}"
                ));
            }
            set(value, new);
            let kept = match (steps, total) {
                (Some((value, steps)), _) => {
                    let more = times(*steps, scale);
                    if total.is_some() && steps * old != more * new {
                        return Err(format!(
                            "{TOTAL} in {name} cannot be split into micro-batches of {new}"
                        ));
                    }
                    set(value, more);
                    Kept::By(*steps, more)
                }
                // The engine works it out from the total.
                (None, Some(_)) => Kept::By(1, old / new),
                (None, None) => Kept::None,
            };
            (*old, new, kept)
        }
        (None, Some((value, steps)), Some((_, total))) => {
            let more = times(*steps, scale);
            if !total.is_multiple_of(more) {
                return Err(format!(
                    "{TOTAL} {total} in {name} cannot be split into {more} micro-batches"
                ));
            }
            set(value, more);
            (
                *total / steps.max(&1),
                *total / more,
                Kept::By(*steps, more),
            )
        }
        (None, _, _) => {
            return Err(format!("{name} does not set the micro-batch size"));
        }
    };
    let kept = match &said.total {
        Some((_, total)) => Kept::Whole(format!("effective batch {total}, in more micro-batches")),
        None => kept,
    };
    Ok(BatchEdit::of(draft, (from, to), kept, None))
}

/// Makes DeepSpeed's file agree with a command whose batch goes from `old` to `new`: frameworks refuse
/// figures that differ. Nothing is to be done where no file was read or it leaves them open.
pub(super) fn agree(
    draft: &mut Draft,
    arguments: &Arguments<'_>,
    launch: &LaunchEnvironment<'_>,
    (old, new): (u64, u64),
    kept: &Kept,
) -> Result<(), String> {
    let Some(file) = file::of_deepspeed(arguments, launch) else {
        return Ok(());
    };
    let said = Said::by(file)?;
    let name = file.shown();
    let (before, after) = match kept {
        Kept::By(before, after) => (*before, *after),
        Kept::None | Kept::Whole(_) => (1, 1),
    };
    if said.total.is_some() && old * before != new * after {
        return Err(format!(
            "{TOTAL} in {name} is fixed, and the micro-batches would not add up to it"
        ));
    }
    for (value, is, was, becomes) in [
        (&said.micro, MICRO, old, new),
        (&said.steps, STEPS, before, after),
    ] {
        let Some((value, number)) = value else {
            continue;
        };
        if *number != was {
            return Err(format!(
                "{is} is {number} in {name}, but {was} in the command"
            ));
        }
        if was == becomes {
            continue;
        }
        let copies = launch.copies.ok_or_else(|| {
            format!("{is} is in {name} too: a relaunch by key edits a copy of it")
        })?;
        draft.set_in_copy(file, value, &becomes.to_string(), copies);
    }
    Ok(())
}
