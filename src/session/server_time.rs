//! The clock of the file server, by which the ages of files on it are told: this machine's may differ.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// Threads of one process make files of different names.
static MADE: AtomicU32 = AtomicU32::new(0);

/// The time there now: of a file that is made for it. `None` where none can be made: a full disk.
pub(super) fn server_time(directory: &Path) -> Option<SystemTime> {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".now-{}-{number}", std::process::id()));
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|file| file.metadata()?.modified());
    let _ = fs::remove_file(&path);
    made.ok()
}
