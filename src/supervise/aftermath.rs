//! After a keeper that died: what it left behind falls to the front, which clears it away.
//!
//! The kernel has hung up the trainer's terminal by then, and a launcher that handles that stops
//! its ranks itself; it is given the time for it. What is left after that could hold a GPU for
//! ever, for nobody watches it any more.

use super::keeper::sweep::{Sweep, SweepScope};
use super::keeper::tree::{self, Process};
use super::order::KeeperTimeouts;
use crate::units::Pid;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use std::time::{Duration, Instant};

/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits for what a lost keeper left below this process, at most [`KeeperTimeouts::stop`], then ends it.
/// Returns what could not be ended. To be called after [`Reports::next`](super::Reports::next) gave
/// `None` without a [`KeeperReport::Finished`](super::KeeperReport::Finished), when this process has no other
/// children that matter: all of them are reaped, and ended in the end.
pub async fn clear_up(timing: &KeeperTimeouts) -> Vec<Pid> {
    let until = Instant::now() + timing.stop;
    let mut left = living();
    while !left.is_empty() && Instant::now() < until {
        tokio::time::sleep(PAUSE).await;
        left = living();
    }
    let mut sweep = Sweep::ask(
        SweepScope::All,
        Instant::now(),
        timing.sweep,
        timing.unkillable,
    );
    loop {
        let round = sweep.round(Instant::now(), left.clone());
        for (process, signal) in round.signals {
            process.signal(signal);
        }
        if round.over {
            return left.iter().map(|process| Pid(process.pid)).collect();
        }
        tokio::time::sleep(PAUSE).await;
        left = living();
    }
}

/// The living processes below this one, the dead ones reaped.
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
