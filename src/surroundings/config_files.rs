//! The config files that a command names, read whole.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A longer file is no config of a training.
const LONGEST: u64 = 1 << 20;

/// What the file at `path` says, from the directory `cwd`; nothing where it cannot be read, is no
/// regular file or no text, or is too long to be one.
pub fn config_text(cwd: &Path, path: &Path) -> Option<String> {
    let path = cwd.join(path);
    // A pipe of this name would be waited for, and emptied.
    if !path.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= LONGEST).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_no_config_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.yaml"), "x: 1\n").unwrap();
        fs::write(dir.path().join("b.yaml"), [0xff, 0xfe]).unwrap();
        fs::write(dir.path().join("c.yaml"), vec![b' '; 2 << 20]).unwrap();
        let read = |name: &str| config_text(dir.path(), Path::new(name));
        assert_eq!(read("a.yaml").as_deref(), Some("x: 1\n"));
        let pipe = dir.path().join("pipe.yaml");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in [
            "b.yaml",
            "c.yaml",
            "missing.yaml",
            "pipe.yaml",
            ".",
            "/dev/zero",
        ] {
            assert_eq!(read(name), None, "{name}");
        }
    }
}
