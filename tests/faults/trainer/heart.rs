//! The heartbeat: how long the training was ever held up.
//!
//! What counts is time that something kept it from working, not time for which a busy machine gave
//! its processor to others: the kernel says how long the thread stood in the queue for one
//! (`/proc/self/schedstat`, the second number), and that is taken off. So is what the keeper stood there, which
//! the training waits for where a terminal or a pipe is full.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

pub struct Heart {
    file: File,
    /// What the kernel says of this process and of its parent.
    queues: Vec<File>,
    last: Instant,
    /// What it said of both together, and when.
    queued: (Instant, Duration),
    longest: Duration,
    written: Instant,
}

/// A look at /proc costs more than a beat does.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

impl Heart {
    pub fn begin(name: &str) -> Heart {
        // Never seen without a beat: a signal may end this process at any moment.
        let new = format!("{name}.new");
        let file = File::create(&new).expect("the heartbeat's file");
        let parent = format!("/proc/{}/schedstat", std::os::unix::process::parent_id());
        let queues = ["/proc/self/schedstat", &parent];
        let queues: Vec<File> = queues.iter().filter_map(|path| File::open(path).ok()).collect();
        let now = Instant::now();
        let heart = Heart {
            file,
            last: now,
            queued: (now, waited(&queues)),
            queues,
            longest: Duration::ZERO,
            written: now,
        };
        heart.write();
        std::fs::rename(new, name).expect("the heartbeat's file in its place");
        heart
    }

    pub fn beat(&mut self) {
        let now = Instant::now();
        let mut gap = now - self.last;
        self.last = now;
        if now - self.queued.0 >= BETWEEN_LOOKS {
            let queued = waited(&self.queues);
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

fn waited(queues: &[File]) -> Duration {
    let of = |queue: &File| {
        let mut text = [0; 128];
        let length = queue.read_at(&mut text, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&text[..length]);
        let nanos = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        Duration::from_nanos(nanos.unwrap_or(0))
    };
    queues.iter().map(of).sum()
}
