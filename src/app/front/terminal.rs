//! The terminal comes, goes, or is left for a while: what follows from that for the session.

use super::Front;
use crate::app::display::screen::Due;
use crate::app::link::{Role, SessionPhase};
use crate::event::Level;
use crate::supervise::KeeperOrder;
use std::io;

impl Front {
    /// Takes the terminal, once there is a run to show.
    pub(super) fn enter_screen(&mut self) {
        match self.display.enter() {
            Ok(true) => self.link.order(KeeperOrder::ScreenShown(true)),
            Ok(false) => {}
            Err(error) => self.lose_screen(&format!("cannot set up the terminal ({error})")),
        }
    }

    /// The terminal does not take what is drawn.
    pub(super) fn screen_failed(&mut self, error: &io::Error) {
        self.display.drop_screen();
        self.lose_screen(&format!("cannot draw on the terminal any more ({error})"));
    }

    /// Goes on without a screen. Where the terminal is gone, so is whoever could have answered a
    /// dialog.
    pub(super) fn lose_screen(&mut self, why: &str) {
        if self.link.role == Role::Attached {
            // Who attached has gone; the one that goes on without a screen is not this process.
            self.display.leave();
            return self.detach();
        }
        if !self.display.lose() {
            return;
        }
        self.session.note(
            Level::Warning,
            format!("{why}; continuing without a screen"),
        );
        if let SessionPhase::Asking { exit, .. } = *self.link.phase() {
            match self.can_wait() {
                true => self.say_that_it_waits(),
                false => self.link.leave(crate::app::Ending::Like(exit)),
            }
        }
    }

    /// Ctrl-Z: the screen is given back, this process stops; the keeper drains on meanwhile.
    pub(super) fn suspend(&mut self) {
        if self.display.park() {
            self.link.order(KeeperOrder::ScreenShown(false));
            // A SIGTSTP of our own would be discarded in an orphaned process group; SIGSTOP is not.
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
            self.unpark();
        }
    }

    /// Takes the terminal again, where it was left for a while and we are in its foreground.
    pub(super) fn unpark(&mut self) {
        match self.display.unpark() {
            Ok(true) => {
                self.link.order(KeeperOrder::ScreenShown(true));
                self.display.request(Due::Now);
            }
            Ok(false) => {}
            Err(error) => {
                self.lose_screen(&format!("cannot set up the terminal again ({error})"));
            }
        }
    }
}
