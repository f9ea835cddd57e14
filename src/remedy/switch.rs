//! Turns on a switch of a known program by argument: mixed precision, activation checkpointing. If
//! it is on already, that is reported; if it is off, that argument is changed; otherwise it is
//! added in the form and at the place that the program takes.
//!
//! The words are in the program's entry; what the device supports is checked by the remedy.

use super::proposal::{Draft, Offering};
use crate::command::CommandLine;
use crate::recognize::argument::{ArgumentForm, Arguments, Hit, InsertPoint, Name, same};
use crate::recognize::config_file;
use crate::recognize::family::SwitchReading;
use crate::recognize::program::{InsertPlace, ProgramEntry, SwitchDefault, SwitchSpec};
use crate::recognize::spellings::{is_bool, turned_on};
use crate::recognize::{ConfigFile, Recognized};

/// A switch of a program.
pub(super) struct Switch<'a> {
    /// For display.
    pub what: &'static str,
    pub spec: &'a SwitchSpec,
    /// What to add, or why not; of two words the last is the value.
    pub words: Result<&'a [String], &'static str>,
    /// The launcher's value, if it counts.
    pub of_launcher: Option<&'a str>,
    /// Whether a value means "off".
    pub means_off: fn(&str) -> bool,
    /// Its keys in the program's config file.
    pub in_file: &'a [String],
}

/// The edits that turn on a switch of an unknown program, or why there are none; `what` is its name
/// for display.
pub(super) fn turn_around(
    reading: SwitchReading<'_>,
    arguments: &Arguments<'_>,
    what: &str,
) -> Result<Draft, String> {
    match reading {
        SwitchReading::On(hit) => Err(format!("already on: {}", shown(&hit))),
        SwitchReading::Unclear(hit) => Err(format!(
            "the values that {} takes in this program are unknown",
            hit.name
        )),
        SwitchReading::Nothing => Err(format!("no {what} option is known for this program")),
        SwitchReading::Off(off) => {
            let mut draft = Draft::default();
            match (off.with, off.hit.value) {
                (Some(with), Some(value)) => draft.set(off.hit.name, value, with),
                _ => draft.remove(arguments, &off.hit, false),
            }
            Ok(draft)
        }
    }
}

/// The edits that turn on a switch of a known program, or why there are none.
pub(super) fn turn_on<'a>(
    switch: Switch<'a>,
    offering: &Offering<'a>,
    entry: &'a ProgramEntry,
    arguments: Arguments<'a>,
) -> Result<Draft, String> {
    if is_sweep(&arguments) {
        return Err("the command is a sweep of several runs".into());
    }
    let arguments = offering.recognized.opened()?;
    SwitchReader {
        file: config_file::of_command(&arguments, entry, &offering.inputs.launch),
        command: offering.command,
        recognized: offering.recognized,
        entry,
        switch,
        arguments,
    }
    .draft()
}

/// Hydra's `-m`: several runs in one process, with different settings.
fn is_sweep(arguments: &Arguments<'_>) -> bool {
    let says = |wanted: &[&str]| arguments.tokens.iter().any(|t| wanted.contains(&t.text));
    let has_overrides = arguments
        .tokens
        .iter()
        .any(|t| !t.is_option() && t.text.contains('='));
    says(&["-m", "--multirun"]) && has_overrides
}

struct SwitchReader<'a> {
    command: &'a CommandLine,
    recognized: &'a Recognized<'a>,
    entry: &'a ProgramEntry,
    switch: Switch<'a>,
    arguments: Arguments<'a>,
    file: Option<&'a ConfigFile>,
}

impl<'a> SwitchReader<'a> {
    fn draft(&self) -> Result<Draft, String> {
        let switch = &self.switch;
        let mut draft = Draft::default();
        for name in &switch.spec.off {
            if let Some(hit) = self.last(name)
                && !hit
                    .value
                    .is_some_and(|v| is_bool(v.text) && (switch.means_off)(v.text))
            {
                let takes_value = hit.value.is_some_and(|v| is_bool(v.text));
                draft.remove(&self.arguments, &hit, takes_value);
                return Ok(draft);
            }
        }
        let mut switched_off: Vec<Hit<'_>> = Vec::new();
        for name in switch.spec.on.iter().chain(&switch.spec.valued) {
            let Some(hit) = self.last(name) else { continue };
            match hit.value {
                Some(value) if (switch.means_off)(value.text) => switched_off.push(hit),
                _ => return Err(format!("already on: {}", shown(&hit))),
            }
        }
        if !switched_off.is_empty() {
            return self.turned_around(draft, &switched_off);
        }
        if let Some(value) = switch.of_launcher
            && !(switch.means_off)(value)
        {
            return Err(by_the_launcher(value));
        }
        let default = match self.is_off_in_file()? {
            true => SwitchDefault::Off,
            false => switch.spec.default,
        };
        match default {
            SwitchDefault::On => return Err(format!("on by default in {}", self.entry.shown())),
            SwitchDefault::Config => {
                return Err(format!(
                    "it is set in {}'s configuration, not in the command",
                    self.entry.shown()
                ));
            }
            SwitchDefault::None => {
                return Err(switch.spec.note.clone().unwrap_or_else(|| {
                    format!("{} has no option for {}", self.entry.shown(), switch.what)
                }));
            }
            SwitchDefault::Off => {}
        }
        let words = switch.words?;
        if let Some(refused) = self.refused(words) {
            return Err(format!("{refused} is no option of this program"));
        }
        self.add(&mut draft, words)?;
        Ok(draft)
    }

    /// What the program's own parser would not take: another version of a known program has other options.
    fn refused<'w>(&self, words: &'w [String]) -> Option<&'w str> {
        let option = words.first()?.split('=').next()?;
        let is_the_programs = self.switch.spec.place != InsertPlace::Launcher;
        let text = self.recognized.launch.text.filter(|_| is_the_programs)?;
        text.refuses(option).then_some(option)
    }

    /// Whether the config file turns it off; an error if that turns it on or is unclear.
    fn is_off_in_file(&self) -> Result<bool, String> {
        let Some(file) = self.file else {
            return Ok(false);
        };
        let mut is_off = false;
        for name in self.switch.in_file {
            match file.scalar(name)? {
                Some(value) if !(self.switch.means_off)(&value.text) => {
                    return Err(format!(
                        "already on: {} is {} in {}",
                        value.name,
                        value.text,
                        file.shown()
                    ));
                }
                value => is_off |= value.is_some(),
            }
        }
        Ok(is_off)
    }

    /// Changes an argument that turns it off.
    fn turned_around(&self, mut draft: Draft, switched_off: &[Hit<'_>]) -> Result<Draft, String> {
        let words = self.switch.words?;
        let (name, value) = match words {
            [name, value] => (name.as_str(), value.as_str()),
            _ => words[0].split_once('=').unwrap_or((&words[0], "True")),
        };
        let bare = |name: &str| name.trim_start_matches(['-', '+']).to_string();
        let same_name = switched_off
            .iter()
            .find(|hit| same(&bare(name), &bare(hit.name)));
        match same_name.and_then(|hit| Some((hit, hit.value?))) {
            Some((hit, old)) => draft.set(hit.name, old, &in_case_of(old.text, value)),
            None => self.add(&mut draft, words)?,
        }
        Ok(draft)
    }

    fn add(&self, draft: &mut Draft, words: &[String]) -> Result<(), String> {
        let words = self.written(words);
        let gap = if self.switch.spec.place == InsertPlace::Launcher {
            let launcher = self
                .recognized
                .launchers()
                .iter()
                .find(|launcher| launcher.name.starts_with("accelerate"))
                .ok_or("for this program only `accelerate launch` has a precision option")?;
            let options = Arguments::of_words(
                &self.command.argv[launcher.words.clone()],
                launcher.words.start,
            );
            if let Some(hit) = options.find(Name::new("--mixed_precision")).last()
                && let (Some(value), Some(new)) = (hit.value, words.last())
            {
                draft.set(hit.name, value, new);
                return Ok(());
            }
            InsertPoint::Before(launcher.options)
        } else if self.arguments.nested.is_some() {
            let end = self.arguments.gap(self.arguments.tokens.len());
            end.ok_or("there is no argument to put it next to")?
        } else {
            let range = &self.recognized.layout.arguments;
            InsertPoint::Before(match self.switch.spec.place {
                InsertPlace::Start => range.start,
                InsertPlace::End | InsertPlace::Launcher => range.end,
            })
        };
        draft.insert(gap, &words);
        Ok(())
    }

    /// The addition in the form of the other arguments.
    fn written(&self, words: &[String]) -> Vec<String> {
        let [name, value] = words else {
            return words.to_vec();
        };
        let batch = self
            .entry
            .batch
            .names
            .iter()
            .find_map(|name| self.last(name))
            .filter(|hit| hit.name.starts_with('-'));
        // OpenNMT: one dash or two, as the user writes them.
        let name = match &batch {
            Some(hit) if !hit.name.starts_with("--") && hit.name.len() > 3 => name.clone(),
            Some(hit)
                if hit.name.starts_with("--")
                    && !name.starts_with("--")
                    && name.starts_with('-') =>
            {
                format!("-{name}")
            }
            _ => name.clone(),
        };
        let equals = match batch.map(|hit| hit.form) {
            Some(ArgumentForm::Equals) => true,
            Some(ArgumentForm::Space | ArgumentForm::Glued) => false,
            _ => mostly_equals(&self.arguments),
        };
        let joined = name.starts_with('-') && equals && !self.switch.spec.spaced;
        if joined && self.switch.spec.place != InsertPlace::Launcher {
            vec![format!("{name}={value}")]
        } else {
            vec![name, value.clone()]
        }
    }

    fn last(&self, name: &str) -> Option<Hit<'a>> {
        self.arguments.find(Name::new(name)).last().copied()
    }
}

pub(super) fn by_the_launcher(value: &str) -> String {
    format!("already on: the launcher's --mixed_precision {value}")
}

pub(super) fn mostly_equals(arguments: &Arguments<'_>) -> bool {
    let options = || arguments.tokens.iter().filter(|token| token.is_option());
    let equals = options().filter(|token| token.text.contains('=')).count();
    equals * 2 > options().count()
}

/// `value` in the case of what it replaces: `False` → `True`, `false` → `true`, `0` → `1`.
fn in_case_of(old: &str, value: &str) -> String {
    let is_true = matches!(value.to_ascii_lowercase().as_str(), "true" | "1");
    let turned = turned_on(old).filter(|_| is_true);
    turned.unwrap_or(value).to_string()
}

pub(super) fn shown(hit: &Hit<'_>) -> String {
    match (hit.form, hit.value) {
        (ArgumentForm::Equals | ArgumentForm::KeyValue, Some(value)) => {
            format!("{}={}", hit.name, value.text)
        }
        (_, Some(value)) if !value.text.contains(['/', '.']) => {
            format!("{} {}", hit.name, value.text)
        }
        _ => hit.name.to_string(),
    }
}
