//! The heartbeat: how long the training was ever held up.
//!
//! What counts is time that something kept it from working, not time for which a busy machine gave
//! its processor to others: the kernel says how long the thread stood in the queue for one
//! (`/proc/self/schedstat`, the second number), and that is taken off.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

pub struct Heart {
    file: File,
    queue: Option<File>,
    last: Instant,
    /// What the kernel said, and when.
    queued: (Instant, Duration),
    longest: Duration,
    written: Instant,
}

/// A look at /proc costs more than a beat does.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

impl Heart {
    pub fn begin(name: &str) -> Heart {
        let file = File::create(name).expect("the heartbeat's file");
        let queue = File::open("/proc/self/schedstat").ok();
        let now = Instant::now();
        let heart = Heart {
            file,
            last: now,
            queued: (now, waited(queue.as_ref())),
            queue,
            longest: Duration::ZERO,
            written: now,
        };
        heart.write();
        heart
    }

    pub fn beat(&mut self) {
        let now = Instant::now();
        let mut gap = now - self.last;
        self.last = now;
        if now - self.queued.0 >= BETWEEN_LOOKS {
            let queued = waited(self.queue.as_ref());
            gap = gap.saturating_sub(queued.saturating_sub(self.queued.1));
            self.queued = (now, queued);
        }
        self.longest = self.longest.max(gap);
        if now - self.written > Duration::from_millis(10) {
            self.written = now;
            self.write();
        }
    }

    /// The longest gap and the time of the last beat, in microseconds of the monotonic clock.
    fn write(&self) {
        let text = format!("{:020} {:020}\n", self.longest.as_micros(), crate::monotonic_us());
        let _ = self.file.write_at(text.as_bytes(), 0);
    }
}

fn waited(queue: Option<&File>) -> Duration {
    let mut text = [0; 128];
    let length = queue.and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..length]);
    let nanos = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
