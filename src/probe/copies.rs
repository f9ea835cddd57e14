//! Copies of the probe that last for longer than a session: below the user's home, for commands whose
//! processes may run on other nodes.

use super::files::files;
use super::{install, make_private};
use nix::unistd::geteuid;
use std::fs;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// As many copies are made of one content where earlier ones were changed.
const COPIES: u32 = 8;

/// Writes the probe into a directory of `parent` that later sessions find again: its name says what is in it, and
/// what is in it is looked at.
///
/// # Errors
/// As [`install`], or something else is there under each name.
pub fn install_by_content(parent: &Path) -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    files().for_each(|file| file.hash(&mut hasher));
    let name = format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), hasher.finish());
    make_private(parent)?;
    for attempt in 0..COPIES {
        let directory = parent.join(format!("{name}-{attempt}"));
        if !directory.exists() {
            // Complete before it has its name: another session may be looking for it.
            let random = RandomState::new().build_hasher().finish();
            let unfinished = parent.join(format!(".{random:016x}"));
            install(&unfinished)?;
            if fs::rename(&unfinished, &directory).is_err() {
                let _ = fs::remove_dir_all(&unfinished);
            }
        }
        if is_as_installed(&directory) {
            return Ok(directory);
        }
    }
    Err(io::Error::other(format!(
        "{}: what is there is not the probe; remove it",
        parent.display()
    )))
}

/// Whether a directory has the probe's files as they are here, and no other module.
fn is_as_installed(directory: &Path) -> bool {
    let is_file = |path: &Path, text: &str| {
        fs::symlink_metadata(path)
            .is_ok_and(|about| about.is_file() && about.uid() == geteuid().as_raw())
            && fs::read(path).is_ok_and(|found| found == text.as_bytes())
    };
    files().all(|(name, text)| is_file(&directory.join(name), text))
        && !directory.join("__pycache__").exists()
        && files_below(directory) == files().count()
}

/// Files of any kind, without what Python has compiled. Folders of ours are plain ones: a link counts as a file.
fn files_below(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name() != "__pycache__")
        .map(
            |entry| match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => files_below(&entry.path()),
                false => 1,
            },
        )
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_found_again_and_one_that_was_changed_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let first = install_by_content(home.path()).unwrap();
        assert_eq!(install_by_content(home.path()).unwrap(), first);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        // Python's own.
        fs::create_dir(first.join("oomph-probe/__pycache__")).unwrap();
        assert_eq!(install_by_content(home.path()).unwrap(), first);
        fs::write(first.join("sitecustomize.py"), "print('changed')").unwrap();
        let second = install_by_content(home.path()).unwrap();
        assert_ne!(second, first);
        fs::write(second.join("os.py"), "").unwrap();
        let third = install_by_content(home.path()).unwrap();
        assert!(third != first && third != second);
    }
}
