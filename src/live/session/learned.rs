//! What relaunches have shown of the numbers that may set a program's batch, kept for later sessions in one small file
//! beside the recordings. It is read and written beside the loop, after an out-of-memory. A file that cannot be read, or
//! is damaged, counts as empty, and is replaced when something is learned.

use crate::command::CommandLine;
use crate::event::crc32;
use crate::recognize::{CommandLayout, KnobEffect, KnobPlace, LearnedKnob, ProgramKind};
use crate::recording::{self, BaseDirs};
use crate::whole_file::{self, Readers};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

const NAME: &str = "learned.json";
/// Entries that are kept, the latest ones.
const MOST: usize = 200;
/// A longer file was not written here.
const LARGEST: u64 = 1 << 20;
/// A longer source is not compared.
const LONGEST_SOURCE: u64 = 16 << 20;

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    /// The script's real path, or the module or command and where it was started.
    program: String,
    place: KnobPlace,
    effect: KnobEffect,
    /// Of the file that the number, or the program, is in, as it was then.
    crc: Option<u32>,
    session: String,
}

/// What is known of the program of `command`, the latest last.
pub(crate) fn read(command: &CommandLine) -> Vec<LearnedKnob> {
    match BaseDirs::of_this_user().beside_recordings() {
        Some(directory) => of_program(&entries(&directory.join(NAME)), command),
        None => Vec::new(),
    }
}

/// Adds what was learned of the program of `command`.
///
/// # Errors
/// Why it is not remembered.
pub(crate) fn remember(command: &CommandLine, knob: &LearnedKnob) -> Result<(), String> {
    let directory = BaseDirs::of_this_user().beside_recordings();
    add(directory.as_deref(), command, knob).map_err(|why| {
        format!(
            "what was learned of {} is not kept for later sessions: {why}",
            knob.place
        )
    })
}

fn add(directory: Option<&Path>, command: &CommandLine, knob: &LearnedKnob) -> Result<(), String> {
    let directory = directory.ok_or("there is no directory for recordings")?;
    let (program, source) = program_of(command).ok_or("the command's program is not known")?;
    let path = directory.join(NAME);
    let mut all = entries(&path);
    all.retain(|entry| (&entry.program, &entry.place) != (&program, &knob.place));
    all.push(Entry {
        program,
        place: knob.place.clone(),
        effect: knob.effect,
        crc: crc_of(&knob.place, source.as_deref()),
        session: knob.session.clone(),
    });
    all.drain(..all.len().saturating_sub(MOST));
    let lines: Result<Vec<String>, _> = all.iter().map(serde_json::to_string).collect();
    let text = lines.map_err(|error| error.to_string())?.join("\n") + "\n";
    whole_file::replace_without_waiting(&path, Readers::Owner, text.as_bytes())
        .map_err(|error| format!("cannot write {} ({error})", path.display()))
}

fn of_program(entries: &[Entry], command: &CommandLine) -> Vec<LearnedKnob> {
    let Some((program, source)) = program_of(command) else {
        return Vec::new();
    };
    let own = entries.iter().filter(|entry| entry.program == program);
    own.map(|entry| {
        let is_same = || entry.crc == crc_of(&entry.place, source.as_deref());
        LearnedKnob {
            place: entry.place.clone(),
            effect: match entry.effect {
                KnobEffect::Nothing if !is_same() => KnobEffect::NothingThen,
                effect => effect,
            },
            session: entry.session.clone(),
        }
    })
    .collect()
}

/// The lines of the file that can be read.
fn entries(path: &Path) -> Vec<Entry> {
    let Ok(file) = recording::open_own(path) else {
        return Vec::new();
    };
    let mut bytes = Vec::new();
    let read = file.take(LARGEST).read_to_end(&mut bytes);
    if read.is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let read = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let all: Vec<Entry> = read.collect();
    all[all.len().saturating_sub(MOST)..].to_vec()
}

/// What a command's program is known by, and its source, if it has one.
fn program_of(command: &CommandLine) -> Option<(String, Option<PathBuf>)> {
    let layout = CommandLayout::new(command);
    let word = command.argv.get(layout.program)?.as_str()?;
    let cwd = fs::canonicalize(&command.cwd).unwrap_or_else(|_| command.cwd.clone());
    let in_cwd = |name: &str| format!("{name} in {}", cwd.display());
    match layout.kind {
        ProgramKind::Script | ProgramKind::ShellScript => {
            let path = fs::canonicalize(cwd.join(word)).ok()?;
            Some((path.to_string_lossy().into_owned(), Some(path)))
        }
        ProgramKind::Module => {
            let module = cwd.join(word.replace('.', "/"));
            let files = [module.with_extension("py"), module.join("__main__.py")];
            let source = files.into_iter().find(|path| path.is_file());
            Some((in_cwd(&format!("-m {word}")), source))
        }
        ProgramKind::Executable => Some((in_cwd(word), None)),
        ProgramKind::Code
        | ProgramKind::ShellString
        | ProgramKind::Image
        | ProgramKind::Remote
        | ProgramKind::Missing => None,
    }
}

/// Of the file that a number is in.
fn crc_of(place: &KnobPlace, source: Option<&Path>) -> Option<u32> {
    let path = match place {
        KnobPlace::Literal { file, .. } => Path::new(file),
        KnobPlace::Argument { .. } | KnobPlace::Setting { .. } => source?,
    };
    let about = fs::metadata(path).ok()?;
    let is_source = about.is_file() && about.len() <= LONGEST_SOURCE;
    Some(crc32(&is_source.then(|| fs::read(path).ok()).flatten()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Word;
    use tempfile::TempDir;

    fn command(directory: &Path, words: &[&str]) -> CommandLine {
        CommandLine {
            argv: words.iter().map(Word::from).collect(),
            env: Vec::new(),
            cwd: directory.into(),
        }
    }

    fn knob(name: &str, effect: KnobEffect) -> LearnedKnob {
        LearnedKnob {
            place: KnobPlace::Argument { name: name.into() },
            effect,
            session: "20260101-000000-python".into(),
        }
    }

    #[test]
    fn what_a_session_learned_of_a_program_is_there_for_the_next() {
        let directory = TempDir::new().unwrap();
        let (here, file) = (directory.path(), directory.path().join(NAME));
        fs::write(here.join("train.py"), "a").unwrap();
        fs::write(here.join("other.py"), "a").unwrap();
        let train = command(here, &["python", "train.py", "--lr", "3"]);
        for (name, effect) in [
            ("--rows", KnobEffect::Nothing),
            ("--batch", KnobEffect::Nothing),
            ("--batch", KnobEffect::Took),
        ] {
            add(Some(here), &train, &knob(name, effect)).unwrap();
        }
        let again = command(here, &["python3", "./train.py"]);
        let both = [
            knob("--rows", KnobEffect::Nothing),
            knob("--batch", KnobEffect::Took),
        ];
        assert_eq!(of_program(&entries(&file), &again), both);
        let other = command(here, &["python", "other.py"]);
        assert_eq!(of_program(&entries(&file), &other), []);
        // In a program that was changed since it may have one.
        fs::write(here.join("train.py"), "b").unwrap();
        let effects: Vec<KnobEffect> = of_program(&entries(&file), &again)
            .iter()
            .map(|known| known.effect)
            .collect();
        assert_eq!(effects, [KnobEffect::NothingThen, KnobEffect::Took]);
    }

    #[test]
    fn a_damaged_file_counts_as_far_as_it_can_be_read_and_is_replaced() {
        let directory = TempDir::new().unwrap();
        let (here, file) = (directory.path(), directory.path().join(NAME));
        fs::write(here.join("train.py"), "a").unwrap();
        let train = command(here, &["python", "train.py"]);
        let took = knob("--batch", KnobEffect::Took);
        add(Some(here), &train, &took).unwrap();
        let mut bytes = fs::read(&file).unwrap();
        bytes.extend(b"{\"program\": 3}\n\xff\xfe\0\n{\"progr");
        fs::write(&file, bytes).unwrap();
        assert_eq!(of_program(&entries(&file), &train), [took]);
        for n in 0..2 * MOST {
            let name = format!("--n{n}");
            add(Some(here), &train, &knob(&name, KnobEffect::Nothing)).unwrap();
        }
        assert_eq!(entries(&file).len(), MOST);
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), MOST);
        let last = of_program(&entries(&file), &train).pop().unwrap();
        assert_eq!(last.place.to_string(), format!("--n{}", 2 * MOST - 1));
    }

    #[test]
    fn where_it_cannot_be_written_that_is_said() {
        let directory = TempDir::new().unwrap();
        let here = directory.path();
        fs::write(here.join("train.py"), "a").unwrap();
        let train = command(here, &["python", "train.py"]);
        let took = knob("--batch", KnobEffect::Took);
        assert!(add(None, &train, &took).is_err());
        assert!(add(Some(&here.join("none")), &train, &took).is_err());
        fs::create_dir(here.join(NAME)).unwrap();
        assert!(add(Some(here), &train, &took).is_err());
        assert_eq!(entries(&here.join(NAME)), []);
        let code = command(here, &["python", "-c", "pass"]);
        assert!(add(Some(here), &code, &took).is_err());
    }
}
