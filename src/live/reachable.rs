//! Keeps the session reachable: the directory with its sockets may be removed (logind does so at the
//! user's last logout) and is then recreated, there or elsewhere.

use super::config::HandoverState;
use crate::collect::probe_socket;
use crate::command::Word;
use crate::probe;
use crate::recording::{self, BaseDirs, Directories, Presence, SessionFile};
use crate::units::{Moment, Pid};
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixListener;

/// How often to check that the socket exists.
const LOOK: Duration = Duration::from_secs(5);
/// The minimum in tests: the keeper needs a moment to listen.
const AT_LEAST: Duration = Duration::from_millis(500);

/// When the session's socket was looked for, and what came of it.
pub(super) struct Reachable {
    looked: Moment,
    pause: Duration,
    socket_seen: bool,
    /// There is no place for another directory.
    is_lost: bool,
}

/// The directory was gone.
pub(super) struct MadeAgain {
    /// What happened.
    pub words: String,
    /// Where it is now, if anywhere.
    pub directories: Option<Directories>,
}

/// How others find the session.
pub(super) enum ListeningPlace {
    /// It has no directory.
    Nowhere,
    At {
        /// Where its keeper is to listen.
        socket: Word,
        problem: Option<String>,
    },
}

impl Reachable {
    /// Looks now and then from now on; the pauses are `scaled` times shorter in tests.
    pub(super) fn new(now: Moment, scaled: u32) -> Reachable {
        Reachable {
            looked: now,
            pause: (LOOK / scaled.max(1)).max(AT_LEAST),
            socket_seen: false,
            is_lost: false,
        }
    }

    /// When to look again.
    pub(super) fn due(&self) -> Moment {
        self.looked + self.pause
    }

    /// Recreates the directory if it is time to look and it was removed.
    pub(super) fn look(&mut self, now: Moment, handover: &HandoverState) -> Option<MadeAgain> {
        if now < self.due() {
            return None;
        }
        self.looked = now;
        let mut directories = handover.directories();
        let before = directories.runtime.clone()?;
        if directories.keeper_socket()?.symlink_metadata().is_ok() {
            self.socket_seen = true;
            return None;
        }
        // The keeper may not have created it yet.
        if !self.socket_seen && before.exists() {
            return None;
        }
        self.socket_seen = false;
        let was = before.display();
        match directories.make_runtime_again(&BaseDirs::of_this_user()) {
            Ok(place) => {
                self.is_lost = false;
                let words = match place == before {
                    true => format!("{was} was removed and made again"),
                    false => format!("{was} was removed; using {}", place.display()),
                };
                directories.runtime = Some(place);
                Some(MadeAgain {
                    words,
                    directories: Some(directories),
                })
            }
            Err(why) => {
                let is_new = !std::mem::replace(&mut self.is_lost, true);
                is_new.then(|| MadeAgain {
                    words: format!(
                        "nobody can attach to this session: {was} was removed and {why}"
                    ),
                    directories: None,
                })
            }
        }
    }
}

/// Tells other processes of the user where the session is, and removes what dead sessions left.
pub(super) fn be_found(
    directories: &Directories,
    handover: &HandoverState,
    keeper: Pid,
) -> ListeningPlace {
    let place = directories.runtime.as_ref();
    let Some((directory, socket)) = place.zip(directories.keeper_socket()) else {
        return ListeningPlace::Nowhere;
    };
    let written = card(handover, keeper).write(directory);
    let problem = written.err().map(|error| {
        format!(
            "`oomph ls` will not show this session: cannot write to {} ({error})",
            directory.display()
        )
    });
    // In a thread: there may be many, on a slow disk.
    let _ = std::thread::Builder::new()
        .name("clearing".into())
        .spawn(|| recording::clear_dead(&BaseDirs::of_this_user()));
    ListeningPlace::At {
        socket: Word::from(socket.as_path()),
        problem,
    }
}

/// Tells machines that share the state directory of the session.
pub(super) fn tell_elsewhere(handover: &HandoverState, keeper: Pid) -> Option<Presence> {
    let state = handover.directories().state?;
    Presence::start(card(handover, keeper), &state)
}

fn card(handover: &HandoverState, keeper: Pid) -> SessionFile {
    let log = handover.log.as_ref().map(|word| Path::new(&word.0));
    let file = SessionFile::new(&handover.header.id, keeper, log, handover.recording());
    SessionFile {
        job: handover.header.job.clone(),
        ..file
    }
}

/// The probe and its socket in a directory that was made again; `None` for a session without.
pub(super) fn renew_probe(
    directories: &Directories,
    handover: &HandoverState,
) -> Option<Result<UnixListener, String>> {
    let place = directories.runtime.as_deref();
    let (directory, socket) = place.zip(directories.probe_socket())?;
    handover.config.probe.then(|| {
        probe::install(directory).map_err(|error| error.to_string())?;
        probe_socket::take_over(&socket).map_err(|error| error.to_string())
    })
}
