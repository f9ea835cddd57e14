//! Reads the config files that a command names.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A longer file isn't a training's config.
const LONGEST: u64 = 1 << 20;

/// The contents of the file at `path`, relative to `cwd`; `None` if it can't be read, isn't a
/// regular file or text, or is too long.
pub fn config_text(cwd: &Path, path: &Path) -> Option<String> {
    let path = cwd.join(path);
    // A FIFO would block, and be emptied.
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
