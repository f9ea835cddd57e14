//! Whether a session could keep its files in a directory, found out without making anything.

use super::base_dirs::BaseDir;
use super::directories::LONGEST_SOCKET_PATH;
use super::private::{refusal, rename_risk};
use crate::units::Bytes;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};
use std::path::{Path, PathBuf};

/// A name as long as a session's, with a socket in it.
const SOCKET_BELOW: &str = "/20261231-235959-0123456789abcdef01234567/keeper.sock";

/// A candidate for a session's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// oomph's directory in it, which need not exist.
    pub path: PathBuf,
    /// Why it can't be used.
    pub problem: Option<String>,
    pub free: Option<Bytes>,
}

/// Looks at each of `places`; `sockets` need short paths.
pub fn examine(places: &[BaseDir], sockets: bool) -> Vec<Examined> {
    places.iter().map(|place| of(place, sockets)).collect()
}

fn of(place: &BaseDir, sockets: bool) -> Examined {
    let path = place.oomph();
    let free = existing(&path)
        .and_then(|there| statvfs(there).ok())
        .map(|about| Bytes(about.blocks_available() * about.fragment_size()));
    Examined {
        problem: problem(place, &path, sockets),
        path,
        free,
    }
}

fn problem(place: &BaseDir, path: &Path, sockets: bool) -> Option<String> {
    if sockets && path.as_os_str().len() + SOCKET_BELOW.len() > LONGEST_SOCKET_PATH {
        return Some("its path is too long for a socket".into());
    }
    // Only a directory of the user's own is created with those above it.
    match place {
        BaseDir::Own(_) => {}
        BaseDir::Given(base) | BaseDir::Shared(base) => {
            if !base.is_dir() {
                return Some(format!("there is no {}", base.display()));
            }
            if let Some(risk) = rename_risk(base) {
                return Some(risk);
            }
            if path.symlink_metadata().is_ok()
                && let Some(reason) = refusal(path)
            {
                return Some(reason);
            }
        }
    }
    let Some(there) = existing(path) else {
        return Some("nothing above it exists".into());
    };
    if !there.is_dir() {
        return Some(format!("{} is not a directory", there.display()));
    }
    let wanted = AccessFlags::W_OK | AccessFlags::X_OK;
    let denied = access(there, wanted).err()?;
    Some(format!(
        "cannot write to {}: {}",
        there.display(),
        denied.desc()
    ))
}

/// The path, or the nearest one above it that exists.
fn existing(path: &Path) -> Option<&Path> {
    path.ancestors()
        .find(|path| path.symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_would_be_refused_is_refused_and_nothing_is_made() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let file = root.join("file");
        fs::write(&file, "").unwrap();
        let open = root.join("open");
        fs::create_dir(&open).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&open, mode).unwrap();
        for (place, sockets, problem) in [
            (BaseDir::Own(root.join("new/deep")), false, None),
            (BaseDir::Own(root.into()), true, None),
            (BaseDir::Own(file.join("x")), false, Some("not a directory")),
            (
                BaseDir::Given(root.join("none")),
                false,
                Some("there is no"),
            ),
            (BaseDir::Shared(open), false, Some("other users can write")),
            (
                BaseDir::Own(root.join("x".repeat(99))),
                true,
                Some("too long"),
            ),
        ] {
            let examined = examine(std::slice::from_ref(&place), sockets);
            let found = examined[0].problem.as_deref();
            match problem {
                None => assert_eq!(found, None, "{place:?}"),
                Some(words) => assert!(
                    found.is_some_and(|found| found.contains(words)),
                    "{found:?}"
                ),
            }
            assert!(examined[0].free.is_some() || problem.is_some(), "{place:?}");
            assert!(!root.join("new").exists());
        }
    }
}
