//! The report of a session while its screen is up: written by `oomph report` in a process of its own, so that a recording of any length is
//! neither read nor kept by the one that draws.
//!
//! It goes beside the recordings, in a directory of reports that nothing prunes: a key must not put a file into the repository that the
//! training runs in, as the command line's `oomph report` does, where the user is and says so.

use crate::recording::BaseDirs;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// This program, also where its file has been replaced by a newer one.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Said where nothing is recorded.
pub(crate) const NOT_RECORDED: &str = "no report: this session is not recorded (--no-record)";

/// Where reports of a key go; `otherwise` where nothing can be kept beside the recordings.
fn directory(otherwise: &Path) -> PathBuf {
    let beside = BaseDirs::of_this_user().beside_recordings();
    let reports = beside.map(|place| place.join("reports"));
    let made = reports.filter(|reports| {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(reports).is_ok()
    });
    made.unwrap_or_else(|| otherwise.to_owned())
}

/// Writes the report of a recording beside the recordings, or else into `otherwise`; what came of it, in words.
pub(crate) fn write(recording: &Path, otherwise: &Path) -> String {
    let directory = directory(otherwise);
    // A name is where the user is, and not where the report goes.
    let recording = std::path::absolute(recording).unwrap_or_else(|_| recording.to_owned());
    let written = Command::new(OWN_PROGRAM)
        .arg("report")
        .arg(&recording)
        .current_dir(&directory)
        .stdin(Stdio::null())
        .output();
    let written = match written {
        Ok(written) => written,
        Err(error) => return format!("no report: {error}"),
    };
    let is_written = written.status.success();
    let said = match is_written {
        true => written.stdout,
        false => written.stderr,
    };
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().last().unwrap_or("it could not be written");
    let last = last.trim_start_matches("oomph: ");
    match last.strip_prefix("wrote ").filter(|_| is_written) {
        Some(name) => format!("report: {}", from_home(&directory.join(name))),
        None => format!("no report: {last}"),
    }
}

/// A path as a shell takes it, and as short as that.
fn from_home(path: &Path) -> String {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    match home
        .as_deref()
        .and_then(|home| path.strip_prefix(home).ok())
    {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}
