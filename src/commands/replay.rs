//! `oomph replay`: plays a recording on the same screen.

mod output;
mod output_position;
mod playback;
mod reel;
mod upcoming;

use super::recordings;
use super::report::each_event;
use crate::config;
use crate::diagnosis;
use crate::event::{Clock, Event, EventKind};
use crate::live::Ending;
use crate::live::display::keyboard::{self, Typed};
use crate::live::display::mode::{self, Mode, Surface};
use crate::live::display::screen::{Due, Screen};
use crate::live::print;
use crate::live::signals;
use crate::report;
use crate::state::State;
use crate::ui::theme::Scheme;
use crate::ui::{Effect, ReplayControl, Scene, Subject, Theme};
use crate::units::Moment;
use anyhow::Context;
use clap::Args;
use crossterm::event::Event as TerminalEvent;
use output::ReplayedOutput;
use playback::Playback;
use reel::{Reel, Turn};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

#[derive(Debug, PartialEq, Args)]
pub(super) struct ReplayCommand {
    /// The session, by its name or the start of it, or a recording [default: the latest]
    #[arg(value_name = "ID|FILE")]
    pub(super) session: Option<OsString>,
    /// Begin at this time of the session, as the header shows it: 90, 1:30, 2:05:00
    #[arg(long, value_name = "TIME", value_parser = clock_time, conflicts_with = "headless")]
    pub(super) at: Option<Moment>,
    /// Print the diagnosis instead of playing it
    #[arg(long)]
    pub(super) headless: bool,
    /// Colours of the screen
    #[arg(long, value_name = "NAME", value_enum)]
    pub(super) theme: Option<Scheme>,
}

/// Hours, minutes and seconds, of which the last are enough.
fn clock_time(text: &str) -> Result<Moment, String> {
    let wrong = || "choose a time such as 90, 1:30 or 2:05:00".to_string();
    let mut seconds: u64 = 0;
    for (place, part) in text.split(':').enumerate() {
        let number: u32 = part.parse().map_err(|_| wrong())?;
        if place > 2 || (place > 0 && number >= 60) {
            return Err(wrong());
        }
        seconds = seconds * 60 + u64::from(number);
    }
    Ok(Moment(seconds * 1_000_000))
}

/// Plays a recording, or prints its diagnosis where there is no screen.
///
/// # Errors
/// The recording could not be found or read, or holds nothing.
pub(super) fn run(replay: &ReplayCommand) -> anyhow::Result<Ending> {
    let file = &recordings::find(replay.session.as_deref())?;
    match mode::choose(replay.headless, &Surface::of_this_process()) {
        Mode::Headless(_) => {
            print(file, &mut print::out())?;
        }
        Mode::Screen => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .build()?;
            let settings = config::read(&std::env::current_dir().unwrap_or_default());
            let (theme, problem) = mode::theme(replay.theme, &settings);
            for problem in settings.problems.into_iter().chain(problem) {
                print::complain(&problem);
            }
            let corrupt = runtime.block_on(play(file, replay.at, theme))?;
            runtime.shutdown_background();
            if corrupt > 0 {
                print::complain(&format!(
                    "skipped {corrupt} lines of {} that are not events",
                    file.display()
                ));
            }
        }
    }
    Ok(Ending::Code(0))
}

fn print(file: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    let mut state = State::default();
    each_event(file, |event: Event| {
        state.apply(&event);
        match event.what {
            EventKind::Exited(_) => print_run(&state, out),
            _ => Ok(()),
        }
    })?;
    if state.run().is_some_and(|run| run.ended.is_none()) {
        print_run(&state, out)?;
        writeln!(out, "  its end is not in the recording")?;
    }
    Ok(out.flush()?)
}

/// The last run so far, and what is to be said of it.
fn print_run(state: &State, out: &mut impl Write) -> anyhow::Result<()> {
    let findings = diagnosis::diagnose(state);
    let Some(run) = state.run() else {
        return Ok(());
    };
    writeln!(out, "run {}: {}", run.number, run.command.shown())?;
    if let Some(summary) = report::summary(state) {
        writeln!(out, "  {summary}")?;
    }
    for line in report::diagnosis(state, &findings, &[], &run.command) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// Plays it until the user has seen enough; how many of its lines were no events.
async fn play(file: &Path, at: Option<Moment>, theme: Theme) -> anyhow::Result<u64> {
    let clock = Clock::start();
    let mut reel = Reel::open(file)?;
    let mut output = ReplayedOutput::beside(file);
    let mut typed = keyboard::watch().context("cannot read the keyboard")?;
    let mut screen = Screen::enter()?;
    screen.view.theme = theme;
    let began = reel.next_at().unwrap_or(Moment::ZERO);
    let mut player = Playback::new(began, clock.now());
    if let Some(at) = at {
        reel.seek_to(at);
    }
    let mut drawn = (None, 0);
    loop {
        let now = clock.now();
        let sought = reel.is_seeking();
        player.advance(now, reel.next_at().is_none() || sought);
        let turn = reel.turn(player.position);
        if sought && !reel.is_seeking() {
            player.position = reel.state.now;
        }
        // The header says where it is, second by second.
        let shown = (reel.next_at(), player.position.0 / 1_000_000);
        if shown != drawn || turn != Turn::Done {
            drawn = shown;
            screen.request(Due::Sample);
        }
        reel.state.now = reel.state.now.max(player.position);
        match reel.next_at() {
            Some(next) if !reel.is_seeking() => player.skip_pause(next),
            Some(_) | None => {}
        }
        if !reel.is_seeking() {
            let shown = reel.output(reel.state.now);
            output.show(shown, reel.next_at().is_none(), &mut screen);
        }
        let scene = Scene {
            findings: &reel.findings,
            recording: Some(file),
            subject: Subject::Recording(player.shown(reel.next_at().is_none(), output.words())),
            ..Scene::of(&reel.state)
        };
        if turn == Turn::RanOut {
            // What one plays a recording for.
            player.hold();
            screen.view.open_remedies(&scene);
            screen.request(Due::Now);
        }
        if screen.fit(&scene)?.is_some() {
            output.begin_again();
        }
        screen.draw(now, &scene)?;
        let wait = match reel.is_seeking() || turn == Turn::More {
            true => Duration::ZERO,
            false => TICK,
        };
        tokio::select! {
            biased;
            key = typed.recv() => match key {
                Some(Typed::Event(TerminalEvent::Resize(..))) => screen.resized(),
                Some(Typed::Event(TerminalEvent::Key(key))) => {
                    screen.request(Due::Now);
                    let effect = screen.view.key(key, &scene);
                    match effect {
                        Some(Effect::Quit { .. } | Effect::Interrupt) => break,
                        Some(Effect::Replay(control)) => steer(control, &mut player, &mut reel)?,
                        Some(Effect::Suspend) if signals::has_shell() => {
                            screen.give_back();
                            signals::suspend();
                            screen.take_again()?;
                            player.resume(clock.now());
                        }
                        Some(effect) => screen.carry_out(&effect)?,
                        None => {}
                    }
                }
                Some(Typed::Event(_)) => screen.request(Due::Now),
                Some(Typed::HungUp) | None => break,
            },
            () = tokio::time::sleep(wait) => {}
        }
    }
    screen.leave();
    Ok(reel.corrupt())
}

fn steer(control: ReplayControl, player: &mut Playback, reel: &mut Reel) -> anyhow::Result<()> {
    match control {
        ReplayControl::PlayOrPause => player.play_or_pause(),
        ReplayControl::Faster => player.faster(),
        ReplayControl::Slower => player.slower(),
        ReplayControl::Seek(target) => reel.seek(target, player.position, player.stride())?,
    }
    Ok(())
}

/// How often the player looks at its clock: twice a frame of samples.
const TICK: Duration = Duration::from_millis(50);
