//! Carries out the front's orders.

use super::KeeperLoop;
use super::handover::{FrontExit, LOOK_AT_SLEEPER};
use crate::supervise::keeper::descriptor::{self, Got};
use crate::supervise::keeper::{run, user_stream};
use crate::supervise::terminal::RESET;
use crate::supervise::{Io, KeeperOrder};
use nix::fcntl::OFlag;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long restoring the user's terminal may take.
const RESTORE: Duration = Duration::from_millis(100);

impl KeeperLoop {
    pub(super) fn serve_front(&mut self) {
        let present = self.fronts_lost;
        let mut there = match (&mut self.fanout.viewer, &self.socket) {
            (Some(viewer), Some(socket)) => viewer.send(socket),
            (None, Some(_)) => false,
            (_, None) => return,
        };
        loop {
            let got = match &self.socket {
                Some(socket) => descriptor::read(socket, &mut self.buffer),
                None => return,
            };
            match got {
                Got::Bytes(n) => self.decoder.push(self.buffer.get(..n).unwrap_or_default()),
                Got::Nothing if there => {}
                Got::Nothing | Got::End => return self.lose_front(FrontExit::Died),
            }
            if !self.carry_out_orders() {
                there = false;
            }
            // Its last order may have been that it leaves. If it is gone, read everything it has sent.
            if there || present != self.fronts_lost {
                return;
            }
        }
    }

    /// Carries out the orders received so far; `false` if they were malformed.
    pub(super) fn carry_out_orders(&mut self) -> bool {
        loop {
            match self.decoder.next() {
                Ok(Some(frame)) => {
                    if let Some(order) = frame.into_order() {
                        self.carry_out(order);
                    }
                }
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    pub(super) fn carry_out(&mut self, order: KeeperOrder) {
        match order {
            KeeperOrder::Launch(launch) => self.launch(launch),
            KeeperOrder::Interrupt => self.interrupt(),
            KeeperOrder::Forward(signal) => self.forward(signal),
            KeeperOrder::Stop => self.stop(),
            KeeperOrder::Kill => self.kill(),
            KeeperOrder::Sweep => self.sweep_leftovers(),
            KeeperOrder::Resize(size) => self.size = Some(size.clamped()),
            KeeperOrder::Input(keys) => self.queue_keys(&keys),
            KeeperOrder::ScreenShown(shown) => {
                self.screen_shown = shown;
                self.asleep = (!shown).then(|| Instant::now() + LOOK_AT_SLEEPER);
            }
            KeeperOrder::Release => self.lose_front(FrontExit::Released),
            KeeperOrder::StepBack => self.lose_front(FrontExit::SteppedBack),
            KeeperOrder::Listen(path) => self.listen_for_callers(&path),
            KeeperOrder::Remember(memory) => self.memory = Some(memory),
            KeeperOrder::Describe(text) => self.described = Some(text),
            KeeperOrder::Finish => self.finishing = true,
        }
    }

    pub(super) fn queue_keys(&mut self, keys: &[u8]) {
        let Some(run) = self.runs.last_mut().filter(|run| run.terminal.is_some()) else {
            return;
        };
        if run.keys.len() + keys.len() > run::MOST_KEYS {
            let (lost, told) = &mut run.lost_keys;
            *lost += keys.len();
            // A program that sends its terminal thousands of queries loses as many answers: noted
            // whenever the number has doubled.
            if *lost >= told.saturating_mul(2) {
                *told = *lost;
                self.fanout.note(format!(
                    "the program does not read its terminal: {lost} bytes of key input were dropped"
                ));
            }
        } else {
            run.keys.extend(keys);
        }
    }

    pub(super) fn act_on_size(&mut self, now: Instant) {
        if let Some(size) = self.size
            && now >= self.resized + self.hello.timing.resize
        {
            self.size = None;
            self.resized = now;
            if let Some(terminal) = self.runs.last().and_then(|run| run.terminal.as_ref()) {
                // The kernel signals a change only where there is one.
                terminal.pty.resize(size);
            }
        }
    }

    pub(super) fn restore_terminal(&mut self) {
        let (Some(number), Some(line)) = (self.plan.terminal, &self.hello.line) else {
            return;
        };
        match self.hello.io {
            // Only the relay changes it, and has restored it when it was dropped.
            Io::PassThrough => {}
            Io::Screen if self.screen_shown => {
                let user = descriptor::users(number);
                // On an error the terminal is gone as well.
                let _ = line.apply(user);
                if let Ok(own) = descriptor::reopen(user, OFlag::O_WRONLY | OFlag::O_NONBLOCK) {
                    user_stream::write_within(own.as_fd(), RESET.as_bytes(), RESTORE);
                }
            }
            // The front was suspended when it died: a shell has the terminal.
            Io::Screen => {}
        }
    }
}
