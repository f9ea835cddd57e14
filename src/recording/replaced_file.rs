//! A file for other programs whose content is replaced as a whole, in the background: whoever reads it
//! sees the old content or the new, never a part.

use crate::background::{BackgroundWriter, Destination, OverflowPolicy, WriteFailure};
use crate::units::Moment;
use crate::whole_file::{self, Readers};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
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
    failed: LastFailure,
}

/// Why the last write failed, if it did.
type LastFailure = Arc<Mutex<Option<String>>>;

impl ReplacedFile {
    /// Nothing is written before the first content.
    pub fn start(path: &Path) -> io::Result<ReplacedFile> {
        let policy = OverflowPolicy::Drop { retry: RETRY };
        let failed = LastFailure::default();
        let destination = Replaced {
            path: path.to_owned(),
            failed: Arc::clone(&failed),
        };
        Ok(ReplacedFile {
            path: path.to_owned(),
            writer: BackgroundWriter::start("oomph-replaced", MOST, policy, destination)?,
            failed,
        })
    }

    /// Replaces the content as soon as the disk can; while it cannot, most contents are left out.
    pub fn put(&self, content: &str) {
        self.push(content, false);
    }

    fn push(&self, content: &str, keep: bool) {
        let mut block = vec![BEGIN];
        block.extend(content.bytes().filter(|byte| *byte != BEGIN));
        self.writer.push_line(&block, keep, Moment::ZERO);
        self.writer.nudge();
    }

    /// What went wrong since this was asked last.
    pub fn problem(&self) -> Option<String> {
        let error = self.writer.news().failed?;
        let retry = RETRY.as_secs();
        Some(self.words(&format!("{error}; retrying every {retry} s")))
    }

    /// Writes the last content and waits until it is there, for at most `patience`; why it is not.
    pub fn finish(self, content: &str, patience: Duration) -> Option<String> {
        self.push(content, true);
        if !self.writer.close(patience) {
            return Some(self.words("the disk takes too long"));
        }
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_deref().map(|error| self.words(error))
    }

    fn words(&self, why: &str) -> String {
        format!("cannot write {}: {why}", self.path.display())
    }
}

struct Replaced {
    path: PathBuf,
    failed: LastFailure,
}

impl Destination for Replaced {
    fn write(&mut self, queued: &[u8]) -> Result<(), WriteFailure> {
        let last = memchr::memrchr(BEGIN, queued).map_or(0, |at| at + 1);
        // Readable for whoever collects it, as far as the user's umask allows.
        let outcome =
            whole_file::replace_without_waiting(&self.path, Readers::Umask, &queued[last..]);
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) =
            outcome.as_ref().err().map(io::Error::to_string);
        outcome.map_err(|error| WriteFailure {
            written: 0,
            error,
            for_good: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_last_content_is_there_as_a_whole() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("oomph.prom");
        let file = ReplacedFile::start(&path).unwrap();
        assert!(!path.exists());
        for n in 0..49 {
            file.put(&format!("a {n}\n"));
        }
        assert_eq!(file.finish("a 49\n", Duration::from_secs(20)), None);
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
        let last = file.finish("y", Duration::from_secs(20));
        assert!(last.is_some_and(|last| problem.starts_with(&last)));
    }

    #[test]
    fn what_is_there_in_the_end_was_no_problem() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("later/oomph.prom");
        let file = ReplacedFile::start(&path).unwrap();
        file.put("a 1\n");
        while file.problem().is_none() {
            std::thread::yield_now();
        }
        fs::create_dir(path.parent().unwrap()).unwrap();
        assert_eq!(file.finish("a 2\n", Duration::from_secs(20)), None);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a 2\n");
    }
}
