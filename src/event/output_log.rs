//! The names of an output log's two parts, which the keeper writes and whatever shows a session reads.

use std::path::{Path, PathBuf};

/// The part of a log before the present one.
pub fn older_part(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_os_string();
    name.push(".1");
    name.into()
}
