//! Where a recording is being played, and how fast. Time comes in as an argument.

use crate::ui::{Pace, RecordedOutput, Replay};
use crate::units::Moment;
use std::time::Duration;

/// The longest pause that is played as it was: waiting for a key for an hour is no story.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Speeds from an eighth to a thousand times.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.125..=1024.0;

/// What a key seeks by, as long as it takes to be played.
const SEEK: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Playback {
    pub(super) position: Moment,
    looked: Moment,
    speed: f64,
    paused: bool,
}

impl Playback {
    pub(super) fn new(position: Moment, now: Moment) -> Playback {
        Playback {
            position,
            looked: now,
            speed: 1.0,
            paused: false,
        }
    }

    pub(super) fn advance(&mut self, now: Moment, at_end: bool) {
        let passed = now.since(self.looked);
        self.looked = now;
        if !self.paused && !at_end {
            self.position = self.position + passed.mul_f64(self.speed);
        }
    }

    pub(super) fn skip_pause(&mut self, next: Moment) {
        if next.since(self.position) > LONGEST_PAUSE.mul_f64(self.speed.max(1.0)) {
            self.position = next;
        }
    }

    /// Goes on after a time in which nothing was played.
    pub(super) fn resume(&mut self, now: Moment) {
        self.looked = now;
    }

    /// Holds, so that what has just come can be looked at.
    pub(super) fn hold(&mut self) {
        self.paused = true;
    }

    /// How far a key seeks at this speed.
    pub(super) fn stride(&self) -> Duration {
        SEEK.mul_f64(self.speed.max(1.0))
    }

    pub(super) fn play_or_pause(&mut self) {
        self.paused = !self.paused;
    }

    pub(super) fn faster(&mut self) {
        self.speed = (self.speed * 2.0).min(*SPEEDS.end());
    }

    pub(super) fn slower(&mut self) {
        self.speed = (self.speed / 2.0).max(*SPEEDS.start());
    }

    pub(super) fn shown(&self, at_end: bool, output: RecordedOutput) -> Replay {
        Replay {
            output,
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
    fn time_passes_at_the_speed_that_was_asked_for() {
        let mut player = Playback::new(at(5.0), at(100.0));
        player.advance(at(101.0), false);
        assert_eq!(player.position, at(6.0));
        player.faster();
        player.advance(at(102.0), false);
        assert_eq!(player.position, at(8.0));
        player.play_or_pause();
        player.advance(at(110.0), false);
        assert_eq!(player.position, at(8.0));
        assert_eq!(
            player.shown(false, RecordedOutput::Shown).pace,
            Pace::Paused
        );
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
            player.faster();
        }
        assert_eq!(player.shown(false, RecordedOutput::Shown).speed, 1024.0);
        for _ in 0..40 {
            player.slower();
        }
        assert_eq!(player.shown(false, RecordedOutput::Shown).speed, 0.125);
    }
}
