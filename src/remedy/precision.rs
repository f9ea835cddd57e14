//! Automatic mixed precision by argument: bf16 where the device has it, fp16 where not and the
//! program scales its loss itself.

use super::argument::{Arguments, Form, Hit, Name, same};
use super::draft::Draft;
use super::family::{self, Said, is_bool};
use super::program::{Entry, Place, Precision, Unsaid};
use super::recognition::{Recognised, arguments_of, is_off, opened};
use crate::command::CommandLine;

/// The edits that switch mixed precision on, or why there are none.
pub(super) fn mixed(
    command: &CommandLine,
    recognised: &Recognised,
    bf16: Option<bool>,
) -> Result<Draft, String> {
    if let Some(reason) = &recognised.closed {
        return Err(reason.clone());
    }
    let has_bf16 = bf16 != Some(false);
    let arguments = arguments_of(command, &recognised.anatomy);
    match recognised.known {
        Some(entry) => {
            if is_sweep(&arguments) {
                return Err("the command is a sweep of several runs".into());
            }
            Reader {
                command,
                recognised,
                entry,
                precision: &entry.precision,
                arguments: opened(arguments, entry)?,
                has_bf16,
            }
            .mixed()
        }
        None => of_unknown(command, recognised, &arguments, has_bf16),
    }
}

/// Hydra's `-m`: several runs in one process, whose settings are nobody's single choice.
fn is_sweep(arguments: &Arguments<'_>) -> bool {
    let says = |wanted: &[&str]| arguments.tokens.iter().any(|t| wanted.contains(&t.text));
    let has_overrides = arguments
        .tokens
        .iter()
        .any(|t| !t.is_option() && t.text.contains('='));
    says(&["-m", "--multirun"]) && has_overrides
}

const NO_BF16: &str = "the device has no bf16, and the program does not scale its loss for fp16";

struct Reader<'a> {
    command: &'a CommandLine,
    recognised: &'a Recognised,
    entry: &'a Entry,
    precision: &'a Precision,
    arguments: Arguments<'a>,
    has_bf16: bool,
}

impl<'a> Reader<'a> {
    fn mixed(&self) -> Result<Draft, String> {
        let precision = self.precision;
        let mut draft = Draft::default();
        for name in &precision.off {
            if let Some(hit) = self.last(name)
                && !hit.value.is_some_and(|v| is_bool(v.text) && is_off(v.text))
            {
                let takes_value = hit.value.is_some_and(|v| is_bool(v.text));
                draft.remove(&self.arguments, &hit, takes_value);
                return Ok(draft);
            }
        }
        let mut switched_off: Vec<Hit<'_>> = Vec::new();
        for name in precision.on.iter().chain(&precision.valued) {
            let Some(hit) = self.last(name) else { continue };
            match hit.value {
                Some(value) if is_off(value.text) => switched_off.push(hit),
                _ => return Err(format!("already on: {}", shown(&hit))),
            }
        }
        let addition = self.addition();
        if !switched_off.is_empty() {
            return self.turn_on(draft, &switched_off, addition);
        }
        if precision.by_launcher
            && let Some(value) = self.of_launcher()
            && !is_off(value)
        {
            return Err(format!(
                "already on: the launcher's --mixed_precision {value}"
            ));
        }
        match precision.unsaid {
            Unsaid::On => return Err(format!("on by default in {}", self.entry.name)),
            Unsaid::Config => {
                return Err(format!(
                    "{}'s configuration says the precision",
                    self.entry.name
                ));
            }
            Unsaid::None => {
                return Err(precision.note.clone().unwrap_or_else(|| {
                    format!("{} has no argument for mixed precision", self.entry.name)
                }));
            }
            Unsaid::Off => {}
        }
        let words = addition.ok_or(NO_BF16)?;
        self.add(&mut draft, words)?;
        Ok(draft)
    }

    /// The words to add, by what the device has and how old the command looks.
    fn addition(&self) -> Option<&'a [String]> {
        let precision = self.precision;
        let words = if self.has_bf16 {
            let older = precision
                .older
                .iter()
                .find(|(signs, _)| signs.iter().any(|sign| self.arguments.has(Name::new(sign))));
            older.map_or(&precision.bf16, |(_, words)| words)
        } else {
            &precision.fp16
        };
        (!words.is_empty()).then_some(words.as_slice())
    }

    /// An argument that says "off" is turned around where it stands.
    fn turn_on(
        &self,
        mut draft: Draft,
        switched_off: &[Hit<'_>],
        addition: Option<&[String]>,
    ) -> Result<Draft, String> {
        let words = addition.ok_or(NO_BF16)?;
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
        let place = if self.precision.place == Place::Launcher {
            let launcher = self
                .recognised
                .launchers()
                .iter()
                .find(|launcher| launcher.name.starts_with("accelerate"))
                .ok_or("only `accelerate launch` can be told a precision for this program")?;
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
            launcher.options
        } else if self.arguments.nested {
            draft.insert(
                &self.arguments,
                self.arguments.tokens.len(),
                &words,
                self.entry.separator,
            );
            return Ok(());
        } else {
            match self.precision.place {
                Place::Start => self.recognised.anatomy.arguments.start,
                Place::End | Place::Launcher => self.recognised.anatomy.arguments.end,
            }
        };
        draft.insert_at(place, &words);
        Ok(())
    }

    /// The addition in the form that the rest of the command has.
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
            Some(Form::Equals) => true,
            Some(Form::Space | Form::Glued) => false,
            _ => mostly_equals(&self.arguments),
        };
        let joined = name.starts_with('-') && equals && !self.precision.spaced;
        if joined && self.precision.place != Place::Launcher {
            vec![format!("{name}={value}")]
        } else {
            vec![name, value.clone()]
        }
    }

    fn of_launcher(&self) -> Option<&'a str> {
        launcher_precision(self.command, self.recognised)
    }

    fn last(&self, name: &str) -> Option<Hit<'a>> {
        self.arguments.find(Name::new(name)).last().copied()
    }
}

/// What `accelerate launch` is told.
fn launcher_precision<'a>(command: &'a CommandLine, recognised: &Recognised) -> Option<&'a str> {
    recognised
        .launchers()
        .iter()
        .filter(|launcher| launcher.name.starts_with("accelerate"))
        .find_map(|launcher| {
            let words = &command.argv[launcher.words.clone()];
            let options = Arguments::of_words(words, launcher.words.start);
            if options.has(Name::new("--fp16")) {
                return Some("fp16");
            }
            options.value_of("--mixed_precision")
        })
}

fn mostly_equals(arguments: &Arguments<'_>) -> bool {
    let options = || arguments.tokens.iter().filter(|token| token.is_option());
    let equals = options().filter(|token| token.text.contains('=')).count();
    equals * 2 > options().count()
}

/// `value` with the capitals of what it replaces: `False` → `True`, `false` → `true`, `0` → `1`.
fn in_case_of(old: &str, value: &str) -> String {
    match (old, value.to_ascii_lowercase().as_str()) {
        ("False", "true" | "1") => "True".into(),
        ("false", "true" | "1") => "true".into(),
        ("FALSE", "true" | "1") => "TRUE".into(),
        ("0", "true" | "1") => "1".into(),
        ("no", "true" | "1") => "yes".into(),
        ("off", "true" | "1") => "on".into(),
        _ => value.to_string(),
    }
}

fn shown(hit: &Hit<'_>) -> String {
    match (hit.form, hit.value) {
        (Form::Equals | Form::KeyValue, Some(value)) => format!("{}={}", hit.name, value.text),
        (_, Some(value)) if !value.text.contains(['/', '.']) => {
            format!("{} {}", hit.name, value.text)
        }
        _ => hit.name.to_string(),
    }
}

fn of_unknown(
    command: &CommandLine,
    recognised: &Recognised,
    arguments: &Arguments<'_>,
    has_bf16: bool,
) -> Result<Draft, String> {
    let mut draft = Draft::default();
    match family::precision(arguments, has_bf16) {
        Said::On(hit) => Err(format!("already on: {}", shown(&hit))),
        Said::Unclear(hit) => Err(format!(
            "what {} takes in this program is not known",
            hit.name
        )),
        Said::Off(off) => {
            match (off.with, off.hit.value) {
                (Some(with), Some(value)) => draft.set(off.hit.name, value, with),
                _ => draft.remove(arguments, &off.hit, false),
            }
            Ok(draft)
        }
        Said::Nothing => Err(match launcher_precision(command, recognised) {
            Some(value) if !is_off(value) => {
                format!("already on: the launcher's --mixed_precision {value}")
            }
            _ => "no argument for a precision is known for this program".into(),
        }),
    }
}
