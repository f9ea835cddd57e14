//! What comes in: the keeper's reports, keys, signals.

use super::{Front, Role, Scanners};
use crate::app::phase::{After, Phase};
use crate::app::screen::{Due, terminal_size};
use crate::app::signals::{Answer, Arrived, descends_from};
use crate::app::{Ending, OWN_FAILURE};
use crate::event::{
    Dropped, Epoch, Event, Exit, Exited, Level, SpawnFailed, Started, StopRequested, What,
};
use crate::supervise::{self, KeeperOrder, KeeperReport, OutputStream, Rung};
use crate::ui::Effect;
use crossterm::event::{Event as TerminalEvent, KeyEventKind};
use nix::sys::signal::Signal;
use std::time::Duration;

impl Front {
    pub(super) fn reported(&mut self, report: Option<KeeperReport>) {
        let Some(report) = report else {
            return self.keeper_lost();
        };
        match report {
            KeeperReport::Started { run, pid, .. } => {
                let (remedies, predicted_peak) = self.memory.chosen.clone();
                self.phase = Phase::Running {
                    after: match self.stop_asked {
                        true => After::Leave,
                        false => After::Decide,
                    },
                };
                let command = self.command.without_secrets();
                self.record(What::Started(Started {
                    run,
                    pid,
                    command,
                    remedies,
                    predicted_peak,
                }));
                self.enter_screen();
            }
            KeeperReport::SpawnFailed {
                run,
                errno,
                path,
                reason,
                status,
            } => {
                let failed = SpawnFailed {
                    run,
                    errno,
                    path,
                    reason,
                };
                self.spawn_failed(failed, status);
            }
            KeeperReport::Output { stream, bytes } => self.output(stream, &bytes),
            KeeperReport::Gap { bytes } => self.record(What::Dropped(Dropped {
                output: bytes,
                ..Dropped::default()
            })),
            KeeperReport::Unlogged { bytes } => self.record(What::Dropped(Dropped {
                unlogged: bytes,
                ..Dropped::default()
            })),
            KeeperReport::Exited { run, exit, left } => self.exited(Exited { run, exit, left }),
            KeeperReport::Swept { left } => self.swept(&left),
            KeeperReport::Stopping { rung, within } => self.stopping(rung, within),
            KeeperReport::Suspended { signal } => self.note(
                Level::Info,
                format!("the training was stopped by {}", Exit::Signal(signal)),
            ),
            KeeperReport::Resumed => self.note(Level::Info, "the training goes on after a stop"),
            KeeperReport::Note(text) => self.note(Level::Warning, text),
            KeeperReport::Superseded => self.superseded(),
            KeeperReport::StopAsked { kill } => self.stop_asked(kill),
            KeeperReport::Signalled(number) => {
                if let Ok(signal) = Signal::try_from(number) {
                    self.forward(signal);
                }
            }
            // Read by a front that comes later, before anything else.
            KeeperReport::Welcome(_) | KeeperReport::Recent(_) => {}
            // Only asked for when the session ends, and read there.
            KeeperReport::Finished => {}
        }
    }

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        let at = self.clock.now();
        if let Some(last) = bytes.last() {
            self.last_byte = *last;
        }
        self.prompt.wrote(bytes, at);
        // Only a changed command can be rejected.
        if self.applied.is_some() {
            self.tail.feed(bytes);
        }
        let scanners = &mut self.scanners;
        let heard = match stream {
            OutputStream::Terminal => &mut scanners.terminal,
            OutputStream::Out => &mut scanners.out,
            OutputStream::Err => &mut scanners.err,
        };
        let mut found = Vec::new();
        let epochs = &mut scanners.epochs;
        heard.epochs.feed(bytes, &mut |told| {
            let number = epochs.take(told, at);
            found.extend(number.map(|number| What::Epoch(Epoch { number })));
        });
        let mut report = |report| found.push(What::OomText(report));
        heard.ooms.feed(bytes, &mut report);
        if let Some(screen) = self.screen.as_mut().or(self.parked.as_mut()) {
            screen.feed(stream, bytes);
            let answers = screen.view.output.take_answers();
            if !answers.is_empty() {
                self.order(KeeperOrder::Input(answers));
            }
        } else {
            self.print_plain(bytes);
        }
        for what in found {
            self.happened(Event { at, what });
        }
    }

    /// The end is folded once the run has settled: what its probes said last came before it.
    fn exited(&mut self, exited: Exited) {
        self.prompt.forget();
        let mut found = Vec::new();
        let at = self.clock.now();
        let Scanners {
            terminal,
            out,
            err,
            mut epochs,
        } = std::mem::take(&mut self.scanners);
        for mut heard in [terminal, out, err] {
            heard.epochs.finish(&mut |told| {
                let number = epochs.take(told, at);
                found.extend(number.map(|number| What::Epoch(Epoch { number })));
            });
            let mut report = |report| found.push(What::OomText(report));
            heard.ooms.finish(&mut report);
        }
        for what in found {
            self.happened(Event { at, what });
        }
        let after = match std::mem::replace(&mut self.phase, Phase::Starting) {
            Phase::Running { after } => after,
            _ => After::Decide,
        };
        self.phase = Phase::Settling {
            exited,
            since: self.clock.now(),
            after,
        };
    }

    /// A relaunch that cannot be started goes back to its dialog where there is one to go back to.
    fn spawn_failed(&mut self, failed: SpawnFailed, status: i32) {
        self.last_words.push(failed.reason.clone());
        self.record(What::SpawnFailed(failed));
        self.phase = Phase::Leaving(Ending::Code(status));
    }

    /// A stop that takes its time says on which rung it is.
    fn stopping(&mut self, rung: Rung, within: Duration) {
        let next = within.as_secs();
        self.waiting = Some(match rung {
            Rung::Asked => format!(
                "stopping: SIGTERM sent; torchrun may take 30 s (its whole tree is asked in {next} s)"
            ),
            Rung::TreeAsked => format!("stopping: every process was asked; SIGKILL in {next} s"),
            Rung::Killed => "stopping: SIGKILL sent".into(),
        });
        self.request(Due::Now);
    }

    fn keeper_lost(&mut self) {
        let words = "the keeper process is gone; the kernel hangs up the training's terminal, which \
                     ends most programs. What is left of it is waited for, 45 s, and then ended";
        self.last_words.push(words.into());
        self.keeper_lost = true;
        self.note(Level::Warning, words);
        self.phase = Phase::Leaving(Ending::Code(OWN_FAILURE));
    }

    pub(super) fn typed(&mut self, event: TerminalEvent) {
        self.request(Due::Now);
        let now = self.clock.now();
        self.state.now = self.state.now.max(now);
        if matches!(event, TerminalEvent::Key(_) | TerminalEvent::Paste(_)) {
            self.type_ahead.pressed(now);
            if let Phase::Asking { since, .. } = self.phase
                && !self.type_ahead.answers(since)
            {
                return;
            }
        }
        let effect = self.on_screen(|screen, scene| {
            Ok(match event {
                TerminalEvent::Key(key) if key.kind != KeyEventKind::Release => {
                    screen.key(key, scene)
                }
                TerminalEvent::Paste(text) => screen.paste(&text),
                TerminalEvent::Mouse(mouse) => screen.mouse(mouse, scene),
                TerminalEvent::Key(_)
                | TerminalEvent::Resize(..)
                | TerminalEvent::FocusGained
                | TerminalEvent::FocusLost => None,
            })
        });
        if let Some(effect) = effect.flatten() {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Interrupt => {
                self.stop_requested(Signal::SIGINT, true);
                self.order(KeeperOrder::Interrupt);
                self.waiting =
                    Some("the training was asked to stop (Ctrl-C); torchrun may take 30 s".into());
            }
            Effect::Stop => {
                self.stop_requested(Signal::SIGTERM, true);
                self.order(KeeperOrder::Stop);
                self.waiting = Some("stopping".into());
            }
            Effect::Kill => {
                self.stop_requested(Signal::SIGKILL, true);
                self.order(KeeperOrder::Kill);
            }
            Effect::Quit { stop_training } => self.quit(stop_training),
            Effect::Relaunch { remedies, command } => self.relaunch(&remedies, command),
            Effect::Input(bytes) => self.order(KeeperOrder::Input(bytes)),
            Effect::Suspend => self.suspend(),
            // Playing belongs to `replay`.
            Effect::Replay(_) => {}
            Effect::Copy(_) | Effect::Redraw | Effect::CaptureMouse(_) => {
                self.on_screen(|screen, _| screen.carry_out(&effect));
            }
        }
        self.request(Due::Now);
    }

    fn quit(&mut self, stop_training: bool) {
        match &mut self.phase {
            Phase::Running { after } if stop_training => {
                *after = After::Leave;
                self.carry_out(Effect::Stop);
            }
            Phase::Starting | Phase::Running { .. } => self.detach(),
            Phase::Settling { after, .. } => *after = After::Leave,
            Phase::Asking { exit, .. }
            | Phase::Sweeping { exit, .. }
            | Phase::Gating { exit, .. } => {
                self.phase = Phase::Leaving(Ending::Like(*exit));
            }
            Phase::Leaving(_) => {}
        }
    }

    pub(super) fn stop_requested(&mut self, signal: Signal, from_keyboard: bool) {
        self.record(What::StopRequested(StopRequested {
            signal: signal as i32,
            from_keyboard,
        }));
    }

    pub(super) fn signalled(&mut self, arrived: Arrived) {
        // All of the training is below the keeper, orphans too, which are given to it.
        let keeper = self.keeper.pid();
        let from_training = arrived
            .sender
            .is_some_and(|sender| sender != keeper && descends_from(sender, &[keeper]));
        match self.rules.answer(arrived.signal, from_training) {
            Answer::Resize => self.resize(),
            Answer::DropScreen => self.lose_screen("the terminal hung up"),
            Answer::Stop => self.stop_with_terminal(),
            Answer::Ignore => self.note(
                Level::Info,
                format!("{} was not passed on to the training", arrived.signal),
            ),
            // Whoever ends what a person attached ends that, and nothing else.
            Answer::Forward if self.role == Role::Attached && ends(arrived.signal) => self.detach(),
            Answer::Forward => self.forward(arrived.signal),
        }
    }

    /// The terminal is gone, whether a signal has said so or not.
    pub(super) fn hung_up(&mut self) {
        // Under nohup a terminal that goes away means nothing to anybody.
        let minds = !supervise::inherited().is_ignored(Signal::SIGHUP as i32);
        match self.rules.hung_up() {
            Answer::Stop if minds => self.stop_with_terminal(),
            _ => self.lose_screen("the terminal is gone"),
        }
    }

    /// `--on-hup=stop`: what runs is stopped, and where nothing runs this is the end.
    fn stop_with_terminal(&mut self) {
        self.lose_screen("the terminal hung up");
        match &mut self.phase {
            Phase::Starting => {}
            Phase::Running { after } => *after = After::Leave,
            _ => return self.quit(true),
        }
        self.stop_requested(Signal::SIGHUP, false);
        self.order(KeeperOrder::Stop);
    }

    /// Passes a signal on where a run can take it; where none runs, a request to end ends us.
    fn forward(&mut self, signal: Signal) {
        let ends = ends(signal);
        match &mut self.phase {
            Phase::Starting | Phase::Running { .. } => {
                if ends {
                    self.stop_requested(signal, false);
                }
                self.order(KeeperOrder::Forward(signal as i32));
            }
            Phase::Asking { exit, .. }
            | Phase::Sweeping { exit, .. }
            | Phase::Gating { exit, .. }
                if ends =>
            {
                self.phase = Phase::Leaving(Ending::Like(*exit));
            }
            Phase::Settling { after, .. } if ends => *after = After::Leave,
            Phase::Asking { .. }
            | Phase::Sweeping { .. }
            | Phase::Gating { .. }
            | Phase::Settling { .. }
            | Phase::Leaving(_) => {}
        }
    }

    /// The terminal has another size. With a screen the next frame goes along, and tells the
    /// program what is left for it.
    fn resize(&mut self) {
        self.request(Due::Now);
        if self.screen.is_none()
            && let Some(size) = terminal_size()
        {
            self.order(KeeperOrder::Resize(size));
        }
    }

    pub(super) fn order(&mut self, order: KeeperOrder) {
        if let Err(error) = self.keeper.send(order) {
            self.note(
                Level::Warning,
                format!("the keeper does not take orders ({error})"),
            );
        }
    }
}

/// Whether a signal asks for an end.
fn ends(signal: Signal) -> bool {
    matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT)
}
