//! Whether this oomph was started below another one, whose session its output and its probe belong to.
//!
//! Told by the kernel alone, so that neither `env -i` nor a variable that outlived its session misleads:
//! an ancestor is a keeper, and so alive. A controlling terminal that isn't that session's is somebody
//! else's: of tmux, of a notebook's shell or of `script`, started below an oomph. An oomph there is a
//! person's own.

use super::keeper::NAME;
use procfs::process::{Process, Stat};

/// More ancestors than any process has.
const MOST: usize = 4096;

/// Whether another oomph, above this process, watches what it runs.
pub fn is_below_another() -> bool {
    let Ok(own) = Process::myself().and_then(|process| process.stat()) else {
        return false;
    };
    let Some(keeper) = keeper_above(&own, look) else {
        return false;
    };
    own.tty_nr == 0 || terminals_below(keeper).any(|terminal| terminal == own.tty_nr)
}

fn look(pid: i32) -> Option<Stat> {
    Process::new(pid).ok()?.stat().ok()
}

/// The nearest ancestor that is a keeper.
fn keeper_above(own: &Stat, look: impl Fn(i32) -> Option<Stat>) -> Option<i32> {
    let mut parent = own.ppid;
    for _ in 0..MOST {
        // The first process of the machine, or one outside our PID namespace.
        if parent <= 1 {
            return None;
        }
        let stat = look(parent)?;
        if stat.comm == NAME {
            return Some(parent);
        }
        parent = stat.ppid;
    }
    None
}

/// The controlling terminals of a keeper's children: the session holder, or the program, has the session's.
fn terminals_below(keeper: i32) -> impl Iterator<Item = i32> {
    let all = procfs::process::all_processes().into_iter().flatten();
    all.filter_map(|process| process.ok()?.stat().ok())
        .filter(move |stat| stat.ppid == keeper)
        .map(|stat| stat.tty_nr)
}
