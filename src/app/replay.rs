//! `oomph replay`: plays a recording on the same screen.

use super::Ending;
use super::display::keyboard::{self, Typed};
use super::display::mode::{self, Mode, Surface};
use super::display::screen::{Due, Screen};
use super::display::theme;
use crate::app::{print, recordings};
use crate::config;
use crate::diagnosis;
use crate::event::{Clock, Event, What};
use crate::report;
use crate::session;
use crate::state::State;
use crate::ui::theme::Scheme;
use crate::ui::{Effect, Pace, Replay, ReplayControl, Scene, Theme};
use crate::units::Moment;
use anyhow::Context;
use crossterm::event::Event as TerminalEvent;
use nix::sys::signal::{self, Signal};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// Plays a recording, or prints what it says where there is no screen. `name` is a file, the
/// beginning of a session's name, or nothing for the latest.
///
/// # Errors
/// The recording could not be found or read, or holds nothing.
pub fn replay(
    name: Option<&OsStr>,
    headless: bool,
    theme: Option<Scheme>,
) -> anyhow::Result<Ending> {
    let file = &recordings::find(name)?;
    let events = read(file)?;
    match mode::choose(headless, &Surface::of_this_process()) {
        Mode::Headless(_) => {
            let said = print(&events, &mut print::out());
            // A reader that stops early (`| head`) isn't an error.
            if let Err(error) = said
                && error.kind() != io::ErrorKind::BrokenPipe
            {
                return Err(error.into());
            }
        }
        Mode::Screen => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .build()?;
            let settings = config::read(&std::env::current_dir().unwrap_or_default());
            let (theme, problem) = theme::chosen(theme, &settings);
            for problem in settings.problems.into_iter().chain(problem) {
                print::complain(&problem);
            }
            runtime.block_on(play(&events, file, theme))?;
            runtime.shutdown_background();
        }
    }
    Ok(Ending::Code(0))
}

/// The events of `file`; lines that are none are passed over and counted on standard error.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut corrupt = 0u64;
    for event in session::read(file)? {
        match event {
            Ok(event) => events.push(event),
            Err(_) => corrupt += 1,
        }
    }
    if corrupt > 0 {
        print::complain(&format!(
            "skipped {corrupt} lines of {} that are not events",
            file.display()
        ));
    }
    anyhow::ensure!(
        !events.is_empty(),
        "{} contains no recorded event; pass the events.jsonl of a session",
        file.display()
    );
    Ok(events)
}

fn print(events: &[Event], out: &mut impl Write) -> io::Result<()> {
    let mut state = State::default();
    for event in events {
        state.apply(event);
        if let What::Exited(_) = event.what {
            let findings = diagnosis::diagnose(&state);
            let Some(run) = state.run() else { continue };
            writeln!(out, "run {}: {}", run.number, run.command.shown())?;
            if let Some(summary) = report::summary(&state) {
                writeln!(out, "  {summary}")?;
            }
            for line in report::diagnosis(&state, &findings, &[], &run.command) {
                writeln!(out, "  {line}")?;
            }
        }
    }
    out.flush()
}

async fn play(events: &[Event], file: &Path, theme: Theme) -> anyhow::Result<()> {
    let clock = Clock::start();
    let mut typed = keyboard::watch().context("cannot read the keyboard")?;
    let mut screen = Screen::enter()?;
    screen.view.theme = theme;
    let mut state = State::default();
    let mut findings = Vec::new();
    let mut player = Playback::new(events[0].at, clock.now());
    let mut played = 0;
    loop {
        let now = clock.now();
        player.advance(now, played == events.len());
        let until = player.position;
        while let Some(event) = events.get(played).filter(|event| event.at <= until) {
            state.apply(event);
            if matches!(
                event.what,
                What::Oom(_) | What::OomText(_) | What::Exited(_)
            ) {
                findings = diagnosis::diagnose(&state);
            }
            played += 1;
            screen.request(Due::Sample);
        }
        state.now = state.now.max(until);
        if let Some(next) = events.get(played) {
            player.skip_pause(next.at);
        }
        let scene = Scene {
            findings: &findings,
            recording: Some(file),
            replay: Some(player.shown(played == events.len())),
            ..Scene::of(&state)
        };
        screen.fit(&scene)?;
        screen.draw(now, &scene)?;
        tokio::select! {
            key = typed.recv() => match key {
                Some(Typed::Event(TerminalEvent::Key(key))) => {
                    screen.request(Due::Now);
                    match screen.view.key(key, &scene) {
                        Some(Effect::Quit { .. } | Effect::Interrupt) => break,
                        Some(Effect::Replay(control)) => player.control(control),
                        Some(Effect::Suspend) => {
                            suspend(&mut screen)?;
                            player.looked = clock.now();
                        }
                        Some(effect) => screen.carry_out(&effect)?,
                        None => {}
                    }
                }
                Some(Typed::Event(_)) => screen.request(Due::Now),
                Some(Typed::HungUp) | None => break,
            },
            () = tokio::time::sleep(TICK) => {}
        }
    }
    screen.leave();
    Ok(())
}

/// Ctrl-Z: the terminal is the shell's until `fg`. Where no shell could resume us (an orphaned process
/// group) the kernel drops the signal, and playing goes on.
fn suspend(screen: &mut Screen) -> io::Result<()> {
    screen.give_back();
    signal::raise(Signal::SIGTSTP)?;
    screen.take_again()
}

/// How often to advance: twice per frame of samples.
const TICK: Duration = Duration::from_millis(50);
/// Longer pauses are skipped.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const SPEEDS: std::ops::RangeInclusive<f64> = 0.125..=1024.0;

/// The position in the recording, and the speed. Time is an argument.
#[derive(Debug)]
struct Playback {
    position: Moment,
    looked: Moment,
    speed: f64,
    paused: bool,
}

impl Playback {
    fn new(position: Moment, now: Moment) -> Playback {
        Playback {
            position,
            looked: now,
            speed: 1.0,
            paused: false,
        }
    }

    fn advance(&mut self, now: Moment, at_end: bool) {
        let passed = now.since(self.looked);
        self.looked = now;
        if !self.paused && !at_end {
            self.position = self.position + passed.mul_f64(self.speed);
        }
    }

    fn skip_pause(&mut self, next: Moment) {
        if next.since(self.position) > LONGEST_PAUSE.mul_f64(self.speed.max(1.0)) {
            self.position = next;
        }
    }

    fn control(&mut self, control: ReplayControl) {
        match control {
            ReplayControl::PlayOrPause => self.paused = !self.paused,
            ReplayControl::Faster => self.speed = (self.speed * 2.0).min(*SPEEDS.end()),
            ReplayControl::Slower => self.speed = (self.speed / 2.0).max(*SPEEDS.start()),
        }
    }

    fn shown(&self, at_end: bool) -> Replay {
        Replay {
            speed: self.speed,
            pace: match (at_end, self.paused) {
                (true, _) => Pace::AtEnd,
                (false, true) => Pace::Paused,
                (false, false) => Pace::Playing,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Moment {
        Moment::from_secs_f64(seconds)
    }

    #[test]
    fn time_passes_at_the_speed_that_was_asked_for() {
        let mut player = Playback::new(at(5.0), at(100.0));
        player.advance(at(101.0), false);
        assert_eq!(player.position, at(6.0));
        player.control(ReplayControl::Faster);
        player.advance(at(102.0), false);
        assert_eq!(player.position, at(8.0));
        player.control(ReplayControl::PlayOrPause);
        player.advance(at(110.0), false);
        assert_eq!(player.position, at(8.0));
        assert_eq!(player.shown(false).pace, Pace::Paused);
    }

    #[test]
    fn long_pauses_are_skipped_and_short_ones_kept() {
        let mut player = Playback::new(at(0.0), at(0.0));
        player.skip_pause(at(1.5));
        assert_eq!(player.position, at(0.0));
        player.skip_pause(at(3_600.0));
        assert_eq!(player.position, at(3_600.0));
    }

    #[test]
    fn speeds_have_bounds() {
        let mut player = Playback::new(at(0.0), at(0.0));
        for _ in 0..40 {
            player.control(ReplayControl::Faster);
        }
        assert_eq!(player.speed, 1024.0);
        for _ in 0..40 {
            player.control(ReplayControl::Slower);
        }
        assert_eq!(player.speed, 0.125);
    }
}
