//! The thread: takes what waits, writes it, and follows the policy if that fails.

use super::destination::Destination;
use super::{OverflowPolicy, PIECE, Shared, WriterState};
use std::io;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often an idle destination is looked at.
const LOOK: Duration = Duration::from_secs(2);

pub(super) fn write(shared: &Shared, mut destination: impl Destination) {
    if let Err(error) = destination.begin() {
        return end(shared, Some(error));
    }
    let mut piece = Vec::with_capacity(PIECE);
    let look = destination.looks().then_some(LOOK);
    while let Some(mut state) = something_to_write(shared, look) {
        if state.queue.is_empty() {
            drop(state);
            destination.look();
            continue;
        }
        let reason = state.failed.as_ref().map(|(_, reason)| reason.clone());
        let taken = state.queue.take(&destination, reason.as_ref(), &mut piece);
        state.in_hand = true;
        // A write that began before the end was in sight is not the last attempt.
        let is_last = state.closing;
        drop(state);
        // The loop may be waiting for room.
        shared.less.notify_all();
        let outcome = match piece.is_empty() {
            true => Ok(()),
            false => destination.write(&piece),
        };
        let mut state = shared.lock();
        match outcome {
            Ok(()) if state.failed.take().is_some() => {
                state.news.recovered = taken.into_iter().find_map(|(segment, _)| segment.missing());
            }
            Ok(()) => {}
            Err(failure) if failure.for_good => {
                drop(state);
                return end(shared, Some(failure.error));
            }
            Err(failure) => {
                let kept = shared.policy.kept();
                let dropped = (state.queue).give_up(taken, &piece, failure.written, kept);
                state.news.dropped += dropped;
                let reason = failure.error.to_string();
                if state.failed.replace((Instant::now(), reason)).is_none() {
                    state.news.failed = Some(failure.error);
                }
                shared.less.notify_all();
                if is_last {
                    break;
                }
            }
        }
        // A line may have been long.
        piece.shrink_to(PIECE);
    }
    destination.end();
    end(shared, None);
}

/// Waits until there is something to write and no retry to wait for, or it is time to look; `None` at
/// the end.
fn something_to_write(
    shared: &Shared,
    look: Option<Duration>,
) -> Option<MutexGuard<'_, WriterState>> {
    let mut state = shared.lock();
    state.in_hand = false;
    loop {
        if state.wanted && state.queue.len() <= state.queue.capacity() / 2 {
            state.wanted = false;
            wake(shared);
        }
        let rest = match state.closing {
            true => Duration::ZERO,
            false => state.rest(shared.policy.retry()),
        };
        match (state.queue.is_empty(), state.closing) {
            (true, true) => return None,
            (false, _) if rest.is_zero() => return Some(state),
            (true, false) | (false, _) => {}
        }
        shared.less.notify_all();
        state = if !rest.is_zero() {
            let wait = shared.more.wait_timeout(state, rest);
            wait.unwrap_or_else(PoisonError::into_inner).0
        } else if let Some(look) = look {
            let wait = shared.more.wait_timeout(state, look);
            let (state, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() && state.queue.is_empty() && !state.closing {
                return Some(state);
            }
            state
        } else {
            let wait = shared.more.wait(state);
            wait.unwrap_or_else(PoisonError::into_inner)
        };
    }
}

/// Gives up, or has finished: from here on everything is discarded.
fn end(shared: &Shared, error: Option<io::Error>) {
    let mut state = shared.lock();
    state.queue = super::Queue::new(0);
    state.in_hand = false;
    state.failed = None;
    if error.is_some() {
        state.news.failed = error;
    }
    state.ended = true;
    shared.less.notify_all();
    wake(shared);
}

fn wake(shared: &Shared) {
    if let OverflowPolicy::Block { wake } = &shared.policy {
        // A counter that is full has woken them already.
        let _ = nix::unistd::write(wake, &1u64.to_ne_bytes());
    }
}
