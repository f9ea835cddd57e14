//! After the keeper died: the front ends the processes that are left.
//!
//! The kernel has hung up the trainer's terminal by then. A launcher that handles SIGHUP stops its
//! ranks itself and is given the time for it. Whatever is left after that could hold a GPU forever,
//! because nobody watches it any more.

use super::keeper::sweep::{Sweep, SweepScope};
use super::keeper::tree::{self, Process};
use super::order::KeeperTimeouts;
use crate::units::Pid;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use std::time::{Duration, Instant};

/// Between two looks at /proc.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits up to [`KeeperTimeouts::stop`] for the processes that a lost keeper left below this one, then
/// ends them. Returns those that could not be ended. Call it after
/// [`Reports::next`](super::Reports::next) gave `None` without a
/// [`KeeperReport::Finished`](super::KeeperReport::Finished), when this process has no other children
/// that matter: all of them are reaped and finally ended.
pub async fn clear_up(timing: &KeeperTimeouts) -> Vec<Pid> {
    let until = Instant::now() + timing.stop;
    let mut left = living();
    while !left.is_empty() && Instant::now() < until {
        tokio::time::sleep(PAUSE).await;
        left = living();
    }
    let mut sweep = Sweep::ask(SweepScope::All, Instant::now(), timing);
    while !sweep.round(Instant::now(), left.clone()).signal() {
        tokio::time::sleep(PAUSE).await;
        left = living();
    }
    left.iter().map(|process| Pid(process.pid)).collect()
}

/// The living processes below this one; reaps the dead ones.
fn living() -> Vec<Process> {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            break;
        }
    }
    let me = std::process::id() as i32;
    let below = tree::below(me, &[]);
    below.into_iter().filter(Process::is_ours).collect()
}
