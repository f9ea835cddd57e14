//! `--edit FILE:LINE[:COLUMN]:OLD=NEW`: a number of the program's text that the user has named, checked against the file.

use crate::command::{CommandLine, Word};
use crate::event::{EDITS, SourceEdit, crc32};
use crate::recognize::{CommandLayout, written_numbers};
use std::path::Path;

/// A longer file is no source.
const LONGEST: u64 = 16 << 20;

/// The command with these edits, beside those that it has.
///
/// # Errors
/// Which edit cannot be made, why, and what to write instead.
pub(crate) fn with_edits(command: &CommandLine, typed: &[String]) -> Result<CommandLine, String> {
    if let (Some(first), Some(option)) = (
        typed.first(),
        CommandLayout::new(command).keeps_probe_out(command),
    ) {
        return Err(format!(
            "--edit {first}: `python {option}` keeps out what would change it: leave {option} out, or change the file by hand"
        ));
    }
    let mut command = command.clone();
    let mut edits = SourceEdit::of(&command);
    for words in typed {
        let edit = read(&command.cwd, words).map_err(|why| format!("--edit {words}: {why}"))?;
        edits.retain(|other| !other.is_at(&edit));
        edits.push(edit);
    }
    if !typed.is_empty() {
        command.set_env(EDITS, Some(Word::from(SourceEdit::value(&edits))));
    }
    Ok(command)
}

/// What was typed.
struct Asked<'a> {
    file: &'a str,
    line: u32,
    column: Option<u32>,
    from: u64,
    to: u64,
}

fn asked(words: &str) -> Option<Asked<'_>> {
    let (place, to) = words.rsplit_once('=')?;
    let (place, from) = place.rsplit_once(':')?;
    let (front, last) = place.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let numbered = front
        .rsplit_once(':')
        .and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)));
    let (file, line, column) = match numbered {
        Some((file, line)) => (file, line, Some(last)),
        None => (front, last, None),
    };
    Some(Asked {
        file,
        line,
        column,
        from: from.parse().ok()?,
        to: to.parse().ok()?,
    })
}

fn read(cwd: &Path, words: &str) -> Result<SourceEdit, String> {
    let asked = asked(words)
        .ok_or("write it as train.py:30:128=64: file, line, the number there and the new one")?;
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", asked.file);
    let path = std::fs::canonicalize(cwd.join(asked.file)).map_err(cannot)?;
    let about = std::fs::metadata(&path).map_err(cannot)?;
    if !about.is_file() || about.len() > LONGEST {
        return Err(format!("{} is no source file", asked.file));
    }
    let bytes = std::fs::read(&path).map_err(cannot)?;
    let file = path
        .to_str()
        .ok_or_else(|| format!("the name of {} is no text", asked.file))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| format!("{} is not UTF-8", asked.file))?;
    // Python's columns are those of the text without a mark of its encoding.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split('\n');
    let index = usize::try_from(asked.line)
        .unwrap_or(usize::MAX)
        .checked_sub(1);
    let line = index
        .and_then(|index| lines.nth(index))
        .ok_or_else(|| format!("{} has {} lines", asked.file, text.split('\n').count()))?;
    let column = column_of(&asked, line)?;
    Ok(SourceEdit {
        file: file.into(),
        line: asked.line,
        column: u32::try_from(column).map_err(|_| "the line is too long")?,
        from: asked.from,
        to: asked.to,
        crc: crc32(&bytes),
        spelled: spelled(&line[..column]),
    })
}

/// The byte of the line at which its number begins.
fn column_of(asked: &Asked<'_>, line: &str) -> Result<usize, String> {
    let is_it = |at: &usize| {
        let mut written = written_numbers(line, *at).into_iter();
        written.any(|(number, _)| number == asked.from)
    };
    let found: Vec<usize> = starts(line).filter(is_it).collect();
    let Asked { line: at, from, .. } = asked;
    let wanted = asked.column.map(|column| column.saturating_sub(1) as usize);
    match (wanted, found.as_slice()) {
        (Some(wanted), found) if found.contains(&wanted) => Ok(wanted),
        (_, []) => Err(format!("line {at} has no {from}: {}", line.trim())),
        (Some(_), [first, ..]) => Err(format!(
            "there is no {from} at that column of line {at}, but at column {}",
            first + 1
        )),
        (None, [only]) => Ok(*only),
        (None, [first, ..]) => Err(format!(
            "{from} stands more than once on line {at}; name the column, {at}:{}:{from}={}",
            first + 1,
            asked.to
        )),
    }
}

/// Where words and numbers of a line begin.
fn starts(line: &str) -> impl Iterator<Item = usize> + '_ {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let starts = line.char_indices().scan(' ', move |before, (at, c)| {
        let is_start = is_word(c) && !is_word(*before);
        *before = c;
        Some((at, is_start))
    });
    starts.filter(|(_, is_start)| *is_start).map(|(at, _)| at)
}

/// What comes right before a number: a name and what assigns it.
fn spelled(before: &str) -> String {
    let inner = before.rsplit(['(', ',', '{', '[', ';']).next();
    inner.unwrap_or(before).trim_start().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const TEXT: &str =
        "import x\nBATCH = 128\nf(é=1, batch_size=128, n=128)\ny = 1_024; z = 128.5\nw = 2 ** 7\n";

    fn edit(words: &str) -> Result<SourceEdit, String> {
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("train.py"), TEXT).unwrap();
        read(directory.path(), words)
    }

    #[test]
    fn a_number_is_found_by_its_line() {
        for (words, line, column, change) in [
            ("train.py:2:128=64", 2, 8, "train.py:2  BATCH = 128→64"),
            ("train.py:2:9:128=64", 2, 8, "train.py:2  BATCH = 128→64"),
            (
                "train.py:3:20:128=64",
                3,
                19,
                "train.py:3  batch_size=128→64",
            ),
            ("./train.py:4:1024=512", 4, 4, "train.py:4  y = 1024→512"),
            ("train.py:5:128=64", 5, 4, "train.py:5  w = 128→64"),
        ] {
            let edit = edit(words).unwrap();
            assert_eq!((edit.line, edit.column), (line, column), "{words}");
            assert_eq!(edit.change(), change);
            assert_eq!(edit.crc, crc32(TEXT.as_bytes()));
        }
    }

    #[test]
    fn a_mark_of_the_encoding_is_no_part_of_the_first_line() {
        let directory = TempDir::new().unwrap();
        let text = "\u{feff}BATCH = 128\n";
        std::fs::write(directory.path().join("train.py"), text).unwrap();
        for words in ["train.py:1:128=64", "train.py:1:9:128=64"] {
            let edit = read(directory.path(), words).unwrap();
            assert_eq!((edit.column, edit.crc), (8, crc32(text.as_bytes())));
            assert_eq!(edit.change(), "train.py:1  BATCH = 128→64");
        }
    }

    #[test]
    fn what_stands_there_is_said_where_it_is_another() {
        for (words, why) in [
            ("train.py:2", "write it as"),
            ("train.py:2:128", "write it as"),
            ("train.py:two:128=64", "write it as"),
            ("none.py:2:128=64", "cannot read none.py"),
            (".:2:128=64", ". is no source file"),
            ("train.py:9:128=64", "train.py has 6 lines"),
            ("train.py:2:256=64", "line 2 has no 256: BATCH = 128"),
            ("train.py:2:3:128=64", "but at column 9"),
            ("train.py:3:128=64", "name the column, 3:20:128=64"),
            ("train.py:4:128=64", "line 4 has no 128"),
        ] {
            let said = edit(words).unwrap_err();
            assert!(said.contains(why), "{words}: {said}");
        }
    }
}
