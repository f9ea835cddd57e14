//! The program's output in a replay: the log beside the recording, fed to the program's screen as far as it had
//! come. How far that was is told by the marks of the recording, and between two of them in proportion to time.

use crate::event::{Event, EventKind};
use crate::live::display::screen::Screen;
use crate::recording::{self, OutputLog};
use crate::supervise::OutputStream;
use crate::ui::RecordedOutput;
use crate::units::Moment;
use std::ops::Range;
use std::path::Path;

/// Of more than this only the end is shown: it is more than the screen keeps.
const MOST: u64 = 256 << 10;

/// The log, and what the screen has of it.
pub(super) struct ReplayedOutput {
    log: Option<OutputLog>,
    /// Whether the recording says when the output came.
    timed: bool,
    /// What the screen has.
    shown: Option<Range<u64>>,
}

impl ReplayedOutput {
    /// The log beside `recording`, a file or a session's directory.
    pub fn beside(recording: &Path) -> ReplayedOutput {
        let recording = match recording.is_dir() {
            true => &recording.join(recording::RECORDING),
            false => recording,
        };
        let total = recording::last_logged(recording).ok().flatten();
        ReplayedOutput {
            log: OutputLog::open(&recording::log_beside(recording), total).ok(),
            timed: total.is_some(),
            shown: None,
        }
    }

    /// What the pane should say of it.
    pub fn words(&self) -> RecordedOutput {
        match (&self.log, self.timed || self.shown.is_some()) {
            (None, _) => RecordedOutput::NotThere,
            (Some(_), true) => RecordedOutput::Shown,
            (Some(_), false) => RecordedOutput::AtTheEnd,
        }
    }

    /// Begins again, on a screen of another size.
    pub fn begin_again(&mut self) {
        self.shown = None;
    }

    /// Brings the screen up to `wanted`; at the end of the recording, up to the log's.
    pub fn show(&mut self, wanted: ShownOutput, at_end: bool, screen: &mut Screen) {
        let Some(log) = &self.log else { return };
        let (mut wanted, exact) = match (wanted, at_end) {
            (ShownOutput::Unknown, false) => (None, true),
            (ShownOutput::Unknown, true) => (Some(0..log.end()), true),
            (ShownOutput::Part { part, exact }, false) => (Some(part), exact),
            (ShownOutput::Part { part, .. }, true) => {
                (Some(part.start..part.end.max(log.end())), true)
            }
        };
        if wanted == self.shown {
            return;
        }
        let goes_on = matches!((&self.shown, &wanted), (Some(shown), Some(wanted))
            if shown.start == wanted.start
                && shown.end <= wanted.end
                && wanted.end - shown.end <= MOST);
        if !goes_on {
            screen.clear_output();
        }
        if let Some(wanted) = &mut wanted {
            let from = match &self.shown {
                Some(shown) if goes_on => shown.end,
                Some(_) | None => wanted.start.max(wanted.end.saturating_sub(MOST)),
            };
            let mut bytes = log.read(from..wanted.end);
            if !exact {
                // Between two marks it comes in whole lines, or steps of a progress bar.
                let ends = memchr::memrchr2(b'\n', b'\r', &bytes);
                bytes.truncate(ends.map_or(0, |end| end + 1));
                wanted.end = from + bytes.len() as u64;
            }
            let is_cut = !goes_on && from > wanted.start;
            // Not from the middle of a line, or of an escape sequence.
            let begin = match is_cut {
                true => memchr::memchr(b'\n', &bytes).map_or(0, |newline| newline + 1),
                false => 0,
            };
            let bytes = &bytes[begin..];
            if !bytes.is_empty() {
                screen.feed(OutputStream::Out, bytes);
            }
        }
        self.shown = wanted;
    }
}

/// So much output had come by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub at: Moment,
    pub bytes: u64,
}

/// What an event says of the output's length.
pub(super) fn mark_of(event: &Event) -> Option<Mark> {
    match event.what {
        EventKind::Logged(logged) => Some(Mark {
            at: event.at,
            bytes: logged.bytes.0,
        }),
        _ => None,
    }
}

/// The part of the log that is the present run's output so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShownOutput {
    /// No mark has come yet: nothing was printed, or the recording has none.
    Unknown,
    Part {
        part: Range<u64>,
        /// The end is that of a mark, and not between two.
        exact: bool,
    },
}

/// How far the program's output was at a moment.
#[derive(Debug, Default)]
pub(super) struct OutputPosition {
    last: Option<Mark>,
    /// Where the present run's output begins.
    began: u64,
    /// Bytes that never reached the log.
    unlogged: u64,
}

impl OutputPosition {
    /// Takes an event, after which `next` is the next mark.
    pub fn apply(&mut self, event: &Event, next: Option<Mark>) {
        match &event.what {
            EventKind::Logged(_) => self.last = mark_of(event),
            EventKind::Dropped(dropped) => self.unlogged += dropped.unlogged.0,
            EventKind::Started(_) => self.began = self.bytes(event.at, next).unwrap_or(0),
            _ => {}
        }
    }

    pub fn at(&self, at: Moment, next: Option<Mark>) -> ShownOutput {
        match self.bytes(at, next) {
            None => ShownOutput::Unknown,
            Some(end) => ShownOutput::Part {
                part: self.began.min(end)..end,
                exact: next.is_none_or(|next| at >= next.at)
                    || self.last.is_some_and(|last| at <= last.at),
            },
        }
    }

    fn bytes(&self, at: Moment, next: Option<Mark>) -> Option<u64> {
        let last = self.last?;
        let came = match next {
            Some(next) if next.at > last.at => {
                let share = at.since(last.at).as_secs_f64() / next.at.since(last.at).as_secs_f64();
                let between = next.bytes.saturating_sub(last.bytes);
                (between as f64 * share.clamp(0.0, 1.0)) as u64
            }
            Some(_) | None => 0,
        };
        Some((last.bytes + came).saturating_sub(self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandLine;
    use crate::event::{Dropped, Logged, Started};
    use crate::units::{Bytes, Pid, RunNumber};

    fn event(seconds: u64, what: EventKind) -> Event {
        Event {
            at: Moment(seconds * 1_000_000),
            what,
        }
    }

    fn logged(seconds: u64, bytes: u64) -> Event {
        let bytes = Bytes(bytes);
        event(seconds, EventKind::Logged(Logged { bytes }))
    }

    fn started(seconds: u64) -> Event {
        let started = Started {
            run: RunNumber(2),
            pid: Pid(7),
            command: CommandLine::default(),
            remedies: Vec::new(),
            predicted_peak: None,
            prediction: None,
            numerics: None,
        };
        event(seconds, EventKind::Started(started))
    }

    #[test]
    fn between_two_marks_it_comes_bit_by_bit() {
        let mut position = OutputPosition::default();
        let at = |seconds: u64| Moment(seconds * 1_000_000);
        let shown = |part, exact| ShownOutput::Part { part, exact };
        assert_eq!(position.at(at(5), None), ShownOutput::Unknown);
        position.apply(&logged(10, 100), None);
        let next = mark_of(&logged(20, 300));
        assert_eq!(position.at(at(10), next), shown(0..100, true));
        assert_eq!(position.at(at(15), next), shown(0..200, false));
        assert_eq!(position.at(at(25), next), shown(0..300, true));
        assert_eq!(position.at(at(15), None), shown(0..100, true));
    }

    #[test]
    fn a_run_begins_where_the_one_before_ended_and_what_was_lost_is_not_there() {
        let mut position = OutputPosition::default();
        position.apply(&logged(10, 100), None);
        let lost = Dropped {
            unlogged: Bytes(30),
            ..Dropped::default()
        };
        position.apply(&event(11, EventKind::Dropped(lost)), None);
        position.apply(&started(12), mark_of(&logged(13, 100)));
        position.apply(&logged(13, 100), None);
        let next = mark_of(&logged(14, 150));
        let shown = position.at(Moment(14_000_000), next);
        let (part, exact) = (70..120, true);
        assert_eq!(shown, ShownOutput::Part { part, exact });
    }
}
