//! Follows a file of the user's that the trainer itself writes to.
//!
//! The file is reopened for reading, with a position of our own. inotify reports that it grows; it is
//! then read after a pause, so that a program that writes line by line doesn't wake us for each.

use super::descriptor;
use crate::supervise::OutputStream;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::stat::fstat;
use nix::sys::uio::pread;
use nix::unistd::{Whence, lseek};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Between two reads of a growing file.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// How far we may fall behind before the middle is skipped.
const FARTHEST: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct FollowedFile {
    pub stream: OutputStream,
    file: OwnedFd,
    /// Becomes readable when the file has grown. `None` if the system gives no watch: the file is then
    /// read every second.
    pub watch: Option<OwnedFd>,
    offset: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TailRead {
    Bytes(usize),
    /// This many bytes were skipped.
    Skipped(u64),
    /// The file was truncated, and is followed from its start.
    CutOff,
    Nothing,
}

impl FollowedFile {
    /// Follows the file of the user's stream `number` from where that will write next.
    pub(super) fn follow(number: i32, stream: OutputStream) -> nix::Result<FollowedFile> {
        let user = descriptor::standard(number);
        let file = descriptor::reopen(user, OFlag::O_RDONLY)?;
        let flags = nix::fcntl::fcntl(user, nix::fcntl::FcntlArg::F_GETFL)?;
        let appends = OFlag::from_bits_truncate(flags).contains(OFlag::O_APPEND);
        let offset = if appends {
            fstat(&file)?.st_size
        } else {
            lseek(user, 0, Whence::SeekCur)?
        };
        let watch = descriptor::watch(&file, libc::IN_MODIFY).ok();
        Ok(FollowedFile {
            stream,
            file,
            watch,
            offset: u64::try_from(offset).unwrap_or(0),
        })
    }

    /// Reads up to a buffer of what is new.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> TailRead {
        let size = fstat(&self.file).map_or(0, |about| about.st_size);
        let size = u64::try_from(size).unwrap_or(0);
        if size < self.offset {
            self.offset = 0;
            return TailRead::CutOff;
        }
        let behind = size - self.offset;
        if behind > FARTHEST {
            let skipped = behind - FARTHEST / 2;
            self.offset += skipped;
            return TailRead::Skipped(skipped);
        }
        let offset = i64::try_from(self.offset).unwrap_or(i64::MAX);
        match pread(&self.file, buffer, offset) {
            Ok(0) | Err(_) => TailRead::Nothing,
            Ok(n) => {
                self.offset += n as u64;
                TailRead::Bytes(n)
            }
        }
    }

    /// Discards the watch's events.
    pub(super) fn calm(&self) {
        if let Some(watch) = &self.watch {
            let mut events = [0; 4096];
            while let descriptor::Got::Bytes(_) = descriptor::read(watch, &mut events) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn growth_and_a_cut_are_seen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut writer = File::create(&path).unwrap();
        let mut tail = FollowedFile {
            stream: OutputStream::Out,
            file: File::open(&path).unwrap().into(),
            watch: descriptor::watch(&writer, libc::IN_MODIFY).ok(),
            offset: 0,
        };
        let mut buffer = [0; 64];
        assert_eq!(tail.read(&mut buffer), TailRead::Nothing);
        writer.write_all(b"hello").unwrap();
        assert_eq!(tail.read(&mut buffer), TailRead::Bytes(5));
        assert_eq!(tail.read(&mut buffer), TailRead::Nothing);
        writer.set_len(0).unwrap();
        assert_eq!(tail.read(&mut buffer), TailRead::CutOff);
        writer.set_len(FARTHEST * 3).unwrap();
        assert_eq!(
            tail.read(&mut buffer),
            TailRead::Skipped(FARTHEST * 3 - FARTHEST / 2)
        );
        assert_eq!(tail.read(&mut buffer), TailRead::Bytes(64));
    }
}
