//! What is typed is not always meant for the screen. Recognizes keys from before a dialog, and a line that was meant for another window (`squeue`, Enter), typed or pasted: its letters
//! must not page through the screen, open dialogs and answer them. Nobody gives that many different
//! commands that fast. Ending a training needs a key that no text contains; this is for all others.

use crate::units::Moment;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// Keys closer together than this belong to one burst: slower than most people type, faster than they
/// react to what a key has done.
const GAP: Duration = Duration::from_millis(300);
/// Recognized text continues until a pause of this length.
const PAUSE: Duration = Duration::from_millis(700);
/// This many printable keys in a burst are text, unless they are one key held down or a few in turn.
const LONG: usize = 5;
const DIFFERENT: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Typing {
    /// A command.
    Key,
    /// Part of a text.
    Text,
    /// Ctrl-C at the end of a text: meant for that line, not for the training.
    Abort,
}

/// The current burst.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    last: Option<Moment>,
    letters: usize,
    different: Vec<char>,
    is_text: bool,
}

impl Burst {
    /// For a key that is a command to oomph, not typed into a field.
    pub(crate) fn pressed(&mut self, key: &KeyEvent, now: Moment) -> Typing {
        let within = if self.is_text { PAUSE } else { GAP };
        if self.last.is_none_or(|last| now.since(last) >= within) {
            self.end();
        }
        let plain = (key.modifiers - KeyModifiers::SHIFT).is_empty();
        match key.code {
            KeyCode::Char(c) if plain => {
                let first = self.letters == 0;
                self.last = Some(now);
                self.letters += 1;
                if self.different.len() < DIFFERENT && !self.different.contains(&c) {
                    self.different.push(c);
                }
                self.is_text |= self.letters >= LONG && self.different.len() >= DIFFERENT;
                // Inside a word it doesn't pass the keyboard to the training (`pip install`).
                match self.is_text || (c == 'i' && !first) {
                    true => Typing::Text,
                    false => Typing::Key,
                }
            }
            KeyCode::Enter | KeyCode::Tab | KeyCode::Backspace if self.is_text => {
                self.last = Some(now);
                Typing::Text
            }
            KeyCode::Char('c') if self.letters > 1 => {
                self.end();
                Typing::Abort
            }
            _ => {
                self.end();
                Typing::Key
            }
        }
    }

    pub(crate) fn end(&mut self) {
        *self = Burst::default();
    }
}

/// Keys closer together than this belong to one burst; reading a dialog takes longer.
const ANSWER_PAUSE: Duration = Duration::from_millis(700);

/// What was typed before a dialog opened: the rest of a word must not relaunch a training.
#[derive(Debug, Default)]
pub(crate) struct TypeAhead {
    began: Moment,
    last: Option<Moment>,
}

impl TypeAhead {
    pub(crate) fn pressed(&mut self, now: Moment) {
        let goes_on = self.last.is_some_and(|last| now.since(last) < ANSWER_PAUSE);
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

    fn typed(burst: &mut Burst, text: &str, gap: f64) -> Vec<Typing> {
        let keys = text.chars().enumerate().map(|(n, c)| {
            let code = match c {
                '\n' => KeyCode::Enter,
                c => KeyCode::Char(c),
            };
            let at = Moment::from_secs_f64(10.0 + gap * n as f64);
            burst.pressed(&KeyEvent::new(code, KeyModifiers::NONE), at)
        });
        keys.collect()
    }

    #[test]
    fn a_line_is_text_from_its_fifth_letter_on_however_it_is_typed() {
        for gap in [0.0, 0.02, 0.28] {
            let readings = typed(&mut Burst::default(), "squeue -u me\nls\n", gap);
            assert_eq!(readings[..4], [Typing::Key; 4], "{gap}");
            assert!(readings[4..].iter().all(|r| *r == Typing::Text), "{gap}");
        }
    }

    #[test]
    fn commands_are_no_text() {
        for (text, gap) in [
            ("jjjjjjjjjjjjkkkk", 0.03),
            ("++--++--hhhh", 0.1),
            ("fmzcq", 0.4),
        ] {
            let readings = typed(&mut Burst::default(), text, gap);
            assert!(readings.iter().all(|r| *r == Typing::Key), "{text}");
        }
    }

    #[test]
    fn a_text_ends_with_a_pause() {
        let mut burst = Burst::default();
        typed(&mut burst, "squeue\n", 0.1);
        let q = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        assert_eq!(burst.pressed(&q, Moment::from_secs_f64(11.2)), Typing::Text);
        assert_eq!(burst.pressed(&q, Moment::from_secs_f64(12.0)), Typing::Key);
    }

    #[test]
    fn the_keyboard_is_not_handed_over_within_a_word() {
        let readings = typed(&mut Burst::default(), "pip", 0.1);
        assert_eq!(readings[1], Typing::Text);
        assert_eq!(typed(&mut Burst::default(), "i", 0.1), [Typing::Key]);
    }

    #[test]
    fn control_c_gives_up_a_line_once() {
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        let mut burst = Burst::default();
        typed(&mut burst, "ls", 0.1);
        let at = Moment::from_secs_f64(10.3);
        assert_eq!(burst.pressed(&control_c, at), Typing::Abort);
        assert_eq!(burst.pressed(&control_c, at), Typing::Key);
        typed(&mut burst, "q", 0.1);
        assert_eq!(burst.pressed(&control_c, at), Typing::Key);
    }

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
