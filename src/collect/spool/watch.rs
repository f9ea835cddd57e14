//! The thread that follows the files, and what the front knows of it: a mount may hang, and then only this
//! thread does.

use super::{SpoolOptions, SpoolReader};
use crate::event::{Clock, Event, Level, Note};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;

/// Between two looks, and while the end of a run is awaited.
const LOOK: Duration = Duration::from_secs(1);
const HURRIED_LOOK: Duration = Duration::from_millis(100);

/// A look that takes longer waits for a file system that hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// The thread's handle; nobody waits for its end.
#[derive(Debug)]
pub struct SpoolWatch {
    directory: PathBuf,
    thread: Arc<WatchThread>,
    hangs: bool,
}

#[derive(Debug, Default)]
struct WatchThread {
    hurried: AtomicBool,
    ended: AtomicBool,
    /// When the look began that has not ended yet.
    looking: Mutex<Option<Instant>>,
}

impl SpoolWatch {
    fn new(directory: PathBuf) -> SpoolWatch {
        SpoolWatch {
            directory,
            thread: Arc::default(),
            hangs: false,
        }
    }

    /// Looks more often, or as often as usual again.
    pub fn hurry(&self, hurried: bool) {
        self.thread.hurried.store(hurried, Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.thread.ended.store(true, Ordering::Relaxed);
    }

    /// Tells once that the directory does not answer, and once that it answers again.
    pub fn note(&mut self, now: Instant) -> Option<Note> {
        let looking = self.thread.looking();
        let hangs = looking.is_some_and(|since| now.saturating_duration_since(since) >= PATIENCE);
        if std::mem::replace(&mut self.hangs, hangs) == hangs {
            return None;
        }
        let directory = self.directory.display();
        Some(match hangs {
            true => Note {
                level: Level::Warning,
                text: format!(
                    "the spool directory {directory} has not answered for {} s: ranks of other nodes are not seen until it does",
                    PATIENCE.as_secs()
                ),
            },
            false => Note {
                level: Level::Info,
                text: format!("the spool directory {directory} answers again"),
            },
        })
    }
}

impl WatchThread {
    fn looking(&self) -> Option<Instant> {
        *self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, began: Option<Instant>) {
        *self.looking.lock().unwrap_or_else(PoisonError::into_inner) = began;
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn pause(&self) {
        let until = Instant::now() + LOOK;
        while Instant::now() < until && !self.has_ended() {
            std::thread::sleep(HURRIED_LOOK);
            if self.hurried.load(Ordering::Relaxed) {
                break;
            }
        }
    }
}

/// Follows the directory until [`SpoolWatch::end`], or until nobody receives events.
pub fn watch(options: SpoolOptions, clock: Clock, sender: Sender<Event>) -> SpoolWatch {
    let watch = SpoolWatch::new(options.directory.clone());
    let mine = Arc::clone(&watch.thread);
    let thread = std::thread::Builder::new().name("spool".into());
    // Without a thread other nodes are not seen, which the screen says.
    let _ = thread.spawn(move || {
        let mut reader = SpoolReader::new(options, clock);
        while !mine.has_ended() {
            mine.look(Some(Instant::now()));
            let sent = reader.look(&mut |event| sender.blocking_send(event).is_ok());
            mine.look(None);
            if !sent {
                return;
            }
            mine.pause();
        }
    });
    watch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_hangs_is_told_of_once_and_so_is_its_answer() {
        let mut watch = SpoolWatch::new("/shared".into());
        let began = Instant::now();
        watch.thread.look(Some(began));
        assert_eq!(watch.note(began + PATIENCE / 2), None);
        let told = watch.note(began + PATIENCE).unwrap();
        assert_eq!(told.level, Level::Warning);
        assert!(told.text.contains("/shared has not answered for 10 s"));
        assert_eq!(watch.note(began + PATIENCE * 2), None);
        watch.thread.look(None);
        let told = watch.note(began + PATIENCE * 3).unwrap();
        assert!(told.text.ends_with("answers again"));
        assert_eq!(watch.note(began + PATIENCE * 4), None);
    }
}
