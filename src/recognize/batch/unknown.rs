//! The batch of a program that no entry knows: by the families of spelling, or by variables in front
//! of the command, and only where there is one reading.

use super::steps::numbers;
use super::{BatchSource, Knob, Place, WholeBatch, deepspeed};
use crate::command::CommandLine;
use crate::recognize::argument::{Arguments, Hit, Name, Value, same, text};
use crate::recognize::environment::LaunchEnvironment;
use crate::recognize::launcher::{ProgramKind, file_name};
use crate::recognize::recognition::Recognised;
use crate::recognize::spellings::BatchArgument;
use crate::recognize::{family, file};

pub(super) fn source<'a>(
    command: &'a CommandLine,
    recognised: &Recognised<'_>,
    arguments: &Arguments<'a>,
    launch: &LaunchEnvironment<'a>,
) -> Result<BatchSource<'a>, String> {
    let found = family::batches(arguments);
    let assigned = assigned(command, recognised, is_size);
    match (found.first(), assigned.as_slice()) {
        (None, []) => match file::of_deepspeed(arguments, launch) {
            Some(file) => deepspeed::source(file),
            None => Err(nowhere(command, recognised)),
        },
        (None, [batch]) => by_environment(command, recognised, batch),
        (None, [one, two, ..]) => Err(look_alike(one.name, two.name, "the batch size")),
        (Some((_, hit)), [batch, ..]) => {
            Err(format!("{} and {} are both set", batch.name, hit.name))
        }
        (Some(_), []) => by_arguments(command, recognised, arguments, launch, &found),
    }
}

fn look_alike(one: &str, two: &str, what: &str) -> String {
    format!("{one} and {two} both look like {what}")
}

fn program<'c>(command: &'c CommandLine, recognised: &Recognised<'_>) -> &'c str {
    let word = command.argv.get(recognised.anatomy.program);
    word.map_or("", text)
}

fn nowhere(command: &CommandLine, recognised: &Recognised<'_>) -> String {
    let script = file_name(program(command, recognised));
    match recognised.anatomy.kind {
        ProgramKind::ShellScript => format!("the batch size is inside {script}"),
        _ => "no batch size in the command".into(),
    }
}

/// The last of several hits, if all have one name.
fn only<'a>(hits: &[Hit<'a>], what: &str) -> Result<Option<Hit<'a>>, String> {
    let Some(last) = hits.last() else {
        return Ok(None);
    };
    match hits.iter().find(|other| !same(other.name, last.name)) {
        Some(other) => Err(look_alike(other.name, last.name, what)),
        None => Ok(Some(*last)),
    }
}

fn by_arguments<'a>(
    command: &'a CommandLine,
    recognised: &Recognised<'_>,
    arguments: &Arguments<'a>,
    launch: &LaunchEnvironment<'a>,
    found: &[(BatchArgument, Hit<'a>)],
) -> Result<BatchSource<'a>, String> {
    use BatchArgument::{Divided, Micro, Plain, Total, Unsure};
    let of = |levels: &[BatchArgument]| -> Vec<Hit<'a>> {
        let is_of =
            |(level, hit): &(BatchArgument, Hit<'a>)| levels.contains(level).then_some(*hit);
        found.iter().filter_map(is_of).collect()
    };
    if let Some(part) = of(&[Unsure]).first() {
        return Err(format!(
            "whether {} is the micro-batch or the whole batch is not known",
            part.name
        ));
    }
    let micro = only(&of(&[Micro]), "the batch size")?;
    let steps = only(&family::accumulations(arguments), "accumulation")?;
    let whole = of(&[Plain, Divided, Total]).first().copied();
    let hit = match (micro, of(&[Total]).first(), of(&[Divided]).first(), steps) {
        (Some(micro), ..) => micro,
        (None, Some(total), ..) => {
            return Err(format!(
                "{} is a total; the command does not set the micro-batch size",
                total.name
            ));
        }
        (None, None, Some(divided), Some(steps)) => {
            return Err(format!(
                "whether {} divides {} by {} is not known",
                program(command, recognised),
                divided.name,
                steps.name
            ));
        }
        (None, None, _, _) => {
            only(&of(&[Plain, Divided]), "the batch size")?.ok_or("no batch size in the command")?
        }
    };
    let mut source = BatchSource::of(vec![Knob::of(&hit)?]);
    match (steps, micro.and(whole)) {
        (Some(steps), _) => source.steps = numbers(arguments, &steps)?,
        (None, Some(total)) => {
            source.whole = WholeBatch::Kept(format!(
                "{} stays; most programs then take more micro-batches",
                total.name
            ));
        }
        (None, None) => {}
    }
    let mut options = file::DEEPSPEED.iter();
    match file::of_deepspeed(arguments, launch) {
        Some(file) => deepspeed::agree(&mut source, file)?,
        None => {
            if let Some(option) =
                options.find(|o| o.ends_with("config") && arguments.has(Name::new(o)))
            {
                return Err(format!(
                    "the file given with {option} may set the batch size too, and they must agree"
                ));
            }
        }
    }
    Ok(source)
}

/// A variable in front of the command.
struct Assigned<'a> {
    name: &'a str,
    value: &'a str,
    place: Place<'a>,
}

impl<'a> Assigned<'a> {
    fn knob(&self) -> Result<Knob<'a>, String> {
        Knob::new(self.name, self.value, self.place.clone())
    }
}

fn assigned<'a>(
    command: &'a CommandLine,
    recognised: &Recognised<'_>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<Assigned<'a>> {
    let typed = command.env.iter().filter_map(|change| {
        let value = change.value.as_ref()?.as_str()?;
        Some(Assigned {
            name: change.name.as_str()?,
            value,
            place: Place::Variable(value),
        })
    });
    let words = recognised.anatomy.assignments.iter().filter_map(|at| {
        let (name, value) = text(&command.argv[*at]).split_once('=')?;
        Some(Assigned {
            name,
            value,
            place: Place::Word(Value {
                text: value,
                at: *at,
                from: name.len() + 1,
            }),
        })
    });
    typed.chain(words).filter(|a| wanted(a.name)).collect()
}

fn is_size(name: &str) -> bool {
    use BatchArgument::{Divided, Micro, Plain};
    matches!(family::batch_level(name), Some(Micro | Plain | Divided))
}

/// Programs that read their settings from the environment (`BATCH_SIZE=32 python train.py`).
fn by_environment<'a>(
    command: &'a CommandLine,
    recognised: &Recognised<'_>,
    batch: &Assigned<'a>,
) -> Result<BatchSource<'a>, String> {
    let mut source = BatchSource::of(vec![batch.knob()?]);
    match assigned(command, recognised, family::is_accumulation).as_slice() {
        [] => {}
        [steps] => source.steps = vec![steps.knob()?],
        [one, two, ..] => return Err(format!("{} and {} are both set", one.name, two.name)),
    }
    Ok(source)
}
