//! Reads the records of `*.txt` in this directory; `../commands.rs` says what they look like.

use oomph::command::{CommandLine, EnvChange, Word};
use std::fs;
use std::path::Path;

/// One command with what is known beside it and what must come of it.
pub struct Record {
    /// File and line, for a message.
    pub place: String,
    pub line: String,
    pub known: Vec<(String, String)>,
    pub files: Vec<(String, String)>,
    pub copied: Vec<(String, String)>,
    pub expected: Vec<(String, String)>,
}

impl Record {
    pub fn value(&self, key: &str) -> Option<&str> {
        let found = self.known.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    }

    /// The variables that the command inherits.
    pub fn inherited(&self) -> Vec<(String, String)> {
        let words = self.value("inherited").unwrap_or_default();
        words.split_whitespace().map(pair).collect()
    }
}

fn pair(word: &str) -> (String, String) {
    let (name, value) = word.split_once('=').expect("NAME=VALUE");
    (name.into(), value.into())
}

/// A command as a person types it; words `NAME=VALUE` in front are environment.
pub fn command(line: &str) -> CommandLine {
    let is_assignment = |word: &&String| {
        let name = word.split_once('=').map(|(name, _)| name);
        let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.is_some_and(|name| !name.is_empty() && name.chars().all(is_of_a_name))
    };
    let words = shlex::split(line).expect("a command of a test is quoted right");
    let typed = words.iter().take_while(is_assignment).count();
    let change = |word: &String| {
        let (name, value) = pair(word);
        EnvChange {
            name: Word::from(name.as_str()),
            value: Some(Word::from(value.as_str())),
        }
    };
    CommandLine {
        argv: words[typed..].iter().map(Word::from).collect(),
        env: words[..typed].iter().map(change).collect(),
        cwd: "/work".into(),
    }
}

pub fn records() -> Vec<Record> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands");
    let entries = fs::read_dir(directory).expect("the records");
    let paths = entries.map(|entry| entry.expect("a file").path());
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "txt"))
        .collect();
    paths.sort();
    paths.iter().flat_map(|path| records_of(path)).collect()
}

fn records_of(path: &Path) -> Vec<Record> {
    let name = path.file_name().expect("a name").to_string_lossy();
    let mut records: Vec<Record> = Vec::new();
    for (number, line) in fs::read_to_string(path).expect("text").lines().enumerate() {
        let place = format!("{name}:{}", number + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(line) = line.strip_prefix('$') {
            records.push(Record {
                place,
                line: line.trim_start().into(),
                known: Vec::new(),
                files: Vec::new(),
                copied: Vec::new(),
                expected: Vec::new(),
            });
            continue;
        }
        let record = records.last_mut().expect("a command first");
        if let Some(text) = line.strip_prefix("    | ") {
            // Of a file, the one that was named last.
            let of = match record.copied.is_empty() {
                true => &mut record.files,
                false => &mut record.copied,
            };
            let (_, whole) = of.last_mut().expect("a file's name first");
            whole.push_str(text);
            whole.push('\n');
            continue;
        }
        let line = line.strip_prefix("  ").unwrap_or_else(|| panic!("{place}"));
        let (key, value) = line.split_at(line.len().min(10));
        let (key, value) = (key.trim_end(), value.strip_prefix(' ').unwrap_or(value));
        let (name, text) = value.split_once(' ').unwrap_or((value, ""));
        match key {
            "file" => record.files.push((name.into(), text.into())),
            "copied" => record.copied.push((name.into(), text.into())),
            "scale" | "bf16" | "inherited" | "checkpoint" | "torch" | "conf" | "argument" => {
                record.known.push((key.into(), value.into()));
            }
            _ => record.expected.push((key.into(), value.into())),
        }
    }
    records
}
