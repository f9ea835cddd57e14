//! What NVML's thread reports, on its way into a channel that may be full.
//!
//! Readings are dropped and counted then; NVML's state must arrive, so it is queued. Nothing here
//! ever waits for the channel.

use super::state;
use crate::event::{Clock, Dropped, Event, EventKind, Level, Note, NvmlState};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

/// The maximum number of queued states and notes; only a broken library makes more.
const WAITING: usize = 64;

#[derive(Debug)]
pub(super) struct Outbox {
    clock: Clock,
    sender: Sender<Event>,
    queue: Mutex<OutboxQueue>,
}

#[derive(Debug, Default)]
struct OutboxQueue {
    said: Option<NvmlState>,
    waiting: VecDeque<Event>,
    dropped: u64,
}

impl Outbox {
    pub fn new(clock: Clock, sender: Sender<Event>) -> Outbox {
        Outbox {
            clock,
            sender,
            queue: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, OutboxQueue> {
        self.queue.lock().unwrap_or_else(|held| held.into_inner())
    }

    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether anything is queued.
    pub fn is_waiting(&self) -> bool {
        let queue = self.lock();
        !queue.waiting.is_empty() || queue.dropped > 0
    }

    /// Reports NVML's state if it has changed.
    pub fn report_state(&self, new: NvmlState) {
        let mut queue = self.lock();
        if queue.said.as_ref() != Some(&new) {
            queue.said = Some(new.clone());
            self.put(&mut queue, state(new));
        }
        drop(queue);
        self.flush();
    }

    /// Reports a warning.
    pub fn note(&self, text: String) {
        let level = Level::Warning;
        self.send_surely(EventKind::Note(Note::new(level, text)));
    }

    /// Reports something that must arrive.
    pub fn send_surely(&self, what: EventKind) {
        self.put(&mut self.lock(), what);
        self.flush();
    }

    fn put(&self, queue: &mut OutboxQueue, what: EventKind) {
        let at = self.clock.now();
        if queue.waiting.len() < WAITING {
            queue.waiting.push_back(Event { at, what });
        }
    }

    /// A reading of this moment.
    pub fn read_now(&self, what: EventKind) -> Event {
        let at = self.clock.now();
        Event { at, what }
    }

    /// Sends the readings of a round, all at once: each by itself would wake its receiver. Those that there is no
    /// room for are counted as dropped.
    pub fn readings(&self, round: Vec<Event>) {
        self.flush();
        for reading in round {
            if self.sender.try_send(reading).is_err() {
                self.lock().dropped += 1;
            }
        }
    }

    /// Sends what is queued, as far as there is room.
    pub fn flush(&self) {
        let mut queue = self.lock();
        while let Some(event) = queue.waiting.pop_front() {
            match self.sender.try_send(event) {
                Ok(()) => {}
                Err(TrySendError::Full(event)) => {
                    queue.waiting.push_front(event);
                    return;
                }
                Err(TrySendError::Closed(_)) => return queue.waiting.clear(),
            }
        }
        if queue.dropped > 0 {
            let dropped = Dropped {
                samples: queue.dropped,
                ..Dropped::default()
            };
            let (at, what) = (self.clock.now(), EventKind::Dropped(dropped));
            if self.sender.try_send(Event { at, what }).is_ok() {
                queue.dropped = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::channel;

    fn reading() -> EventKind {
        EventKind::Unknown
    }

    #[test]
    fn a_full_channel_costs_readings_and_no_state() {
        let (sender, mut receiver) = channel(1);
        let outbox = Outbox::new(Clock::start(), sender);
        let round = [reading(), reading(), reading()];
        outbox.readings(round.map(|what| outbox.read_now(what)).into());
        outbox.report_state(NvmlState::Stale);
        outbox.report_state(NvmlState::Stale);
        assert!(outbox.is_waiting());
        let mut seen = Vec::new();
        while let Ok(event) = receiver.try_recv() {
            seen.push(event.what);
            outbox.flush();
        }
        let dropped = Dropped {
            samples: 2,
            ..Dropped::default()
        };
        assert_eq!(
            seen,
            [
                reading(),
                EventKind::Nvml(NvmlState::Stale),
                EventKind::Dropped(dropped)
            ]
        );
        assert!(!outbox.is_waiting());
    }

    #[test]
    fn nobody_listening_is_no_error() {
        let (sender, receiver) = channel(1);
        let outbox = Outbox::new(Clock::start(), sender);
        drop(receiver);
        outbox.report_state(NvmlState::Off);
        outbox.readings(vec![outbox.read_now(reading())]);
        assert!(outbox.is_closed());
    }
}
