//! The bounded queue to the front, which never holds up the loop.
//!
//! A front that is too slow loses the *oldest* output, with a counted gap in its place: the latest (a
//! traceback) matters most. Everything else is kept.

use super::descriptor::{self, Put};
use super::recent::Recent;
use crate::background::ring;
use crate::supervise::wire;
use crate::supervise::{KeeperReport, OutputStream, SessionStatus};
use crate::units::Bytes;
use std::collections::VecDeque;
use std::os::fd::AsFd;

/// The most bytes of output that wait.
const CAPACITY: usize = 320 << 10;

/// Waiting output is joined into frames of this size.
const FRAME: usize = 32 << 10;

/// The most other reports that wait; beyond it notes and the
/// log's marks are dropped. A front that is suspended for a
/// week must not fill the memory.
const MOST_REPORTS: usize = 1 << 10;

pub(super) struct Viewer {
    waiting: VecDeque<Item>,
    /// The bytes of all output in `waiting`.
    bytes: VecDeque<u8>,
    /// The frame that is being written, and how much of it has been.
    sending: Vec<u8>,
    sent: usize,
    /// The front was told to make way: everything else is for the next one.
    held: bool,
}

enum Item {
    /// This many of the bytes.
    Output(OutputStream, usize),
    Gap(u64),
    KeeperReport(KeeperReport),
}

impl Viewer {
    pub(super) fn new() -> Viewer {
        Viewer {
            waiting: VecDeque::new(),
            bytes: VecDeque::new(),
            sending: Vec::new(),
            sent: 0,
            held: false,
        }
    }

    /// Frees the memory that only a flood of output needs.
    pub(super) fn give_back(&mut self) {
        if self.bytes.is_empty() && self.sent >= self.sending.len() {
            self.bytes = VecDeque::new();
            self.sending = Vec::new();
            self.waiting.shrink_to_fit();
            self.sent = 0;
        }
    }

    /// Tells the front to make way, before everything that waits, and nothing after that.
    pub(super) fn supersede(&mut self) {
        if !self.held {
            self.waiting
                .push_front(Item::KeeperReport(KeeperReport::Superseded));
            self.held = true;
        }
    }

    /// Starts over for another front: the status, the recent output before that which waits, then the
    /// output that waits. Most other waiting reports are part of the status.
    pub(super) fn begin_anew(&mut self, status: SessionStatus, recent: &Recent) {
        self.held = false;
        self.sending.clear();
        self.sent = 0;
        let mut unseen = 0;
        self.waiting.retain(|item| match item {
            Item::Output(_, length) => {
                unseen += *length as u64;
                true
            }
            Item::Gap(bytes) => {
                unseen += *bytes;
                true
            }
            Item::KeeperReport(report) => matches!(
                report,
                KeeperReport::Note(_) | KeeperReport::Unlogged { .. } | KeeperReport::Logged { .. }
            ),
        });
        let recent = recent.before(unseen);
        self.waiting
            .push_front(Item::KeeperReport(KeeperReport::Recent(recent)));
        (self.waiting).push_front(Item::KeeperReport(KeeperReport::Welcome(status)));
    }

    /// Whether to poll the socket for room.
    pub(super) fn wants_to_send(&self) -> bool {
        let making_way = matches!(
            self.waiting.front(),
            Some(Item::KeeperReport(KeeperReport::Superseded))
        );
        let next = !self.waiting.is_empty() && (!self.held || making_way);
        next || self.sent < self.sending.len()
    }

    /// Queues output; if there is no room, the oldest is dropped.
    pub(super) fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > CAPACITY {
            self.forget(CAPACITY / 2);
        }
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(CAPACITY);
        }
        self.bytes.extend(bytes);
        let mut left = bytes.len();
        if let Some(Item::Output(last, length)) = self.waiting.back_mut()
            && *last == stream
        {
            let fits = left.min(FRAME.saturating_sub(*length));
            *length += fits;
            left -= fits;
        }
        while left > 0 {
            let length = left.min(FRAME);
            self.waiting.push_back(Item::Output(stream, length));
            left -= length;
        }
    }

    /// Drops the oldest output until no more than `kept` bytes are left: many frames at once, so that
    /// there is one gap instead of one for each small write.
    fn forget(&mut self, kept: usize) {
        let mut still = VecDeque::with_capacity(self.waiting.len());
        let mut dropped = 0;
        for item in std::mem::take(&mut self.waiting) {
            let missing = match item {
                Item::Output(_, length) if self.bytes.len() - dropped > kept => {
                    dropped += length;
                    length as u64
                }
                Item::Gap(bytes) => bytes,
                Item::Output(..) | Item::KeeperReport(_) => {
                    still.push_back(item);
                    continue;
                }
            };
            match still.back_mut() {
                Some(Item::Gap(before)) => *before += missing,
                Some(_) | None => still.push_back(Item::Gap(missing)),
            }
        }
        self.bytes.drain(..dropped.min(self.bytes.len()));
        self.waiting = still;
    }

    pub(super) fn report(&mut self, report: KeeperReport) {
        let optional = matches!(report, KeeperReport::Note(_) | KeeperReport::Logged { .. });
        if !(optional && self.waiting.len() > MOST_REPORTS) {
            self.waiting.push_back(Item::KeeperReport(report));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sent >= self.sending.len()
    }

    /// Sends what the socket takes; whether the front is still there.
    pub(super) fn send(&mut self, socket: impl AsFd) -> bool {
        loop {
            if self.sent >= self.sending.len() {
                self.sent = 0;
                self.sending.clear();
                if !self.wants_to_send() {
                    return true;
                }
                match self.waiting.pop_front() {
                    None => return true,
                    Some(Item::Output(stream, length)) => {
                        let length = length.min(self.bytes.len());
                        let bytes = ring::first(&self.bytes, length);
                        wire::output(&mut self.sending, stream, bytes);
                        self.bytes.drain(..length);
                    }
                    Some(Item::Gap(bytes)) => {
                        self.sending = wire::report(&KeeperReport::Gap {
                            bytes: Bytes(bytes),
                        });
                    }
                    Some(Item::KeeperReport(report)) => self.sending = wire::report(&report),
                }
            }
            let rest = self.sending.get(self.sent..).unwrap_or_default();
            match descriptor::write(&socket, rest) {
                Put::Bytes(n) => self.sent += n,
                Put::Full => return true,
                Put::Broken(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervise::wire::{Decoder, Frame};
    use crate::units::Pid;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn everything(viewer: &mut Viewer) -> Vec<KeeperReport> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut decoder = Decoder::default();
        let mut reports = Vec::new();
        let mut chunk = vec![0; 1 << 16];
        while !viewer.is_empty() {
            assert!(viewer.send(&ours));
            while let Ok(n) = theirs.read(&mut chunk) {
                decoder.push(&chunk[..n]);
            }
            while let Some(frame) = decoder.next().unwrap() {
                reports.extend(Frame::into_report(frame));
            }
        }
        reports
    }

    #[test]
    fn a_slow_front_gets_the_end_and_the_size_of_what_it_missed() {
        let mut viewer = Viewer::new();
        viewer.report(KeeperReport::Swept { left: vec![Pid(1)] });
        let line = [b'x'; 100];
        let lines = 40_000;
        for _ in 0..lines {
            viewer.output(OutputStream::Terminal, &line);
            assert!(viewer.bytes.len() <= CAPACITY);
        }
        viewer.output(OutputStream::Terminal, b"the last words");
        viewer.report(KeeperReport::Finished);
        let reports = everything(&mut viewer);
        let (mut seen, mut missed) = (Vec::new(), 0);
        for report in &reports {
            match report {
                KeeperReport::Output { bytes, .. } => seen.extend_from_slice(bytes),
                KeeperReport::Gap { bytes } => missed += bytes.0,
                _ => {}
            }
        }
        assert_eq!(seen.len() as u64 + missed, lines * 100 + 14);
        assert!(seen.ends_with(b"the last words"));
        assert_eq!(
            reports.first(),
            Some(&KeeperReport::Swept { left: vec![Pid(1)] })
        );
        assert_eq!(reports.last(), Some(&KeeperReport::Finished));
        let gaps = reports
            .iter()
            .filter(|r| matches!(r, KeeperReport::Gap { .. }));
        assert_eq!(gaps.count(), 1, "one for all that was given up");
    }

    #[test]
    fn a_front_that_keeps_up_gets_every_byte_in_order() {
        let mut viewer = Viewer::new();
        viewer.output(OutputStream::Out, b"a");
        viewer.output(OutputStream::Out, b"b");
        viewer.output(OutputStream::Err, &vec![b'c'; 3 * FRAME]);
        viewer.output(OutputStream::Out, b"d");
        let mut seen = Vec::new();
        for report in everything(&mut viewer) {
            if let KeeperReport::Output { bytes, .. } = report {
                seen.extend(bytes);
            }
        }
        assert_eq!(
            seen,
            [b"ab".to_vec(), vec![b'c'; 3 * FRAME], b"d".to_vec()].concat()
        );
    }
}
