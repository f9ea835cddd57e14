//! A session tells in its state directory where it runs, for machines that share that directory: the
//! file says on which machine, its time when it was heard last.

use super::alive::SessionFile;
use nix::libc;
use nix::sys::stat::futimens;
use nix::sys::time::TimeSpec;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// How often it is told.
pub(super) const BEAT: Duration = Duration::from_secs(10);

/// How long the end waits for a mount that hangs.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tells it, on a thread of its own, until it ends or is dropped.
#[derive(Debug)]
pub struct Presence {
    /// Dropping it without a word leaves the file to the next front.
    ending: Sender<()>,
    gone: Receiver<()>,
}

impl Presence {
    /// For a session with its state in `directory`. Without a thread nobody elsewhere hears of it.
    pub fn start(file: SessionFile, directory: &Path) -> Option<Presence> {
        let (ending, ends) = mpsc::channel();
        let (tells, gone) = mpsc::sync_channel(1);
        let directory = directory.to_owned();
        let thread = std::thread::Builder::new().name("presence".into());
        thread
            .spawn(move || {
                // The next beat tries again.
                let _ = file.write(&directory);
                loop {
                    match ends.recv_timeout(BEAT) {
                        Err(RecvTimeoutError::Timeout) => beat(&file, &directory),
                        Err(RecvTimeoutError::Disconnected) => return,
                        Ok(()) => break,
                    }
                }
                let _ = fs::remove_file(path(&directory));
                let _ = tells.send(());
            })
            .ok()?;
        Some(Presence { ending, gone })
    }

    /// The session has ended: removes the file.
    pub fn end(self) {
        if self.ending.send(()).is_ok() {
            // What stays is seen to be old, and removed by a later session.
            let _ = self.gone.recv_timeout(PATIENCE);
        }
    }
}

pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(super::alive::SESSION_FILE)
}

/// The file's time is the file server's, whatever this machine's clock says.
fn beat(file: &SessionFile, directory: &Path) {
    let touched = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path(directory))
        .and_then(|open| Ok(futimens(&open, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW)?));
    match touched {
        // Cleared away while this machine slept.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let _ = file.write(directory);
        }
        Ok(()) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Pid;

    #[test]
    fn it_is_there_until_the_end_and_left_to_the_next_front() {
        let directory = tempfile::tempdir().unwrap();
        let file = || SessionFile::new("s", Pid(1), None, None);
        let first = Presence::start(file(), directory.path()).unwrap();
        let there = || path(directory.path()).exists();
        while !there() {
            std::thread::yield_now();
        }
        drop(first);
        let second = Presence::start(file(), directory.path()).unwrap();
        assert!(there());
        second.end();
        assert!(!there());
    }

    #[test]
    fn a_file_that_was_removed_is_written_again_and_a_link_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let file = SessionFile::new("s", Pid(1), None, None);
        beat(&file, directory.path());
        assert!(path(directory.path()).is_file());
        fs::remove_file(path(directory.path())).unwrap();
        let other = directory.path().join("other");
        fs::write(&other, "").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH;
        fs::File::options()
            .write(true)
            .open(&other)
            .unwrap()
            .set_modified(old)
            .unwrap();
        std::os::unix::fs::symlink(&other, path(directory.path())).unwrap();
        beat(&file, directory.path());
        assert_eq!(fs::metadata(&other).unwrap().modified().unwrap(), old);
    }
}
