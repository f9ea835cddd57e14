//! A file for other programs whose content is replaced as a whole, in the background: whoever reads it
//! sees the old content or the new, never a part.

use super::recent::with_suffix;
use crate::background::{BackgroundWriter, Destination, OverflowPolicy, WriteFailure};
use crate::units::Moment;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Stands before each content in the queue: of several that wait, only the last is written.
const BEGIN: u8 = 0;

/// The largest content.
const MOST: usize = 1 << 20;

/// The time between a failed write and the next attempt.
const RETRY: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct ReplacedFile {
    path: PathBuf,
    writer: BackgroundWriter,
}

impl ReplacedFile {
    /// Nothing is written before the first content.
    pub fn start(path: &Path) -> io::Result<ReplacedFile> {
        let policy = OverflowPolicy::Drop { retry: RETRY };
        let destination = Replaced(path.to_owned());
        Ok(ReplacedFile {
            path: path.to_owned(),
            writer: BackgroundWriter::start("oomph-replaced", MOST, policy, destination)?,
        })
    }

    /// Replaces the content as soon as the disk can.
    pub fn put(&self, content: &str) {
        let mut block = vec![BEGIN];
        block.extend(content.bytes().filter(|byte| *byte != BEGIN));
        self.writer.push_line(&block, false, Moment::ZERO);
        self.writer.nudge();
    }

    /// What went wrong since this was asked last.
    pub fn problem(&self) -> Option<String> {
        let error = self.writer.news().failed?;
        let path = self.path.display();
        let retry = RETRY.as_secs();
        Some(format!(
            "cannot write {path}: {error}; retrying every {retry} s"
        ))
    }

    /// Waits until the last content is there, for at most `patience`.
    pub fn finish(self, patience: Duration) {
        self.writer.close(patience);
    }
}

struct Replaced(PathBuf);

impl Destination for Replaced {
    fn write(&mut self, queued: &[u8]) -> Result<(), WriteFailure> {
        let last = memchr::memrchr(BEGIN, queued).map_or(0, |at| at + 1);
        // Readable for whoever collects it, as far as the user's umask allows.
        let unfinished = with_suffix(&self.0, ".new");
        fs::write(&unfinished, &queued[last..])
            .and_then(|()| fs::rename(&unfinished, &self.0))
            .map_err(|error| WriteFailure {
                written: 0,
                error,
                for_good: false,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_content_is_there_as_a_whole() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("oomph.prom");
        let file = ReplacedFile::start(&path).unwrap();
        assert!(!path.exists());
        for n in 0..50 {
            file.put(&format!("a {n}\n"));
        }
        file.finish(Duration::from_secs(20));
        assert_eq!(fs::read_to_string(&path).unwrap(), "a 49\n");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_place_that_is_not_there_is_said_once() {
        let file = ReplacedFile::start(Path::new("/no/such/place/a.prom")).unwrap();
        file.put("x");
        let problem = loop {
            if let Some(problem) = file.problem() {
                break problem;
            }
            std::thread::yield_now();
        };
        assert!(
            problem.contains("cannot write /no/such/place/a.prom"),
            "{problem}"
        );
        assert_eq!(file.problem(), None);
        file.finish(Duration::from_secs(20));
    }
}
