//! The log's files: the current part and the one before.
//!
//! Each is a new file. What exists already isn't ours: it may be the user's data, or the very file
//! that the command writes to, which the log would then copy into itself without end.

use crate::background::{STACK, write_counted};
use crate::event::older_part;
use crate::whole_file::{self, Home};
use std::fs::{File, Metadata, OpenOptions, symlink_metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub(super) struct LogParts {
    path: PathBuf,
    limit: u64,
    open: Option<(File, u64)>,
    /// The file that we created, to recognize it.
    ours: Option<Identity>,
    /// Whether we created the older part.
    turned: bool,
    home: Option<Home>,
}

/// A file's device and inode.
type Identity = (u64, u64);

fn identity(about: &Metadata) -> Identity {
    (about.dev(), about.ino())
}

fn taken(path: &Path) -> io::Error {
    let text = format!("{} already exists", path.display());
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

impl LogParts {
    /// In parts of `limit` bytes; nothing is opened yet.
    pub(super) fn new(path: PathBuf, limit: u64) -> LogParts {
        LogParts {
            path,
            limit,
            open: None,
            ours: None,
            turned: false,
            home: None,
        }
    }

    /// If the session's directory was removed: makes it and the current part again.
    pub(super) fn stay(&mut self) -> io::Result<()> {
        let (Some((file, length)), Some(home)) = (&self.open, &self.home) else {
            return Ok(());
        };
        if !home.is_gone(file, &self.path) {
            return Ok(());
        }
        let again = whole_file::make_again(file, &self.path)?;
        self.ours = Some(identity(&again.metadata()?));
        self.home = Some(Home::of(&self.path));
        self.open = Some((again, *length));
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn on(file: File, path: PathBuf, limit: u64) -> LogParts {
        LogParts {
            open: Some((file, 0)),
            ..LogParts::new(path, limit)
        }
    }

    /// The current part and its length: the open one, ours from before a failure, or a new one. An
    /// error of the kind `AlreadyExists` is final: there is a file of that name that we didn't create.
    pub(super) fn open(&mut self) -> io::Result<&mut (File, u64)> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let there = match symlink_metadata(&self.path) {
                    Ok(about) => Some(identity(&about)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                    Err(error) => return Err(error),
                };
                if there.is_some() && there != self.ours {
                    return Err(taken(&self.path));
                }
                let file = OpenOptions::new()
                    .append(true)
                    .create_new(there.is_none())
                    .mode(0o600)
                    .custom_flags(nix::libc::O_NOFOLLOW)
                    .open(&self.path)?;
                let about = file.metadata()?;
                if there.is_some() && there != Some(identity(&about)) {
                    return Err(taken(&self.path));
                }
                self.ours = Some(identity(&about));
                self.home = Some(Home::of(&self.path));
                (file, about.len())
            }
        };
        Ok(self.open.insert(open))
    }

    /// Writes everything, or says how much it wrote and why not more. The file is reopened after an
    /// error: it may have been deleted, or its file system remounted.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut written = 0;
        let outcome = self.try_write(bytes, &mut written);
        if outcome.is_err() {
            self.open = None;
        }
        outcome.map_err(|error| (written, error))
    }

    fn try_write(&mut self, bytes: &[u8], written: &mut usize) -> io::Result<()> {
        let limit = self.limit;
        // What cannot be made again goes on as it was: nobody reads it, and nothing fails.
        let _ = self.stay();
        while let Some(rest) = bytes.get(*written..).filter(|rest| !rest.is_empty()) {
            let (file, length) = self.open()?;
            if *length >= limit {
                self.open = None;
                self.turn()?;
                continue;
            }
            let until_full =
                usize::try_from(limit.saturating_sub(*length).max(1)).unwrap_or(usize::MAX);
            let piece = rest.get(..until_full).unwrap_or(rest);
            let before = *written;
            let outcome = write_counted(file, piece, written);
            *length += (*written - before) as u64;
            outcome?;
        }
        Ok(())
    }

    /// Removes a log that nothing was written to: what the program wrote went to a file, or there was
    /// nothing.
    pub(super) fn remove_if_empty(&mut self) {
        self.open = None;
        let ours = |about: &Metadata| self.ours == Some(identity(about));
        let about = symlink_metadata(&self.path);
        if !self.turned && about.is_ok_and(|about| ours(&about) && about.len() == 0) {
            // What cannot be removed is only an empty file.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Makes the current part the older one, replacing the one before.
    fn turn(&mut self) -> io::Result<()> {
        let older = older_part(&self.path);
        if !self.turned && symlink_metadata(&older).is_ok() {
            return Err(taken(&older));
        }
        let oldest = File::open(&older);
        std::fs::rename(&self.path, older)?;
        self.turned = true;
        // Freeing a large file may take a tenth of a second, and happens when its last descriptor is
        // closed; not in this thread.
        if let Ok(oldest) = oldest {
            let _ = std::thread::Builder::new()
                .stack_size(STACK)
                .spawn(move || drop(oldest));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failure_our_own_file_is_taken_up_again_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("output.log");
        let mut parts = LogParts::new(path.clone(), 1 << 20);
        assert!(parts.write(b"one").is_ok());
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        parts.open = Some((full, 3));
        let (written, why) = parts.write(b"two").unwrap_err();
        assert_eq!((written, why.kind()), (0, io::ErrorKind::StorageFull));
        assert!(parts.write(b"three").is_ok());
        assert_eq!(std::fs::read(&path).unwrap(), b"onethree");
        // Deleted: made anew. Replaced by somebody else's: left alone.
        std::fs::remove_file(&path).unwrap();
        parts.open = None;
        assert!(parts.write(b"four").is_ok());
        assert_eq!(std::fs::read(&path).unwrap(), b"four");
        std::fs::rename(&path, directory.path().join("moved")).unwrap();
        std::fs::write(&path, "precious").unwrap();
        parts.open = None;
        let (_, why) = parts.write(b"five").unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
}
