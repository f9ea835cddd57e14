//! `oomph logs`: the raw bytes of a session's output log, as the training wrote them.

use super::Ending;
use super::sessions::{Meant, NoChoice, choose, meant};
use crate::session::{self, BaseDirs, FoundSession, Life, OUTPUT_LOG, SessionFile};
use anyhow::Context;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a followed log is read.
const LOOK: Duration = Duration::from_millis(100);

/// A log's path, and its session while it grows.
struct LogSource {
    path: PathBuf,
    writer: Option<FoundSession>,
}

/// Writes the log of the session that `name` begins the name of to standard output: of the only one
/// that is alive, or else the latest, where there is no name. With `follow` goes on as it grows, until
/// the session ends.
///
/// # Errors
/// There is no such session, or it keeps no log.
pub fn logs(name: Option<&str>, follow: bool) -> anyhow::Result<Ending> {
    let source = source(name)?;
    let mut out = io::stdout().lock();
    match copy(&source, follow, &mut out).and_then(|()| out.flush()) {
        // The reader has closed the pipe: it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        done => done.with_context(|| format!("cannot read {}", source.path.display()))?,
    }
    Ok(Ending::Code(0))
}

fn source(name: Option<&str>) -> anyhow::Result<LogSource> {
    let places = BaseDirs::of_this_user();
    let stored = session::list(&places);
    let stored_log = |stored: &session::Stored| stored.directory.join(OUTPUT_LOG);
    let ended = match name {
        // A session that has ended may be meant.
        Some(name) => match choose(Some(name), "logs") {
            Ok(found) => return of_living(found, &stored),
            Err(why) => match meant(name, stored, |stored| &stored.id) {
                Meant::One(stored) => stored_log(&stored),
                Meant::None | Meant::Several(_) => return Err(why.into()),
            },
        },
        None => match (choose(None, "logs"), stored.first()) {
            (Ok(found), _) => return of_living(found, &stored),
            (Err(NoChoice::Nobody), Some(stored)) => stored_log(stored),
            (Err(why), _) => return Err(why.into()),
        },
    };
    anyhow::ensure!(ended.exists(), "{} does not exist", ended.display());
    Ok(LogSource {
        path: ended,
        writer: None,
    })
}

fn of_living(found: FoundSession, stored: &[session::Stored]) -> anyhow::Result<LogSource> {
    let file = found.file.as_ref();
    let log = file.and_then(|file| Some(PathBuf::from(file.log.clone()?.0)));
    // A session that is about to end has already removed its file; its log stays.
    let kept = || {
        let stored = stored.iter().find(|stored| stored.id == found.id)?;
        let log = stored.directory.join(OUTPUT_LOG);
        log.exists().then_some(log)
    };
    let log = log.or_else(kept).with_context(|| {
        format!(
            "session {} has no log (--no-record, or nowhere to write one)",
            found.id
        )
    })?;
    Ok(LogSource {
        path: log,
        writer: Some(found),
    })
}

/// The older part, then the current one; follows the log when a new part begins.
fn copy(source: &LogSource, follow: bool, out: &mut impl Write) -> io::Result<()> {
    let older = session::older_part(&source.path);
    // Open the current one first: if it becomes the older one now, it is still read once.
    let mut present = open(&source.path)?;
    if let Some(mut file) = open(&older)?
        && !same(&file, present.as_ref())
    {
        io::copy(&mut file, out)?;
    }
    loop {
        // Checked before reading, so that what is read then is the rest.
        let grows = follow && source.writer.as_ref().is_some_and(lives);
        if present.is_none() {
            present = open(&source.path)?;
        }
        let mut taken = 0;
        if let Some(file) = &mut present {
            taken = io::copy(&mut Read::by_ref(file), out)?;
            out.flush()?;
        }
        let next = open(&source.path)?;
        let turned = next
            .as_ref()
            .is_some_and(|next| !same(next, present.as_ref()));
        match (turned, taken) {
            // It has become the older part since, or there is more of it.
            (true, 0) => present = next,
            (true, _) => {}
            (false, _) if grows => std::thread::sleep(LOOK),
            (false, _) => return Ok(()),
        }
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn same(file: &File, other: Option<&File>) -> bool {
    let identity = |file: &File| file.metadata().ok().map(|about| (about.dev(), about.ino()));
    other.is_some_and(|other| identity(file) == identity(other))
}

/// A session's log grows as long as its keeper lives.
fn lives(found: &FoundSession) -> bool {
    let alive = |file: &SessionFile| file.life(&session::PidScope::here()) == Life::Alive;
    match &found.file {
        Some(file) => alive(file),
        None => fs::exists(found.socket()).unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_are_written_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("output.log");
        let source = LogSource {
            path: path.clone(),
            writer: None,
        };
        let read = || {
            let mut out = Vec::new();
            copy(&source, true, &mut out).unwrap();
            out
        };
        assert_eq!(read(), b"");
        fs::write(&path, b"new \xff\r\n").unwrap();
        assert_eq!(read(), b"new \xff\r\n");
        fs::write(directory.path().join("output.log.1"), "old ").unwrap();
        assert_eq!(read(), b"old new \xff\r\n");
    }
}
