//! The frames on the socket between front and keeper: pure, total, bounded.
//!
//! A frame is a length (4 bytes, little endian, of what follows), a kind (1 byte) and a body: JSON
//! for everything that is rare, raw bytes for keys and output. A later version may add kinds and
//! fields; a reader skips frames that it doesn't know.

use super::messages::{
    Forwarding, Io, KeeperOrder, KeeperReport, KeeperTimeouts, OutputStream, PipedInput,
};
use super::terminal::LineSettings;
use super::this_process::{GroupPlace, InheritedSignals};
use crate::command::Word;
use crate::units::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The largest frame that a reader takes: a command line may have megabytes of arguments, and JSON
/// writes a byte that is no text as up to four characters.
const LARGEST: usize = 64 << 20;

/// The front's first frame, with all settings, so that none of them is in the environment, which the
/// trainer would inherit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FirstMessage {
    pub front: Pid,
    pub log: Option<Word>,
    pub io: Io,
    pub timing: KeeperTimeouts,
    #[serde(default)]
    pub forwarding: Forwarding,
    #[serde(default)]
    pub input: PipedInput,
    pub inherited: InheritedSignals,
    #[serde(default)]
    pub group: GroupPlace,
    /// The user's terminal at the start.
    pub line: Option<LineSettings>,
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    kind: u8,
    body: Vec<u8>,
}

const JSON: u8 = 1;
const INPUT: u8 = 2;
const OUTPUT: [(u8, OutputStream); 3] = [
    (16, OutputStream::Terminal),
    (17, OutputStream::Out),
    (18, OutputStream::Err),
];
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
    // It can't fail: these types have no maps with other keys than strings, and paths are Words.
    if let Ok(body) = serde_json::to_vec(value) {
        put(&mut buffer, JSON, &body);
    }
    buffer
}

pub(super) fn order(order: &KeeperOrder) -> Vec<u8> {
    let mut buffer = Vec::new();
    let KeeperOrder::Input(bytes) = order else {
        return json(order);
    };
    put(&mut buffer, INPUT, bytes);
    buffer
}

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

/// Appends a frame of output. Its bytes come in two pieces, as in a ring buffer.
pub(super) fn output(buffer: &mut Vec<u8>, stream: OutputStream, bytes: [&[u8]; 2]) {
    let kind = OUTPUT.iter().find(|(_, of)| *of == stream);
    put_head(
        buffer,
        kind.map_or(0, |(kind, _)| *kind),
        bytes.iter().map(|piece| piece.len()).sum(),
    );
    for piece in bytes {
        buffer.extend_from_slice(piece);
    }
}

/// Bytes that aren't frames: the other side isn't oomph, and the connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// The largest frame from a caller that hasn't identified itself.
const LARGEST_OF_STRANGERS: usize = 4 << 10;

/// Splits a stream of bytes into frames.
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
    /// For callers that haven't identified themselves: takes no large frames.
    pub fn for_strangers() -> Decoder {
        Decoder {
            largest: LARGEST_OF_STRANGERS,
            ..Decoder::default()
        }
    }

    /// From here on takes frames of any size that we send.
    pub fn trust(&mut self) {
        self.largest = LARGEST;
    }

    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.buffer.drain(..self.taken.min(self.buffer.len()));
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    pub fn next(&mut self) -> Result<Option<Frame>, Malformed> {
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
        let frame = Frame {
            kind: *kind,
            body: body.to_vec(),
        };
        self.taken += 4 + length;
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
            // Don't keep the memory of one large order for weeks.
            self.buffer.shrink_to(1 << 16);
        }
        Ok(Some(frame))
    }

    /// The next report; those of a later version are skipped.
    pub fn next_report(&mut self) -> Result<Option<KeeperReport>, Malformed> {
        while let Some(frame) = self.next()? {
            if let Some(report) = frame.into_report() {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }
}

/// Each gives `None` for what this version doesn't know.
impl Frame {
    /// A first message, a call, or an order or report that is JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Option<T> {
        (self.kind == JSON).then(|| serde_json::from_slice(&self.body).ok())?
    }

    pub fn into_order(self) -> Option<KeeperOrder> {
        match self.kind {
            INPUT => Some(KeeperOrder::Input(self.body)),
            _ => self.json(),
        }
    }

    pub fn into_report(self) -> Option<KeeperReport> {
        if self.kind == RECENT {
            return Some(KeeperReport::Recent(self.body));
        }
        match OUTPUT.iter().find(|(kind, _)| *kind == self.kind) {
            Some((_, stream)) => Some(KeeperReport::Output {
                stream: *stream,
                bytes: self.body,
            }),
            None => self.json(),
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
            KeeperOrder::Forward(10.into()),
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
