//! What a background thread writes to.

use crate::units::Moment;
use std::io::{self, Write};

/// Every call may take any time.
pub(crate) trait Destination: Send + 'static {
    /// Called before there is anything to write; an error ends the writing for good.
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Writes everything, or says how much was written and why not more.
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteFailure>;

    /// What is written in place of what is missing.
    fn gap(&self, _: &Gap) -> Vec<u8> {
        Vec::new()
    }

    /// Whether [`Destination::look`] is to be called.
    fn looks(&self) -> bool {
        false
    }

    /// Called every few seconds while there is nothing to write: the file may have been removed.
    fn look(&mut self) {}

    /// Called after the last write.
    fn end(&mut self) {}
}

/// A write that failed, entirely or in part.
#[derive(Debug)]
pub(crate) struct WriteFailure {
    pub written: usize,
    pub error: io::Error,
    /// Whether retrying is useless.
    pub for_good: bool,
}

/// What is missing at one place.
#[derive(Debug, Default)]
pub(crate) struct Gap {
    pub lines: u64,
    pub bytes: u64,
    /// When the first and the last of the lines happened.
    pub from: Moment,
    pub to: Moment,
    /// The error, or `None` if the destination was too slow.
    pub reason: Option<String>,
}

impl Gap {
    pub(super) fn add(&mut self, other: &Gap) {
        if other.lines > 0 {
            self.from = match self.lines {
                0 => other.from,
                _ => self.from.min(other.from),
            };
            self.to = self.to.max(other.to);
        }
        self.lines += other.lines;
        self.bytes += other.bytes;
    }
}

/// Writes everything; `written` says how much of it was, even after an error.
pub(crate) fn write_counted(
    to: &mut impl Write,
    bytes: &[u8],
    written: &mut usize,
) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match to.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                *written += n;
                rest = rest.get(n..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
