//! Ignores keys that were typed before a dialog opened: the rest of a word must not relaunch a
//! training.

use crate::units::Moment;
use std::time::Duration;

/// Keys closer together than this belong to one burst; reading a dialog takes longer.
const PAUSE: Duration = Duration::from_millis(700);

/// The current burst.
#[derive(Debug, Default)]
pub(crate) struct TypeAhead {
    began: Moment,
    last: Option<Moment>,
}

impl TypeAhead {
    pub(crate) fn pressed(&mut self, now: Moment) {
        let goes_on = self.last.is_some_and(|last| now.since(last) < PAUSE);
        if !goes_on {
            self.began = now;
        }
        self.last = Some(now);
    }

    /// Whether the latest key is an answer to a dialog opened at `opened`, not the rest of what was being
    /// typed.
    pub(crate) fn answers(&self, opened: Moment) -> bool {
        self.began >= opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Moment {
        Moment::from_secs_f64(seconds)
    }

    #[test]
    fn the_rest_of_a_word_is_no_answer() {
        let mut keys = TypeAhead::default();
        for key in [9.6, 9.9] {
            keys.pressed(at(key));
        }
        for (key, answers) in [(10.1, false), (10.5, false), (11.5, true), (11.6, true)] {
            keys.pressed(at(key));
            assert_eq!(keys.answers(at(10.0)), answers, "{key}");
        }
    }

    #[test]
    fn a_single_key_is_taken_at_once() {
        let mut keys = TypeAhead::default();
        keys.pressed(at(2.0));
        keys.pressed(at(10.01));
        assert!(keys.answers(at(10.0)));
    }
}
