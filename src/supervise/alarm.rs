//! A timer of the kernel's. tokio's own wake the process in between as well (they are sorted into slots of 64 ms), and for a front
//! that has little to do each time costs as much as what there is to do.

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Not set anew for less: times are told by clocks that are read one after the other.
const CLOSE: Duration = Duration::from_micros(500);

/// One time to wait for.
#[derive(Debug)]
pub struct Alarm {
    /// `None` where the system gives none: then tokio's.
    timer: Option<AsyncFd<Timer>>,
    set: Option<Instant>,
}

#[derive(Debug)]
struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Alarm {
    /// Call it inside a tokio runtime.
    pub fn new() -> Alarm {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).ok();
        // SAFETY: a `TimerFd` owns its descriptor, which stays the same.
        let watch = |timer| unsafe {
            AsyncFd::register_with_interest(Timer(timer), Interest::READABLE).ok()
        };
        Alarm {
            timer: timer.and_then(watch),
            set: None,
        }
    }

    /// Waits until then. Cancel-safe.
    pub async fn until(&mut self, at: Instant) {
        let is_set = |set: Instant| set >= at && set.duration_since(at) < CLOSE;
        let at = match self.set.filter(|set| is_set(*set)) {
            Some(set) => set,
            None => at,
        };
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.set = None;
            return;
        }
        let rung = match &self.timer {
            Some(timer) if self.set == Some(at) || set(timer.get_ref(), left).is_ok() => {
                self.set = Some(at);
                rings(timer, at).await
            }
            Some(_) | None => Err(io::ErrorKind::Unsupported.into()),
        };
        if rung.is_err() {
            tokio::time::sleep_until(at.into()).await;
        }
        self.set = None;
    }
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm::new()
    }
}

fn set(timer: &Timer, left: Duration) -> nix::Result<()> {
    let once = Expiration::OneShot(TimeSpec::from_duration(left));
    timer.0.set(once, TimerSetTimeFlags::empty())
}

async fn rings(timer: &AsyncFd<Timer>, at: Instant) -> io::Result<()> {
    while Instant::now() < at {
        let mut ready = timer.readable().await?;
        // What it has rung for before is read as well, and says nothing.
        if let Ok(Err(error)) = ready.try_io(|timer| Ok(timer.get_ref().0.wait()?)) {
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_then_and_not_before_however_often_it_is_asked() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut alarm = Alarm::new();
            let begin = Instant::now();
            let at = |millis| begin + Duration::from_millis(millis);
            // Given up for a nearer one, as by a loop that has something else to do.
            let far = tokio::time::timeout(Duration::from_millis(1), alarm.until(at(60_000)));
            assert!(far.await.is_err());
            alarm.until(at(20)).await;
            assert!(Instant::now() >= at(20));
            for _ in 0..3 {
                let given_up = alarm.until(at(60));
                let _ = tokio::time::timeout(Duration::from_millis(1), given_up).await;
            }
            alarm.until(at(60)).await;
            assert!(Instant::now() >= at(60));
            alarm.until(at(10)).await;
            alarm.until(at(80)).await;
            assert!(Instant::now() >= at(80));
            let mut without = Alarm {
                timer: None,
                set: None,
            };
            without.until(at(90)).await;
            assert!(Instant::now() >= at(90));
        });
    }
}
