//! The batch of a program without an entry: by common spellings among its arguments, in variables in front of the command
//! or in its config file, and only if there is exactly one reading.

use super::argument::{ArgumentForm, Arguments, Hit, Name, Value, same, text as word_text};
use super::batch::{
    Addition, BatchSource, Knob, Place, WholeBatch, agree_with_deepspeed, deepspeed_source, numbers,
};
use super::config_file::{self, FoundValue};
use super::family;
use super::launch::ConfigFile;
use super::layout::{ProgramKind, file_name};
use super::recognized::Recognized;
use super::spellings::{BatchArgument, is_one, spellings};
use super::text;

/// Of a program without an entry.
pub(super) fn of_unknown<'a>(
    recognized: &Recognized<'a>,
    arguments: &Arguments<'a>,
) -> Result<BatchSource<'a>, String> {
    let words = &recognized.command.argv;
    let script = file_name(words.get(recognized.layout.program).map_or("", word_text));
    let typed = Spelled::among(arguments.all().map(NamedValue::Argument));
    let mut assigned = Spelled::among(variables(recognized));
    assigned
        .sizes
        .retain(|(level, _)| *level != BatchArgument::Total);
    let deepspeed = config_file::of_deepspeed(arguments, &recognized.launch);
    if let (Some((_, typed)), Some((_, assigned))) = (typed.sizes.first(), assigned.sizes.first()) {
        let (one, two) = (assigned.name(), typed.name());
        return Err(format!("{one} and {two} are both set"));
    }
    let by_words = [&typed, &assigned].into_iter().find(|said| {
        let (first, is_overruled) = (said.sizes.first(), recognized.launch.text);
        let is_overruled = is_overruled.is_some_and(|text| text.file_goes_over);
        // What a file says that goes over the words of the command counts, where it says it.
        let in_file = |name: &str| {
            let file = config_file::of_unknown(arguments, &recognized.launch)?;
            file.scalar(&last_part(name).replace('-', "_")).ok()?
        };
        first.is_some_and(|(_, first)| !is_overruled || in_file(first.name()).is_none())
    });
    if let Some(spelled) = by_words {
        let mut source = spelled.source(script, &spelled.steps, arguments, None)?;
        if let Some(text) = recognized.launch.text {
            divided_by_steps(&mut source, text);
        }
        match deepspeed {
            Some(file) => agree_with_deepspeed(&mut source, file)?,
            None => {
                refuse_unread(arguments)?;
                beside_in_file(recognized, arguments, &mut source, spelled);
            }
        }
        return Ok(source);
    }
    if let Some(file) = deepspeed {
        return deepspeed_source(file);
    }
    if let Some(file) = config_file::of_unknown(arguments, &recognized.launch) {
        let mut settings = settings(file)?;
        if let Some(text) = recognized.launch.text {
            leave_unread_sections(&mut settings, &file.names()?, text);
        }
        let mut spelled = Spelled::among(
            settings
                .into_iter()
                .map(|said| typed_over(&said, arguments).unwrap_or(said)),
        );
        if let Some(text) = recognized.launch.text.filter(|_| spelled.sizes.is_empty()) {
            spelled.sizes.extend(of_loader(file, text)?);
        }
        let steps = match spelled.steps.is_empty() {
            true => &typed.steps,
            false => &spelled.steps,
        };
        if !spelled.sizes.is_empty() {
            let mut source = spelled.source(script, steps, arguments, recognized.launch.text)?;
            let is_in_it = |knob: &Knob<'_>| matches!(knob.place, Place::File(..));
            source.file = source.sizes.iter().any(is_in_it).then_some(file);
            return Ok(source);
        }
    }
    Err(match recognized.layout.kind {
        ProgramKind::ShellScript => format!("the batch size is inside {script}"),
        _ => "no batch size in the command".into(),
    })
}

/// Where the program divides its batch by the accumulation steps, these alone make its parts smaller.
fn divided_by_steps(source: &mut BatchSource<'_>, text: &text::ProgramText) {
    let variable = |knob: &Knob<'_>| last_part(&knob.name).replace('-', "_");
    let ([size], [steps]) = (source.sizes.as_slice(), source.steps.as_slice()) else {
        return;
    };
    if text.divides(&variable(size), &variable(steps)) && size.value.is_multiple_of(steps.value) {
        source.at_once = size.value / steps.value.max(1);
        source.sizes.clear();
    }
}

/// What the config file that the command names says beside a batch that is typed: the accumulation, or a total that stays.
fn beside_in_file<'a>(
    recognized: &Recognized<'a>,
    arguments: &Arguments<'a>,
    source: &mut BatchSource<'a>,
    typed: &Spelled<'a>,
) {
    let follows = matches!(source.whole, WholeBatch::Follows) && source.steps.is_empty();
    let file = config_file::of_unknown(arguments, &recognized.launch);
    let (Some(file), Some((level, first)), true) = (file, typed.sizes.first(), follows) else {
        return;
    };
    let Ok(settings) = settings(file) else { return };
    let in_file = Spelled::among(settings.into_iter());
    let is_total = |(level, _): &&(BatchArgument, _)| *level == BatchArgument::Total;
    if let Ok(Some(NamedValue::Setting(_, found))) = only(&in_file.steps, "accumulation") {
        source
            .steps
            .extend(overriding(arguments, file, first, found));
    } else if let Some((_, total)) = in_file.sizes.iter().find(is_total)
        && matches!(level, BatchArgument::Micro | BatchArgument::Plain)
    {
        source.whole = WholeBatch::Kept(format!("{} stays", total.name()));
    }
}

/// A number of the command's file: typed as the batch is where the file calls that the same (`data.batch_size=4`), else
/// in a copy of the file.
fn overriding<'a>(
    arguments: &Arguments<'a>,
    file: &'a ConfigFile,
    batch: &NamedValue<'a>,
    found: FoundValue,
) -> Option<Knob<'a>> {
    let typed_like_it = || {
        let NamedValue::Argument(hit) = batch else {
            return None;
        };
        let body = hit
            .name
            .trim_start_matches(['-', '+'])
            .trim_end_matches('=');
        let is_like_the_file = file.scalar_anywhere(body).is_ok_and(|said| said.is_some());
        let spec = match hit.form {
            _ if !is_like_the_file => return None,
            ArgumentForm::KeyValue => format!("{}=", found.name),
            ArgumentForm::Space | ArgumentForm::Equals => {
                let dashes = hit.name.len() - hit.name.trim_start_matches('-').len();
                let equals = if hit.form == ArgumentForm::Equals {
                    "="
                } else {
                    ""
                };
                format!("{}{}{equals}", &hit.name[..dashes], found.name)
            }
            ArgumentForm::Glued
            | ArgumentForm::Pair
            | ArgumentForm::Colon
            | ArgumentForm::Place => return None,
        };
        let addition = Addition::new(&spec, arguments.gap(hit.end())?);
        Some(Place::Added(addition))
    };
    let place = typed_like_it();
    let place = place.unwrap_or_else(|| Place::File(file, found.clone()));
    Knob::new(&found.name, &found.text, place).ok()
}

/// A setting of the file as a word of the command says it, which goes before it: `-p train.batch_size=4`.
fn typed_over<'a>(setting: &NamedValue<'a>, arguments: &Arguments<'a>) -> Option<NamedValue<'a>> {
    let name = setting.name();
    let mut tokens = arguments.tokens.iter().enumerate().rev();
    let (at, token) = tokens.find(|(_, token)| {
        let rest = token.text.strip_prefix(name);
        name.contains('.') && rest.is_some_and(|rest| rest.starts_with('='))
    })?;
    let value = Value {
        text: &token.text[name.len() + 1..],
        at: token.at,
        from: token.from + name.len() + 1,
    };
    Some(NamedValue::Argument(Hit {
        name: &token.text[..name.len()],
        form: ArgumentForm::KeyValue,
        token: at,
        value: Some(value),
    }))
}

impl Recognized<'_> {
    /// Why no number of samples sets the batch: the program fills it up to a length or a number of tokens.
    pub(crate) fn cut_by_another_number(&self) -> Option<String> {
        let is_switch = |name: &str| {
            is_one(
                &spellings().dynamic_batches,
                &family::plain(last_part(name)),
            )
        };
        let is_on = |value: &str| matches!(value, "True" | "true" | "1" | "yes" | "on");
        let arguments = self.opened().ok()?;
        let typed: Vec<Hit<'_>> = arguments.all().filter(|hit| is_switch(hit.name)).collect();
        let said = match typed.last() {
            Some(hit) => hit
                .value
                .is_none_or(|value| is_on(value.text))
                .then(|| hit.name.to_string()),
            None => {
                let mut files = self.launch.files.iter();
                files.find_map(|file| {
                    let names = file.names().ok()?;
                    let mut switches = names.into_iter().filter(|name| is_switch(name));
                    switches.find(|name| {
                        file.scalar_anywhere(name)
                            .is_ok_and(|said| said.is_some_and(|said| is_on(&said.text)))
                    })
                })
            }
        };
        said.map(|name| {
            format!("{name} is on: batches are cut by their length, not by a number of samples")
        })
    }
}

/// DeepSpeed's config file must agree with the command, so it must have been read.
fn refuse_unread(arguments: &Arguments<'_>) -> Result<(), String> {
    let mut options = config_file::DEEPSPEED
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
            // `-b configs/train.yaml`
            if said.name() == "-b" && said.knob().is_err() {
                continue;
            }
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
        text: Option<&text::ProgramText>,
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
        let of_parts = steps_of_parts(steps)?;
        let steps = match of_parts.is_empty() {
            true => only(steps, "accumulation")?,
            false => None,
        };
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
            && text
                .is_none_or(|text| text.divides(last_part(divided.name()), last_part(steps.name())))
        {
            return Err(format!(
                "{script} may or may not divide {} by {}",
                divided.name(),
                steps.name()
            ));
        }
        let mut source = BatchSource::new(vec![size.knob()?]);
        match (steps, whole) {
            _ if !of_parts.is_empty() => source.steps = of_parts,
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

/// The accumulations of a program that has one for each of its networks: they move along together.
fn steps_of_parts<'a>(all: &[NamedValue<'a>]) -> Result<Vec<Knob<'a>>, String> {
    let part = |said: &NamedValue<'_>| family::accumulation_of_a_part(said.name());
    let mut kinds: Vec<Option<String>> = all.iter().map(part).collect();
    kinds.dedup();
    match kinds.as_slice() {
        [Some(_)] => all.iter().map(NamedValue::knob).collect(),
        _ => Ok(Vec::new()),
    }
}

/// A variable of the program as an option or a file's setting names it: `--batch-size`, `train.batch_size`.
fn last_part(name: &str) -> &str {
    let name = name.trim_start_matches('-');
    name.rsplit('.').next().unwrap_or(name)
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
        let (name, value) = word_text(&command.argv[*at]).split_once('=')?;
        let place = Place::Word(Value {
            text: value,
            at: *at,
            from: name.len() + 1,
        });
        Some(NamedValue::Variable { name, value, place })
    });
    typed.chain(words)
}

/// The one setting of a batch's name that the program's text gives its loader, where the file has no batch by a well-known
/// name.
fn of_loader<'a>(
    file: &'a ConfigFile,
    text: &text::ProgramText,
) -> Result<Option<(BatchArgument, NamedValue<'a>)>, String> {
    let mut names = file.names()?;
    names.retain(|name| {
        family::like_a_batch(name).is_some() && text.takes_as_batch(last_part(name))
    });
    let [name] = names.as_slice() else {
        return Ok(None);
    };
    let found = file.scalar(name)?;
    Ok(found.map(|found| (BatchArgument::Plain, NamedValue::Setting(file, found))))
}

/// Leaves the settings of sections that the program's text does not name beside those of others: they are another
/// program's. A text that names none of the file's sections takes them otherwise.
fn leave_unread_sections(
    settings: &mut Vec<NamedValue<'_>>,
    of_file: &[String],
    text: &text::ProgramText,
) {
    let section = |name: &str| name.split_once('.').map(|(section, _)| section.to_string());
    let is_read = |name: &str| section(name).is_none_or(|section| text.names_section(&section));
    let names_one = of_file
        .iter()
        .any(|name| section(name).is_some() && is_read(name));
    if names_one && settings.iter().any(|setting| is_read(setting.name())) {
        settings.retain(|setting| is_read(setting.name()));
    }
}

/// The settings of a config file; an error if it can't be copied faithfully.
fn settings(file: &ConfigFile) -> Result<Vec<NamedValue<'_>>, String> {
    let names = file.names()?;
    if let Some(other) = file.builds_on() {
        return Err(format!(
            "{} builds on other files ({other}), which a copy elsewhere would not find",
            file.shown()
        ));
    }
    let named = names
        .iter()
        .filter(|name| family::batch_level(name).is_some() || family::is_accumulation(name));
    named
        .filter_map(|name| Some((name, file.scalar(name).transpose()?)))
        // An accumulation that is not clear stays as it is.
        .filter(|(name, found)| found.is_ok() || family::batch_level(name).is_some())
        .map(|(_, found)| Ok(NamedValue::Setting(file, found?)))
        .collect()
}
