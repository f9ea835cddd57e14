//! A front's life: its loop, the handover, the last words.

use super::setup::SessionGuard;
use super::{Front, Sources, detach, start};
use crate::live::link::Departure;
use crate::live::policy::Policy;
use crate::live::print;
use crate::live::{Ending, RunOptions};
use crate::supervise::{self, KeeperTimeouts};
use crate::units::Pid;

/// Runs a session from the first launch to the end of the last run, on a runtime of its own, by
/// `policy` or else by what the options say.
pub(crate) fn run_to_end(
    options: RunOptions,
    policy: Option<Box<dyn Policy>>,
) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let ending = runtime.block_on(async {
        let (front, sources, guard) = start::start(options, policy)?;
        run(front, sources, guard).await
    });
    // Blocking threads (NVML in a hung driver) must not hold the exit.
    runtime.shutdown_background();
    ending
}

/// Runs the front until the session ends or continues without it.
pub(super) async fn run(
    mut front: Front,
    mut sources: Sources,
    mut guard: SessionGuard,
) -> anyhow::Result<Ending> {
    let ending = front.follow(&mut sources).await;
    // It may have been recreated elsewhere.
    guard.directories.runtime = front.session.handover.directories().runtime;
    guard.released = front.link.departure != Departure::Ended;
    match front.link.departure {
        Departure::Ended => front.finish_keeper(&mut sources.reports).await,
        Departure::Released | Departure::Superseded => front.hand_over().await,
    }
    if front.waits_behind() {
        // The probes and NVML are the new front's.
        drop(guard);
        drop(sources.events);
        return Ok(detach::wait_behind(front, sources.reports, sources.signals).await);
    }
    let keeper_lost = front.link.keeper_lost;
    let timing = KeeperTimeouts::scaled(front.session.handover.scaled);
    let ending = front.leave(ending);
    if keeper_lost {
        // This process is a subreaper as well, and now the parent of what the dead keeper left.
        let left = supervise::clear_up(&timing).await;
        if !left.is_empty() {
            let pids: Vec<String> = left.iter().map(Pid::to_string).collect();
            print::complain(&format!(
                "could not end these processes: {}",
                pids.join(" ")
            ));
        }
    }
    Ok(ending)
}
