//! `oomph logs`: the raw bytes of a session's output log, as the training wrote them; and the log as it grows,
//! across its parts: the older one, then the current one, which becomes the older one when a new part begins.

use super::NOT_WRITTEN;
use crate::event::older_part;
use crate::live::Ending;
use crate::query::sessions::{
    Chosen, Meant, NoChoice, choose, is_running, job_of_stored, meant_here, several_ended,
    several_with,
};
use crate::recording::{self, BaseDirs, FoundSession, Life, OUTPUT_LOG, SessionFile};
use anyhow::Context;
use clap::Args;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a followed log is read, here and on a shared file system.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_ELSEWHERE: Duration = Duration::from_secs(1);

/// How a log is opened.
type LogOpener = fn(&Path) -> io::Result<File>;

#[derive(Debug, PartialEq, Args)]
pub(super) struct LogsCommand {
    /// The session, by its name or the start of it, or a recording [default: the only one, or else the latest]
    #[arg(value_name = "ID|FILE")]
    session: Option<String>,
    /// Follow the output until the session ends
    #[arg(short, long)]
    follow: bool,
}

/// A log's path, and its session while it grows.
struct LogSource {
    path: PathBuf,
    writer: Option<Chosen>,
}

impl LogSource {
    fn opener(&self) -> LogOpener {
        match &self.writer {
            Some(Chosen::Elsewhere(_)) => recording::open_own,
            Some(Chosen::Here(_)) | None => recording::open_stored,
        }
    }

    fn pause(&self) -> Duration {
        match &self.writer {
            Some(Chosen::Elsewhere(_)) => LOOK_ELSEWHERE,
            Some(Chosen::Here(_)) | None => LOOK,
        }
    }
}

/// Writes the log of the named session to standard output: of the only one that is alive, or else the
/// latest, where none is named. With `--follow` goes on as it grows, until the session ends.
///
/// # Errors
/// There is no such session, or it keeps no log.
pub(super) fn run(logs: &LogsCommand) -> anyhow::Result<Ending> {
    let source = source(logs.session.as_deref())?;
    let mut out = Noticing {
        out: io::stdout().lock(),
        refused: None,
    };
    let copied = copy(&source, logs.follow, &mut out);
    match (copied, out.refused) {
        (Ok(()), _) => Ok(Ending::Code(0)),
        // The reader has closed the pipe: it has read enough.
        (Err(_), Some(io::ErrorKind::BrokenPipe)) => Ok(Ending::Code(0)),
        (Err(error), Some(_)) => Err(error).context(NOT_WRITTEN),
        (Err(error), None) => {
            Err(error).with_context(|| format!("cannot read {}", source.path.display()))
        }
    }
}

/// Notices why it could not be written to, which an error of a copy doesn't tell from one of reading.
struct Noticing<W> {
    out: W,
    refused: Option<io::ErrorKind>,
}

impl<W: Write> Write for Noticing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.refused = written.as_ref().err().map(io::Error::kind);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.refused = flushed.as_ref().err().map(io::Error::kind);
        flushed
    }
}

/// The log of a recording that is named by its path, or the log itself.
fn of_file(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let is_path = name.contains('/') || path.extension().is_some();
    (is_path && path.is_file()).then(|| match path.extension() {
        Some(kind) if kind == "jsonl" => recording::log_beside(path),
        Some(_) | None => path.to_path_buf(),
    })
}

fn source(name: Option<&str>) -> anyhow::Result<LogSource> {
    if let Some(path) = name.and_then(of_file) {
        return ended(path);
    }
    let places = BaseDirs::of_this_user();
    let stored_log = |stored: &recording::Stored| stored.directory.join(OUTPUT_LOG);
    let chosen = choose(name, "logs");
    // Listed after that: one that was living until just now is among them.
    let stored = recording::list(&places);
    let log = match name {
        // A session that has ended may be meant.
        Some(name) => match chosen {
            Ok(found) => {
                // The start of a name may be that of sessions that have ended, too.
                let listed = stored.iter().filter(|stored| stored.is_asked);
                let others = listed.filter(|stored| stored.id.starts_with(name));
                let others: Vec<recording::Stored> = others.cloned().collect();
                if found.id() != name && others.iter().any(|other| other.id != *found.id()) {
                    return Err(several_with(name, "logs", &found, &others).into());
                }
                return of_living(found, &stored);
            }
            Err(why) => {
                let is_asked = |stored: &recording::Stored| stored.is_asked;
                match meant_here(name, stored, |stored| &stored.id, job_of_stored, is_asked) {
                    Meant::One(stored) => stored_log(&stored),
                    Meant::Several(found) => {
                        return Err(several_ended(name, "logs", &found).into());
                    }
                    Meant::None => return Err(why.into()),
                }
            }
        },
        None => match (
            of_here(chosen, &places),
            stored.iter().find(|stored| stored.is_asked),
        ) {
            (Ok(found), _) => return of_living(found, &stored),
            (Err(NoChoice::Nobody), Some(stored)) => stored_log(stored),
            (Err(why), _) => return Err(why.into()),
        },
    };
    ended(log)
}

fn ended(log: PathBuf) -> anyhow::Result<LogSource> {
    anyhow::ensure!(
        log.exists(),
        "there is no {}: that session wrote nothing, or not to oomph (its output went to a file or to /dev/null)",
        log.display()
    );
    Ok(LogSource {
        path: log,
        writer: None,
    })
}

/// A session of another environment of this user is meant only where it is named.
fn of_here(chosen: Result<Chosen, NoChoice>, places: &BaseDirs) -> Result<Chosen, NoChoice> {
    match chosen {
        Ok(Chosen::Here(found)) if !found.is_asked(places) => Err(NoChoice::Nobody),
        chosen => chosen,
    }
}

fn of_living(found: Chosen, stored: &[recording::Stored]) -> anyhow::Result<LogSource> {
    let log = match &found {
        Chosen::Here(found) => found.file.as_ref().and_then(|file| file.log.clone()),
        Chosen::Elsewhere(session) => session.file.log.clone(),
    };
    let log = log.map(|word| PathBuf::from(word.0));
    // A session that is about to end has already removed its file; its log stays.
    let kept = || {
        let stored = stored.iter().find(|stored| stored.id == *found.id())?;
        let log = stored.directory.join(OUTPUT_LOG);
        log.exists().then_some(log)
    };
    let log = log.or_else(kept).with_context(|| {
        format!(
            "session {} has no log (--no-record, or nowhere to write one)",
            found.id()
        )
    })?;
    Ok(LogSource {
        path: log,
        writer: Some(found),
    })
}

/// The older part, then the current one; follows the log when a new part begins.
fn copy(source: &LogSource, follow: bool, out: &mut impl Write) -> io::Result<()> {
    let mut tail = LogTail::open(&source.path, source.opener())?;
    loop {
        // Checked before reading, so that what is read then is the rest.
        let grows = follow && source.writer.as_ref().is_some_and(lives);
        let taken = tail.take(out)?;
        out.flush()?;
        match taken {
            Taken::Part => {}
            Taken::All if grows => std::thread::sleep(source.pause()),
            Taken::All => return Ok(()),
        }
    }
}

/// A session's log grows as long as its keeper lives, or as its files say that it does.
fn lives(session: &Chosen) -> bool {
    let alive = |file: &SessionFile| file.life(&recording::PidScope::here()) == Life::Alive;
    match session {
        Chosen::Elsewhere(session) => session.listen().is_some(),
        Chosen::Here(FoundSession {
            file: Some(file), ..
        }) => alive(file),
        Chosen::Here(found) => is_running(found),
    }
}

/// An output log as it grows, across its parts.
pub(super) struct LogTail {
    path: PathBuf,
    opener: LogOpener,
    older: Option<File>,
    present: Option<File>,
}

/// What a look brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// There may be more at once: another part has begun.
    Part,
    /// All that there is.
    All,
}

impl LogTail {
    /// From the start of its older part on.
    pub fn open(path: &Path, opener: LogOpener) -> io::Result<LogTail> {
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
    pub fn skip_to_last(&mut self, most: u64) -> io::Result<()> {
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
    pub fn take(&mut self, out: &mut impl Write) -> io::Result<Taken> {
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
    fn a_recording_is_named_by_its_path_as_well() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let log_of = |path: &Path| Some(source(path.to_str()).ok()?.path);
        fs::write(at("events.jsonl"), "").unwrap();
        assert_eq!(log_of(&at("events.jsonl")), None, "it has no log");
        fs::write(at("output.log"), "step 1").unwrap();
        assert_eq!(log_of(&at("events.jsonl")), Some(at("output.log")));
        assert_eq!(log_of(&at("output.log")), Some(at("output.log")));
    }

    #[test]
    fn parts_are_read_in_order_and_each_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("output.log");
        let open: LogOpener = |path| File::open(path);
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
