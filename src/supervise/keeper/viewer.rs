//! What goes to the front: a bounded queue that never holds up the drain.
//!
//! A front that is too slow loses the *oldest* output, with a counted gap in its place: what is
//! said last (a traceback) matters most. Everything else is kept.

use super::descriptor::{self, Put};
use crate::supervise::wire;
use crate::supervise::{Report, Stream};
use crate::units::Bytes;
use std::collections::VecDeque;
use std::os::fd::AsFd;

/// Output that waits at most.
const CAPACITY: usize = 768 << 10;

/// Output is gathered into frames of this size while it waits.
const FRAME: usize = 32 << 10;

/// Reports other than output that wait at most; beyond it, notes are left out. A front that has
/// been suspended for a week must not cost memory.
const MOST_REPORTS: usize = 1 << 10;

/// The queue.
#[derive(Default)]
pub struct Viewer {
    waiting: VecDeque<Item>,
    /// Bytes of output in `waiting`.
    output: usize,
    /// The frame that is being written, and how much of it is.
    sending: Vec<u8>,
    sent: usize,
}

enum Item {
    Output(Stream, Vec<u8>),
    Gap(u64),
    Report(Report),
}

impl Viewer {
    /// Queues output, at the cost of the oldest where there is no room.
    pub fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.output += bytes.len();
        match self.waiting.back_mut() {
            Some(Item::Output(last, gathered))
                if *last == stream && gathered.len() + bytes.len() <= FRAME =>
            {
                gathered.extend_from_slice(bytes);
            }
            Some(_) | None => {
                for piece in bytes.chunks(FRAME) {
                    self.waiting.push_back(Item::Output(stream, piece.to_vec()));
                }
            }
        }
        if self.output > CAPACITY {
            self.forget();
        }
    }

    /// Gives up the oldest half of the output: one gap instead of one for each small write.
    fn forget(&mut self) {
        let mut kept = VecDeque::with_capacity(self.waiting.len());
        for item in std::mem::take(&mut self.waiting) {
            let missing = match item {
                Item::Output(_, bytes) if self.output > CAPACITY / 2 => {
                    self.output -= bytes.len();
                    bytes.len() as u64
                }
                Item::Gap(bytes) => bytes,
                Item::Output(..) | Item::Report(_) => {
                    kept.push_back(item);
                    continue;
                }
            };
            match kept.back_mut() {
                Some(Item::Gap(before)) => *before += missing,
                Some(_) | None => kept.push_back(Item::Gap(missing)),
            }
        }
        self.waiting = kept;
    }

    /// Queues anything else.
    pub fn report(&mut self, report: Report) {
        let optional = matches!(report, Report::Note(_));
        if !(optional && self.waiting.len() > MOST_REPORTS) {
            self.waiting.push_back(Item::Report(report));
        }
    }

    /// Whether everything is sent.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sent >= self.sending.len()
    }

    /// Sends what the socket takes; whether the front is still there.
    pub fn send(&mut self, socket: impl AsFd) -> bool {
        loop {
            if self.sent >= self.sending.len() {
                self.sent = 0;
                self.sending.clear();
                match self.waiting.pop_front() {
                    None => return true,
                    Some(Item::Output(stream, bytes)) => {
                        self.output -= bytes.len();
                        wire::output(&mut self.sending, stream, &bytes);
                    }
                    Some(Item::Gap(bytes)) => {
                        self.sending = wire::report(&Report::Gap {
                            bytes: Bytes(bytes),
                        });
                    }
                    Some(Item::Report(report)) => self.sending = wire::report(&report),
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
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::supervise::wire::{Decoder, Frame};
    use crate::units::Pid;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn everything(viewer: &mut Viewer) -> Vec<Report> {
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
        let mut viewer = Viewer::default();
        viewer.report(Report::Swept { left: vec![Pid(1)] });
        let line = [b'x'; 100];
        let lines = 40_000;
        for _ in 0..lines {
            viewer.output(Stream::Terminal, &line);
            assert!(viewer.output <= CAPACITY);
        }
        viewer.output(Stream::Terminal, b"the last words");
        viewer.report(Report::Finished);
        let reports = everything(&mut viewer);
        let (mut seen, mut missed) = (Vec::new(), 0);
        for report in &reports {
            match report {
                Report::Output { bytes, .. } => seen.extend_from_slice(bytes),
                Report::Gap { bytes } => missed += bytes.0,
                _ => {}
            }
        }
        assert_eq!(seen.len() as u64 + missed, lines * 100 + 14);
        assert!(seen.ends_with(b"the last words"));
        assert_eq!(reports.first(), Some(&Report::Swept { left: vec![Pid(1)] }));
        assert_eq!(reports.last(), Some(&Report::Finished));
        let gaps = reports.iter().filter(|r| matches!(r, Report::Gap { .. }));
        assert_eq!(gaps.count(), 1, "one for all that was given up");
    }

    #[test]
    fn a_front_that_keeps_up_gets_every_byte_in_order() {
        let mut viewer = Viewer::default();
        viewer.output(Stream::Out, b"a");
        viewer.output(Stream::Out, b"b");
        viewer.output(Stream::Err, &vec![b'c'; 3 * FRAME]);
        viewer.output(Stream::Out, b"d");
        let mut seen = Vec::new();
        for report in everything(&mut viewer) {
            if let Report::Output { bytes, .. } = report {
                seen.extend(bytes);
            }
        }
        assert_eq!(
            seen,
            [b"ab".to_vec(), vec![b'c'; 3 * FRAME], b"d".to_vec()].concat()
        );
    }
}
