//! Candidates for a session's directories, for this user on this machine. The only file in this
//! module that reads the environment.

use etcetera::base_strategy::{BaseStrategy, Xdg};
use nix::unistd::geteuid;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Candidates, best first. Tests use their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseDirs {
    /// For recordings and logs, in an `oomph` directory.
    pub state: Vec<BaseDir>,
    /// For the session's private directory with sockets and the probe.
    pub runtime: Vec<BaseDir>,
    /// Other places in which sessions of this user may have theirs: started in another environment
    /// (a login, cron, `su -`), or moved.
    pub elsewhere: Vec<BaseDir>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseDir {
    /// The user's own directory, created (0700) if missing: `~/.local/state`. Its contents and
    /// permissions are the user's business.
    Own(PathBuf),
    /// Created by the system for this user only: `/run/user/1000`.
    Given(PathBuf),
    /// A directory for all users, which must exist: `/tmp`. Ours has the user's id in its name, so
    /// that users don't take each other's.
    Shared(PathBuf),
}

impl BaseDir {
    /// oomph's directory in it.
    pub(super) fn oomph(&self) -> PathBuf {
        match self {
            BaseDir::Own(base) | BaseDir::Given(base) => base.join("oomph"),
            BaseDir::Shared(base) => base.join(format!("oomph-{}", geteuid())),
        }
    }
}

impl BaseDirs {
    /// The directories in which this user's recorded sessions may be.
    pub fn recorded(&self) -> impl Iterator<Item = PathBuf> {
        self.state
            .iter()
            .map(|place| place.oomph().join("sessions"))
    }

    /// The directories in which this user's sessions may have their private ones.
    pub(super) fn private(&self) -> impl Iterator<Item = PathBuf> {
        let places = self.runtime.iter().chain(&self.elsewhere);
        places.map(BaseDir::oomph)
    }

    /// Whether some session has this name.
    pub(super) fn has(&self, id: &str) -> bool {
        let mut places = self.recorded().chain(self.private());
        places.any(|place| place.join(id).exists())
    }

    /// `$OOMPH_STATE_DIR` and `$OOMPH_RUNTIME_DIR` only, if they are set (a relative path is one of the
    /// working directory); else `$XDG_STATE_HOME` or `~/.local/state`, then `/var/tmp`, which survives a
    /// reboot; `$XDG_RUNTIME_DIR`, then `/tmp`, then `$TMPDIR`, then beside the recordings.
    pub fn of_this_user() -> BaseDirs {
        // Without a home directory only the shared ones remain.
        let xdg = Xdg::new().ok();
        let state_home = xdg.as_ref().and_then(Xdg::state_dir);
        let runtime_dir = xdg.as_ref().and_then(Xdg::runtime_dir);
        let set = |name| {
            let path = std::env::var_os(name).map(PathBuf::from);
            path.filter(|path| !path.as_os_str().is_empty())
        };
        let given = |name| {
            // In a deleted working directory nothing can be made by a relative path: its error says so.
            set(name).map(|path| std::path::absolute(&path).unwrap_or(path))
        };
        let elsewhere = match given("OOMPH_RUNTIME_DIR") {
            Some(_) => Vec::new(),
            None => vec![
                BaseDir::Given(format!("/run/user/{}", geteuid()).into()),
                BaseDir::Shared("/tmp".into()),
            ],
        };
        // If no other can be trusted.
        let at_home = (state_home.as_ref()).map(|home| BaseDir::Own(home.join("oomph/run")));
        let alone = |name| given(name).map(|path| vec![BaseDir::Own(path)]);
        BaseDirs {
            elsewhere,
            state: alone("OOMPH_STATE_DIR").unwrap_or_else(|| {
                state_home
                    .map(BaseDir::Own)
                    .into_iter()
                    .chain([BaseDir::Shared("/var/tmp".into())])
                    .collect()
            }),
            runtime: alone("OOMPH_RUNTIME_DIR").unwrap_or_else(|| {
                runtime_dir
                    .map(BaseDir::Given)
                    .into_iter()
                    .chain([BaseDir::Shared("/tmp".into())])
                    .chain(
                        set("TMPDIR")
                            .filter(|path| path.is_absolute())
                            .map(BaseDir::Shared),
                    )
                    .chain(at_home)
                    .collect()
            }),
        }
    }
}

/// The names and paths in a directory of this user's; none where another user has created something with
/// our name in a shared directory. `about` says whether a link counts as what it leads to.
pub(super) fn own_entries(
    directory: PathBuf,
    about: impl Fn(&Path) -> io::Result<Metadata>,
) -> impl Iterator<Item = (String, PathBuf)> {
    let ours =
        about(&directory).is_ok_and(|about| about.is_dir() && about.uid() == geteuid().as_raw());
    let entries = ours.then(|| fs::read_dir(&directory).ok()).flatten();
    entries.into_iter().flatten().flatten().map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, entry.path())
    })
}
