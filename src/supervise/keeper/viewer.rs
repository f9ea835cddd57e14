//! What goes to the front: a bounded queue that never holds up the drain.
//!
//! A front that is too slow loses the *oldest* output, with a counted gap in its place: what is
//! said last (a traceback) matters most. Everything else is kept.

use super::descriptor::{self, Put};
use super::recent::Recent;
use crate::background::ring;
use crate::supervise::wire;
use crate::supervise::{KeeperReport, OutputStream, SessionStatus};
use crate::units::Bytes;
use std::collections::VecDeque;
use std::os::fd::AsFd;

/// Output that waits at most.
const CAPACITY: usize = 320 << 10;

/// Output is gathered into frames of this size while it waits.
const FRAME: usize = 32 << 10;

/// Reports other than output that wait at most; beyond it, notes are left out. A front that has
/// been suspended for a week must not cost memory.
const MOST_REPORTS: usize = 1 << 10;

/// The queue.
pub(super) struct Viewer {
    waiting: VecDeque<Item>,
    /// The bytes of all output in `waiting`.
    bytes: VecDeque<u8>,
    /// The frame that is being written, and how much of it is.
    sending: Vec<u8>,
    sent: usize,
    /// The front was told to make way: all else is for the next one.
    held: bool,
}

enum Item {
    /// So many of the bytes.
    Output(OutputStream, usize),
    Gap(u64),
    KeeperReport(KeeperReport),
}

impl Viewer {
    /// An empty one.
    pub(super) fn new() -> Viewer {
        Viewer {
            waiting: VecDeque::new(),
            bytes: VecDeque::new(),
            sending: Vec::new(),
            sent: 0,
            held: false,
        }
    }

    /// Gives back the memory that only a flood of output needs.
    pub(super) fn give_back(&mut self) {
        if self.bytes.is_empty() && self.sent >= self.sending.len() {
            self.bytes = VecDeque::new();
            self.sending = Vec::new();
            self.waiting.shrink_to_fit();
            self.sent = 0;
        }
    }

    /// Tells the front to make way, before all else that waits, and nothing after it.
    pub(super) fn supersede(&mut self) {
        if !self.held {
            self.waiting
                .push_front(Item::KeeperReport(KeeperReport::Superseded));
            self.held = true;
        }
    }

    /// Begins anew for another front: with how things stand and the recent output that none of what
    /// waits holds, then the output that waits. Everything else of the session's that waits is in
    /// how things stand.
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
                KeeperReport::Note(_) | KeeperReport::Unlogged { .. }
            ),
        });
        let recent = recent.before(unseen);
        self.waiting
            .push_front(Item::KeeperReport(KeeperReport::Recent(recent)));
        (self.waiting).push_front(Item::KeeperReport(KeeperReport::Welcome(status)));
    }

    /// Whether the socket is awaited to take more.
    pub(super) fn wants_to_send(&self) -> bool {
        let making_way = matches!(
            self.waiting.front(),
            Some(Item::KeeperReport(KeeperReport::Superseded))
        );
        let next = !self.waiting.is_empty() && (!self.held || making_way);
        next || self.sent < self.sending.len()
    }

    /// Queues output, at the cost of the oldest where there is no room.
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

    /// Gives up the oldest output until no more than `kept` bytes are left: many frames at once,
    /// so that there is one gap and not one for each small write.
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

    /// Queues anything else.
    pub(super) fn report(&mut self, report: KeeperReport) {
        let optional = matches!(report, KeeperReport::Note(_));
        if !(optional && self.waiting.len() > MOST_REPORTS) {
            self.waiting.push_back(Item::KeeperReport(report));
        }
    }

    /// Whether everything is sent.
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
