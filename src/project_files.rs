//! What is known of a command from its project's files, without running any of it: config files, source
//! lines, checkpoints, and the interpreter with its torch.
//!
//! The modules without I/O use what is read here. What can't be found out is `None`, never a guess;
//! the remedies then say that they don't know.

mod python;

use crate::command;
pub use python::{
    Starter, TorchBuild, interpreter, python_version, torch_build, torch_directory, torch_version,
};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A longer file isn't a training's config.
const LONGEST: u64 = 1 << 20;

/// The contents of the file at `path`, relative to `cwd`; `None` if it can't be read, isn't a
/// regular file or text, or is too long.
pub fn config_text(cwd: &Path, path: &Path) -> Option<String> {
    let path = cwd.join(path);
    // A FIFO would block, and be emptied.
    if !path.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= LONGEST).then_some(text)
}

/// A longer file isn't read: source files are shorter.
const LONGEST_SOURCE: u64 = 4 << 20;

/// Characters of a line that are kept.
const WIDEST: usize = 100;

/// The texts of lines, counted from 1, without those that are empty: without indentation, secrets
/// masked. None if the file was modified after `started`, since it may no longer be what runs, and
/// none of what is no regular file.
pub fn source_lines(path: &Path, numbers: &[u32], started: SystemTime) -> Vec<(u32, String)> {
    let Some(bytes) = source(path, started) else {
        return Vec::new();
    };
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let text_of = |number: &u32| {
        let place = usize::try_from(*number).ok()?.checked_sub(1)?;
        let text = shown(&String::from_utf8_lossy(lines.get(place)?));
        (!text.is_empty()).then_some((*number, text))
    };
    numbers.iter().filter_map(text_of).collect()
}

fn source(path: &Path, started: SystemTime) -> Option<Vec<u8>> {
    let about = std::fs::metadata(path).ok()?;
    // A FIFO would block, and be emptied.
    let is_source = about.is_file() && about.len() <= LONGEST_SOURCE;
    if !is_source || about.modified().ok()? > started {
        return None;
    }
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(LONGEST_SOURCE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// On one line. A secret is masked before the line is cut, or its half would not be seen as one.
fn shown(line: &str) -> String {
    let words = line.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    let line = command::without_secrets(&line);
    match line.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.into_owned(),
    }
}

/// What to look for.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointSearch<'a> {
    /// The program's output directory, as written in the command.
    pub directory: &'a Path,
    /// Patterns of paths below it: `#` is a number, `*` anything but a slash.
    pub find: &'a [String],
    /// The files that a checkpoint directory contains once it is complete.
    pub complete: &'a [String],
    /// Anything last modified earlier belongs to another run.
    pub since: Option<SystemTime>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointPath {
    /// Below the directory as written in the command.
    pub path: PathBuf,
    /// The number in its name: its step or epoch.
    pub number: Option<u64>,
}

/// Larger directories are not searched.
const MOST_ENTRIES: usize = 10_000;

/// The newest complete checkpoint of a training.
///
/// A run that ran out of memory while saving leaves half a checkpoint. A directory is complete once the
/// files that its framework writes last are there; a file written by `torch.save` once its end is there (it
/// is a zip archive, with its directory at the end).
pub fn newest_checkpoint(cwd: &Path, search: CheckpointSearch<'_>) -> Option<CheckpointPath> {
    let mut found: Vec<(SystemTime, CheckpointPath)> = Vec::new();
    for pattern in search.find {
        let start = (search.directory.to_path_buf(), None);
        let mut places = vec![start];
        for part in pattern.split('/') {
            let deeper = |(path, number): (PathBuf, Option<u64>)| matching(cwd, path, number, part);
            places = places.into_iter().flat_map(deeper).collect();
        }
        for (path, number) in places {
            if let Some(at) = completed(&cwd.join(&path), search.complete)
                && search.since.is_none_or(|since| at >= since)
            {
                found.push((at, CheckpointPath { path, number }));
            }
        }
    }
    let newest = found
        .into_iter()
        .max_by_key(|(at, checkpoint)| (*at, checkpoint.number));
    newest.map(|(_, checkpoint)| checkpoint)
}

/// The entries of a directory that match a component of a pattern, with the number in their name.
fn matching(
    cwd: &Path,
    path: PathBuf,
    number: Option<u64>,
    part: &str,
) -> Vec<(PathBuf, Option<u64>)> {
    if part == "." {
        return vec![(path, number)];
    }
    if !part.contains(['#', '*']) {
        return vec![(path.join(part), number)];
    }
    let Ok(entries) = fs::read_dir(cwd.join(&path)) else {
        return Vec::new();
    };
    entries
        .take(MOST_ENTRIES)
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let here = fits(name.to_str()?, part)?;
            // The directory itself, typed as `.`, is not part of the path.
            let below = if path == Path::new(".") {
                PathBuf::from(&name)
            } else {
                path.join(&name)
            };
            Some((below, here.or(number)))
        })
        .collect()
}

/// Whether a name matches a pattern, and the number for `#`.
fn fits(name: &str, pattern: &str) -> Option<Option<u64>> {
    let Some(at) = pattern.find(['#', '*']) else {
        return (name == pattern).then_some(None);
    };
    let (front, rest) = (&pattern[..at], &pattern[at + 1..]);
    let tail = name.strip_prefix(front)?;
    if pattern[at..].starts_with('#') {
        let digits = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = tail[..digits].parse().ok()?;
        return fits(&tail[digits..], rest).map(|later| later.or(Some(number)));
    }
    let mut cuts = (0..=tail.len()).filter(|cut| tail.is_char_boundary(*cut));
    cuts.find_map(|cut| fits(&tail[cut..], rest))
}

/// When a checkpoint was completed; `None` if it isn't complete.
fn completed(path: &Path, needed: &[String]) -> Option<SystemTime> {
    let about = fs::metadata(path).ok()?;
    if about.is_dir() {
        // It dates from the last file written.
        let mut times = Vec::new();
        for name in needed {
            let file = fs::metadata(path.join(name)).ok()?;
            (file.is_file() && file.len() > 0).then_some(())?;
            times.push(file.modified().ok()?);
        }
        return times.into_iter().max();
    }
    (about.is_file() && is_whole(path)).then_some(())?;
    about.modified().ok()
}

/// Whether a file written by `torch.save` has its end. Files that aren't zip archives (torch before
/// 1.6) can't be checked and do not count.
fn is_whole(path: &Path) -> bool {
    /// The signature of a zip archive's end record, which has 22 bytes without a comment.
    const END: [u8; 4] = *b"PK\x05\x06";
    const LENGTH: i64 = 22;
    let read = || -> std::io::Result<bool> {
        let mut file = File::open(path)?;
        let mut bytes = [0; 4];
        file.read_exact(&mut bytes)?;
        if bytes != *b"PK\x03\x04" {
            return Ok(false);
        }
        file.seek(SeekFrom::End(-LENGTH))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes == END)
    };
    read().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn what_is_no_config_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.yaml"), "x: 1\n").unwrap();
        fs::write(dir.path().join("b.yaml"), [0xff, 0xfe]).unwrap();
        fs::write(dir.path().join("c.yaml"), vec![b' '; 2 << 20]).unwrap();
        let read = |name: &str| config_text(dir.path(), Path::new(name));
        assert_eq!(read("a.yaml").as_deref(), Some("x: 1\n"));
        let pipe = dir.path().join("pipe.yaml");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in [
            "b.yaml",
            "c.yaml",
            "missing.yaml",
            "pipe.yaml",
            ".",
            "/dev/zero",
        ] {
            assert_eq!(read(name), None, "{name}");
        }
    }

    fn read(text: &[u8], numbers: &[u32]) -> Vec<(u32, String)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.py");
        fs::write(&path, text).unwrap();
        let later = SystemTime::now() + Duration::from_secs(60);
        source_lines(&path, numbers, later)
    }

    #[test]
    fn lines_are_read_by_their_numbers() {
        let text = b"import torch\n\n    x = self.mlp(\n\tself.norm(x),  y)\r\n";
        let found = read(text, &[1, 2, 3, 4, 5, 0, u32::MAX]);
        let expected = [
            (1, "import torch"),
            (3, "x = self.mlp("),
            (4, "self.norm(x), y)"),
        ];
        assert_eq!(found, expected.map(|(n, text)| (n, text.to_string())));
    }

    #[test]
    fn a_secret_is_masked_and_a_long_line_is_cut_behind_it() {
        let secret = "hf_abcdefghijklmnopqrstuvwx";
        let long = format!("{}login(api_key=\"{secret}\")", "f(1); ".repeat(15));
        let found = read(long.as_bytes(), &[1]).remove(0).1;
        assert!(!found.contains("hf_"), "{found}");
        assert!(
            found.chars().count() <= WIDEST + 1 && found.ends_with('…'),
            "{found}"
        );
        let odd = read("x = \"äöü\u{1b}[2J\" # \u{fffd}".as_bytes(), &[1])
            .remove(0)
            .1;
        assert_eq!(odd, "x = \"äöü [2J\" # \u{fffd}");
        assert_eq!(read(b"\xff\xfe x", &[1])[0].1, "\u{fffd}\u{fffd} x");
    }

    #[test]
    fn what_may_not_be_what_runs_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.py");
        fs::write(&path, "x = 1\n").unwrap();
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        let second = Duration::from_secs(1);
        assert_eq!(source_lines(&path, &[1], written).len(), 1);
        assert!(
            source_lines(&path, &[1], written - second).is_empty(),
            "edited since"
        );
        let pipe = dir.path().join("pipe.py");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let later = SystemTime::now() + 60 * second;
        for path in [
            pipe.as_path(),
            dir.path(),
            Path::new("/dev/zero"),
            Path::new("/none.py"),
        ] {
            assert!(source_lines(path, &[1], later).is_empty(), "{path:?}");
        }
        fs::write(&path, vec![b'\n'; (LONGEST_SOURCE + 1) as usize]).unwrap();
        assert!(source_lines(&path, &[1], later).is_empty(), "too long");
    }

    fn whole() -> Vec<u8> {
        [b"PK\x03\x04 data ".as_slice(), b"PK\x05\x06", &[0; 18]].concat()
    }

    /// A file with these bytes, modified so many seconds after a fixed instant.
    fn file(root: &Path, name: &str, bytes: &[u8], at: u64) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + at);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(time)
            .unwrap();
    }

    fn found(
        root: &Path,
        directory: &str,
        find: &str,
        since: u64,
    ) -> Option<(String, Option<u64>)> {
        let complete = ["trainer_state.json".to_string()];
        newest_checkpoint(
            root,
            CheckpointSearch {
                directory: Path::new(directory),
                find: &[find.to_string()],
                complete: &complete,
                since: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + since)),
            },
        )
        .map(|found| (found.path.display().to_string(), found.number))
    }

    #[test]
    fn the_newest_complete_directory_counts() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(found(root, "out", "checkpoint-#", 0), None);
        file(root, "out/checkpoint-100/trainer_state.json", b"{}", 10);
        file(root, "out/checkpoint-900/trainer_state.json", b"{}", 20);
        file(root, "out/checkpoint-1000/model.safetensors", b"half", 30);
        file(root, "out/checkpoint-1100/trainer_state.json", b"", 40);
        file(root, "out/checkpoint-best/trainer_state.json", b"{}", 50);
        let newest = Some(("out/checkpoint-900".to_string(), Some(900)));
        assert_eq!(found(root, "out", "checkpoint-#", 0), newest);
        assert_eq!(found(root, "out/", "checkpoint-#", 20), newest);
        assert_eq!(
            found(root, "out", "checkpoint-#", 21),
            None,
            "another run's"
        );
        assert_eq!(found(root, "out/checkpoint-900", ".", 0).unwrap().1, None);
    }

    #[test]
    fn a_file_counts_once_its_end_is_there() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        file(root, "runs/a/last.pth.tar", &whole(), 10);
        file(
            root,
            "runs/b/last.pth.tar",
            b"PK\x03\x04 cut in the middle of it",
            20,
        );
        file(
            root,
            "runs/c/last.pth.tar",
            b"an older format, of which nothing can be told",
            30,
        );
        assert_eq!(
            found(root, "runs", "*/last.pth.tar", 0),
            Some(("runs/a/last.pth.tar".to_string(), None))
        );
        file(root, "logs/v0/epoch=1-step=40.ckpt", &whole(), 10);
        file(root, "logs/v0/epoch=2-step=60.ckpt", &whole(), 10);
        assert_eq!(
            found(root, ".", "logs/*/*step=#.ckpt", 0),
            Some(("./logs/v0/epoch=2-step=60.ckpt".to_string(), Some(60)))
        );
        file(root, "model_step_5.pt", &whole(), 10);
        assert_eq!(
            found(root, ".", "model_step_#.pt", 0),
            Some(("model_step_5.pt".to_string(), Some(5)))
        );
    }
}
