//! The output log beside a recording, read piece by piece: it may be large, and is kept in two parts, of
//! which the older one is replaced when the present one is full.

use super::read::open_stored;
use super::{OUTPUT_LOG, RECORDING};
use crate::event::older_part;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The extension of the log of a recording that the user has named (`--record`): `output.log` beside it
/// may be the training's own.
pub const NAMED_LOG: &str = "output.log";

/// Where the output log of a recording is, if there is one.
pub fn log_beside(recording: &Path) -> PathBuf {
    let named = recording.with_extension(NAMED_LOG);
    match recording.file_name().is_some_and(|name| name == RECORDING) && !named.exists() {
        true => recording.with_file_name(OUTPUT_LOG),
        false => named,
    }
}

/// Of a recording's end this much is searched for the last mark of its output.
const TAIL: u64 = 4 << 20;

/// How much output the recording at `path` says that there was, by its last mark. `None` if it has no
/// such mark, as those of earlier versions.
///
/// # Errors
/// It cannot be read.
pub fn last_logged(path: &Path) -> io::Result<Option<u64>> {
    let mut file = open_stored(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    const MARK: &[u8] = b",\"event\":\"logged\",\"bytes\":";
    let bytes = memchr::memmem::find_iter(&tail, MARK).filter_map(|at| {
        let digits = tail[at + MARK.len()..].iter();
        let digits: Vec<u8> = digits
            .take_while(|byte| byte.is_ascii_digit())
            .copied()
            .collect();
        std::str::from_utf8(&digits).ok()?.parse().ok()
    });
    Ok(bytes.max())
}

/// The parts of a log, opened.
#[derive(Debug)]
pub struct OutputLog {
    /// Each with the place of its first byte in the whole output.
    parts: Vec<(u64, File)>,
    end: u64,
}

impl OutputLog {
    /// The log at `path`; `total` is how much output there was, as far as known.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path, total: Option<u64>) -> io::Result<OutputLog> {
        let open = |path: &Path| {
            let file = open_stored(path)?;
            io::Result::Ok((file.metadata()?.len(), file))
        };
        let (present, file) = open(path)?;
        let Ok((older, older_file)) = open(&older_part(path)) else {
            return Ok(OutputLog {
                parts: vec![(0, file)],
                end: present,
            });
        };
        // All parts but the present one were of one length when they were replaced. What the recording
        // says is a little less than what is there, where the front was killed.
        let turned = match (total.unwrap_or(0).saturating_sub(present), older) {
            (_, 0) => 1,
            (rest, older) => ((rest + older / 2) / older).max(1),
        };
        let begin = turned * older;
        Ok(OutputLog {
            parts: vec![(begin - older, older_file), (begin, file)],
            end: begin + present,
        })
    }

    /// How much output there was in all when the log was opened.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// What is still there of a part of the output.
    pub fn read(&self, wanted: Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let ends = self.parts.iter().skip(1).map(|(begin, _)| *begin);
        for ((begin, file), end) in self.parts.iter().zip(ends.chain([u64::MAX])) {
            let (from, to) = (wanted.start.max(*begin), wanted.end.min(end));
            let mut piece = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(0)];
            let mut read = 0;
            while let Some(rest) = piece.get_mut(read..).filter(|rest| !rest.is_empty()) {
                match file.read_at(rest, from - begin + read as u64) {
                    Ok(0) => break,
                    Ok(more) => read += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            bytes.extend_from_slice(&piece[..read]);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn each_recording_has_its_log() {
        for (recording, log) in [
            ("/s/id/events.jsonl", "/s/id/output.log"),
            ("/tmp/night.jsonl", "/tmp/night.output.log"),
        ] {
            assert_eq!(log_beside(Path::new(recording)), Path::new(log));
        }
    }

    #[test]
    fn a_place_in_the_output_is_found_in_its_part() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("output.log");
        fs::write(&path, "klm").unwrap();
        let log = OutputLog::open(&path, None).unwrap();
        assert_eq!((log.end(), log.read(1..9)), (3, b"lm".to_vec()));
        // The third part, of five bytes each, of which the first is gone; one byte was never told.
        fs::write(directory.path().join("output.log.1"), "fghij").unwrap();
        let log = OutputLog::open(&path, Some(12)).unwrap();
        assert_eq!(log.end(), 13);
        assert_eq!(log.read(0..7), b"fg");
        assert_eq!(log.read(8..12), b"ijkl");
        assert!(OutputLog::open(directory.path(), None).is_err());
    }

    #[test]
    fn the_last_mark_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        fs::write(&path, "{\"at\":1,\"event\":\"epoch\",\"number\":3}\n").unwrap();
        assert_eq!(last_logged(&path).unwrap(), None);
        let marks = [(2, 40), (9, 700), (5, 300)]
            .map(|(at, bytes)| format!("{{\"at\":{at},\"event\":\"logged\",\"bytes\":{bytes}}}\n"));
        fs::write(&path, marks.concat()).unwrap();
        assert_eq!(last_logged(&path).unwrap(), Some(700));
    }
}
