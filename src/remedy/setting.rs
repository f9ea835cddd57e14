//! A command with one of its numeric arguments set to another value, larger or smaller, for trial
//! runs.
//!
//! Unlike a remedy this leaves everything else (accumulation, other limits) alone.

use super::plan::{Edit, edited};
use super::proposal::Draft;
use crate::command::{CommandLine, Word};
use crate::recognize::argument::{Arguments, Hit, InsertPoint, Value, same};
use crate::recognize::batch;
use crate::recognize::program::AccumulationRule;
use crate::recognize::spellings::spellings;
use crate::recognize::{CommandLayout, LaunchEnvironment, Recognized};

/// Which argument a trial run changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The batch, by the program's entry or by its spelling.
    Batch,
    /// By name, with or without dashes.
    Named(String),
}

/// An integer argument of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// As typed.
    pub name: String,
    pub value: u64,
    at: usize,
    from: usize,
    length: usize,
}

impl Setting {
    /// Finds the argument; the error says why that isn't possible.
    pub fn find(command: &CommandLine, which: &Which) -> Result<Setting, String> {
        let recognized = Recognized::new(command, &LaunchEnvironment::default());
        let arguments = recognized.arguments();
        let (hits, missing) = match which {
            Which::Named(name) => (
                named(&arguments, name),
                format!("the command has no argument {name}"),
            ),
            Which::Batch => {
                recognized.check_open()?;
                if let Some(entry) = recognized.known
                    && let AccumulationRule::MicroSize | AccumulationRule::Divides =
                        entry.accumulation.rule
                {
                    return Err(format!(
                        "{} splits its batch with another argument; name it with --arg",
                        entry.shown()
                    ));
                }
                let arguments = recognized.opened()?;
                let candidates = batch::candidates(&arguments, recognized.known);
                let hits = candidates.into_iter().map(|(_, hit)| hit).rev();
                let missing = "no batch size in the command; write it there, or name another argument with --arg";
                (hits.collect(), missing.to_string())
            }
        };
        let Some(last) = hits.last() else {
            return Err(missing);
        };
        if let Some(other) = hits.iter().find(|hit| !same(hit.name, last.name)) {
            return Err(format!(
                "{} and {} both look like it; name one with --arg",
                other.name, last.name
            ));
        }
        Setting::new(last)
    }

    fn new(hit: &Hit<'_>) -> Result<Setting, String> {
        let Some(value) = hit.value else {
            return Err(format!("{} has no value", hit.name));
        };
        let number = value.text.parse::<u64>().ok().filter(|number| *number > 0);
        let number = number
            .ok_or_else(|| format!("{} is {}, which isn't an integer", hit.name, value.text))?;
        Ok(Setting {
            name: hit.name.to_string(),
            value: number,
            at: value.at,
            from: value.from,
            length: value.text.len(),
        })
    }

    /// The command with another value.
    pub fn to(&self, command: &CommandLine, value: u64) -> CommandLine {
        let edit = Edit::Splice {
            at: self.at,
            from: self.from,
            to: self.from + self.length,
            with: Word::from(&value.to_string()),
        };
        edited(command, &[&edit])
    }
}

/// The command with an argument replaced, or added at the end.
pub fn with_argument(command: &CommandLine, name: &str, value: &str) -> CommandLine {
    let layout = CommandLayout::new(command);
    let arguments = layout.arguments_of(command);
    let mut draft = Draft::default();
    match named(&arguments, name)
        .last()
        .map(|hit| (hit.name, hit.value))
    {
        Some((name, Some(old))) => draft.set(name, Value { ..old }, value),
        Some((_, None)) | None => {
            let spelled = match name.starts_with('-') || name.contains('=') {
                true => name.to_string(),
                false => format!("--{name}"),
            };
            let end = layout.arguments.end;
            draft.insert(InsertPoint::Before(end), &[spelled, value.to_string()]);
        }
    }
    let edits: Vec<&Edit> = draft.edits.iter().collect();
    edited(command, &edits)
}

/// The arguments for output paths, as name and value.
pub fn places_written(command: &CommandLine) -> Vec<(String, String)> {
    let layout = CommandLayout::new(command);
    let arguments = layout.arguments_of(command);
    let places = spellings().places_written.iter();
    places
        .filter_map(|name| {
            let hits = named(&arguments, name);
            let hit = hits.last()?;
            Some((hit.name.to_string(), hit.value?.text.to_string()))
        })
        .collect()
}

/// All arguments of this name, whatever the number of dashes.
fn named<'a>(arguments: &Arguments<'a>, name: &str) -> Vec<Hit<'a>> {
    let bare = |name: &str| {
        let name = name.trim_start_matches(['-', '+']);
        name.trim_end_matches(['=', ':']).to_string()
    };
    let wanted = bare(name);
    arguments
        .all()
        .filter(|hit| same(&bare(hit.name), &wanted))
        .collect()
}
