//! A file that lines are appended to, and that may fail and come back: a full disk, an unmounted
//! share, a quota. What must not be lost waits in memory for it; the rest is counted.

use super::line::RecordLine;
use crate::units::{Bytes, Moment};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How much of what must not be lost is held back while the file fails.
const HELD_BACK: Bytes = Bytes(1 << 20);

/// Opens `path` to append to, made with mode 0600 where it is new. `create_new` refuses a file
/// that is there already. A pipe that nobody reads is an error at once, not a wait for a reader.
pub(super) fn open_to_append(path: &Path, create_new: bool) -> io::Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(!create_new)
        .create_new(create_new)
        .mode(0o600)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    // From here on the thread may wait for the file as long as it likes.
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

/// Whether the file can be written to, where a flush changed that.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SinkHealth {
    /// As before.
    Unchanged,
    /// It has begun to fail, with this error.
    Failed(String),
    /// It can be written to again.
    Recovered(RecordingGap),
}

/// What a file missed while it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordingGap {
    pub from: Moment,
    pub to: Moment,
    pub events: u64,
    pub bytes: Bytes,
    pub reason: String,
}

/// A file and what waits for it.
#[derive(Debug)]
pub(super) struct RecordingSink {
    path: PathBuf,
    file: Option<File>,
    waiting: Vec<RecordLine>,
    waiting_cost: u64,
    failure: Option<SinkFailure>,
    retry: Duration,
    /// The file ends in the middle of a line.
    torn: bool,
}

#[derive(Debug)]
struct SinkFailure {
    tried: Instant,
    gap: RecordingGap,
}

impl RecordingSink {
    pub(super) fn new(path: PathBuf, file: File, retry: Duration) -> RecordingSink {
        RecordingSink {
            path,
            file: Some(file),
            waiting: Vec::new(),
            waiting_cost: 0,
            failure: None,
            retry,
            torn: false,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts lines in the queue; while the file fails only what must not be lost stays there.
    pub(super) fn push(&mut self, lines: impl IntoIterator<Item = RecordLine>) {
        for line in lines {
            self.waiting_cost += line.cost().0;
            self.waiting.push(line);
        }
        if self.failure.is_some() {
            self.give_up_waiting();
        }
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failure.is_some()
    }

    /// Writes what waits. While the file fails, tries again when its time has come, or at once
    /// where this is the last chance (`last_chance`).
    pub(super) fn flush(&mut self, last_chance: bool) -> SinkHealth {
        let due = self
            .failure
            .as_ref()
            .is_none_or(|failure| failure.tried.elapsed() >= self.retry);
        if !due && !last_chance {
            return SinkHealth::Unchanged;
        }
        if self.waiting.is_empty() && self.failure.is_none() {
            return SinkHealth::Unchanged;
        }
        match self.write_waiting() {
            Ok(()) => match self.failure.take() {
                Some(failure) => SinkHealth::Recovered(failure.gap),
                None => SinkHealth::Unchanged,
            },
            Err(error) => self.fail(&error),
        }
    }

    /// Waits until the disk has what was written; for the very end only.
    pub(super) fn sync(&self) {
        if let Some(file) = &self.file {
            // A file that cannot be synchronised (a pipe, /dev/null) has nothing to lose by it.
            let _ = file.sync_data();
        }
    }

    /// Makes sure that what comes next begins a line: somebody else may have left half of one.
    pub(super) fn end_line(&mut self) {
        self.torn = ends_in_half_a_line(&self.path).unwrap_or(true);
    }

    fn write_waiting(&mut self) -> io::Result<()> {
        // A failed file is opened anew: a stale handle of a network share never heals.
        if self.failure.is_some() || self.file.is_none() {
            self.file = None;
            self.file = Some(open_to_append(&self.path, false)?);
        }
        let Some(file) = self.file.as_mut() else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        if self.torn {
            file.write_all(b"\n")?;
            self.torn = false;
        }
        let block: Vec<u8> = self
            .waiting
            .iter()
            .flat_map(|line| line.text())
            .copied()
            .collect();
        let mut written = 0;
        let result = loop {
            match file.write(&block[written..]) {
                Ok(0) if written < block.len() => break Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
            if written == block.len() {
                break Ok(());
            }
        };
        self.forget_written(written);
        result
    }

    /// Drops the lines that are wholly in the file; half a line is written again in full.
    fn forget_written(&mut self, mut written: usize) {
        let mut whole = 0;
        for line in &self.waiting {
            let length = line.text().len();
            if written < length {
                break;
            }
            written -= length;
            whole += 1;
        }
        self.torn = written > 0;
        for line in self.waiting.drain(..whole) {
            self.waiting_cost -= line.cost().0;
        }
    }

    fn fail(&mut self, error: &io::Error) -> SinkHealth {
        let first = self.failure.is_none();
        let at = self.waiting.first().map_or(Moment::ZERO, |line| line.at);
        let failure = self.failure.get_or_insert_with(|| SinkFailure {
            tried: Instant::now(),
            gap: RecordingGap {
                from: at,
                to: at,
                events: 0,
                bytes: Bytes::ZERO,
                reason: error.to_string(),
            },
        });
        failure.tried = Instant::now();
        self.give_up_waiting();
        if first {
            SinkHealth::Failed(error.to_string())
        } else {
            SinkHealth::Unchanged
        }
    }

    fn give_up_waiting(&mut self) {
        let Some(SinkFailure { gap, .. }) = &mut self.failure else {
            return;
        };
        let mut held = 0;
        self.waiting.retain(|line| {
            let keep = line.vital && held + line.cost().0 <= HELD_BACK.0;
            if keep {
                held += line.cost().0;
            } else {
                gap.events += 1;
                gap.bytes += line.cost();
                gap.to = gap.to.max(line.at);
            }
            keep
        });
        self.waiting_cost = held;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Level, Note, What};

    fn line(at: u64, vital: bool) -> RecordLine {
        let note = Note {
            level: Level::Info,
            text: format!("{at} {}", "x".repeat(1_000)),
        };
        let event = Event {
            at: Moment(at),
            what: What::Note(note),
        };
        RecordLine::of(&event, vital).unwrap()
    }

    /// A pipe stands for a disk that is full in the middle of a line and free again later.
    #[test]
    fn a_line_cut_off_by_a_full_disk_is_written_again_in_full() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut reader = File::options().read(true).write(true).open(&path).unwrap();
        let file = open_to_append(&path, false).unwrap();
        fcntl(&file, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let mut sink = RecordingSink::new(path, file, Duration::from_secs(3_600));
        let vital = |at| at % 2 == 0;
        sink.push((0..100).map(|at| line(at, vital(at))));
        let SinkHealth::Failed(reason) = sink.flush(false) else {
            panic!("the pipe takes less than that");
        };
        assert!(!reason.is_empty() && sink.is_failing());
        assert_eq!(
            sink.flush(false),
            SinkHealth::Unchanged,
            "not before its time"
        );

        let mut text = vec![0; 1 << 20];
        let n = reader.read(&mut text).unwrap();
        let mut text = text[..n].to_vec();
        let SinkHealth::Recovered(gap) = sink.flush(true) else {
            panic!("there is room again");
        };
        let mut rest = vec![0; 1 << 20];
        let n = reader.read(&mut rest).unwrap();
        text.extend_from_slice(&rest[..n]);

        let mut seen = [0; 100];
        let mut halves = 0;
        for line in text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            match serde_json::from_slice::<Event>(line) {
                Ok(event) => seen[event.at.0 as usize] += 1,
                Err(_) => halves += 1,
            }
        }
        assert!(halves <= 1);
        let missing = (0..100).filter(|at| seen[*at as usize] == 0);
        let missing: Vec<u64> = missing.collect();
        assert!(seen.iter().all(|times| *times <= 1));
        assert!(
            !missing.is_empty() && missing.iter().all(|at| !vital(*at)),
            "{missing:?}"
        );
        assert_eq!(gap.events, missing.len() as u64);
        assert_eq!(gap.to, Moment(99));
    }
}
