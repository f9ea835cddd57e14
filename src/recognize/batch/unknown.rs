//! The batch of a program without an entry, by common spellings: among its arguments, in variables
//! in front of the command or in its config file, and only if there is exactly one reading.

use super::steps::numbers;
use super::{BatchSource, Knob, Place, WholeBatch, deepspeed};
use crate::recognize::argument::{Arguments, Hit, Name, Value, same, text};
use crate::recognize::environment::ConfigFile;
use crate::recognize::file::FoundValue;
use crate::recognize::launcher::{ProgramKind, file_name};
use crate::recognize::recognized::Recognized;
use crate::recognize::spellings::{BatchArgument, is_one, spellings};
use crate::recognize::{family, file};

pub(super) fn source<'a>(
    recognized: &Recognized<'a>,
    arguments: &Arguments<'a>,
) -> Result<BatchSource<'a>, String> {
    let words = &recognized.command.argv;
    let script = file_name(words.get(recognized.layout.program).map_or("", text));
    let typed = Spelled::among(arguments.all().map(NamedValue::Argument));
    let mut assigned = Spelled::among(variables(recognized));
    assigned
        .sizes
        .retain(|(level, _)| *level != BatchArgument::Total);
    let deepspeed = file::of_deepspeed(arguments, &recognized.launch);
    if let (Some((_, typed)), Some((_, assigned))) = (typed.sizes.first(), assigned.sizes.first()) {
        let (one, two) = (assigned.name(), typed.name());
        return Err(format!("{one} and {two} are both set"));
    }
    if let Some(spelled) = [&typed, &assigned]
        .into_iter()
        .find(|s| !s.sizes.is_empty())
    {
        let mut source = spelled.source(script, &spelled.steps, arguments)?;
        match deepspeed {
            Some(file) => deepspeed::agree(&mut source, file)?,
            None => refuse_unread(arguments)?,
        }
        return Ok(source);
    }
    if let Some(file) = deepspeed {
        return deepspeed::source(file);
    }
    if let Some(file) = file::of_unknown(arguments, &recognized.launch) {
        let spelled = Spelled::among(settings(file)?.into_iter());
        let steps = match spelled.steps.is_empty() {
            true => &typed.steps,
            false => &spelled.steps,
        };
        if !spelled.sizes.is_empty() {
            let mut source = spelled.source(script, steps, arguments)?;
            source.file = Some(file);
            return Ok(source);
        }
    }
    Err(match recognized.layout.kind {
        ProgramKind::ShellScript => format!("the batch size is inside {script}"),
        _ => "no batch size in the command".into(),
    })
}

/// DeepSpeed's config file must agree with the command, so it must have been read.
fn refuse_unread(arguments: &Arguments<'_>) -> Result<(), String> {
    let mut options = file::DEEPSPEED
        .iter()
        .filter(|option| option.ends_with("config"));
    match options.find(|option| arguments.has(Name::new(option))) {
        Some(option) => Err(format!(
            "the file given with {option} may set the batch size too, and they must agree"
        )),
        None => Ok(()),
    }
}

/// Something with a name and a value.
#[derive(Clone)]
enum NamedValue<'a> {
    Argument(Hit<'a>),
    Variable {
        name: &'a str,
        value: &'a str,
        place: Place<'a>,
    },
    Setting(&'a ConfigFile, FoundValue),
}

impl<'a> NamedValue<'a> {
    fn name(&self) -> &str {
        match self {
            NamedValue::Argument(hit) => hit.name,
            NamedValue::Variable { name, .. } => name,
            NamedValue::Setting(_, found) => &found.name,
        }
    }

    fn knob(&self) -> Result<Knob<'a>, String> {
        match self {
            NamedValue::Argument(hit) => Knob::of(hit),
            NamedValue::Variable { name, value, place } => Knob::new(name, value, place.clone()),
            NamedValue::Setting(file, found) => {
                Knob::new(&found.name, &found.text, Place::File(file, found.clone()))
            }
        }
    }
}

/// All that is spelled like a batch or an accumulation, from one source.
struct Spelled<'a> {
    sizes: Vec<(BatchArgument, NamedValue<'a>)>,
    steps: Vec<NamedValue<'a>>,
}

impl<'a> Spelled<'a> {
    fn among(all: impl Iterator<Item = NamedValue<'a>>) -> Spelled<'a> {
        let mut spelled = Spelled {
            sizes: Vec::new(),
            steps: Vec::new(),
        };
        for said in all {
            match family::batch_level(said.name()) {
                Some(level) => spelled.sizes.push((level, said)),
                None if family::is_accumulation(said.name()) => spelled.steps.push(said),
                None => {}
            }
        }
        spelled
    }

    fn source(
        &self,
        script: &str,
        steps: &[NamedValue<'a>],
        arguments: &Arguments<'a>,
    ) -> Result<BatchSource<'a>, String> {
        use BatchArgument::{Divided, Micro, Plain, Total, Unsure};
        let of = |levels: &[BatchArgument]| -> Vec<NamedValue<'a>> {
            let sizes = self
                .sizes
                .iter()
                .filter(|(level, _)| levels.contains(level));
            sizes.map(|(_, said)| said.clone()).collect()
        };
        if let Some(part) = of(&[Unsure]).first() {
            return Err(format!(
                "{} may be the micro-batch or the total batch",
                part.name()
            ));
        }
        let steps = only(steps, "accumulation")?;
        let (micro, total) = (of(&[Micro]), of(&[Total]).pop());
        // Beside a total, a plain batch is the per-device part.
        let plain = match (micro.is_empty(), &total) {
            (true, None) => of(&[Plain, Divided]),
            (true, Some(_)) => of(&[Plain]),
            (false, _) => Vec::new(),
        };
        let whole = match micro.is_empty() {
            true => total,
            false => of(&[Plain, Divided, Total]).into_iter().next(),
        };
        let Some(size) = only(&[micro, plain].concat(), "the batch size")? else {
            let name = whole.as_ref().map_or("the batch", NamedValue::name);
            return Err(format!(
                "{name} is a total; the command does not set the micro-batch size"
            ));
        };
        if let (Some(steps), Some(divided)) = (&steps, of(&[Divided]).first())
            && of(&[Micro]).is_empty()
        {
            return Err(format!(
                "{script} may or may not divide {} by {}",
                divided.name(),
                steps.name()
            ));
        }
        let mut source = BatchSource::of(vec![size.knob()?]);
        match (steps, whole) {
            (Some(NamedValue::Argument(hit)), _) => source.steps = numbers(arguments, &hit)?,
            (Some(steps), _) => source.steps = vec![steps.knob()?],
            (None, Some(total)) => {
                source.whole = WholeBatch::Kept(format!(
                    "{} stays; most programs then take more micro-batches",
                    total.name()
                ));
            }
            (None, None) => {}
        }
        Ok(source)
    }
}

/// The last of several, if all have the same name.
fn only<'a>(all: &[NamedValue<'a>], what: &str) -> Result<Option<NamedValue<'a>>, String> {
    let Some(last) = all.last() else {
        return Ok(None);
    };
    match all.iter().find(|other| !same(other.name(), last.name())) {
        Some(other) => Err(format!(
            "{} and {} both look like {what}",
            other.name(),
            last.name()
        )),
        None => Ok(Some(last.clone())),
    }
}

/// The variables in front of a command (`BATCH_SIZE=32 python train.py`).
fn variables<'a>(recognized: &Recognized<'a>) -> impl Iterator<Item = NamedValue<'a>> {
    let command = recognized.command;
    let typed = command.env.iter().filter_map(|change| {
        let value = change.value.as_ref()?.as_str()?;
        Some(NamedValue::Variable {
            name: change.name.as_str()?,
            value,
            place: Place::Variable(value),
        })
    });
    let words = recognized.layout.assignments.iter().filter_map(|at| {
        let (name, value) = text(&command.argv[*at]).split_once('=')?;
        let place = Place::Word(Value {
            text: value,
            at: *at,
            from: name.len() + 1,
        });
        Some(NamedValue::Variable { name, value, place })
    });
    typed.chain(words)
}

/// The settings of a config file; an error if it can't be copied faithfully.
fn settings(file: &ConfigFile) -> Result<Vec<NamedValue<'_>>, String> {
    let names = file.names()?;
    let first = |name: &String| name.split('.').next().unwrap_or_default().to_string();
    if let Some(other) = names
        .iter()
        .map(first)
        .find(|n| is_one(&spellings().includes, n))
    {
        return Err(format!(
            "{} builds on other files ({other}), which a copy elsewhere would not find",
            file.shown()
        ));
    }
    let named = names
        .iter()
        .filter(|name| family::batch_level(name).is_some() || family::is_accumulation(name));
    named
        .filter_map(|name| file.scalar(name).transpose())
        .map(|found| Ok(NamedValue::Setting(file, found?)))
        .collect()
}
