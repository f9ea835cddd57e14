//! Numbers in the program's own sources that the user chose to change. The file stays as it is: the probe compiles it, in
//! each of the program's Pythons, from its text with the numbers replaced.

use super::PATCHES;
use crate::command::{CommandLine, Word, quoted};
use std::fmt;
use std::path::Path;

/// The variable with which the probe is told the edits. It is part of the command's own environment, as if typed before
/// it, so it is displayed, recorded, copied and kept from run to run.
pub const EDITS: &str = "OOMPH_EDITS";

/// One number in a file, and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct SourceEdit {
    /// An absolute path.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    /// The byte of the line, as UTF-8, at which the number begins.
    pub column: u32,
    pub from: u64,
    pub to: u64,
    /// Of the whole file as it was read.
    pub crc: u32,
    /// What comes before the number, for display: `batch = `.
    pub spelled: String,
}

impl SourceEdit {
    /// The edits that a command asks for. Others are skipped here; the probe reports them.
    pub fn of(command: &CommandLine) -> Vec<SourceEdit> {
        command
            .env_value(EDITS)
            .map_or(Vec::new(), SourceEdit::read)
    }

    /// Those that a value of [`EDITS`] has.
    pub fn read(value: &Word) -> Vec<SourceEdit> {
        let entries = value.as_str().unwrap_or_default().split(',');
        entries.filter_map(SourceEdit::parse).collect()
    }

    /// How the edits of one command differ from those of another: what is added or changed, and what is not made any
    /// more.
    pub fn differences(
        from: Option<&Word>,
        to: Option<&Word>,
    ) -> (Vec<SourceEdit>, Vec<SourceEdit>) {
        let [from, to] = [from, to].map(|value| value.map_or(Vec::new(), SourceEdit::read));
        let new = to
            .iter()
            .filter(|edit| !from.iter().any(|old| old.is_at(edit) && old.to == edit.to));
        let new = new.map(|edit| {
            let before = from.iter().find(|old| old.is_at(edit));
            SourceEdit {
                from: before.map_or(edit.from, |old| old.to),
                ..edit.clone()
            }
        });
        let gone = from
            .iter()
            .filter(|old| !to.iter().any(|edit| edit.is_at(old)));
        (new.collect(), gone.cloned().collect())
    }

    fn parse(entry: &str) -> Option<SourceEdit> {
        let (rest, spelled) = entry.split_once('~').unwrap_or((entry, ""));
        let (rest, crc) = rest.rsplit_once('@')?;
        let (rest, to) = rest.rsplit_once('=')?;
        let mut parts = rest.rsplitn(4, ':');
        let (from, column, line) = (parts.next()?, parts.next()?, parts.next()?);
        Some(SourceEdit {
            file: decoded(parts.next()?),
            line: line.parse().ok()?,
            column: column.parse().ok()?,
            from: from.parse().ok()?,
            to: to.parse().ok()?,
            crc: u32::from_str_radix(crc, 16).ok()?,
            spelled: decoded(spelled),
        })
    }

    /// The value of [`EDITS`] for these.
    pub fn value(edits: &[SourceEdit]) -> String {
        let mut edits = edits.to_vec();
        edits.sort();
        let entries: Vec<String> = edits.iter().map(SourceEdit::to_string).collect();
        entries.join(",")
    }

    /// Whether it is of the same number of the same file.
    pub fn is_at(&self, other: &SourceEdit) -> bool {
        (&self.file, self.line, self.column) == (&other.file, other.line, other.column)
    }

    /// The change, for display: `train.py:2  batch = 128→64`.
    pub fn change(&self) -> String {
        let SourceEdit {
            spelled, from, to, ..
        } = self;
        format!("{}  {spelled}{from}→{to}", self.place())
    }

    /// The change as `--edit` takes it, with the file's name as it is in that directory.
    fn argument(&self, cwd: &Path) -> String {
        let path = Path::new(&self.file);
        let file = path.strip_prefix(cwd).unwrap_or(path).display();
        let SourceEdit {
            line,
            column,
            from,
            to,
            ..
        } = self;
        format!("{file}:{line}:{}:{from}={to}", column + 1)
    }

    /// The file and the line, for display.
    pub fn place(&self) -> String {
        let name = Path::new(&self.file).file_name();
        let name = name.map_or_else(
            || self.file.clone(),
            |name| name.to_string_lossy().into_owned(),
        );
        format!("{name}:{}", self.line)
    }
}

impl fmt::Display for SourceEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = encoded(&self.file, &['%', ',', '~']);
        let SourceEdit {
            line,
            column,
            from,
            to,
            crc,
            ..
        } = self;
        write!(f, "{file}:{line}:{column}:{from}={to}@{crc:08x}")?;
        match self.spelled.as_str() {
            "" => Ok(()),
            spelled => write!(f, "~{}", encoded(spelled, &['%', ',', '~', ' ', '"', '\'']),),
        }
    }
}

/// A text with these characters as `%` and two digits.
fn encoded(text: &str, special: &[char]) -> String {
    let mut whole = String::new();
    for c in text.chars() {
        match special.contains(&c) {
            true => whole.push_str(&format!("%{:02X}", u32::from(c))),
            false => whole.push(c),
        }
    }
    whole
}

fn decoded(text: &str) -> String {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        whole.push_str(before);
        let code = after
            .get(..2)
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(code) => {
                whole.push(char::from(code));
                rest = &after[2..];
            }
            None => {
                whole.push('%');
                rest = after;
            }
        }
    }
    whole + rest
}

/// A command as one types it: what the probe changes inside it takes oomph in front.
pub fn as_typed(command: &CommandLine) -> String {
    let (plain, edits) = without_edits(command);
    let mut words = Vec::new();
    if !edits.is_empty() || command.env_value(PATCHES).is_some() {
        words.push("oomph".to_string());
    }
    for edit in &edits {
        words.push(format!("--edit {}", quoted(&edit.argument(&command.cwd))));
    }
    words.push(plain.shown());
    words.join(" ")
}

/// The same to be pasted by somebody whose run oomph has watched: without oomph in front the next one would not be.
pub fn to_paste(command: &CommandLine) -> String {
    let typed = as_typed(command);
    match typed.starts_with("oomph ") {
        true => typed,
        false => format!("oomph {typed}"),
    }
}

/// A command for a person to read: numbers that are changed in the program's text follow it, by file and line.
pub fn displayed(command: &CommandLine) -> String {
    let (plain, edits) = without_edits(command);
    let changes: Vec<String> = edits.iter().map(SourceEdit::change).collect();
    match changes.as_slice() {
        [] => plain.shown(),
        changes => format!("{}  [{}]", plain.shown(), changes.join(", ")),
    }
}

/// A command without its edits, and these. A variable that holds anything else stays.
pub fn without_edits(command: &CommandLine) -> (CommandLine, Vec<SourceEdit>) {
    let edits = SourceEdit::of(command);
    let mut plain = command.clone();
    if !edits.is_empty() {
        plain.env.retain(|change| change.name != *EDITS);
    }
    (plain, edits)
}

/// The checksum of a file by which the probe knows it again, that of zlib and PNG.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| match crc & 1 {
            1 => crc >> 1 ^ 0xedb8_8320,
            _ => crc >> 1,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_its_edits_in_one_variable() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let edit = |file: &str, line| SourceEdit {
            file: file.into(),
            line,
            column: 8,
            from: 128,
            to: 64,
            crc: 0x0abc_def0,
            spelled: String::new(),
        };
        let named = SourceEdit {
            spelled: "\"batch, 50%\": ".into(),
            ..edit("/a/train.py", 30)
        };
        let edits = [edit("/a, b:c@d=50%~.py", 3), named];
        let value = SourceEdit::value(&edits);
        assert_eq!(
            value,
            "/a%2C b:c@d=50%25%7E.py:3:8:128=64@0abcdef0,\
             /a/train.py:30:8:128=64@0abcdef0~%22batch%2C%2050%25%22:%20"
        );
        let mut command = CommandLine::default();
        assert_eq!(SourceEdit::of(&command), []);
        command.set_env(EDITS, Some(Word::from(&value)));
        assert_eq!(SourceEdit::of(&command), edits);
        command.argv = vec!["python".into(), "/a/train.py".into()];
        command.cwd = "/a".into();
        assert_eq!(
            displayed(&command),
            "python /a/train.py  [a, b:c@d=50%~.py:3  128→64, train.py:30  \"batch, 50%\": 128→64]"
        );
        command.set_env(EDITS, Some(Word::from(&edits[1].to_string())));
        assert_eq!(
            as_typed(&command),
            "oomph --edit train.py:30:9:128=64 python /a/train.py"
        );
        assert_eq!(to_paste(&command), as_typed(&command));
        assert_eq!(
            to_paste(&without_edits(&command).0),
            "oomph python /a/train.py"
        );
        command.set_env(EDITS, Some(Word::from("train.py:1,,x:1:2:3=4@zz")));
        assert_eq!(SourceEdit::of(&command), []);
    }
}
