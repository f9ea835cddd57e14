//! What is known of a command from its project's files, without running any of it: config files, source
//! lines, checkpoints, and the interpreter with its torch.
//!
//! The modules without I/O use what is read here. What can't be found out is `None`, never a guess;
//! the remedies then say that they don't know.

mod checkpoints;
mod python;

pub use checkpoints::{CheckpointPath, CheckpointSearch, newest_checkpoint};
pub use python::{
    Starter, TorchBuild, interpreter, python_version, torch_build, torch_directory, torch_version,
};

use crate::command;
use std::fs::File;
use std::io::Read;
use std::path::Path;
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
}
