//! Opens what somebody says to be a recording or a log. A device is refused: `/dev/zero` has no end, and
//! reading a terminal takes what is typed there.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens a file or a pipe to be read.
///
/// # Errors
/// It is something else, or cannot be opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Before it is opened: that alone does something to some devices.
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() || kind.is_fifo() {
        return File::open(path);
    }
    let is = match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!(
        "it is {is}, not a file or a pipe"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::os::unix::net::UnixListener;

    #[test]
    fn files_and_pipes_are_opened_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("file"), "text").unwrap();
        assert!(open_regular(&path("file")).is_ok());
        mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        let writes = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path("pipe"));
        assert!(open_regular(&path("pipe")).is_ok());
        drop(writes);
        let _socket = UnixListener::bind(path("socket")).unwrap();
        for (place, words) in [
            (path(""), "a directory"),
            (path("socket"), "a socket"),
            ("/dev/zero".into(), "a device"),
            (path("none"), "No such file"),
        ] {
            let error = open_regular(&place).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
