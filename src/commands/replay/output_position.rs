//! How far the program's output was at a moment: told by the marks of the recording, and between two of
//! them in proportion to time. Pure.

use crate::event::{Event, EventKind};
use crate::units::Moment;
use std::ops::Range;

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
    pub(super) fn apply(&mut self, event: &Event, next: Option<Mark>) {
        match &event.what {
            EventKind::Logged(_) => self.last = mark_of(event),
            EventKind::Dropped(dropped) => self.unlogged += dropped.unlogged.0,
            EventKind::Started(_) => self.began = self.bytes(event.at, next).unwrap_or(0),
            _ => {}
        }
    }

    pub(super) fn at(&self, at: Moment, next: Option<Mark>) -> ShownOutput {
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
