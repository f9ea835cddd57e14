//! `oomph replay`: plays a recording on the same screen.

mod next_session;
mod output;
mod player;

use super::attach::{edit_source, pressed, report_here};
use super::{on_screen, picker};
use crate::diagnosis;
use crate::document::text::{TextLayout, lines};
use crate::event::{Clock, Event, EventKind, displayed};
use crate::forecast::{BatchRoom, NoRoom};
use crate::live::display::keyboard::{self, Typed};
use crate::live::display::mode::{self, Mode, Surface};
use crate::live::display::screen::{Due, Screen};
use crate::live::recorded::EndedSession;
use crate::live::{Ending, print, signals};
use crate::query::again::missing_directory;
use crate::query::recordings;
use crate::query::told::each_event;
use crate::remedy::Remedy;
use crate::report;
use crate::state::State;
use crate::ui::theme::Scheme;
use crate::ui::{
    Effect, Pace, Preferences, RecordedOutput, Replay, ReplayControl, RoomForBatch, Scene,
    SeekTarget, ShownRun, Subject,
};
use crate::units::{Moment, RunNumber};
use anyhow::Context;
use clap::Args;
use next_session::{LastRun, NextSession};
use output::ReplayedOutput;
use player::{RecordingPlayer, Turn};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

#[derive(Debug, PartialEq, Args)]
pub(super) struct ReplayCommand {
    /// The session, by its name or the start of it, or a recording [default: the latest]
    #[arg(value_name = "ID|FILE")]
    pub session: Option<OsString>,
    /// Begin at this time of the session, as the header shows it: 90, 1:30, 2:05:00; end: how it ended, and what helps
    #[arg(long, value_name = "TIME", value_parser = clock_time, conflicts_with = "headless")]
    pub at: Option<Moment>,
    /// Print the diagnosis instead of playing it
    #[arg(long)]
    pub headless: bool,
    /// Colours of the screen
    #[arg(long, value_name = "NAME", value_enum)]
    pub theme: Option<Scheme>,
    /// It was chosen from the list of sessions, which comes back
    #[arg(long, hide = true)]
    pub from_list: bool,
}

/// A time that no recording reaches.
const END: Moment = Moment(u64::MAX);

/// Hours, minutes and seconds, of which the last are enough.
fn clock_time(text: &str) -> Result<Moment, String> {
    let wrong = || "choose a time such as 90, 1:30 or 2:05:00, or end".to_string();
    if text == "end" {
        return Ok(END);
    }
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
            let play = async |preferences| play(file, replay.at, preferences).await;
            let (corrupt, chosen) = on_screen(replay.theme, play)?;
            if corrupt > 0 {
                print::complain(&format!(
                    "skipped {corrupt} lines of {} that are not events",
                    file.display()
                ));
            }
            if let Some(chosen) = chosen {
                return Err(chosen.start(file));
            }
            if replay.from_list {
                let id = replay.session.as_deref().and_then(|id| id.to_str());
                return Err(picker::back(id));
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
    print_relaunch(file, &state, out)?;
    Ok(out.flush()?)
}

/// The remedies for the last run's command, where memory ran out in it.
fn print_relaunch(file: &Path, state: &State, out: &mut impl Write) -> anyhow::Result<()> {
    let recorded = EndedSession::new(state, None).filter(EndedSession::ran_out);
    let Some((recorded, command)) = recorded
        .as_ref()
        .and_then(|recorded| Some((recorded, recorded.command()?)))
    else {
        return Ok(());
    };
    let again = recordings::again_name(file, Some(state));
    let (remedies, cause) = (recorded.remedies(), recorded.cause());
    let blocks = report::explain::to_relaunch(command, &remedies, cause, again.as_deref());
    for line in lines(&blocks, TextLayout::Parts) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The last run so far, and what is to be said of it.
fn print_run(state: &State, out: &mut impl Write) -> anyhow::Result<()> {
    let findings = diagnosis::diagnose(state);
    let Some(run) = state.run() else {
        return Ok(());
    };
    writeln!(out, "run {}: {}", run.number, displayed(&run.command))?;
    if let Some(summary) = report::summary(state) {
        writeln!(out, "  {summary}")?;
    }
    for line in report::diagnosis(state, &findings, &[], &run.command) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// Plays it until the user has seen enough; how many of its lines were no events, and what is to be started after it.
async fn play(
    file: &Path,
    at: Option<Moment>,
    preferences: Preferences,
) -> anyhow::Result<(u64, Option<NextSession>)> {
    let clock = Clock::start();
    let mut player = RecordingPlayer::open(file)?;
    let mut output = ReplayedOutput::beside(file);
    let mut typed = keyboard::watch().context("cannot read the keyboard")?;
    let mut screen = Screen::enter()?;
    screen.view.prefer(preferences);
    let began = player.next_at().unwrap_or(Moment::ZERO);
    let mut playback = Playback::new(began, clock.now());
    let is_shown = output.words() != RecordedOutput::NotThere;
    match at {
        Some(END) => player.seek(SeekTarget::End, began, Duration::ZERO)?,
        Some(at) => player.seek_to(at),
        None => {
            if let Some(first) = player::first_seen(file, is_shown) {
                player.seek_to(first);
            }
        }
    }
    let mut drawn = (None, 0);
    let mut offers = Offers::default();
    let mut last_run = LastRun::of(file);
    let mut chosen = None;
    loop {
        let now = clock.now();
        let turn = playback.play(now, &mut player);
        if turn == Turn::RanOut {
            // What one plays a recording for.
            playback.hold();
        }
        // The header says where it is, second by second.
        let shown = (player.next_at(), playback.position.0 / 1_000_000);
        if shown != drawn || turn != Turn::Done {
            drawn = shown;
            screen.request(Due::Sample);
        }
        player.state.now = player.state.now.max(playback.position);
        match player.next_at() {
            Some(next) if !player.is_seeking() => playback.skip_pause(next),
            Some(_) | None => {}
        }
        if !player.is_seeking() {
            let shown = player.output(player.state.now);
            output.show(shown, player.next_at().is_none(), &mut screen);
        }
        if turn == Turn::RanOut {
            offers.look(&player.state);
        } else if player.next_at().is_none() && !player.is_seeking() {
            offers.look_after_end(&player.state);
        }
        if offers.take(&player.state) {
            screen.request(Due::Now);
        }
        if last_run.take() {
            screen.request(Due::Now);
        }
        last_run.correct(&player.state, &mut offers.found.remedies);
        let shown = Replay {
            shown: last_run.shown(&player.state),
            ..playback.shown(player.next_at().is_none(), output.words())
        };
        let scene = Scene {
            findings: &player.findings,
            remedies: offers.of_run(&player.state),
            command: player.state.run().map(|run| &run.command),
            recording: Some(file),
            room_for_batch: offers.room(&player.state),
            waiting: offers.asked.is_some().then_some("working out what helps"),
            subject: Subject::Recording(shown),
            ..Scene::of(&player.state)
        };
        match turn {
            Turn::RanOut => {
                screen.view.open_remedies(&scene);
                screen.request(Due::Now);
            }
            Turn::NoOomAhead => {
                let words = "no run after this moment ran out of memory";
                screen.view.told(words.into(), player.state.now);
                screen.request(Due::Now);
            }
            Turn::Done | Turn::More => {}
        }
        if screen.fit(&scene)?.is_some() {
            output.begin_again();
        }
        screen.draw(now, &scene)?;
        let wait = match player.is_seeking() || turn == Turn::More {
            true => Duration::ZERO,
            false => TICK,
        };
        tokio::select! {
            biased;
            key = typed.recv() => match key {
                Some(Typed::Event(event)) => {
                    screen.request(Due::Now);
                    match pressed(&mut screen, event, &scene) {
                        Some(Effect::Quit { .. } | Effect::Interrupt) => break,
                        Some(Effect::Replay(control)) => steer(control, &mut playback, &mut player)?,
                        Some(Effect::Suspend) if signals::has_shell() => {
                            screen.give_back();
                            signals::suspend();
                            screen.take_again()?;
                            playback.resume(clock.now());
                        }
                        Some(Effect::EditSource { file, line }) => {
                            edit_source(&mut screen, &file, line, player.state.now)?;
                        }
                        Some(Effect::Relaunch { remedies, command }) => {
                            let next = elsewhere(&player.state)
                                .map_or_else(|| NextSession::new(remedies, command).map_err(String::from), Err);
                            match next {
                                Ok(next) => {
                                    chosen = Some(next);
                                    break;
                                }
                                Err(why) => screen.view.told(why, player.state.now),
                            }
                        }
                        Some(Effect::WriteReport) => {
                            let now = player.state.now;
                            screen.view.told(report_here(file), now);
                        }
                        Some(effect) => screen.carry_out(&effect)?,
                        None => {}
                    }
                }
                Some(Typed::HungUp) | None => break,
            },
            () = tokio::time::sleep(wait) => {}
        }
    }
    screen.leave();
    Ok((player.corrupt(), chosen))
}

/// Why nothing can be started of this recording here.
fn elsewhere(state: &State) -> Option<String> {
    let missing = missing_directory(&state.run()?.command)?;
    Some(format!("nothing starts here: {missing}"))
}

/// What is worked out of a run that has ended, beside the loop.
#[derive(Default)]
struct FoundAfterRun {
    /// What helps where memory ran out.
    remedies: Vec<Remedy>,
    /// How far the batch could have gone where the run went well.
    room: Option<Result<BatchRoom, NoRoom>>,
}

/// The same of one run of the recording.
#[derive(Default)]
struct Offers {
    run: Option<RunNumber>,
    asked: Option<mpsc::Receiver<FoundAfterRun>>,
    found: FoundAfterRun,
}

impl Offers {
    /// Begins to look for those of the run that has just ended.
    fn look(&mut self, state: &State) {
        let (sender, receiver) = mpsc::channel();
        let state = state.clone();
        *self = Offers {
            run: state.run().map(|run| run.number),
            asked: Some(receiver),
            found: FoundAfterRun::default(),
        };
        // Without a thread there are none, which the dialog says.
        let thread = std::thread::Builder::new().name("remedies".into());
        let _ = thread.spawn(move || {
            let recorded = EndedSession::new(&state, None);
            let found = recorded.map(|recorded| FoundAfterRun {
                remedies: recorded.remedies(),
                room: Some(recorded.room_for_batch()),
            });
            let _ = sender.send(found.unwrap_or_default());
        });
    }

    /// The same of a run that went well, once its end is shown.
    fn look_after_end(&mut self, state: &State) {
        let ended = state.run().filter(|run| run.went_well());
        if ended.is_some_and(|run| self.run != Some(run.number)) {
            self.look(state);
        }
    }

    /// Takes what was found; whether there is something new to draw.
    fn take(&mut self, state: &State) -> bool {
        let found = self.asked.as_ref().and_then(|asked| asked.try_recv().ok());
        let Some(found) = found else {
            return false;
        };
        self.asked = None;
        self.found = found;
        self.is_of(state)
    }

    fn is_of(&self, state: &State) -> bool {
        self.run == state.run().map(|run| run.number)
    }

    fn of_run(&self, state: &State) -> &[Remedy] {
        match self.is_of(state) {
            true => &self.found.remedies,
            false => &[],
        }
    }

    fn room(&self, state: &State) -> RoomForBatch {
        let is_ended = state.run().is_some_and(|run| run.ended.is_some());
        match (self.is_of(state) && is_ended, &self.asked, self.found.room) {
            (true, None, Some(Ok(room))) => RoomForBatch::Known(room),
            (true, None, Some(Err(why))) => RoomForBatch::Without(why),
            (true, Some(_), _) => RoomForBatch::InSearch,
            (_, _, _) => RoomForBatch::Unknown,
        }
    }
}

fn steer(
    control: ReplayControl,
    playback: &mut Playback,
    player: &mut RecordingPlayer,
) -> anyhow::Result<()> {
    match control {
        ReplayControl::PlayOrPause => playback.play_or_pause(),
        ReplayControl::Faster => playback.faster(),
        ReplayControl::Slower => playback.slower(),
        ReplayControl::Seek(target) => {
            player.seek(target, playback.position, playback.stride())?;
            // At its very start there is nothing to see.
            if matches!(target, SeekTarget::NextRun | SeekTarget::PreviousRun) {
                playback.paused = false;
            }
        }
    }
    Ok(())
}

/// How often the playback looks at its clock: twice a frame of samples.
const TICK: Duration = Duration::from_millis(50);

/// The longest pause that is played as it was: waiting for a key for an hour is no story.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Speeds from an eighth to a thousand times.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.125..=1024.0;

/// What a key seeks by, as long as it takes to be played.
const SEEK: Duration = Duration::from_secs(10);

/// Where a recording is being played, and how fast. Time comes in as an argument.
#[derive(Debug)]
struct Playback {
    pub position: Moment,
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

    /// Plays what has happened by now, or goes on with what is sought.
    fn play(&mut self, now: Moment, player: &mut RecordingPlayer) -> Turn {
        let sought = player.is_seeking();
        self.advance(now, player.next_at().is_none() || sought);
        let turn = player.turn(self.position);
        // What is sought, or stopped at, may be before the time that was to be played.
        if (sought && !player.is_seeking()) || turn == Turn::RanOut {
            self.position = player.state.now;
        }
        turn
    }

    fn advance(&mut self, now: Moment, at_end: bool) {
        let passed = now.since(self.looked);
        self.looked = now;
        if !self.paused && !at_end {
            self.position = self.position + passed.mul_f64(self.speed);
        }
    }

    /// Passes over a long wait for what comes next; one who holds the recording stays where they are.
    fn skip_pause(&mut self, next: Moment) {
        if !self.paused && next.since(self.position) > LONGEST_PAUSE.mul_f64(self.speed.max(1.0)) {
            self.position = next;
        }
    }

    /// Goes on after a time in which nothing was played.
    fn resume(&mut self, now: Moment) {
        self.looked = now;
    }

    /// Holds, so that what has just come can be looked at.
    fn hold(&mut self) {
        self.paused = true;
    }

    /// How far a key seeks at this speed.
    fn stride(&self) -> Duration {
        SEEK.mul_f64(self.speed.max(1.0))
    }

    fn play_or_pause(&mut self) {
        self.paused = !self.paused;
    }

    fn faster(&mut self) {
        self.speed = (self.speed * 2.0).min(*SPEEDS.end());
    }

    fn slower(&mut self) {
        self.speed = (self.speed / 2.0).max(*SPEEDS.start());
    }

    fn shown(&self, at_end: bool, output: RecordedOutput) -> Replay {
        Replay {
            output,
            shown: ShownRun::Unknown,
            speed: self.speed,
            position: self.position,
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
    fn the_end_of_a_run_that_went_well_says_how_far_the_batch_could_have_gone() {
        let ended = |name: &str| {
            let mut state = State::default();
            for event in crate::report::recorded(name) {
                state.apply(&event);
            }
            state
        };
        let state = ended("lora");
        let mut offers = Offers::default();
        offers.look_after_end(&state);
        assert_eq!(offers.room(&state), RoomForBatch::InSearch);
        while !offers.take(&state) {
            std::thread::yield_now();
        }
        let room = offers.room(&state).known().expect("room on 139.8 GiB");
        let shared = ended("two-ranks");
        let mut none = Offers::default();
        none.look_after_end(&shared);
        while !none.take(&shared) {
            std::thread::yield_now();
        }
        assert_eq!(none.room(&shared), RoomForBatch::Without(NoRoom::Shared(2)));
        assert_eq!(room.now, 16);
        assert!(room.could > 200, "{room:?}");
        // It is looked for once, and not where memory ran out.
        offers.look_after_end(&state);
        assert!(offers.asked.is_none());
        let mut offers = Offers::default();
        offers.look_after_end(&ended("capacity"));
        assert!(offers.asked.is_none());
    }

    #[test]
    fn time_passes_at_the_speed_that_was_asked_for() {
        let mut playback = Playback::new(at(5.0), at(100.0));
        playback.advance(at(101.0), false);
        assert_eq!(playback.position, at(6.0));
        playback.faster();
        playback.advance(at(102.0), false);
        assert_eq!(playback.position, at(8.0));
        playback.play_or_pause();
        playback.advance(at(110.0), false);
        assert_eq!(playback.position, at(8.0));
        assert_eq!(
            playback.shown(false, RecordedOutput::Shown).pace,
            Pace::Paused
        );
    }

    #[test]
    fn playing_fast_stops_at_an_oom_and_not_in_the_run_after_it() {
        let one = include_str!("../../tests/replay/capacity.jsonl");
        let last = one.lines().last().unwrap();
        let last: Event = serde_json::from_str(last).unwrap();
        let started = Event {
            at: last.at + Duration::from_secs(20),
            what: crate::state::tests::staged::started(2, 200, "python train.py"),
        };
        let two = format!("{one}{}\n", serde_json::to_string(&started).unwrap());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), two).unwrap();
        let mut player = RecordingPlayer::open(file.path()).unwrap();
        let mut playback = Playback::new(at(0.0), at(0.0));
        let later = at(3_600.0);
        let mut turn = playback.play(later, &mut player);
        while turn == Turn::More {
            turn = playback.play(later, &mut player);
        }
        assert_eq!(turn, Turn::RanOut);
        playback.hold();
        // Somebody chose a remedy for so long: nothing of that wait, and none of the next run.
        playback.skip_pause(player.next_at().unwrap());
        playback.play(later + Duration::from_secs(60), &mut player);
        let run = player.state.run().unwrap();
        assert!(run.number.0 == 1 && run.ended.is_some());
    }

    #[test]
    fn long_pauses_are_skipped_and_short_ones_kept() {
        let mut playback = Playback::new(at(0.0), at(0.0));
        playback.skip_pause(at(1.5));
        assert_eq!(playback.position, at(0.0));
        playback.skip_pause(at(3_600.0));
        assert_eq!(playback.position, at(3_600.0));
    }

    #[test]
    fn speeds_have_bounds() {
        let mut playback = Playback::new(at(0.0), at(0.0));
        for _ in 0..40 {
            playback.faster();
        }
        assert_eq!(playback.shown(false, RecordedOutput::Shown).speed, 1024.0);
        for _ in 0..40 {
            playback.slower();
        }
        assert_eq!(playback.shown(false, RecordedOutput::Shown).speed, 0.125);
    }
}
