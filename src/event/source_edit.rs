//! Numbers in the program's own sources that the user chose to change. The file stays as it is: the probe compiles it, in
//! each of the program's Pythons, from its text with the numbers replaced.

use super::PATCHES;
use crate::command::{CommandLine, Word};
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
}

impl SourceEdit {
    /// The edits that a command asks for. Others are skipped here; the probe reports them.
    pub fn of(command: &CommandLine) -> Vec<SourceEdit> {
        let value = command.env_value(EDITS).and_then(Word::as_str);
        let entries = value.unwrap_or_default().split(',');
        entries.filter_map(SourceEdit::parse).collect()
    }

    fn parse(entry: &str) -> Option<SourceEdit> {
        let (rest, crc) = entry.rsplit_once('@')?;
        let (rest, to) = rest.rsplit_once('=')?;
        let mut parts = rest.rsplitn(4, ':');
        let (from, column, line) = (parts.next()?, parts.next()?, parts.next()?);
        Some(SourceEdit {
            file: parts.next()?.replace("%2C", ",").replace("%25", "%"),
            line: line.parse().ok()?,
            column: column.parse().ok()?,
            from: from.parse().ok()?,
            to: to.parse().ok()?,
            crc: u32::from_str_radix(crc, 16).ok()?,
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
        let file = self.file.replace('%', "%25").replace(',', "%2C");
        let SourceEdit {
            line,
            column,
            from,
            to,
            crc,
            ..
        } = self;
        write!(f, "{file}:{line}:{column}:{from}={to}@{crc:08x}")
    }
}

/// A command as one types it: what the probe changes inside it takes oomph in front.
pub fn as_typed(command: &CommandLine) -> String {
    let mut ours = [PATCHES, EDITS].iter();
    match ours.any(|name| command.env_value(*name).is_some()) {
        true => format!("oomph {}", command.shown()),
        false => command.shown(),
    }
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
        };
        let edits = [edit("/a, b:c@d=50%.py", 3), edit("/a/train.py", 30)];
        let value = SourceEdit::value(&edits);
        assert_eq!(
            value,
            "/a%2C b:c@d=50%25.py:3:8:128=64@0abcdef0,/a/train.py:30:8:128=64@0abcdef0"
        );
        let mut command = CommandLine::default();
        assert_eq!(SourceEdit::of(&command), []);
        command.set_env(EDITS, Some(Word::from(&value)));
        assert_eq!(SourceEdit::of(&command), edits);
        command.set_env(EDITS, Some(Word::from("train.py:1,,x:1:2:3=4@zz")));
        assert_eq!(SourceEdit::of(&command), []);
    }
}
