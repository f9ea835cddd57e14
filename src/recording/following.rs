//! A recording that another machine still writes, read as it grows: each event once.
//!
//! Readings come late: those of the open bucket stand in the file beside the recording, which is
//! replaced now and then, and come again when the bucket closes. What is new of a stream is what is
//! later than all that was read of it: a reading that was neither an extreme nor the last when the
//! bucket was saved does not become one.

use super::base_dirs::open_own;
use super::limits::{Fidelity, ReadingStream, fidelity};
use super::read::{Events, ReadError, TimedLines};
use super::recorder;
use crate::event::Event;
use crate::units::Moment;
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// From so many streams on those are forgotten that have ended.
const STREAMS: usize = 8_192;
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// A recording, up to where it was read.
#[derive(Debug)]
pub struct GrowingRecording {
    path: PathBuf,
    inode: u64,
    events: Events,
    /// The file beside it that was read last: its inode, which every replacement changes, and length.
    beside: Option<(u64, u64)>,
    latest: HashMap<ReadingStream, Moment>,
}

impl GrowingRecording {
    /// Opens the file at `path`, of which only this user can be the writer.
    ///
    /// # Errors
    /// It cannot be opened, or another user could have written it.
    pub fn open(path: &Path) -> Result<GrowingRecording, ReadError> {
        let unreadable = |error| ReadError::Unreadable {
            path: path.to_owned(),
            error,
        };
        let file = open_own(path).map_err(unreadable)?;
        let inode = file.metadata().map_err(unreadable)?.ino();
        let lines = TimedLines::growing(file).map_err(unreadable)?;
        let mut following = GrowingRecording {
            path: path.to_owned(),
            inode,
            events: Events::new(vec![(lines, path.to_owned())]),
            beside: None,
            latest: HashMap::new(),
        };
        following.look_beside();
        Ok(following)
    }

    /// The next event of what was written until the last look. Lines that are no events are skipped.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let event = match self.events.next()? {
                Ok(event) => event,
                Err(_) => continue,
            };
            if self.is_new(&event) {
                return Some(event);
            }
        }
    }

    /// Looks how far the recording goes by now.
    ///
    /// # Errors
    /// It is gone, or it is another one.
    pub fn look(&mut self) -> io::Result<()> {
        // Opened anew: a client of NFS asks the server then.
        let about = open_own(&self.path)?.metadata()?;
        if about.ino() != self.inode {
            return Err(io::Error::other("it was replaced"));
        }
        let files = self.events.files();
        files.retain(|(_, path)| *path == self.path);
        let Some((lines, _)) = files.first_mut() else {
            return Err(io::Error::other("it cannot be read any further"));
        };
        lines.go_on(about.len())?;
        self.look_beside();
        Ok(())
    }

    /// Reads the open bucket, if it was saved since.
    fn look_beside(&mut self) {
        let path = recorder::beside(&self.path);
        let read = || -> io::Result<((u64, u64), TimedLines)> {
            let file = open_own(&path)?;
            let about = file.metadata()?;
            Ok(((about.ino(), about.len()), TimedLines::new(file)?))
        };
        // There is none where nothing is thinned out.
        if let Ok((is, lines)) = read()
            && self.beside != Some(is)
        {
            self.beside = Some(is);
            self.events.files().push((lines, path));
        }
    }

    fn is_new(&mut self, event: &Event) -> bool {
        let Fidelity::Thinned(stream, _) = fidelity(&event.what) else {
            return true;
        };
        if self.latest.len() >= STREAMS {
            let latest = event.at;
            self.latest
                .retain(|_, at| latest.since(*at) < FORGOTTEN_AFTER);
        }
        match self.latest.get_mut(&stream) {
            Some(known) if event.at <= *known => false,
            Some(known) => {
                *known = event.at;
                true
            }
            None => {
                self.latest.insert(stream, event.at);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Level, Note, Sample};
    use crate::recording::{Recorder, RecorderOptions};
    use crate::units::{Bytes, Pid};
    use std::collections::BTreeSet;
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    fn sample(at: u64) -> Event {
        let sample = Sample {
            pid: Pid(7),
            // Goes up and down, so that extremes are of many times.
            allocated: Bytes(at * 7_919 % 1_009),
            ..Sample::default()
        };
        Event {
            at: Moment(at * 100_000),
            what: EventKind::Sample(sample),
        }
    }

    fn note(at: u64) -> Event {
        let note = Note::new(Level::Info, "line\nbreak");
        Event {
            at: Moment(at),
            what: EventKind::Note(note),
        }
    }

    /// What a later reader finds, this one found while it was written: no event twice, none left out.
    #[test]
    fn it_reads_what_a_later_reader_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let mut recorder = Recorder::create(&path, RecorderOptions::default()).unwrap();
        recorder.write(&note(1));
        let mut following = GrowingRecording::open(&path).unwrap();
        let mut times = Vec::new();
        let mut read = |following: &mut GrowingRecording| {
            following.look().unwrap();
            while let Some(event) = following.next_event() {
                times.push(event.at.0);
            }
        };
        for at in 0..5_000 {
            recorder.write(&sample(at));
            if at % 50 == 0 {
                read(&mut following);
            }
        }
        recorder.finish(Duration::from_secs(60)).unwrap();
        read(&mut following);
        let unique: BTreeSet<u64> = times.iter().copied().collect();
        assert_eq!(unique.len(), times.len(), "none twice");
        // The last minute is written at full rate at the end, when it is too late for this reader.
        let thinned = |at: &u64| *at < 400_000_000;
        let later: BTreeSet<u64> = crate::recording::read(&path)
            .unwrap()
            .map(|event| event.unwrap().at.0)
            .filter(thinned)
            .collect();
        let found: BTreeSet<u64> = unique.into_iter().filter(thinned).collect();
        assert!(later.is_subset(&found), "{:?}", later.difference(&found));
        assert!(times.contains(&499_900_000), "up to the last");
    }

    #[test]
    fn the_end_of_a_line_is_awaited() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let mut text = serde_json::to_vec(&note(5)).unwrap();
        text.push(b'\n');
        fs::write(&path, &text[..10]).unwrap();
        let mut following = GrowingRecording::open(&path).unwrap();
        assert_eq!(following.next_event(), None);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&text[10..20]).unwrap();
        following.look().unwrap();
        assert_eq!(following.next_event(), None);
        file.write_all(&text[20..]).unwrap();
        file.write_all(b"no event\n").unwrap();
        file.write_all(&text).unwrap();
        following.look().unwrap();
        assert_eq!(
            following.next_event().map(|event| event.at),
            Some(Moment(5))
        );
        assert!(following.next_event().is_some());
        assert_eq!(following.next_event(), None);
        following.look().unwrap();
        assert_eq!(following.next_event(), None);
    }

    #[test]
    fn a_recording_that_is_gone_or_another_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        assert!(GrowingRecording::open(&path).is_err());
        fs::write(&path, "{\"at\":1,\"event\":\"x\"}\n").unwrap();
        let mut following = GrowingRecording::open(&path).unwrap();
        following.look().unwrap();
        fs::write(&path, "").unwrap();
        assert!(following.look().is_err(), "shorter");
        fs::remove_file(&path).unwrap();
        assert!(following.look().is_err());
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(GrowingRecording::open(&path).is_err());
    }
}
