//! A recording without most of its readings: enough to say how a session went, at the speed of the
//! disk. A list of many sessions can't replay them all.

use super::RECORDING;
use super::read::{LONGEST_LINE, open_stored};
use super::recorder::beside;
use crate::event::{Event, EventKind, SessionStarted};
use memchr::memmem;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Of a longer recording only the head and the tail are read: what the runs' ends say is there.
const READ_WHOLE: u64 = 128 << 20;
const HEAD: u64 = 4 << 20;
const TAIL: u64 = 16 << 20;

/// Processes whose latest readings are kept at a time.
const STREAMS: usize = 1_024;

/// Kinds that come many times and whose latest says what matters: counts and peaks are cumulative.
const READINGS: [&[u8]; 2] = [b"sample", b"step"];

/// Kinds that say nothing about how a session went.
const SKIPPED: [&[u8]; 11] = [
    b"device",
    b"structure",
    b"step_trace",
    b"rehearsal",
    b"knobs",
    b"retainers",
    b"patchable",
    b"logged",
    b"epoch",
    b"note",
    b"dropped",
];

/// As it is written in the notes that tell of a run's end.
const OF_ITS_END: [&[u8]; 3] = [
    b"\"about\":\"measured\"",
    b"\"about\":\"room\"",
    b"\"about\":\"fitted\"",
];

/// Passes the events of the recording at `path` (the file, or its session's directory) to `each`,
/// as written: what happened, and before it the latest reading of each process. Lines that can't be
/// read are skipped.
pub fn outline(path: &Path, mut each: impl FnMut(&Event)) -> io::Result<()> {
    let path = match path.is_dir() {
        true => path.join(RECORDING),
        false => path.to_owned(),
    };
    let mut file = open_stored(&path)?;
    let length = file.metadata()?.len();
    let mut latest = LatestReadings::default();
    if length <= READ_WHOLE {
        read_lines(file, &mut latest, &mut each)?;
    } else {
        read_lines(Read::by_ref(&mut file).take(HEAD), &mut latest, &mut each)?;
        file.seek(SeekFrom::Start(length - TAIL))?;
        read_lines(file, &mut latest, &mut each)?;
    }
    // What a front that was killed had not written yet.
    if let Ok(recent) = open_stored(&beside(&path)) {
        read_lines(recent, &mut latest, &mut each)?;
    }
    latest.pass(&mut each);
    Ok(())
}

/// The header of the recording at `path`; `None` if its first line is none.
pub fn header(path: &Path) -> Option<SessionStarted> {
    let mut line = Vec::new();
    let file = open_stored(path).ok()?;
    BufReader::new(file.take(HEAD))
        .read_until(b'\n', &mut line)
        .ok()?;
    match serde_json::from_slice::<Event>(&line).ok()?.what {
        EventKind::SessionStarted(header) => Some(header),
        _ => None,
    }
}

/// The latest reading of each process and device, not parsed.
#[derive(Default)]
struct LatestReadings(HashMap<(&'static [u8], u64, u64), Vec<u8>>);

impl LatestReadings {
    fn keep(&mut self, kind: &'static [u8], line: &[u8]) {
        let key = (
            kind,
            number(line, b"\"pid\":").unwrap_or(0),
            number(line, b"\"device\":").unwrap_or(0),
        );
        if let Some(kept) = self.0.get_mut(&key) {
            if number(kept, b"{\"at\":") <= number(line, b"{\"at\":") {
                kept.clear();
                kept.extend_from_slice(line);
            }
        } else if self.0.len() < STREAMS {
            self.0.insert(key, line.to_vec());
        }
    }

    fn pass(&mut self, each: &mut impl FnMut(&Event)) {
        let readings = self.0.drain();
        let parsed = readings.filter_map(|(_, line)| serde_json::from_slice::<Event>(&line).ok());
        let mut parsed: Vec<Event> = parsed.collect();
        parsed.sort_by_key(|event| event.at);
        parsed.iter().for_each(each);
    }
}

fn read_lines(
    file: impl Read,
    latest: &mut LatestReadings,
    each: &mut impl FnMut(&Event),
) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = Read::by_ref(&mut reader)
            .take(LONGEST_LINE as u64)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        let kind = kind_of(&line);
        if let Some(reading) = READINGS.into_iter().find(|reading| kind == Some(reading)) {
            latest.keep(reading, &line);
            continue;
        }
        // Of all notes those that say that a run has shown enough, and what it left, are of its end.
        let has = |about: &[u8]| memmem::find(&line, about).is_some();
        let is_end = kind == Some(b"note") && OF_ITS_END.into_iter().any(has);
        if kind.is_some_and(|kind| SKIPPED.contains(&kind)) && !is_end {
            continue;
        }
        if let Ok(event) = serde_json::from_slice::<Event>(&line)
            && event.what != EventKind::Unknown
        {
            latest.pass(each);
            each(&event);
        }
    }
}

/// The kind of a line as we write it: `{"at":12,"event":"sample",…`.
fn kind_of(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"{\"at\":")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = rest[digits..].strip_prefix(b",\"event\":\"")?;
    Some(&rest[..memchr::memchr(b'"', rest)?])
}

fn number(line: &[u8], name: &[u8]) -> Option<u64> {
    let at = memmem::find(line, name)? + name.len();
    let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let digits = &line[at..at + digits.count()];
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Exit, Exited, Level, Note, NoteSubject, Sample};
    use crate::units::{Bytes, Moment, Pid, RunNumber};
    use std::io::Write;

    fn line(at: u64, what: EventKind) -> Vec<u8> {
        let event = Event {
            at: Moment(at),
            what,
        };
        let mut text = serde_json::to_vec(&event).unwrap();
        text.push(b'\n');
        text
    }

    fn sample(at: u64, peak: u64) -> Vec<u8> {
        let sample = Sample {
            pid: Pid(7),
            allocated_peak: Bytes(peak),
            ..Sample::default()
        };
        line(at, EventKind::Sample(sample))
    }

    #[test]
    fn the_latest_reading_comes_before_what_happened() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let exit = EventKind::Exited(Exited {
            run: RunNumber(1),
            exit: Exit::Code(3),
            left: Vec::new(),
        });
        for text in [
            sample(1, 10),
            sample(3, 30),
            sample(2, 20),
            b"{\"at\":4,\"event\":\"from a later version\"}\n".to_vec(),
            b"half of a line\n".to_vec(),
            line(5, exit.clone()),
            sample(6, 60),
        ] {
            file.write_all(&text).unwrap();
        }
        let mut seen = Vec::new();
        outline(file.path(), |event| {
            seen.push(match &event.what {
                EventKind::Sample(sample) => sample.allocated_peak.0,
                what => {
                    assert_eq!(*what, exit);
                    0
                }
            });
        })
        .unwrap();
        assert_eq!(seen, [30, 0, 60]);
    }

    #[test]
    fn of_notes_only_those_of_a_runs_end_count() {
        let note = |at, about| {
            let note = Note {
                about,
                ..Note::new(Level::Info, "4 steps seen")
            };
            line(at, EventKind::Note(note))
        };
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for text in [
            note(1, None),
            note(2, Some(NoteSubject::Mark)),
            note(3, Some(NoteSubject::Measured)),
            note(4, Some(NoteSubject::Room)),
            note(5, Some(NoteSubject::Fitted)),
        ] {
            file.write_all(&text).unwrap();
        }
        let mut seen = Vec::new();
        outline(file.path(), |event| seen.push(event.at)).unwrap();
        assert_eq!(seen, [Moment(3), Moment(4), Moment(5)]);
    }

    #[test]
    fn what_stands_beside_a_recording_without_an_end_counts() {
        let directory = tempfile::tempdir().unwrap();
        let main = directory.path().join(RECORDING);
        std::fs::write(&main, sample(1, 10)).unwrap();
        std::fs::write(beside(&main), sample(3, 30)).unwrap();
        let mut seen = Vec::new();
        outline(directory.path(), |event| seen.push(event.at)).unwrap();
        assert_eq!(seen, [Moment(3)]);
    }

    #[test]
    fn kinds_are_read_from_our_own_lines_only() {
        assert_eq!(kind_of(&sample(1, 2)), Some(&b"sample"[..]));
        assert_eq!(kind_of(b"{\"event\":\"sample\",\"at\":1}"), None);
        assert_eq!(kind_of(b""), None);
    }
}
