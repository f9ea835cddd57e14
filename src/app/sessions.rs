//! The running sessions of this machine: found by their files, queried at their keepers' sockets, chosen
//! by the start of their ID.

use super::session::Summary;
use crate::session::{self, BaseDirs, FoundSession, Life, Stored};
use crate::supervise::{self, SessionStatus};
use std::fmt;
use std::io;
use std::time::Duration;

/// How long a keeper may take to answer. It waits for nobody, so one that doesn't answer at once is
/// suspended, or the machine is.
const ANSWER: Duration = Duration::from_secs(2);

pub(super) struct Living {
    pub found: FoundSession,
    /// The keeper's answer, if any.
    pub status: Option<SessionStatus>,
    /// The latest summary of its front.
    pub summary: Option<Summary>,
}

/// All of them, by name. Removes what dead ones left.
pub(super) fn living() -> Vec<Living> {
    let places = BaseDirs::of_this_user();
    session::clear_dead(&places);
    session::find(&places)
        .into_iter()
        .filter_map(|found| {
            let status = supervise::look(&found.socket(), ANSWER).ok();
            // Unknown, and no keeper answers: not a session.
            if found.life != Life::Alive && status.is_none() {
                return None;
            }
            let summary = (status.as_ref())
                .and_then(|status| status.described.as_deref())
                .and_then(|text| serde_json::from_str(text).ok());
            Some(Living {
                found,
                status,
                summary,
            })
        })
        .collect()
}

/// Why no session could be chosen; the message says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoChoice {
    /// None is running.
    Nobody,
    /// Several match.
    Several {
        name: Option<String>,
        /// What to type, for each.
        commands: Vec<String>,
    },
    Dead(String),
    /// It has ended, and is recorded.
    Ended {
        id: String,
    },
    Unknown(String),
}

impl fmt::Display for NoChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoChoice::Nobody => f.write_str("you have no running session on this machine"),
            NoChoice::Several { name, commands } => {
                match name {
                    None => f.write_str("several sessions are running; choose one: ")?,
                    Some(name) => {
                        write!(f, "{name} matches several sessions; type more of the ID: ")?;
                    }
                }
                f.write_str(&commands.join(", "))
            }
            NoChoice::Dead(words) => f.write_str(words),
            NoChoice::Ended { id } => write!(
                f,
                "session {id} has ended; oomph replay {id} plays it, oomph report {id} is a page about it"
            ),
            NoChoice::Unknown(name) => write!(
                f,
                "no session {name} is running on this machine; `oomph ls` lists those that are"
            ),
        }
    }
}

impl std::error::Error for NoChoice {}

/// The session that is meant: by a beginning of its name, or the only one. `verb` is the subcommand
/// that is to be typed with a name where there are several.
///
/// # Errors
/// There is none, or there are several; with what to do.
pub(super) fn choose(name: Option<&str>, verb: &str) -> Result<FoundSession, NoChoice> {
    let places = BaseDirs::of_this_user();
    let (dead, alive): (Vec<FoundSession>, Vec<FoundSession>) = session::find(&places)
        .into_iter()
        .filter(|found| found.life != Life::Unknown || found.socket().exists())
        .partition(|found| found.life == Life::Dead);
    session::clear_dead(&places);
    let several = |sessions: &[FoundSession]| NoChoice::Several {
        name: name.map(str::to_string),
        commands: (sessions.iter())
            .map(|found| format!("`oomph {verb} {}`", found.id))
            .collect(),
    };
    let Some(name) = name else {
        return match <[FoundSession; 1]>::try_from(alive) {
            Ok([only]) => Ok(only),
            Err(none) if none.is_empty() => Err(NoChoice::Nobody),
            Err(all) => Err(several(&all)),
        };
    };
    let dead_one = |found: FoundSession| NoChoice::Dead(words_of_the_dead(&found));
    let ended_one = |stored: Stored| NoChoice::Ended { id: stored.id };
    let mut stored = session::list(&places);
    // A complete name means that session, even if it is dead: `…-python3` isn't `…-python3-2`.
    if alive.iter().all(|found| found.id != name) {
        if let Some(found) = dead.iter().find(|found| found.id == name) {
            return Err(dead_one(found.clone()));
        }
        if let Some(at) = stored.iter().position(|stored| stored.id == name) {
            return Err(ended_one(stored.swap_remove(at)));
        }
    }
    match meant(name, alive, |found| &found.id) {
        Meant::One(found) => return Ok(found),
        Meant::Several(found) => return Err(several(&found)),
        Meant::None => {}
    }
    if let Meant::One(found) = meant(name, dead, |found| &found.id) {
        return Err(dead_one(found));
    }
    match meant(name, stored, |stored| &stored.id) {
        Meant::One(stored) => Err(ended_one(stored)),
        Meant::None | Meant::Several(_) => Err(NoChoice::Unknown(name.to_string())),
    }
}

/// What the start of a name matches.
pub(super) enum Meant<T> {
    None,
    /// It has that name, or is the only one whose name starts so.
    One(T),
    Several(Vec<T>),
}

pub(super) fn meant<T>(name: &str, of: Vec<T>, id: impl Fn(&T) -> &String) -> Meant<T> {
    let mut fitting: Vec<T> = of
        .into_iter()
        .filter(|one| id(one).starts_with(name))
        .collect();
    if fitting.iter().any(|one| id(one) == name) {
        fitting.retain(|one| id(one) == name);
    }
    match <[T; 1]>::try_from(fitting) {
        Ok([only]) => Meant::One(only),
        Err(none) if none.is_empty() => Meant::None,
        Err(several) => Meant::Several(several),
    }
}

fn words_of_the_dead(found: &FoundSession) -> String {
    let mut words = format!("session {} is dead", found.id);
    if let Some(file) = &found.file {
        words.push_str(&format!(": its keeper (pid {}) is gone", file.keeper));
        if let Some(recording) = &file.recording {
            words.push_str(&format!(
                "; its recording: oomph replay {}",
                recording.to_string_lossy()
            ));
        }
    }
    words
}

/// Why a session's keeper could not be reached, and what to do.
pub(super) fn explain(found: &FoundSession, error: io::Error) -> anyhow::Error {
    let keeper = found.file.as_ref().map(|file| file.keeper);
    let pid = keeper.map_or("?".to_string(), |pid| pid.to_string());
    let id = &found.id;
    anyhow::anyhow!(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "the socket of session {id} is gone, so nobody can attach to it; its training continues under the keeper (pid {pid}), and `kill {pid}` does not end it: signal the training itself"
        ),
        io::ErrorKind::ConnectionRefused => {
            format!("session {id} is dead: nothing listens on its socket")
        }
        io::ErrorKind::PermissionDenied =>
            format!("session {id} is not yours ({error}); only the user who started it can attach"),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "the keeper of session {id} (pid {pid}) does not answer; if it is stopped, `kill -CONT {pid}` resumes it"
        ),
        _ => format!("cannot talk to session {id}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_enough_where_it_is_one_sessions() {
        let all = ["20261121-1-python", "20261121-1-python-2", "20261122-1-sh"];
        let find = |name: &str| {
            let all: Vec<String> = all.iter().map(|id| id.to_string()).collect();
            match meant(name, all, |id| id) {
                Meant::None => "none".to_string(),
                Meant::One(id) => id,
                Meant::Several(ids) => format!("{} of them", ids.len()),
            }
        };
        assert_eq!(find("20261122"), all[2]);
        assert_eq!(find("2026112"), "3 of them");
        assert_eq!(find("20261121-1-python"), all[0], "a whole name is itself");
        assert_eq!(find("python"), "none");
    }
}
