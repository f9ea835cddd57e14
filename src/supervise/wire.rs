//! The frames of the socket between front and keeper: pure, total, bounded.
//!
//! A frame is a length (4 bytes, little endian, of what follows), a kind (1 byte) and a body: JSON
//! for everything that is seldom, bare bytes for keys and output. A later version may add kinds
//! and fields; a reader passes over frames whose JSON it does not know.

use super::inherited::InheritedSignals;
use super::order::{Forwarding, Io, KeeperOrder, KeeperTimeouts};
use super::report::KeeperReport;
use super::status::Call;
use super::streams::OutputStream;
use super::terminal::LineSettings;
use crate::command::Word;
use crate::units::Pid;
use serde::{Deserialize, Serialize};

/// The largest frame that a reader takes: a command line may have megabytes of arguments, and JSON
/// writes a byte that is no text as up to four characters.
pub(super) const LARGEST: usize = 64 << 20;

/// The front's first frame: everything that the keeper must know, so that nothing of it stands in
/// arguments or environment, which the trainer would inherit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FirstMessage {
    /// The front.
    pub front: Pid,
    /// The log.
    pub log: Option<Word>,
    /// Where the terminal's output goes.
    pub io: Io,
    /// How long the keeper waits for what.
    pub timing: KeeperTimeouts,
    /// Whether signals are passed on when there is no front.
    #[serde(default)]
    pub forwarding: Forwarding,
    /// The signals as oomph found them.
    pub inherited: InheritedSignals,
    /// The user's terminal as oomph found it.
    pub line: Option<LineSettings>,
}

/// One frame, taken apart as far as its kind says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// JSON.
    Json(Vec<u8>),
    /// Keys for the trainer.
    Input(Vec<u8>),
    /// Output of the trainer.
    Output(OutputStream, Vec<u8>),
    /// The last of its output before the front came.
    Recent(Vec<u8>),
    /// A kind of a later version.
    Unknown,
}

const JSON: u8 = 1;
const INPUT: u8 = 2;
const TERMINAL: u8 = 16;
const OUT: u8 = 17;
const ERR: u8 = 18;
const RECENT: u8 = 19;

/// Appends a frame to `buffer`.
fn put(buffer: &mut Vec<u8>, kind: u8, body: &[u8]) {
    put_head(buffer, kind, body.len());
    buffer.extend_from_slice(body);
}

fn put_head(buffer: &mut Vec<u8>, kind: u8, body: usize) {
    let length = u32::try_from(body + 1).unwrap_or(u32::MAX);
    buffer.reserve(body + 5);
    buffer.extend_from_slice(&length.to_le_bytes());
    buffer.push(kind);
}

/// The bytes of a message that is JSON: a first message, a call, most orders and reports.
pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    let mut buffer = Vec::new();
    // These types have no maps with odd keys and no path that is not a Word: it cannot fail.
    if let Ok(body) = serde_json::to_vec(value) {
        put(&mut buffer, JSON, &body);
    }
    buffer
}

/// The bytes of an order.
pub(super) fn order(order: &KeeperOrder) -> Vec<u8> {
    let mut buffer = Vec::new();
    let KeeperOrder::Input(bytes) = order else {
        return json(order);
    };
    put(&mut buffer, INPUT, bytes);
    buffer
}

/// The bytes of a report.
pub(super) fn report(report: &KeeperReport) -> Vec<u8> {
    let mut buffer = Vec::new();
    if let KeeperReport::Output { stream, bytes } = report {
        output(&mut buffer, *stream, [bytes, &[]]);
    } else if let KeeperReport::Recent(bytes) = report {
        put(&mut buffer, RECENT, bytes);
    } else {
        return json(report);
    }
    buffer
}

/// Appends a frame of output, whose bytes come in two pieces, as a ring holds them.
pub(super) fn output(buffer: &mut Vec<u8>, stream: OutputStream, bytes: [&[u8]; 2]) {
    let kind = match stream {
        OutputStream::Terminal => TERMINAL,
        OutputStream::Out => OUT,
        OutputStream::Err => ERR,
    };
    put_head(buffer, kind, bytes.iter().map(|piece| piece.len()).sum());
    for piece in bytes {
        buffer.extend_from_slice(piece);
    }
}

/// Bytes that are no frames: the other side is none of ours, and the connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// The largest frame from somebody who has not said who it is.
const LARGEST_OF_STRANGERS: usize = 4 << 10;

/// Takes frames out of a stream of bytes.
#[derive(Debug)]
pub(super) struct Decoder {
    buffer: Vec<u8>,
    taken: usize,
    largest: usize,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            buffer: Vec::new(),
            taken: 0,
            largest: LARGEST,
        }
    }
}

impl Decoder {
    /// For frames of somebody who has not said who it is: none of them is large.
    pub(super) fn for_strangers() -> Decoder {
        Decoder {
            largest: LARGEST_OF_STRANGERS,
            ..Decoder::default()
        }
    }

    /// From here on frames may be as large as those of our own.
    pub(super) fn trust(&mut self) {
        self.largest = LARGEST;
    }

    /// Adds what was read.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.buffer.drain(..self.taken.min(self.buffer.len()));
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, Malformed> {
        let rest = self.buffer.get(self.taken..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > self.largest {
            return Err(Malformed);
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let Some((kind, body)) = body.split_first() else {
            return Err(Malformed);
        };
        let frame = match *kind {
            JSON => Frame::Json(body.to_vec()),
            INPUT => Frame::Input(body.to_vec()),
            TERMINAL => Frame::Output(OutputStream::Terminal, body.to_vec()),
            OUT => Frame::Output(OutputStream::Out, body.to_vec()),
            ERR => Frame::Output(OutputStream::Err, body.to_vec()),
            RECENT => Frame::Recent(body.to_vec()),
            _ => Frame::Unknown,
        };
        self.taken += 4 + length;
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
            // One large order must not be kept in memory for weeks.
            self.buffer.shrink_to(1 << 16);
        }
        Ok(Some(frame))
    }
}

impl Decoder {
    /// The next report; those of a later version are passed over.
    pub(super) fn next_report(&mut self) -> Result<Option<KeeperReport>, Malformed> {
        while let Some(frame) = self.next()? {
            if let Some(report) = frame.into_report() {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }
}

impl Frame {
    /// The order in this frame; `None` where this version knows no such order.
    pub(super) fn into_order(self) -> Option<KeeperOrder> {
        match self {
            Frame::Json(body) => serde_json::from_slice(&body).ok(),
            Frame::Input(bytes) => Some(KeeperOrder::Input(bytes)),
            Frame::Output(..) | Frame::Recent(_) | Frame::Unknown => None,
        }
    }

    /// The call in this frame; `None` where this version knows no such call.
    pub(super) fn into_call(self) -> Option<Call> {
        match self {
            Frame::Json(body) => serde_json::from_slice(&body).ok(),
            Frame::Input(_) | Frame::Output(..) | Frame::Recent(_) | Frame::Unknown => None,
        }
    }

    /// The report in this frame; `None` where this version knows no such report.
    pub(super) fn into_report(self) -> Option<KeeperReport> {
        match self {
            Frame::Json(body) => serde_json::from_slice(&body).ok(),
            Frame::Output(stream, bytes) => Some(KeeperReport::Output { stream, bytes }),
            Frame::Recent(bytes) => Some(KeeperReport::Recent(bytes)),
            Frame::Input(_) | Frame::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CommandLine, EnvChange};
    use crate::event::Exit;
    use crate::supervise::{Launch, Size};
    use crate::units::{Bytes, RunNumber};
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn frames(bytes: &[u8], piece: usize) -> Vec<Frame> {
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for part in bytes.chunks(piece) {
            decoder.push(part);
            while let Some(frame) = decoder.next().unwrap() {
                found.push(frame);
            }
        }
        found
    }

    #[test]
    fn orders_survive_any_cut() {
        let odd = OsString::from_vec(vec![b'a', 0xff]);
        let orders = [
            KeeperOrder::Launch(Launch {
                run: RunNumber(2),
                command: CommandLine {
                    argv: vec!["python".into(), odd.clone().into()],
                    env: vec![EnvChange {
                        name: "A".into(),
                        value: None,
                    }],
                    cwd: odd.into(),
                },
                size: Some(Size::new(40, 100)),
            }),
            KeeperOrder::Interrupt,
            KeeperOrder::Forward(10),
            KeeperOrder::Input(vec![0, 255, 3]),
            KeeperOrder::ScreenShown(false),
            KeeperOrder::Finish,
        ];
        let bytes: Vec<u8> = orders.iter().flat_map(order).collect();
        for piece in [1, 3, 7, 1000] {
            let found: Vec<KeeperOrder> = frames(&bytes, piece)
                .into_iter()
                .filter_map(Frame::into_order)
                .collect();
            assert_eq!(found, orders);
        }
    }

    #[test]
    fn reports_survive_too() {
        let reports = [
            KeeperReport::Output {
                stream: OutputStream::Err,
                bytes: b"\x1b[31m\xff".to_vec(),
            },
            KeeperReport::Gap { bytes: Bytes(7) },
            KeeperReport::Exited {
                run: RunNumber(1),
                exit: Exit::Signal(9),
                left: vec![Pid(4)],
            },
            KeeperReport::Finished,
        ];
        let bytes: Vec<u8> = reports.iter().flat_map(report).collect();
        let found: Vec<KeeperReport> = frames(&bytes, 5)
            .into_iter()
            .filter_map(Frame::into_report)
            .collect();
        assert_eq!(found, reports);
    }

    #[test]
    fn what_a_later_version_says_is_passed_over() {
        let mut bytes = Vec::new();
        put(&mut bytes, JSON, br#"{"teleport":1}"#);
        put(&mut bytes, 200, b"?");
        bytes.extend(order(&KeeperOrder::Stop));
        let found: Vec<Option<KeeperOrder>> = frames(&bytes, 64)
            .into_iter()
            .map(Frame::into_order)
            .collect();
        assert_eq!(found, [None, None, Some(KeeperOrder::Stop)]);
    }

    #[test]
    fn garbage_ends_the_connection() {
        let mut decoder = Decoder::default();
        decoder.push(&[0xff; 64]);
        assert_eq!(decoder.next(), Err(Malformed));
        let mut decoder = Decoder::default();
        decoder.push(&[0; 4]);
        assert_eq!(decoder.next(), Err(Malformed));
    }
}
