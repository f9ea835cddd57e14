//! Where a session's directories may lie, in order of preference, for this user on this machine.
//! The only file of recordings that reads the environment.

use etcetera::base_strategy::{BaseStrategy, Xdg};
use nix::unistd::geteuid;
use std::path::PathBuf;

/// Candidates, best first. Tests name their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseDirs {
    /// Where recordings and logs are kept: `oomph` is put below.
    pub state: Vec<BaseDir>,
    /// Where the session's private directory goes, for sockets and the probe.
    pub runtime: Vec<BaseDir>,
    /// Where else sessions of this user may have theirs: begun in another environment (a login, cron,
    /// `su -`), or moved.
    pub elsewhere: Vec<BaseDir>,
}

/// One candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseDir {
    /// A directory of the user's own, made (0700) where it is missing: `~/.local/state`. What lies
    /// in it, and who else may, is the user's business.
    Own(PathBuf),
    /// A directory that the system makes for the user alone: `/run/user/1000`.
    Given(PathBuf),
    /// A directory of everybody's, which must be there: `/tmp`. Ours below it carries the user's
    /// number, so that users do not take each other's name.
    Shared(PathBuf),
}

impl BaseDir {
    /// The directory itself.
    pub fn base(&self) -> &PathBuf {
        match self {
            BaseDir::Own(base) | BaseDir::Given(base) | BaseDir::Shared(base) => base,
        }
    }

    /// The name of oomph's directory below it.
    pub fn name(&self) -> String {
        match self {
            BaseDir::Own(_) | BaseDir::Given(_) => "oomph".into(),
            BaseDir::Shared(_) => format!("oomph-{}", geteuid()),
        }
    }
}

impl BaseDirs {
    /// The user's: `$OOMPH_STATE_DIR` and `$OOMPH_RUNTIME_DIR` alone, where they are set; else
    /// `$XDG_STATE_HOME` or `~/.local/state`, else `/var/tmp`, which outlives a reboot;
    /// `$XDG_RUNTIME_DIR`, else `/tmp`, else `$TMPDIR`, else beside the recordings.
    pub fn of_this_user() -> BaseDirs {
        // Without a home there are no XDG places either; the shared ones remain.
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
        // Where no other can be trusted.
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
