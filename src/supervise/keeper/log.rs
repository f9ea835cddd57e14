//! The log: a raw copy of the output, written in the background.
//!
//! The loop never waits for the disk. When the queue is full, or a write has failed (ENOSPC, EDQUOT,
//! EIO, EROFS, ESTALE, EFBIG), bytes are dropped and counted, and a line in the log says how many
//! are missing. A failed write is retried later (containerd #12462 shows what happens otherwise).
//! Nothing is synced: that would stall on a busy disk (cri-o #6743).

use super::log_parts::LogParts;
use crate::background::{BackgroundWriter, Destination, Gap, OverflowPolicy, WriteFailure};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The most that waits to be written.
const CAPACITY: usize = 768 << 10;

/// The largest part. A full one is renamed to `NAME.1` and a new one is started, so that there are
/// never more than two: weeks of output must not fill a disk.
pub(super) const PART: u64 = 256 << 20;

/// Keeps the log at `path`, in parts of `part` bytes. If the file can't be opened, that is retried
/// like a failed write, unless the name is taken: then no log is kept, and the writer's news have an
/// error of the kind `AlreadyExists`.
pub(super) fn start(path: PathBuf, part: u64, retry: Duration) -> io::Result<BackgroundWriter> {
    of(LogParts::new(path, part), retry)
}

fn of(parts: LogParts, retry: Duration) -> io::Result<BackgroundWriter> {
    BackgroundWriter::start("oomph-log", CAPACITY, OverflowPolicy::Drop { retry }, parts)
}

impl Destination for LogParts {
    fn begin(&mut self) -> io::Result<()> {
        // So that a taken name is known before there is anything to write. Any other failure is left
        // to the first write.
        match self.open() {
            Err(error) if is_for_good(&error) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteFailure> {
        LogParts::write(self, bytes).map_err(|(written, error)| WriteFailure {
            written,
            for_good: is_for_good(&error),
            error,
        })
    }

    fn looks(&self) -> bool {
        true
    }

    fn look(&mut self) {
        let _ = self.stay();
    }

    fn end(&mut self) {
        let _ = self.stay();
        self.remove_if_empty();
    }

    fn gap(&self, gap: &Gap) -> Vec<u8> {
        marker(gap.bytes).into()
    }
}

fn is_for_good(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

fn marker(missing: u64) -> String {
    format!("\r\n[oomph: {missing} bytes of output are missing here]\r\n")
}

#[cfg(test)]
mod tests;
