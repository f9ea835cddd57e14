//! The directory and its files, as they are read: what another user could have written is refused.

use nix::fcntl::{OFlag, openat};
use nix::libc;
use nix::sys::stat::{Mode, futimens};
use nix::sys::time::TimeSpec;
use nix::unistd::Uid;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Read of a file in one look.
const MOST: u64 = 1 << 20;

/// The file with the session's name, written by the front. The probe knows the name too.
const MARKER: &str = "session";

/// A rank's file: `RUN-NODE-PID-GENERATION.jsonl`.
pub(super) struct SpoolFile<'a> {
    /// `RUN-NODE-PID`, which all files of a process share.
    pub stem: &'a str,
    pub generation: u32,
}

impl SpoolFile<'_> {
    pub fn parse(name: &str) -> Option<SpoolFile<'_>> {
        let (stem, generation) = name.strip_suffix(".jsonl")?.rsplit_once('-')?;
        Some(SpoolFile {
            stem,
            generation: generation.parse().ok()?,
        })
    }
}

/// What a file had that was not read yet.
pub(super) struct SpoolBytes {
    pub bytes: Vec<u8>,
    /// Where they begin.
    pub from: u64,
    /// The server's time of the last write, in microseconds since 1970; `None` if more bytes follow.
    pub written: Option<i64>,
}

/// The directory, open and checked.
pub(super) struct OpenSpool {
    directory: File,
}

impl OpenSpool {
    pub fn open(path: &Path) -> io::Result<OpenSpool> {
        let directory = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(path)?;
        let about = directory.metadata()?;
        if about.uid() != Uid::effective().as_raw() || about.mode() & 0o077 != 0 {
            return Err(io::Error::other("others may write there"));
        }
        Ok(OpenSpool { directory })
    }

    /// The names of the files in order: those of one process in the order in which it wrote them.
    pub fn names(&self) -> Vec<String> {
        // The directory that was checked, whatever its name leads to by now.
        let path = format!("/proc/self/fd/{}", self.directory.as_raw_fd());
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        let key = |name: &str| {
            SpoolFile::parse(name).map(|file| (file.stem.to_string(), file.generation))
        };
        names.sort_by_cached_key(|name| key(name));
        names
    }

    /// What the file has from `position` on; `None` if nothing.
    pub fn read(&self, name: &str, position: u64) -> io::Result<Option<SpoolBytes>> {
        let file = match self.file(name, false) {
            // A rotated file is gone between the listing and here.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let about = file.metadata()?;
        let length = about.len().saturating_sub(position).min(MOST);
        if length == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0; length as usize];
        let got = file.read_at(&mut bytes, position)?;
        bytes.truncate(got);
        // Written in between: its time is not that of the last byte.
        let after = file.metadata()?;
        let is_all = after.len() == position + got as u64;
        Ok(Some(SpoolBytes {
            bytes,
            from: position,
            written: is_all.then(|| micros(&after)),
        }))
    }

    /// Sets the marker's time to now, by the server's clock; returns it.
    pub fn touch(&self) -> Option<i64> {
        let marker = self.file(MARKER, true).ok()?;
        futimens(&marker, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW).ok()?;
        marker.metadata().ok().as_ref().map(micros)
    }

    fn file(&self, name: &str, write: bool) -> io::Result<File> {
        let access = match write {
            true => OFlag::O_RDWR,
            false => OFlag::O_RDONLY,
        };
        // A FIFO must not block us.
        let flags = access | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = File::from(openat(&self.directory, name, flags, Mode::empty())?);
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        if about.uid() != Uid::effective().as_raw() || about.mode() & 0o022 != 0 {
            return Err(io::Error::other("others may write to it"));
        }
        Ok(file)
    }
}

fn micros(about: &fs::Metadata) -> i64 {
    about.mtime() * 1_000_000 + about.mtime_nsec() / 1_000
}
