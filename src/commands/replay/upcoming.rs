//! The events that come next: read ahead as far as the next mark of the output, so that what lies between
//! two marks is shown bit by bit.

use super::output_position::{Mark, mark_of};
use crate::event::Event;
use crate::session::{Events, ReadError};
use crate::units::Moment;
use std::collections::VecDeque;

/// Bytes of lines that are read ahead at the most: more than the readings between two marks are.
const AHEAD: u64 = 1 << 20;

pub(super) struct Upcoming {
    events: Events,
    /// With the lengths of their lines.
    queue: VecDeque<(Event, u64)>,
    held: u64,
    /// Marks in the queue.
    marks: usize,
    ended: bool,
    /// Lines that were no events.
    pub(super) corrupt: u64,
    /// Why it ended before the file did.
    pub(super) broken: Option<ReadError>,
}

impl Upcoming {
    pub(super) fn of(events: Events) -> Upcoming {
        let mut upcoming = Upcoming {
            events,
            queue: VecDeque::new(),
            held: 0,
            marks: 0,
            ended: false,
            corrupt: 0,
            broken: None,
        };
        upcoming.fill();
        upcoming
    }

    /// When the next event is; `None` at the end.
    pub(super) fn next_at(&self) -> Option<Moment> {
        self.queue.front().map(|(event, _)| event.at)
    }

    pub(super) fn take(&mut self) -> Option<Event> {
        let (event, length) = self.queue.pop_front()?;
        self.held -= length;
        self.marks -= usize::from(mark_of(&event).is_some());
        self.fill();
        Some(event)
    }

    /// The next mark, if it is near.
    pub(super) fn next_mark(&self) -> Option<Mark> {
        match self.marks {
            0 => None,
            _ => self.queue.iter().find_map(|(event, _)| mark_of(event)),
        }
    }

    fn fill(&mut self) {
        while !self.ended && (self.queue.is_empty() || (self.marks == 0 && self.held < AHEAD)) {
            let before = self.events.bytes();
            match self.events.next() {
                Some(Ok(event)) => {
                    self.marks += usize::from(mark_of(&event).is_some());
                    let length = self.events.bytes() - before;
                    self.held += length;
                    self.queue.push_back((event, length));
                }
                Some(Err(ReadError::Corrupt { .. })) => self.corrupt += 1,
                Some(Err(error @ ReadError::Unreadable { .. })) => {
                    self.broken = Some(error);
                    self.ended = true;
                }
                None => self.ended = true,
            }
        }
    }
}
