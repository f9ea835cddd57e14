//! The report of a session while its screen is up: written by `oomph report` in a process of its own, so that a recording of any length is
//! neither read nor kept by the one that draws.

use std::path::Path;
use std::process::{Command, Stdio};

/// This program, also where its file has been replaced by a newer one.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Said where nothing is recorded.
pub(crate) const NOT_RECORDED: &str = "no report: this session is not recorded (--no-record)";

/// Writes the report of a recording into a directory; what came of it, in words.
pub(crate) fn write(recording: &Path, directory: &Path) -> String {
    let written = Command::new(OWN_PROGRAM)
        .arg("report")
        .arg(recording)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output();
    let written = match written {
        Ok(written) => written,
        Err(error) => return format!("no report: {error}"),
    };
    let (said, of) = match written.status.success() {
        true => (written.stdout, "report: "),
        false => (written.stderr, "no report: "),
    };
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().last().unwrap_or("it could not be written");
    format!("{of}{}", last.trim_start_matches("oomph: "))
}
