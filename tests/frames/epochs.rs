//! Sessions whose output named its epochs.

use crate::frames::cases::{second_run, steady};
use crate::frames::story::Story;
use oomph::event::{Epoch, Event, EventKind};
use oomph::units::Moment;

fn name(story: &mut Story, at: f64, number: u64) {
    story.state.apply(&Event {
        at: Moment::from_secs_f64(at),
        what: EventKind::Epoch(Epoch { number }),
    });
}

/// The third goes on.
pub fn of_two_runs() -> Story {
    let mut story = second_run();
    for (at, number) in [(32.4, 1), (51.0, 2), (69.5, 3)] {
        name(&mut story, at, number);
    }
    story
}

/// One every 4.6 seconds.
pub fn of_a_long_run() -> Story {
    let mut story = steady();
    for number in 0..40_u32 {
        name(&mut story, 5.5 + 4.6 * f64::from(number), number.into());
    }
    story
}
