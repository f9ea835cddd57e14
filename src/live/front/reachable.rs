//! Keeps the session reachable: the directory with its sockets may be removed (logind does so at the
//! user's last logout) and is then recreated, there or elsewhere.

use super::Front;
use crate::collect::probe_socket;
use crate::command::Word;
use crate::event::Level;
use crate::live::link::ProbeSetup;
use crate::probe;
use crate::recording::{self, BaseDirs, Directories, Presence, SessionFile};
use crate::supervise::KeeperOrder;
use crate::units::Moment;
use std::path::Path;
use std::time::Duration;

/// How often to check that the socket exists.
const LOOK: Duration = Duration::from_secs(5);
/// The minimum in tests: the keeper needs a moment to listen.
const AT_LEAST: Duration = Duration::from_millis(500);

impl Front {
    /// Makes the session attachable, and removes what dead sessions left.
    pub(super) fn be_found(&mut self, directories: &Directories, log: Option<&Path>) {
        self.link.hand_over(&self.session.handover);
        let Some((directory, socket)) = directories
            .runtime
            .as_ref()
            .zip(directories.keeper_socket())
        else {
            return;
        };
        self.link
            .order(KeeperOrder::Listen(Word::from(socket.as_path())));
        if let Err(error) = self.card(log).write(directory) {
            self.session.note(
                Level::Warning,
                format!(
                    "`oomph ls` will not show this session: cannot write to {} ({error})",
                    directory.display()
                ),
            );
        }
        // In a thread: there may be many, on a slow disk.
        let _ = std::thread::Builder::new()
            .name("clearing".into())
            .spawn(|| recording::clear_dead(&BaseDirs::of_this_user()));
    }

    /// Tells machines that share the state directory of the session.
    pub(super) fn tell_elsewhere(&self) -> Option<Presence> {
        let state = self.session.handover.directories().state?;
        let log = self.session.handover.log.as_ref();
        let card = self.card(log.map(|word| Path::new(&word.0)));
        Presence::start(card, &state)
    }

    fn card(&self, log: Option<&Path>) -> SessionFile {
        let handover = &self.session.handover;
        let keeper = self.link.keeper.pid();
        let file = SessionFile::new(&handover.header.id, keeper, log, handover.recording());
        SessionFile {
            job: handover.header.job.clone(),
            ..file
        }
    }

    pub(super) fn look_due(&self) -> Moment {
        let pause = (LOOK / self.session.handover.scaled.max(1)).max(AT_LEAST);
        self.looked + pause
    }

    /// Recreates the directory and its contents if it was removed.
    pub(super) fn stay_reachable(&mut self, now: Moment) {
        if now < self.look_due() || self.link.orphaned {
            return;
        }
        self.looked = now;
        let mut directories = self.session.handover.directories();
        let (Some(before), Some(socket)) = (&directories.runtime, directories.keeper_socket())
        else {
            return;
        };
        if socket.symlink_metadata().is_ok() {
            self.socket_seen = true;
            return;
        }
        // The keeper may not have created it yet.
        if !self.socket_seen && before.exists() {
            return;
        }
        self.socket_seen = false;
        let again = directories.make_runtime_again(&BaseDirs::of_this_user());
        let words = match &again {
            Ok(place) if place == before => {
                format!("{} was removed and made again", before.display())
            }
            Ok(place) => format!(
                "{} was removed; using {}",
                before.display(),
                place.display()
            ),
            Err(why) => {
                let words = format!(
                    "nobody can attach to this session: {} was removed and {why}",
                    before.display()
                );
                if !std::mem::replace(&mut self.unreachable, true) {
                    self.session.note(Level::Warning, words);
                }
                return;
            }
        };
        self.unreachable = false;
        self.session.note(Level::Warning, words);
        directories.runtime = again.ok();
        self.session.handover.runtime = directories.runtime.as_deref().map(Word::from);
        self.renew_probe(&directories);
        let log = self
            .session
            .handover
            .log
            .as_ref()
            .map(|word| word.0.clone());
        self.be_found(&directories, log.as_deref().map(Path::new));
    }

    /// Running processes stay connected; those that start later find the new one.
    fn renew_probe(&mut self, directories: &Directories) {
        let place = directories
            .runtime
            .as_deref()
            .zip(directories.probe_socket());
        let Some((directory, socket)) = place.filter(|_| self.session.handover.probe) else {
            return;
        };
        let installed = probe::install(directory).map_err(|error| error.to_string());
        let bound = probe_socket::take_over(&socket).map_err(|error| error.to_string());
        match installed.and(bound) {
            Ok(listener) => {
                let serve = probe_socket::serve(
                    listener,
                    self.session.clock,
                    self.link.requests.clone(),
                    self.events.clone(),
                );
                tokio::spawn(serve);
                self.link.environment = ProbeSetup::found(&self.session.handover);
            }
            Err(error) => self.session.note(
                Level::Warning,
                format!("further processes of the training have no probe: {error}"),
            ),
        }
    }
}
