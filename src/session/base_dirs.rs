//! Candidates for a session's directories, for this user on this machine. The only file in this
//! module that reads the environment.

use etcetera::base_strategy::{BaseStrategy, Xdg};
use nix::unistd::geteuid;
use std::path::PathBuf;

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
    pub fn base(&self) -> &PathBuf {
        match self {
            BaseDir::Own(base) | BaseDir::Given(base) | BaseDir::Shared(base) => base,
        }
    }

    /// The name of oomph's directory in it.
    pub fn name(&self) -> String {
        match self {
            BaseDir::Own(_) | BaseDir::Given(_) => "oomph".into(),
            BaseDir::Shared(_) => format!("oomph-{}", geteuid()),
        }
    }
}

impl BaseDirs {
    /// `$OOMPH_STATE_DIR` and `$OOMPH_RUNTIME_DIR` only, if they are set; else `$XDG_STATE_HOME` or
    /// `~/.local/state`, then `/var/tmp`, which survives a reboot; `$XDG_RUNTIME_DIR`, then `/tmp`,
    /// then `$TMPDIR`, then beside the recordings.
    pub fn of_this_user() -> BaseDirs {
        // Without a home directory only the shared ones remain.
        let xdg = Xdg::new().ok();
        let state_home = xdg.as_ref().and_then(Xdg::state_dir);
        let runtime_dir = xdg.as_ref().and_then(Xdg::runtime_dir);
        let absolute = |name| {
            let path = std::env::var_os(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let elsewhere = match absolute("OOMPH_RUNTIME_DIR") {
            Some(_) => Vec::new(),
            None => vec![
                BaseDir::Given(format!("/run/user/{}", geteuid()).into()),
                BaseDir::Shared("/tmp".into()),
            ],
        };
        // If no other can be trusted.
        let at_home = (state_home.as_ref()).map(|home| BaseDir::Own(home.join("oomph/run")));
        let alone = |name| absolute(name).map(|path| vec![BaseDir::Own(path)]);
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
                    .chain(absolute("TMPDIR").map(BaseDir::Shared))
                    .chain(at_home)
                    .collect()
            }),
        }
    }
}
