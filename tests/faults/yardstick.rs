//! How late this machine wakes a thread that does nothing, and how long it takes to write a few bytes to
//! a file, as a heartbeat does: what of a training's gap is not oomph's.
//!
//! A training that writes into a pipe waits for the keeper to be given a processor. On a machine
//! with more to do than processors that is the machine's time, and a thread that only sleeps and
//! looks at the clock is late by as much. Where the disk is busy, so is a write into its cache.

use std::io::{Seek, Write};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(1);
/// Less than this is no help to anybody's excuse.
const NOTED: Duration = Duration::from_millis(10);

static STARTED: Once = Once::new();
static LATE: Mutex<Vec<(Instant, Duration)>> = Mutex::new(Vec::new());

/// Begins to measure, once in a process.
pub fn start() {
    STARTED.call_once(|| {
        let mut file = tempfile::tempfile().expect("a file beside the trainings'");
        std::thread::spawn(move || {
            loop {
                let before = Instant::now();
                std::thread::sleep(NAP);
                // A full disk is no delay.
                let _ = file.rewind().and_then(|()| file.write_all(&[b'0'; 42]));
                let late = before.elapsed().saturating_sub(NAP);
                if late > NOTED {
                    LATE.lock().expect("delays").push((Instant::now(), late));
                }
            }
        });
    });
}

/// The longest delay since then.
pub fn latest_since(since: Instant) -> Duration {
    let late = LATE.lock().expect("delays");
    let since = late.iter().filter(|(at, _)| *at >= since);
    since.map(|(_, late)| *late).max().unwrap_or_default()
}
