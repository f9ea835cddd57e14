//! A front from its beginning to its end: its loop, what it hands over, its last words.

use super::start::{self, Kept};
use super::{Departure, Front, Sources, depart};
use crate::app::fit::Fitting;
use crate::app::{Ending, RunOptions};
use crate::supervise::{self, KeeperTimeouts};
use crate::units::Pid;

/// Runs a session, or the runs of a search, to its end, on a runtime of its own.
pub fn run_to_end(options: RunOptions, fitting: Option<Fitting>) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let ending = runtime.block_on(run(options, fitting));
    // Blocking threads (NVML in a hung driver) must not hold the exit.
    runtime.shutdown_background();
    ending
}

/// Runs a session from the first launch to the end of the last run.
async fn run(options: RunOptions, fitting: Option<Fitting>) -> anyhow::Result<Ending> {
    let (front, sources, kept) = start::start(options, fitting)?;
    conduct(front, sources, kept).await
}

/// Is the front until the session ends or goes on without it.
pub(super) async fn conduct(
    mut front: Front,
    mut sources: Sources,
    mut kept: Kept,
) -> anyhow::Result<Ending> {
    let mut ending = front.follow(&mut sources).await;
    kept.released = front.departure != Departure::Ended;
    match front.departure {
        Departure::Ended => front.finish_keeper(&mut sources.reports).await,
        Departure::Released | Departure::Superseded => front.hand_over().await,
    }
    if front.waits_behind() {
        // The probes and NVML are the new front's.
        drop(kept);
        drop(sources.events);
        return Ok(depart::wait_behind(front, sources.reports, sources.signals).await);
    }
    let keeper_lost = front.keeper_lost;
    let timing = KeeperTimeouts::scaled(front.scaled);
    if let Some(found) = front.leave(ending)
        && !keeper_lost
    {
        ending = found;
    }
    if keeper_lost {
        // What the keeper held falls to this process, a subreaper as well.
        let left = supervise::clear_up(&timing).await;
        if !left.is_empty() {
            let pids: Vec<String> = left.iter().map(Pid::to_string).collect();
            eprintln!("oomph: these could not be ended: {}", pids.join(" "));
        }
    }
    Ok(ending)
}
