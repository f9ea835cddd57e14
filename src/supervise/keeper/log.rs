//! The log: a raw copy of the output, written in the background.
//!
//! The loop never waits for the disk. When the queue is full, or a write has failed (ENOSPC, EDQUOT, EIO,
//! EROFS, ESTALE, EFBIG), bytes are dropped and counted, and a line in the log says how many are missing. A
//! failed write is retried later (containerd #12462 shows what happens otherwise). Nothing is synced: that
//! would stall on a busy disk (cri-o #6743).
//!
//! The log's files, the current part and the one before, are new files. What exists already isn't ours: it may
//! be the user's data, or the very file that the command writes to, which the log would then copy into
//! itself without end.
//!
//! [`LogMarks`] say now and then how much of the output the log was given by when, so that a replay shows it
//! in time. [`LineEnds`] take back what a terminal adds to output, so that the log has what the program wrote.

use crate::background::{
    BackgroundWriter, Destination, Gap, OverflowPolicy, STACK, WriteFailure, write_counted,
};
use crate::event::{Clock, older_part};
use crate::supervise::KeeperReport;
use crate::units::Bytes;
use crate::whole_file::{self, Home};
use std::borrow::Cow;
use std::fs::{File, Metadata, OpenOptions, symlink_metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The most that waits to be written.
const CAPACITY: usize = 768 << 10;

/// The largest part. A full one is renamed to `NAME.1` and a new one is started, so that there are
/// never more than two: weeks of output must not fill a disk.
pub(super) const PART: u64 = 256 << 20;

/// Keeps the log at `path`, in parts of `part` bytes. If the file can't be opened, that is retried
/// like a failed write, unless the name is taken: then no log is kept, and the writer's news have an
/// error of the kind `AlreadyExists`.
pub(super) fn start(path: PathBuf, part: u64, retry: Duration) -> io::Result<BackgroundWriter> {
    of(LogParts::new(path, part), retry)
}

fn of(parts: LogParts, retry: Duration) -> io::Result<BackgroundWriter> {
    BackgroundWriter::start("oomph-log", CAPACITY, OverflowPolicy::Drop { retry }, parts)
}

impl Destination for LogParts {
    fn begin(&mut self) -> io::Result<()> {
        // So that a taken name is known before there is anything to write. Any other failure is left
        // to the first write.
        match self.open() {
            Err(error) if is_for_good(&error) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteFailure> {
        LogParts::write(self, bytes).map_err(|(written, error)| WriteFailure {
            written,
            for_good: is_for_good(&error),
            error,
        })
    }

    fn looks(&self) -> bool {
        true
    }

    fn look(&mut self) {
        let _ = self.stay();
    }

    fn end(&mut self) {
        let _ = self.stay();
        self.remove_if_empty();
    }

    fn gap(&self, gap: &Gap) -> Vec<u8> {
        marker(gap.bytes).into()
    }
}

fn is_for_good(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

fn marker(missing: u64) -> String {
    format!("\r\n[oomph: {missing} bytes of output are missing here]\r\n")
}

/// The log's files.
struct LogParts {
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
    fn new(path: PathBuf, limit: u64) -> LogParts {
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
    fn stay(&mut self) -> io::Result<()> {
        let (Some((file, length)), Some(home)) = (&self.open, &self.home) else {
            return Ok(());
        };
        if !home.is_gone(file, &self.path) {
            return Ok(());
        }
        let again = whole_file::make_again(file, &self.path)?;
        self.ours = Some(identity(&again.metadata()?));
        self.home = Some(Home::new(&self.path));
        self.open = Some((again, *length));
        Ok(())
    }

    #[cfg(test)]
    fn on(file: File, path: PathBuf, limit: u64) -> LogParts {
        LogParts {
            open: Some((file, 0)),
            ..LogParts::new(path, limit)
        }
    }

    /// The current part and its length: the open one, ours from before a failure, or a new one. An
    /// error of the kind `AlreadyExists` is final: there is a file of that name that we didn't create.
    fn open(&mut self) -> io::Result<&mut (File, u64)> {
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
                self.home = Some(Home::new(&self.path));
                (file, about.len())
            }
        };
        Ok(self.open.insert(open))
    }

    /// Writes everything, or says how much it wrote and why not more. The file is reopened after an
    /// error: it may have been deleted, or its file system remounted.
    fn write(&mut self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
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
    fn remove_if_empty(&mut self) {
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

/// How often a mark is set, while there is output.
const MARK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct LogMarks {
    given: u64,
    told: u64,
    last: Option<Instant>,
}

impl LogMarks {
    /// Counts output. After a pause there is a mark before it, or else it would seem to have come bit by
    /// bit since the last one.
    pub fn given(&mut self, bytes: usize, now: Instant) -> Option<KeeperReport> {
        let was_quiet =
            self.told == self.given && self.last.is_none_or(|last| now > last + MARK_EVERY);
        let mark = was_quiet.then(|| self.mark(now));
        self.given += bytes as u64;
        mark
    }

    /// When the next mark is due.
    pub fn due(&self) -> Option<Instant> {
        let last = self.last.filter(|_| self.told < self.given);
        last.map(|last| last + MARK_EVERY)
    }

    /// What has come since the last mark, if anything has.
    pub fn rest(&mut self, now: Instant) -> Option<KeeperReport> {
        (self.told < self.given).then(|| self.mark(now))
    }

    fn mark(&mut self, now: Instant) -> KeeperReport {
        self.last = Some(now);
        self.told = self.given;
        KeeperReport::Logged {
            bytes: Bytes(self.given),
            monotonic: Clock::with_origin(0).now().0,
        }
    }
}

/// Takes back what a terminal's line discipline adds to output: with OPOST and ONLCR a carriage return
/// before each newline.
///
/// While both are on, every newline has one that was added, and exactly that one is taken; the program's
/// own `\r\n` stays. Bytes that were in the terminal when the program changed the setting can't be told
/// apart.
#[derive(Debug, Default)]
pub(super) struct LineEnds {
    /// The last byte was a carriage return, which may be the one of a newline that comes next.
    held: bool,
}

impl LineEnds {
    /// What the log gets for these bytes of a terminal whose settings add returns or don't.
    pub fn undo<'a>(&mut self, bytes: &'a [u8], adds_returns: bool) -> Cow<'a, [u8]> {
        if !adds_returns && !self.held {
            return Cow::Borrowed(bytes);
        }
        let mut written = Vec::with_capacity(bytes.len() + 1);
        for byte in bytes {
            if std::mem::take(&mut self.held) && *byte != b'\n' {
                written.push(b'\r');
            }
            match byte {
                b'\r' if adds_returns => self.held = true,
                byte => written.push(*byte),
            }
        }
        Cow::Owned(written)
    }

    /// A return at the very end, which belongs to no newline.
    pub fn end(&mut self) -> &'static [u8] {
        match std::mem::take(&mut self.held) {
            true => b"\r",
            false => b"",
        }
    }
}

#[cfg(test)]
mod tests;
