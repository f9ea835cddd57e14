//! `oomph logs`: the raw bytes of a session's output log, as the training wrote them.

pub(super) mod tail;

use super::sessions::{Chosen, Meant, NoChoice, choose, job_of_stored, meant};
use crate::live::Ending;
use crate::session::{self, BaseDirs, FoundSession, Life, OUTPUT_LOG, SessionFile};
use anyhow::Context;
use clap::Args;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;
use tail::{LogTail, Opener, Taken};

/// How often a followed log is read, here and on a shared file system.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_ELSEWHERE: Duration = Duration::from_secs(1);

#[derive(Debug, PartialEq, Args)]
pub(super) struct LogsCommand {
    /// The session, by its name or the start of it [default: the only one, or else the latest]
    #[arg(value_name = "ID")]
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
    fn opener(&self) -> Opener {
        match &self.writer {
            Some(Chosen::Elsewhere(_)) => session::open_own,
            Some(Chosen::Here(_)) | None => |path| File::open(path),
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
    let mut out = io::stdout().lock();
    match copy(&source, logs.follow, &mut out).and_then(|()| out.flush()) {
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
            Err(why) => match meant(name, stored, |stored| &stored.id, job_of_stored) {
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
    anyhow::ensure!(
        ended.exists(),
        "there is no {}: that session wrote nothing, or not to oomph (its output went to a file or to /dev/null)",
        ended.display()
    );
    Ok(LogSource {
        path: ended,
        writer: None,
    })
}

fn of_living(found: Chosen, stored: &[session::Stored]) -> anyhow::Result<LogSource> {
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
    let alive = |file: &SessionFile| file.life(&session::PidScope::here()) == Life::Alive;
    match session {
        Chosen::Elsewhere(session) => session.listen().is_some(),
        Chosen::Here(FoundSession {
            file: Some(file), ..
        }) => alive(file),
        Chosen::Here(found) => fs::exists(found.socket()).unwrap_or(false),
    }
}
