//! Small files of the kernel: read whole, or kept open and read again, which saves looking up their path each second.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// More than any of these files has, but a `memory.stat` with the figures of many nodes.
const MOST: u64 = 64 << 10;

/// What is read of a kept file: a line or a few, or a list of some dozen figures.
const LINES: usize = 512;
const LIST: usize = 8 << 10;

/// All of a small file, or `None`.
pub(super) fn read_small(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    let file = File::open(path).ok()?;
    file.take(MOST).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// A file whose beginning is read again and again, without a path to be looked up and without memory: what the kernel needs to
/// read it stays with the open file. At a control group's limit whoever asks for memory waits until some is taken from others.
#[derive(Debug)]
pub(super) struct KeptFile {
    path: PathBuf,
    file: Option<File>,
    text: Box<[u8]>,
}

impl KeptFile {
    /// One of a line or a few.
    pub fn new(path: PathBuf) -> KeptFile {
        KeptFile::of(path, LINES)
    }

    /// One with a list of figures.
    pub fn list(path: PathBuf) -> KeptFile {
        KeptFile::of(path, LIST)
    }

    fn of(path: PathBuf, length: usize) -> KeptFile {
        KeptFile {
            path,
            file: None,
            text: vec![0; length].into(),
        }
    }

    /// Opens it again for the next look.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// What it says now, as far as there is room for it.
    pub fn read(&mut self) -> Option<&str> {
        if self.file.is_none() {
            self.file = Some(File::open(&self.path).ok()?);
        }
        match self.file.as_ref()?.read_at(&mut self.text, 0) {
            Ok(length) if length > 0 => std::str::from_utf8(&self.text[..length]).ok(),
            // What it was of is gone.
            Ok(_) | Err(_) => {
                self.file = None;
                None
            }
        }
    }
}

/// The number that a text begins with.
pub(super) fn first_number(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The number behind a name: `oom_kill 3`, `MemTotal:  24684084 kB` (in kB).
pub(super) fn value_of(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        match rest.starts_with([' ', '\t']) {
            true => first_number(rest),
            false => None,
        }
    })
}
