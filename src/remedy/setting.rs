//! A command with one of its numeric arguments, or of its program's numbers, set to another value, larger or smaller, for trial
//! runs.
//!
//! Unlike a remedy this leaves everything else (accumulation, other limits) alone.

use super::plan::{Edit, FileCopy, copies, edited};
use super::proposal::Draft;
use crate::command::{CommandLine, Word};
use crate::event::SourceEdit;
use crate::recognize::argument::{Arguments, Hit, InsertPoint, Value, same};
use crate::recognize::batch::{self, Addition, Knob, Place};
use crate::recognize::config_file::FoundValue;
use crate::recognize::program::AccumulationRule;
use crate::recognize::spellings::spellings;
use crate::recognize::text::HowSure;
use crate::recognize::{CommandLayout, ConfigFile, LaunchEnvironment, Recognized};
use std::path::PathBuf;

/// Which argument a trial run changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The batch, by the program's entry or by its spelling.
    Batch,
    /// By name, with or without dashes.
    Named(String),
}

/// A number that a command or its program sets, and how another one is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// As typed, or as the program calls it.
    pub name: String,
    pub value: u64,
    place: SettingPlace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SettingPlace {
    /// In a word of the command.
    Word {
        at: usize,
        from: usize,
        length: usize,
    },
    /// The default of an argument that is not typed: words are added.
    Added(Addition),
    /// In the program's text, of which an edited copy runs.
    Source(SourceEdit),
    /// In a config file that the command names, of which it gets an edited copy.
    File(Box<SettingInFile>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SettingInFile {
    file: ConfigFile,
    found: FoundValue,
    /// The directory for copies.
    copies: PathBuf,
}

/// What may be changed in trial runs: one number, or several of which the first run tells which it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundSettings {
    pub all: Vec<Setting>,
    /// Whether the words or the text leave no doubt of it; else a number must confirm it.
    pub is_sure: bool,
}

impl Setting {
    /// Finds the argument in the command alone; the error says why that isn't possible.
    pub fn find(command: &CommandLine, which: &Which) -> Result<Setting, String> {
        Setting::typed(command, which)
    }

    /// Finds the argument in the command, or in the program's text and its config files where these were read. Several are
    /// as good before anything ran; the first run tells them apart.
    pub(crate) fn find_all(
        command: &CommandLine,
        which: &Which,
        launch: &LaunchEnvironment<'_>,
    ) -> Result<FoundSettings, String> {
        let one = |setting: Setting| FoundSettings {
            all: vec![setting],
            is_sure: true,
        };
        let typed = Setting::typed(command, which);
        let recognized = Recognized::new(command, launch);
        let found = match which {
            Which::Named(name) => match typed {
                Ok(setting) => return Ok(one(setting)),
                Err(_) => match recognized.named_in_files(name) {
                    of_files if of_files.len() == 1 => of_files,
                    _ => recognized.named_in_text(name),
                },
            },
            Which::Batch => recognized.batch_knobs(),
        };
        let copies = launch.copies.map(|(directory, _)| directory.to_path_buf());
        let settings = found
            .iter()
            .filter_map(|knob| Setting::of_knob(knob, copies.as_ref()));
        let all: Vec<Setting> = settings.collect();
        let is_sure =
            *which != Which::Batch || matches!(recognized.batch_finding().how_sure, HowSure::Sure);
        match all.is_empty() {
            true => Ok(one(typed?)),
            false => Ok(FoundSettings { all, is_sure }),
        }
    }

    fn typed(command: &CommandLine, which: &Which) -> Result<Setting, String> {
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
        Ok(Setting::in_word(hit.name, number, &value))
    }

    fn in_word(name: &str, value: u64, word: &Value<'_>) -> Setting {
        Setting {
            name: name.to_string(),
            value,
            place: SettingPlace::Word {
                at: word.at,
                from: word.from,
                length: word.text.len(),
            },
        }
    }

    /// `None` where a trial cannot change it: in a variable, or in a file without a place for its copy.
    fn of_knob(knob: &Knob<'_>, copies: Option<&PathBuf>) -> Option<Setting> {
        let place = match &knob.place {
            Place::Word(word) => return Some(Setting::in_word(&knob.name, knob.value, word)),
            Place::Added(addition) => SettingPlace::Added(addition.clone()),
            Place::Literal(edit) => SettingPlace::Source(edit.clone()),
            Place::File(file, found) => SettingPlace::File(Box::new(SettingInFile {
                file: (*file).clone(),
                found: found.clone(),
                copies: copies?.clone(),
            })),
            Place::Variable(_) => return None,
        };
        Some(Setting {
            name: knob.name.clone(),
            value: knob.value,
            place,
        })
    }

    /// The command with another value.
    pub fn to(&self, command: &CommandLine, value: u64) -> CommandLine {
        let mut draft = Draft::default();
        let edit = match &self.place {
            SettingPlace::Word { at, from, length } => Edit::Splice {
                at: *at,
                from: *from,
                to: from + length,
                with: Word::from(&value.to_string()),
            },
            SettingPlace::Source(edit) => Edit::Source(SourceEdit {
                to: value,
                ..edit.clone()
            }),
            SettingPlace::Added(addition) => {
                draft.insert(addition.gap, &addition.saying(value));
                let edits: Vec<&Edit> = draft.edits.iter().collect();
                return edited(command, &edits);
            }
            SettingPlace::File(place) => {
                let draft = self.in_copy(place, value);
                let edits: Vec<&Edit> = draft.edits.iter().collect();
                return edited(command, &edits);
            }
        };
        edited(command, &[&edit])
    }

    /// The copies of files that the command with this value reads.
    pub(crate) fn files(&self, value: u64) -> Vec<FileCopy> {
        match &self.place {
            SettingPlace::File(place) => copies(self.in_copy(place, value).files.iter()),
            SettingPlace::Word { .. } | SettingPlace::Added(_) | SettingPlace::Source(_) => {
                Vec::new()
            }
        }
    }

    /// The config file and the line that have it, as a person finds it.
    pub(crate) fn config_line(&self) -> Option<(String, usize)> {
        let SettingPlace::File(place) = &self.place else {
            return None;
        };
        let before = place.file.text.get(..place.found.from)?;
        let line = before.matches('\n').count() + 1;
        Some((place.file.name.display().to_string(), line))
    }

    fn in_copy(&self, place: &SettingInFile, value: u64) -> Draft {
        let mut draft = Draft::default();
        let knob = Knob {
            name: self.name.clone(),
            value: self.value,
            place: Place::File(&place.file, place.found.clone()),
            least: None,
        };
        // With a directory it is written always.
        let _ = draft.write(&knob, value, Some((&place.copies, 1)));
        draft
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
