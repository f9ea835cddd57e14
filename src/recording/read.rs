//! Reads a recording: each event once, in order of time, whatever state the files are in.
//!
//! A killed front may leave half a line at the end, and its last readings in a file beside the
//! recording; a disk may leave worse. Reading continues in spite of that.
//!
//! A file of any size is replayed from its first lines on, in bounded memory. Lines are written nearly in
//! order: a bucket of readings when it closes, the last minute of them at an OOM and at the end. A window of
//! the file that is larger than that is sorted as it is read.

use super::limits::{Fidelity, fidelity};
use super::recorder::with_suffix;
use crate::event::{Event, EventKind};
use crate::units::Moment;
use nix::libc;
use serde::Deserialize;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Take};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Longer lines are ignored: none of our events comes close.
pub(super) const LONGEST_LINE: usize = 16 << 20;

/// A first line of this length is not a damaged one: what is read is no recording, and may have no end.
const NO_FIRST_LINE: u64 = 4 * LONGEST_LINE as u64;

/// Bytes of lines that are held to be sorted: several times what is ever written late.
const WINDOW: usize = 8 << 20;

/// Lines that are held; a hostile file may have nothing but short ones.
const WINDOW_LINES: usize = 100_000;

/// Why an event, or a whole recording, can't be read.
#[derive(Debug)]
pub enum ReadError {
    /// A line that isn't an event; reading continues after it.
    Corrupt {
        path: PathBuf,
        /// From 1.
        line: u32,
        reason: String,
    },
    /// The file can't be read.
    Unreadable { path: PathBuf, error: io::Error },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Corrupt { path, line, reason } => {
                write!(f, "{}:{line}: not an event: {reason}", path.display())
            }
            ReadError::Unreadable { path, error } => {
                write!(f, "cannot read {}: {error}", path.display())
            }
        }
    }
}

// The message already includes the cause.
impl std::error::Error for ReadError {}

/// Opens the recording at `path` (the file, or its session's directory) in its current state: later
/// lines are not read. Events of unknown kinds are skipped. Memory does not grow with the file.
pub fn read(path: &Path) -> Result<Events, ReadError> {
    type Opener = fn(&Path) -> io::Result<File>;
    let (main, open_main): (PathBuf, Opener) = match path.is_dir() {
        true => (path.join(super::RECORDING), open_stored),
        false => (path.to_owned(), open_regular),
    };
    let lines = |path: PathBuf, open: Opener| match open(&path).and_then(TimedLines::new) {
        Ok(lines) => Ok((lines, path)),
        Err(error) => Err(ReadError::Unreadable { path, error }),
    };
    // The last two were written by earlier versions.
    let beside = [".recent", ".recent-0", ".recent-1"].map(|suffix| with_suffix(&main, suffix));
    let mut files = vec![lines(main, open_main)?];
    let beside = beside.into_iter();
    files.extend(beside.filter_map(|path| lines(path, open_stored).ok()));
    Ok(Events::new(files))
}

/// The events of a recording.
#[derive(Debug)]
pub struct Events {
    files: Vec<(TimedLines, PathBuf)>,
    bytes: u64,
    at: Moment,
    /// The readings at `at` so far: a reading may have been written twice, from its bucket and from
    /// the last minute.
    readings: Vec<EventKind>,
}

impl Iterator for Events {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let read = match self.next_line() {
                Ok(line) => line?,
                Err(error) => return Some(Err(error)),
            };
            match read {
                Ok(event) if self.is_news(&event) => return Some(Ok(event)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Events {
    /// Of these files.
    pub(super) fn new(files: Vec<(TimedLines, PathBuf)>) -> Events {
        Events {
            files,
            bytes: 0,
            at: Moment::ZERO,
            readings: Vec::new(),
        }
    }

    /// The length of all lines so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The files that are still read.
    pub(super) fn files(&mut self) -> &mut Vec<(TimedLines, PathBuf)> {
        &mut self.files
    }

    /// The earliest line of all files, parsed. A file that can't be read any further is left out
    /// from then on.
    fn next_line(&mut self) -> Result<Option<Result<Event, ReadError>>, ReadError> {
        let mut earliest: Option<(Moment, usize)> = None;
        for place in 0..self.files.len() {
            let (lines, path) = &mut self.files[place];
            match lines.peek() {
                Ok(Some(at)) if earliest.is_none_or(|(other, _)| at < other) => {
                    earliest = Some((at, place));
                }
                Ok(_) => {}
                Err(error) => {
                    let path = std::mem::take(path);
                    self.files.remove(place);
                    return Err(ReadError::Unreadable { path, error });
                }
            }
        }
        let Some((_, place)) = earliest else {
            return Ok(None);
        };
        let (lines, path) = &mut self.files[place];
        let line = lines.next();
        self.bytes += line.as_ref().map_or(0, |line| line.length);
        Ok(line.map(|line| parsed(&line, path)))
    }

    /// Whether this is an event of a known kind that has not been returned yet.
    fn is_news(&mut self, event: &Event) -> bool {
        if event.at > self.at {
            self.readings.clear();
            self.at = event.at;
        }
        match fidelity(&event.what) {
            Fidelity::Nothing => false,
            Fidelity::Vital | Fidelity::Oom | Fidelity::Exact => true,
            Fidelity::Thinned(..) | Fidelity::Host { .. } => {
                let new = !self.readings.contains(&event.what);
                if new {
                    self.readings.push(event.what.clone());
                }
                new
            }
        }
    }
}

fn parsed(line: &TimedLine, path: &Path) -> Result<Event, ReadError> {
    let corrupt = |reason: String| ReadError::Corrupt {
        path: path.to_owned(),
        line: line.line,
        reason,
    };
    if line.length > LONGEST_LINE as u64 {
        return Err(corrupt(format!("{} bytes without a newline", line.length)));
    }
    let event = match is_suspect(&line.text) {
        false => serde_json::from_slice(&line.text),
        true => serde_json::from_slice(&line.text).and_then(|mut value| {
            strip_controls(&mut value);
            serde_json::from_value(value)
        }),
    };
    event.map_err(|error| corrupt(error.to_string()))
}

/// A line, as it was read.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TimedLine {
    pub at: Moment,
    /// Its number in the file, from 1.
    pub line: u32,
    /// Bytes, which may be more than were kept.
    pub length: u64,
    /// Without its newline; empty if it is too long.
    pub text: Vec<u8>,
}

/// The lines of one file. Blank lines and an unfinished last line are skipped.
#[derive(Debug)]
pub(super) struct TimedLines {
    reader: Take<BufReader<File>>,
    window: BinaryHeap<Reverse<TimedLine>>,
    held: usize,
    /// The time of the line before: a line without one is reported in its place.
    at: Moment,
    line: u32,
    /// Whether a line with a time was read: until then it may be anything.
    is_recording: bool,
    ended: bool,
    /// How many bytes of the file were let through so far.
    length: u64,
    /// Of a file that still grows: the beginning of the last line.
    unfinished: Option<Vec<u8>>,
}

impl TimedLines {
    /// The file as it is now: what is written later is not read.
    pub fn new(file: File) -> io::Result<TimedLines> {
        let about = file.metadata()?;
        let length = match about.is_file() {
            true => about.len(),
            false => u64::MAX,
        };
        Ok(TimedLines {
            reader: BufReader::with_capacity(256 << 10, file).take(length),
            window: BinaryHeap::new(),
            held: 0,
            at: Moment::ZERO,
            line: 0,
            is_recording: false,
            ended: false,
            length,
            unfinished: None,
        })
    }

    /// The file while it grows: the end of an unfinished last line is awaited.
    pub fn growing(file: File) -> io::Result<TimedLines> {
        Ok(TimedLines {
            unfinished: Some(Vec::new()),
            ..TimedLines::new(file)?
        })
    }

    /// Goes on to where the file ends now.
    ///
    /// # Errors
    /// It has become shorter.
    pub fn go_on(&mut self, length: u64) -> io::Result<()> {
        let Some(more) = length.checked_sub(self.length) else {
            return Err(io::Error::other("it has become shorter"));
        };
        self.length = length;
        self.reader.set_limit(self.reader.limit() + more);
        self.ended = more == 0;
        Ok(())
    }

    /// When the next line is; `None` at the end.
    fn peek(&mut self) -> io::Result<Option<Moment>> {
        while !self.ended && self.held < WINDOW && self.window.len() < WINDOW_LINES {
            self.read_line()?;
            let much = self.line as usize >= WINDOW_LINES || self.held >= WINDOW;
            if much && !self.ended && !self.is_recording {
                return Err(no_recording("its first lines have no event"));
            }
        }
        Ok(self.window.peek().map(|line| line.0.at))
    }

    fn next(&mut self) -> Option<TimedLine> {
        let Reverse(line) = self.window.pop()?;
        self.held -= line.text.len();
        Some(line)
    }

    fn read_line(&mut self) -> io::Result<()> {
        let mut text = Vec::new();
        let LineSpan { mut length, ended } = match self.is_recording {
            true => next_line(&mut self.reader, &mut text)?,
            false => next_line(&mut self.reader.by_ref().take(NO_FIRST_LINE), &mut text)?,
        };
        if !self.is_recording && length == NO_FIRST_LINE {
            return Err(no_recording("its first line has no end"));
        }
        if let Some(begun) = &mut self.unfinished {
            if begun.len() <= LONGEST_LINE {
                begun.append(&mut text);
            }
            if !ended {
                self.ended = true;
                return Ok(());
            }
            text = std::mem::take(begun);
            length = length.max(text.len() as u64);
        }
        if length == 0 && !ended {
            self.ended = true;
            return Ok(());
        }
        self.line = self.line.saturating_add(1);
        let time = moment_of(&text);
        self.is_recording |= time.is_some();
        self.at = time.unwrap_or(self.at);
        let cut_off = !ended && time.is_none_or(|_| !is_json(&text));
        if text.iter().all(u8::is_ascii_whitespace) || cut_off {
            return Ok(());
        }
        if length > LONGEST_LINE as u64 {
            text = Vec::new();
        }
        text.shrink_to_fit();
        self.held += text.len();
        self.window.push(Reverse(TimedLine {
            at: self.at,
            line: self.line,
            length,
            text,
        }));
        Ok(())
    }
}

/// The length of a line without its newline, and whether it had one.
struct LineSpan {
    length: u64,
    ended: bool,
}

/// Reads up to a newline; bytes beyond [`LONGEST_LINE`] are counted and dropped.
fn next_line(reader: &mut impl BufRead, text: &mut Vec<u8>) -> io::Result<LineSpan> {
    text.clear();
    let mut length = 0;
    loop {
        let available = match reader.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let newline = memchr::memchr(b'\n', available);
        let taken = newline.unwrap_or(available.len());
        let kept = taken.min(LONGEST_LINE.saturating_sub(text.len()));
        text.extend_from_slice(&available[..kept]);
        length += taken as u64;
        let ended = newline.is_some();
        let end_of_file = available.is_empty();
        reader.consume(taken + usize::from(ended));
        if ended || end_of_file {
            return Ok(LineSpan { length, ended });
        }
    }
}

fn no_recording(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// The time of a line's event. Our own lines begin with it, so the rest needn't be parsed; other
/// lines are parsed.
fn moment_of(text: &[u8]) -> Option<Moment> {
    if let Some(rest) = text.strip_prefix(b"{\"at\":") {
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits > 0 && rest.get(digits) == Some(&b',') {
            return std::str::from_utf8(&rest[..digits])
                .ok()?
                .parse()
                .ok()
                .map(Moment);
        }
    }
    #[derive(Deserialize)]
    struct Stamp {
        at: Moment,
    }
    serde_json::from_slice::<Stamp>(text)
        .ok()
        .map(|stamp| stamp.at)
}

/// Whether a line of a recording may contain control characters, escaped or raw.
fn is_suspect(line: &[u8]) -> bool {
    let spelled = memchr::memchr_iter(b'\\', line).any(|at| {
        matches!(
            line.get(at + 1..),
            Some(
                [b'n' | b'r' | b't' | b'b' | b'f', ..]
                    | [b'u', b'0', b'0', ..]
                    | [b'u', b'2', b'0', ..]
            )
        )
    });
    let raw = || {
        line.windows(2).any(|pair| {
            matches!(
                pair,
                [0xc2, 0x80..=0x9f] | [0x7f, _] | [0x80, 0xaa..=0xae] | [0x81, 0xa6..=0xa9]
            )
        })
    };
    spelled || raw()
}

/// Replaces control characters by spaces: a line break or an escape sequence in a file name, for example,
/// would act as a line of its own, or as a terminal command, wherever it is displayed. Commands keep theirs,
/// since quoting escapes them.
fn strip_controls(value: &mut Value) {
    match value {
        Value::String(text) => {
            let is_active = |c: char| {
                c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            };
            if text.contains(is_active) {
                *text = text.replace(is_active, " ");
            }
        }
        Value::Array(values) => values.iter_mut().for_each(strip_controls),
        Value::Object(fields) => fields
            .iter_mut()
            .filter(|(name, _)| *name != "command")
            .for_each(|(_, value)| strip_controls(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Opens what somebody says to be a recording or a log: a file or a pipe. A device is refused: `/dev/zero`
/// has no end, and reading a terminal takes what is typed there.
///
/// # Errors
/// It is something else, or cannot be opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Before it is opened: that alone does something to some devices.
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() || kind.is_fifo() {
        return File::open(path);
    }
    Err(refused(kind, "a file or a pipe"))
}

/// Opens a file of a session's directory, which nobody has named: a pipe there would be waited for, perhaps
/// for ever.
///
/// # Errors
/// It is no file, or cannot be opened.
pub fn open_stored(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() {
        return Err(refused(kind, "a file"));
    }
    // It may be another one by now.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    match kind.is_file() {
        true => Ok(file),
        false => Err(refused(kind, "a file")),
    }
}

fn refused(kind: FileType, wanted: &str) -> io::Error {
    let is = match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_fifo() => "a pipe",
        _ => "a device",
    };
    io::Error::other(format!("it is {is}, not {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_a_terminal_would_obey_becomes_blank() {
        let text = r#"{"file":"a\nb\u001b[2J.py","command":{"argv":["a\nb"]},"n":["\r"]}"#;
        assert!(is_suspect(text.as_bytes()));
        let mut value: Value = serde_json::from_str(text).unwrap();
        strip_controls(&mut value);
        assert_eq!(
            value,
            serde_json::json!({"file": "a b [2J.py", "command": {"argv": ["a\nb"]}, "n": [" "]})
        );
        assert!(is_suspect("x\u{9b}y".as_bytes()) && is_suspect("x\u{202e}".as_bytes()));
        assert!(!is_suspect(
            r#"{"at":1,"path":"C:\\x","ü":"漢 …"}"#.as_bytes()
        ));
    }

    #[test]
    fn files_and_pipes_are_opened_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("file"), "text").unwrap();
        assert!(open_regular(&path("file")).is_ok());
        mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        let writes = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path("pipe"));
        assert!(open_regular(&path("pipe")).is_ok());
        drop(writes);
        assert!(open_stored(&path("file")).is_ok());
        // Nobody writes to it, and it is not waited for.
        let error = open_stored(&path("pipe")).unwrap_err().to_string();
        assert!(error.contains("a pipe, not a file"), "{error}");
        let _socket = UnixListener::bind(path("socket")).unwrap();
        for (place, words) in [
            (path(""), "a directory"),
            (path("socket"), "a socket"),
            ("/dev/zero".into(), "a device"),
            (path("none"), "No such file"),
        ] {
            let error = open_regular(&place).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
