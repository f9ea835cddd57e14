//! Takes the terminal, leaves it for a while (Ctrl-Z), or copes with its loss.

use super::Front;
use crate::event::Level;
use crate::live::display::screen::Due;
use crate::live::link::{Role, SessionPhase};
use crate::live::suspend;
use crate::supervise::KeeperOrder;
use std::io;

const NO_SHELL: &str = "Ctrl-Z: no shell here could resume oomph, so it was not suspended; q, then l, leaves it and the training runs on";

impl Front {
    /// Takes the terminal, once there is a run to show.
    pub(super) fn enter_screen(&mut self) {
        match self.display.enter() {
            Ok(true) => self.link.order(KeeperOrder::ScreenShown(true)),
            Ok(false) => {}
            Err(error) => self.lose_screen(&format!("cannot set up the terminal ({error})")),
        }
    }

    pub(super) fn screen_failed(&mut self, error: &io::Error) {
        self.display.drop_screen();
        self.lose_screen(&format!("cannot draw on the terminal any more ({error})"));
    }

    /// Continues without a screen; then nobody can answer a dialog here.
    pub(super) fn lose_screen(&mut self, why: &str) {
        if self.link.role == Role::Attached {
            // The person who attached is gone; a front without a screen takes over in another process.
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
                false => self.link.leave(crate::live::Ending::Like(exit)),
            }
        }
    }

    /// Ctrl-Z: leaves the screen and stops this job; the keeper keeps reading the output.
    pub(super) fn suspend(&mut self) {
        if !suspend::has_shell() {
            return self.session.note(Level::Info, NO_SHELL.to_string());
        }
        if self.display.park() {
            self.link.order(KeeperOrder::ScreenShown(false));
            suspend::suspend();
            self.unpark();
        }
    }

    /// Takes the terminal again after Ctrl-Z, once we are in its foreground.
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
