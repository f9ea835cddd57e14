//! A small file beside the recording with the readings of the open bucket. A killed front only
//! loses what came after the file was last replaced; a clean end removes it.

use crate::background::{BackgroundWriter, Destination, OverflowPolicy, WriteFailure};
use crate::units::Bytes;
use crate::whole_file::{self, Readers};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Starts keeping the file beside `recording`, in the background.
pub(super) fn start(
    recording: &Path,
    most: Bytes,
    retry: Duration,
) -> io::Result<BackgroundWriter> {
    let capacity = usize::try_from(most.0).unwrap_or(usize::MAX);
    let file = RecentFile(path(recording));
    BackgroundWriter::start(
        "oomph-recent",
        capacity,
        OverflowPolicy::Drop { retry },
        file,
    )
}

/// The path of the file.
pub(super) fn path(recording: &Path) -> PathBuf {
    with_suffix(recording, ".recent")
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}

struct RecentFile(PathBuf);

impl Destination for RecentFile {
    fn write(&mut self, content: &[u8]) -> Result<(), WriteFailure> {
        whole_file::replace(&self.0, Readers::Owner, content).map_err(|error| WriteFailure {
            written: 0,
            error,
            for_good: false,
        })
    }
}
