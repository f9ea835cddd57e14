//! Work beside the loop, which must not wait for it: it runs on a thread of its own, and the loop
//! looks now and then whether it is done. What it is told was true when it began; whoever takes the
//! result asks whether it still is.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// How often the loop looks.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Work that has begun.
#[derive(Debug)]
pub(crate) struct BesideLoop<T>(Receiver<T>);

impl<T: Send + 'static> BesideLoop<T> {
    /// Begins it; `None` where no thread can be had.
    pub(crate) fn begin(
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<BesideLoop<T>> {
        let (done, result) = channel();
        let begun = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                // The session may have ended: then nobody takes it.
                let _ = done.send(work());
            });
        begun.is_ok().then_some(BesideLoop(result))
    }

    /// Takes what came of it out of `of`, once it is done. Work that panicked is done without a result.
    pub(crate) fn look(of: &mut Option<BesideLoop<T>>) -> Option<T> {
        match of.as_ref()?.0.try_recv() {
            Ok(result) => {
                *of = None;
                Some(result)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                *of = None;
                None
            }
        }
    }

    /// The same, after waiting so long at the most.
    pub(crate) fn wait(of: &mut Option<BesideLoop<T>>, most: Duration) -> Option<T> {
        let result = of.as_ref()?.0.recv_timeout(most).ok()?;
        *of = None;
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn the_loop_goes_on_until_the_result_is_there() {
        let (go_on, wait) = sync_channel::<()>(0);
        let mut work = BesideLoop::begin("test", move || {
            wait.recv().unwrap();
            5
        });
        assert_eq!(BesideLoop::look(&mut work), None);
        assert_eq!(BesideLoop::wait(&mut work, Duration::from_millis(1)), None);
        assert!(work.is_some());
        go_on.send(()).unwrap();
        assert_eq!(
            BesideLoop::wait(&mut work, Duration::from_secs(60)),
            Some(5)
        );
        assert!(work.is_none() && BesideLoop::look(&mut work).is_none());
    }

    #[test]
    fn work_that_panics_ends_without_a_result() {
        let mut work = BesideLoop::<u8>::begin("test", || panic!("on purpose"));
        while work.is_some() {
            assert_eq!(BesideLoop::look(&mut work), None);
            std::thread::yield_now();
        }
    }
}
