//! The newest complete checkpoint of a training.
//!
//! A run that ran out of memory while saving leaves half a checkpoint. A directory is complete once
//! the files that its framework writes last are there; a file written by `torch.save` once its end
//! is there (it is a zip archive, with its directory at the end).

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

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
    use std::time::Duration;

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
