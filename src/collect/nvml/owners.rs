//! The name and the user of a process that NVML lists, as far as `/proc` shows them.
//!
//! In a container a PID may be the host's and belong to nothing here, or to another process: names
//! are for display only, and no signal is ever sent because of them.

use crate::units::Pid;
use nix::unistd::{Uid, User};
use procfs::process::Process;
use std::collections::HashMap;
use std::path::Path;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Owner {
    pub name: Option<String>,
    pub user: Option<String>,
}

/// Processes that were looked up already. The start time detects a reused PID.
#[derive(Debug, Default)]
pub(super) struct Owners {
    known: HashMap<Pid, (u64, Owner)>,
    users: HashMap<u32, Option<String>>,
}

impl Owners {
    /// Looks `pid` up.
    pub(super) fn of(&mut self, pid: Pid) -> Owner {
        let Ok(process) = Process::new(pid.0) else {
            self.known.remove(&pid);
            return Owner::default();
        };
        let Ok(stat) = process.stat() else {
            return Owner::default();
        };
        if let Some((started, owner)) = self.known.get(&pid)
            && *started == stat.starttime
        {
            return owner.clone();
        }
        let owner = Owner {
            name: Some(shown_name(
                &process.cmdline().unwrap_or_default(),
                &stat.comm,
            )),
            user: process.uid().ok().and_then(|uid| self.user(uid)),
        };
        self.known.insert(pid, (stat.starttime, owner.clone()));
        owner
    }

    /// Forgets all but `pids`.
    pub(super) fn keep(&mut self, pids: &[Pid]) {
        self.known.retain(|pid, _| pids.contains(pid));
    }

    /// A user's name; looked up once, since a directory service may be slow.
    fn user(&mut self, uid: u32) -> Option<String> {
        self.users
            .entry(uid)
            .or_insert_with(|| User::from_uid(Uid::from_raw(uid)).ok()??.name.into())
            .clone()
    }
}

/// The program, and the script of an interpreter; never more of the command line, which may contain
/// secrets.
fn shown_name(cmdline: &[String], comm: &str) -> String {
    let base = |word: &str| {
        let name = Path::new(word).file_name();
        name.map(|name| name.to_string_lossy().into_owned())
    };
    let Some(program) = cmdline.first().and_then(|word| base(word)) else {
        return comm.to_string();
    };
    match cmdline.get(1) {
        Some(script) if program.starts_with("python") && script.ends_with(".py") => {
            format!("{program} {}", base(script).unwrap_or_default())
        }
        Some(_) | None => program,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_name_and_a_user() {
        let mut owners = Owners::default();
        let this = Pid(std::process::id() as i32);
        let owner = owners.of(this);
        assert!(owner.name.is_some_and(|name| !name.contains('/')));
        assert_eq!(owners.of(this), owners.of(this));
        owners.keep(&[]);
        assert!(owners.known.is_empty());
    }

    #[test]
    fn a_process_that_is_not_seen_has_neither() {
        assert_eq!(Owners::default().of(Pid(i32::MAX)), Owner::default());
        assert_eq!(Owners::default().of(Pid(-1)), Owner::default());
    }

    #[test]
    fn names_say_the_script_and_nothing_else() {
        let name = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            shown_name(&words, "pt_main_thread")
        };
        assert_eq!(
            name(&["/opt/bin/python3", "/x/train.py", "--key", "s"]),
            "python3 train.py"
        );
        assert_eq!(name(&["python", "-c", "secret"]), "python");
        assert_eq!(name(&["/usr/bin/nvtop", "train.py"]), "nvtop");
        assert_eq!(name(&[]), "pt_main_thread");
    }
}
