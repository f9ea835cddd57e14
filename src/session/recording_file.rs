//! The file that lines are appended to in the background. It may fail and recover (a full disk, an
//! unmounted share, a quota); lines that must not be lost wait for it.

use super::journal::warning;
use super::line::RecordLine;
use crate::background::{Destination, Gap, WriteFailure, write_counted};
use crate::units::{Bytes, Moment, clock_face};
use crate::whole_file::{self, Home};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Opens `path` for appending; a new file has mode 0600. With `create_new` an existing file is an
/// error. A pipe that nobody reads is an error at once.
pub(super) fn open_to_append(path: &Path, create_new: bool) -> io::Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(!create_new)
        .create_new(create_new)
        .mode(0o600)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    // From here on the thread may block on the file.
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(file)
}

fn ends_in_half_a_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// A recording's file.
#[derive(Debug)]
pub(super) struct RecordingFile {
    path: PathBuf,
    file: Option<File>,
    /// The file ends in the middle of a line.
    torn: bool,
    /// What was removed with its directory and is not made again yet.
    removed: Option<File>,
    home: Home,
    said: Said,
}

/// What a person should know at once.
pub(super) type Said = Arc<Mutex<Vec<String>>>;

impl RecordingFile {
    pub(super) fn new(path: PathBuf, file: File) -> RecordingFile {
        RecordingFile {
            home: Home::of(&path),
            path,
            file: Some(file),
            torn: false,
            removed: None,
            said: Said::default(),
        }
    }

    /// What is said while it is written.
    pub(super) fn said(&self) -> Said {
        Arc::clone(&self.said)
    }

    /// If the session's directory was removed: makes it and the file again.
    fn stay(&mut self) -> io::Result<()> {
        let is_gone = |file: &File| self.home.is_gone(file, &self.path);
        let is_new = self.file.as_ref().is_some_and(is_gone);
        if is_new {
            self.removed = self.file.take();
        }
        let Some(removed) = &self.removed else {
            return Ok(());
        };
        let place = self.path.parent().unwrap_or(&self.path).display();
        let made = whole_file::make_again(removed, &self.path);
        let words = match &made {
            Ok(_) => Some(format!(
                "{place} was removed; it was made again, with the recording as far as it went"
            )),
            Err(error) => is_new.then(|| {
                format!("{place} was removed and cannot be made again ({error}): this session is not recorded")
            }),
        };
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend(words);
        drop(said);
        self.file = Some(made?);
        self.removed = None;
        self.home = Home::of(&self.path);
        Ok(())
    }

    /// Ensures that the next write starts a line: another front may have left half of one.
    pub(super) fn end_line(&mut self) {
        self.torn = ends_in_half_a_line(&self.path).unwrap_or(true);
    }

    fn try_write(&mut self, bytes: &[u8], written: &mut usize) -> io::Result<()> {
        self.stay()?;
        // A failed file is reopened: a stale handle on a network share never recovers.
        let mut file = match self.file.take() {
            Some(file) => file,
            None => open_to_append(&self.path, false)?,
        };
        if self.torn {
            file.write_all(b"\n")?;
            self.torn = false;
        }
        let outcome = write_counted(&mut file, bytes, written);
        self.torn = *written > 0 && bytes[*written - 1] != b'\n';
        outcome?;
        self.file = Some(file);
        Ok(())
    }
}

impl Destination for RecordingFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteFailure> {
        let mut written = 0;
        self.try_write(bytes, &mut written)
            .map_err(|error| WriteFailure {
                written,
                error,
                for_good: false,
            })
    }

    fn gap(&self, gap: &Gap) -> Vec<u8> {
        let line = RecordLine::new(&warning(gap.to, gap_text(gap)), true);
        line.map_or_else(|_| Vec::new(), |line| line.text().to_vec())
    }

    fn looks(&self) -> bool {
        true
    }

    fn look(&mut self) {
        // What fails is said, and tried again with the next line.
        let _ = self.stay();
    }

    fn end(&mut self) {
        let _ = self.stay();
        if let Some(file) = &self.file {
            // A file that can't be synchronised (a pipe, /dev/null) has nothing to lose.
            let _ = file.sync_data();
        }
    }
}

/// How the recording and the user are told about missing lines.
pub(super) fn gap_text(gap: &Gap) -> String {
    format!(
        "the recording has a gap: {} events ({}) from {} to {} were not recorded ({})",
        gap.lines,
        Bytes(gap.bytes),
        clock_face(gap.from.since(Moment::ZERO)),
        clock_face(gap.to.since(Moment::ZERO)),
        gap.reason.as_deref().unwrap_or("the disk was too slow"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::{BackgroundWriter, OverflowPolicy};
    use crate::event::{Event, EventKind, Level, Note};
    use std::time::Duration;

    fn line(at: u64) -> RecordLine {
        let note = Note {
            level: Level::Info,
            text: format!("{at} {}", "x".repeat(1_000)),
        };
        let event = Event {
            at: Moment(at),
            what: EventKind::Note(note),
        };
        RecordLine::new(&event, at.is_multiple_of(2)).unwrap()
    }

    /// A pipe that stands for a disk that is full in the middle of a line and has space again
    /// later.
    #[test]
    fn a_line_cut_off_by_a_full_disk_is_written_again_in_full() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut reader = File::options().read(true).write(true).open(&path).unwrap();
        let file = open_to_append(&path, false).unwrap();
        fcntl(&file, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let policy = OverflowPolicy::Retry {
            retry: Duration::from_secs(3_600),
            kept: 1 << 20,
        };
        let writer =
            BackgroundWriter::start("test", 4 << 20, policy, RecordingFile::new(path, file))
                .unwrap();
        for line in (0..100).map(line) {
            writer.push_line(line.text(), line.vital, line.at);
        }
        writer.nudge();
        let error = loop {
            if let Some(error) = writer.news().failed {
                break error;
            }
            std::thread::yield_now();
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);

        let mut text = vec![0; 1 << 20];
        let n = reader.read(&mut text).unwrap();
        let mut text = text[..n].to_vec();
        assert!(writer.close(Duration::from_secs(20)), "not before its time");
        let gap = writer.news().recovered.expect("there is room again");
        let mut rest = vec![0; 1 << 20];
        let n = reader.read(&mut rest).unwrap();
        text.extend_from_slice(&rest[..n]);

        let mut seen = [0; 100];
        let (mut halves, mut gaps) = (0, 0);
        for line in text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            match serde_json::from_slice::<Event>(line) {
                Ok(event) if line.windows(5).any(|part| part == b"a gap") => {
                    assert_eq!(event.at, gap.to);
                    gaps += 1;
                }
                Ok(event) => seen[event.at.0 as usize] += 1,
                Err(_) => halves += 1,
            }
        }
        assert!(halves <= 1);
        assert_eq!(gaps, 1);
        let missing = (0..100).filter(|at| seen[*at as usize] == 0);
        let missing: Vec<u64> = missing.collect();
        assert!(seen.iter().all(|times| *times <= 1));
        assert!(
            !missing.is_empty() && missing.iter().all(|at| !at.is_multiple_of(2)),
            "{missing:?}"
        );
        assert_eq!(gap.lines, missing.len() as u64);
        assert_eq!(gap.to, Moment(99));
    }
}
