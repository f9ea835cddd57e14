//! An output log as it grows, across its parts: the older one, then the current one, which becomes the
//! older one when a new part begins.

use crate::event::older_part;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How a log is opened.
pub(in crate::commands) type Opener = fn(&Path) -> io::Result<File>;

pub(in crate::commands) struct LogTail {
    path: PathBuf,
    opener: Opener,
    older: Option<File>,
    present: Option<File>,
}

/// What a look brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Taken {
    /// There may be more at once: another part has begun.
    Part,
    /// All that there is.
    All,
}

impl LogTail {
    /// From the start of its older part on.
    pub(in crate::commands) fn open(path: &Path, opener: Opener) -> io::Result<LogTail> {
        // The current one first: if it becomes the older one now, it is still read once.
        let present = existing(opener(path))?;
        let older = existing(opener(&older_part(path)))?;
        Ok(LogTail {
            path: path.to_owned(),
            opener,
            older: older.filter(|file| !same(file, present.as_ref())),
            present,
        })
    }

    /// Skips all but the last `most` bytes.
    pub(in crate::commands) fn skip_to_last(&mut self, most: u64) -> io::Result<()> {
        let mut room = most;
        for part in [&mut self.present, &mut self.older] {
            let Some(file) = part else { continue };
            let length = file.metadata()?.len();
            if length > room {
                file.seek(SeekFrom::Start(length - room))?;
            }
            room = room.saturating_sub(length);
            if room == 0 {
                break;
            }
        }
        if self.older.is_some() && room == 0 && self.present_is_at_least(most)? {
            self.older = None;
        }
        Ok(())
    }

    fn present_is_at_least(&self, most: u64) -> io::Result<bool> {
        let length = self.present.as_ref().map(File::metadata).transpose()?;
        Ok(length.is_some_and(|about| about.len() >= most))
    }

    /// Writes what has come since.
    pub(in crate::commands) fn take(&mut self, out: &mut impl Write) -> io::Result<Taken> {
        if let Some(mut older) = self.older.take() {
            io::copy(&mut older, out)?;
        }
        if self.present.is_none() {
            self.present = existing((self.opener)(&self.path))?;
        }
        let mut taken = 0;
        if let Some(file) = &mut self.present {
            taken = io::copy(&mut Read::by_ref(file), out)?;
        }
        let next = existing((self.opener)(&self.path))?;
        let has_turned = next
            .as_ref()
            .is_some_and(|next| !same(next, self.present.as_ref()));
        match (has_turned, taken) {
            // It has become the older part since, or there is more of it.
            (true, 0) => {
                self.present = next;
                Ok(Taken::Part)
            }
            (true, _) => Ok(Taken::Part),
            (false, _) => Ok(Taken::All),
        }
    }
}

fn existing(opened: io::Result<File>) -> io::Result<Option<File>> {
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn same(file: &File, other: Option<&File>) -> bool {
    let identity = |file: &File| file.metadata().ok().map(|about| (about.dev(), about.ino()));
    other.is_some_and(|other| identity(file) == identity(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn all(tail: &mut LogTail) -> Vec<u8> {
        let mut out = Vec::new();
        while tail.take(&mut out).unwrap() == Taken::Part {}
        out
    }

    #[test]
    fn parts_are_read_in_order_and_each_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("output.log");
        let open: Opener = |path| File::open(path);
        let mut tail = LogTail::open(&path, open).unwrap();
        assert_eq!(all(&mut tail), b"");
        fs::write(&path, b"new \xff\r\n").unwrap();
        assert_eq!(all(&mut tail), b"new \xff\r\n");
        assert_eq!(all(&mut tail), b"");
        fs::write(directory.path().join("output.log.1"), "old ").unwrap();
        let mut again = LogTail::open(&path, open).unwrap();
        assert_eq!(all(&mut again), b"old new \xff\r\n");
        fs::rename(&path, directory.path().join("output.log.1")).unwrap();
        fs::write(&path, "newer").unwrap();
        assert_eq!(all(&mut tail), b"newer");
        assert_eq!(all(&mut again), b"newer");
    }

    #[test]
    fn only_the_last_bytes_of_both_parts_are_wanted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("output.log");
        fs::write(directory.path().join("output.log.1"), "0123456789").unwrap();
        fs::write(&path, "abcdef").unwrap();
        for (most, expected) in [
            (3, "def"),
            (6, "abcdef"),
            (9, "789abcdef"),
            (99, "0123456789abcdef"),
        ] {
            let mut tail = LogTail::open(&path, |path| File::open(path)).unwrap();
            tail.skip_to_last(most).unwrap();
            assert_eq!(all(&mut tail), expected.as_bytes(), "{most}");
        }
    }
}
