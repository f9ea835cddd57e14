//! The terminal goes, or is left for a while: the screen is given up or parked, and what follows from
//! that for the session.

use super::{Front, Role};
use crate::app::Ending;
use crate::app::mode::Mode;
use crate::app::phase::Phase;
use crate::app::screen::{Due, Screen};
use crate::event::Level;
use crate::supervise::KeeperOrder;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

impl Front {
    /// Goes on without a screen. Where the terminal is still there the program's output goes on
    /// as plain text, its last rows first; where it is gone, so is whoever could have answered a
    /// dialog.
    pub(super) fn lose_screen(&mut self, why: &str) {
        let lost = self.screen.take().or_else(|| self.parked.take());
        self.typed = None;
        if self.role == Role::Attached {
            // Who attached has gone; the one that goes on without a screen is not this process.
            drop(lost);
            return self.detach();
        }
        if std::mem::replace(&mut self.screen_lost, true) {
            return;
        }
        self.note(Level::Warning, format!("{why}; going on without a screen"));
        let tail = lost.map(Screen::leave).unwrap_or_default();
        // Without a screen from the start the keeper writes to the terminal itself.
        self.plain = self.mode == Mode::Screen && io::stdout().is_terminal();
        self.print_plain(&tail);
        if let Phase::Asking { exit, .. } = self.phase {
            match self.can_wait() {
                true => self.say_that_it_waits(),
                false => self.phase = Phase::Leaving(Ending::Like(exit)),
            }
        }
    }

    /// Output for a terminal that has lost its screen. A terminal that takes nothing is given up.
    pub(super) fn print_plain(&mut self, bytes: &[u8]) {
        if self.plain {
            let mut out = io::stdout().lock();
            self.plain = out.write_all(bytes).and_then(|()| out.flush()).is_ok();
        }
    }

    /// Ctrl-Z: the screen is given back, this process stops; the keeper drains on meanwhile.
    pub(super) fn suspend(&mut self) {
        let Some(mut screen) = self.screen.take() else {
            return;
        };
        screen.give_back();
        self.order(KeeperOrder::ScreenShown(false));
        // A SIGTSTP of our own would be discarded in an orphaned process group; SIGSTOP is not.
        let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
        self.parked = Some(screen);
        self.take_terminal_again();
    }

    /// Takes the terminal again once we are its foreground: after `bg` that is not so, and changing
    /// its settings would stop us.
    pub(super) fn take_terminal_again(&mut self) {
        let in_foreground = nix::unistd::tcgetpgrp(io::stdout().as_fd())
            .is_ok_and(|group| group == nix::unistd::getpgrp());
        let Some(mut screen) = self.parked.take_if(|_| in_foreground) else {
            return;
        };
        match screen.take_again() {
            Ok(()) => {
                self.screen = Some(screen);
                self.order(KeeperOrder::ScreenShown(true));
                self.request(Due::Now);
            }
            Err(error) => {
                drop(screen);
                self.lose_screen(&format!("the terminal could not be taken again ({error})"));
            }
        }
    }
}
