//! Config files of training programs: settings by dotted name with their byte ranges, so that an
//! edited copy differs in those bytes only and keeps comments and layout.
//!
//! No I/O. Whatever isn't surely understood is reported as unclear and never edited.

mod json;
mod python;
mod tables;
mod yaml;

use super::argument::{Arguments, Name, is_like};
use super::environment::{ConfigFile, LaunchEnvironment};
use super::program::ProgramEntry;
use super::recognized::Recognized;
use super::spellings::spellings;
use std::path::PathBuf;

/// A word of a command that names a config file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// The index of the word.
    pub at: usize,
    /// The first byte of the name in it.
    pub from: usize,
    /// As typed.
    pub name: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileSetting {
    /// Dotted; items of a list are numbered.
    pub name: String,
    /// The byte range, without quotes.
    pub from: usize,
    pub to: usize,
    /// Whether it is a plain value that may be replaced.
    pub is_plain: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileSettings {
    /// In order.
    pub all: Vec<FileSetting>,
    /// Whether a merge or an include may set what is missing here.
    pub may_hide: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundValue {
    /// Dotted.
    pub name: String,
    pub text: String,
    /// The byte range, without quotes.
    pub from: usize,
    pub to: usize,
}

impl ConfigFile {
    /// The file name, for display.
    pub(crate) fn shown(&self) -> String {
        self.name
            .file_name()
            .unwrap_or(self.name.as_os_str())
            .to_string_lossy()
            .into_owned()
    }

    fn settings(&self) -> Result<FileSettings, String> {
        let extension = self.name.extension().and_then(|e| e.to_str()).unwrap_or("");
        match extension {
            "yaml" | "yml" => yaml::settings(&self.text),
            "json" => json::settings(&self.text),
            "toml" => tables::settings(&self.text),
            "py" => python::settings(&self.text),
            _ => Err("its format is unknown".into()),
        }
    }

    /// The dotted names of its settings; an error if they are unclear.
    pub(crate) fn names(&self) -> Result<Vec<String>, String> {
        let settings = self
            .settings()
            .map_err(|why| format!("{}: {why}", self.shown()))?;
        if settings.may_hide {
            return Err(format!("{}: another file may say more", self.shown()));
        }
        let mut names: Vec<String> = settings.all.into_iter().map(|s| s.name).collect();
        names.dedup();
        Ok(names)
    }

    /// A value as a program reads it: Python computes `5 * 8`.
    fn value(&self, written: &str) -> String {
        let is_python = self.name.extension().is_some_and(|e| e == "py");
        let number = python::number(written).filter(|_| is_python);
        number.map_or_else(|| written.to_string(), |number| number.to_string())
    }

    /// The setting of a dotted name, in which `*` stands for anything; `None` if there is none. The
    /// error says why that is unclear.
    pub(crate) fn scalar(&self, name: &str) -> Result<Option<FoundValue>, String> {
        let unclear = |why: &str| format!("{} in {}: {why}", name, self.shown());
        let settings = self.settings().map_err(|why| unclear(&why))?;
        let mut named = settings.all.iter().filter(|s| is_like(&s.name, name));
        match (named.next(), named.next()) {
            (None, _) if settings.may_hide => Err(unclear("another file may set it")),
            (None, _) => Ok(None),
            (Some(_), Some(_)) => Err(unclear("it appears more than once")),
            (Some(one), None) if !one.is_plain => Err(unclear("it isn't a plain value")),
            (Some(one), None) => {
                let text = self.text.get(one.from..one.to);
                Ok(Some(FoundValue {
                    name: one.name.clone(),
                    text: self.value(text.ok_or_else(|| unclear("it isn't text"))?),
                    from: one.from,
                    to: one.to,
                }))
            }
        }
    }
}

impl Recognized<'_> {
    /// The files that the command names whose contents its remedies depend on.
    pub fn named_files(&self) -> Vec<NamedFile> {
        let arguments = self.arguments();
        let specs: Vec<&str> = match self.known {
            Some(entry) => entry.file.named.iter().map(String::as_str).collect(),
            None => of_no_entry().collect(),
        };
        let with_deepspeed = specs.iter().chain(&DEEPSPEED);
        let mut files: Vec<NamedFile> = with_deepspeed
            .flat_map(|spec| named_by(&arguments, spec))
            .collect();
        files.sort_by_key(|file| (file.at, file.from));
        files.dedup();
        files
    }
}

/// Options for the config file of DeepSpeed's engine.
pub(crate) const DEEPSPEED: [&str; 3] = ["--deepspeed_config", "--deepspeed", "--ds_config"];

/// Options for the config file of programs without an entry.
fn of_no_entry() -> impl Iterator<Item = &'static str> {
    spellings().config_files.iter().map(String::as_str)
}

fn named_by(arguments: &Arguments<'_>, spec: &str) -> Vec<NamedFile> {
    let file = |at: usize, from: usize, text: &str| NamedFile {
        at,
        from,
        name: PathBuf::from(text),
    };
    if spec.contains('*') {
        let tokens = arguments.tokens.iter().enumerate();
        return tokens
            .filter(|(k, token)| {
                !token.is_option()
                    && !token.text.contains('=')
                    && arguments.is_positional(*k)
                    && is_like(token.text, spec)
            })
            .map(|(_, token)| file(token.at, token.from, token.text))
            .collect();
    }
    let hits = arguments.find(Name::new(spec));
    let values = hits.iter().filter_map(|hit| hit.value);
    values
        .filter(|value| value.text.contains('.'))
        .map(|value| file(value.at, value.from, value.text))
        .collect()
}

/// The file of a known program that sets what its command does not; `None` if several are named.
pub(crate) fn of_command<'c>(
    arguments: &Arguments<'_>,
    entry: &ProgramEntry,
    launch: &LaunchEnvironment<'c>,
) -> Option<&'c ConfigFile> {
    only_of(
        arguments,
        entry.file.named.iter().map(String::as_str),
        launch,
    )
}

/// The same for a program without an entry.
pub(crate) fn of_unknown<'c>(
    arguments: &Arguments<'_>,
    launch: &LaunchEnvironment<'c>,
) -> Option<&'c ConfigFile> {
    only_of(arguments, of_no_entry(), launch)
}

fn only_of<'c, 's>(
    arguments: &Arguments<'_>,
    specs: impl Iterator<Item = &'s str>,
    launch: &LaunchEnvironment<'c>,
) -> Option<&'c ConfigFile> {
    let named: Vec<NamedFile> = specs.flat_map(|spec| named_by(arguments, spec)).collect();
    let [one] = named.as_slice() else { return None };
    read(one, launch)
}

/// DeepSpeed's file, if the command names one and it was read.
pub(crate) fn of_deepspeed<'c>(
    arguments: &Arguments<'_>,
    launch: &LaunchEnvironment<'c>,
) -> Option<&'c ConfigFile> {
    let mut named = DEEPSPEED.iter().flat_map(|spec| named_by(arguments, spec));
    named.find_map(|named| read(&named, launch))
}

fn read<'c>(named: &NamedFile, launch: &LaunchEnvironment<'c>) -> Option<&'c ConfigFile> {
    let mut files = launch.files.iter();
    files.find(|file| (file.at, file.from, &file.name) == (named.at, named.from, &named.name))
}

#[cfg(test)]
mod tests;
