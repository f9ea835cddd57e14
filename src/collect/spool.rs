//! Ranks of other nodes: their files in the session's spool directory are followed, as `tail` would.
//!
//! The directory lies on a file system that the cluster shares. A file there has one writer and whole
//! lines; a torn one is awaited. Only what nobody else could have written is believed: owner and type
//! are checked at every read. All of it happens on a thread of its own, because a mount may hang.

mod directory;
mod follower;

use crate::event::{Clock, Event, EventKind, Level, Note};
use directory::{OpenSpool, SpoolFile};
use follower::{NodeClocks, Places};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;

/// How often the marker is touched: it tells the file server's time, and that the session lives.
const TOUCH: Duration = Duration::from_secs(5);

/// What is followed.
#[derive(Debug, Clone)]
pub struct SpoolOptions {
    pub directory: PathBuf,
    /// Where this front notes how far it has read, for the next one; on this machine.
    pub places: Option<PathBuf>,
    /// Whether the session is ours: then its marker is touched.
    pub is_ours: bool,
}

struct SpoolReader {
    options: SpoolOptions,
    clock: Clock,
    clocks: NodeClocks,
    places: Places,
    /// Files that are not believed, so that each is told once.
    refused: BTreeSet<String>,
    touched: Option<Instant>,
    /// Why the directory cannot be read at the moment.
    away: Option<String>,
}

impl SpoolReader {
    fn new(options: SpoolOptions, clock: Clock) -> SpoolReader {
        let known = options.places.as_deref().and_then(Places::read);
        SpoolReader {
            options,
            clock,
            clocks: NodeClocks::default(),
            places: known.unwrap_or_default(),
            refused: BTreeSet::new(),
            touched: None,
            away: None,
        }
    }

    /// Reads what is new; `false` if nobody wants it.
    fn look(&mut self, send: &mut dyn FnMut(Event) -> bool) -> bool {
        let spool = match OpenSpool::open(&self.options.directory) {
            Ok(spool) => spool,
            Err(why) => return self.went_away(why.to_string(), send),
        };
        if self.away.take().is_some()
            && !send(self.note(Level::Info, "the spool directory is there again"))
        {
            return false;
        }
        if self.touched.is_none_or(|at| at.elapsed() >= TOUCH) {
            self.touched = Some(Instant::now());
            let session = self.clock.now();
            let server = match self.options.is_ours {
                true => spool.touch(),
                false => None,
            };
            self.clocks.read_server(session, server);
        }
        let mut moved = false;
        for name in spool.names() {
            let Some(file) = SpoolFile::parse(&name) else {
                continue;
            };
            match spool.read(&name, self.position(&file)) {
                Ok(None) => {}
                Ok(Some(news)) => {
                    moved = true;
                    let Places { nodes, followers } = &mut self.places;
                    let follower = followers.entry(file.stem.to_string()).or_default();
                    let events = follower.take(&file, &news, nodes, &mut self.clocks, self.clock);
                    for event in events {
                        if !send(event) {
                            return false;
                        }
                    }
                }
                Err(why) => {
                    if self.refused.insert(name.clone()) {
                        let words = format!("{name} in the spool directory is not read: {why}");
                        if !send(self.note(Level::Warning, &words)) {
                            return false;
                        }
                    }
                }
            }
        }
        if let (true, Some(path)) = (moved, &self.options.places) {
            self.places.write(path);
        }
        true
    }

    fn position(&self, file: &SpoolFile<'_>) -> u64 {
        let follower = self.places.followers.get(file.stem);
        follower.map_or(0, |follower| follower.position(file.generation))
    }

    fn went_away(&mut self, why: String, send: &mut dyn FnMut(Event) -> bool) -> bool {
        if self.away.is_some() {
            return true;
        }
        let words = format!(
            "the spool directory {} cannot be read ({why}): ranks of other nodes are not seen until it can",
            self.options.directory.display()
        );
        self.away = Some(why);
        send(self.note(Level::Warning, &words))
    }

    fn note(&self, level: Level, text: &str) -> Event {
        Event {
            at: self.clock.now(),
            what: EventKind::Note(Note::new(level, text)),
        }
    }
}

// The thread that follows the files, and what the front knows of it: a mount may hang, and then only this
// thread does.

/// Between two looks, and while the end of a run is awaited.
const LOOK: Duration = Duration::from_secs(1);

const HURRIED_LOOK: Duration = Duration::from_millis(100);

/// How often to look whether the thread hangs.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// A look that takes longer waits for a file system that hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// The thread's handle; nobody waits for its end.
#[derive(Debug)]
pub struct SpoolWatch(Arc<WatchThread>);

#[derive(Debug, Default)]
struct WatchThread {
    hurried: AtomicBool,
    ended: AtomicBool,
    /// When the look began that has not ended yet.
    looking: Mutex<Option<Instant>>,
}

impl SpoolWatch {
    /// Looks more often, or as often as usual again.
    pub fn hurry(&self, hurried: bool) {
        self.0.hurried.store(hurried, Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

/// Tells that the thread hangs: it cannot say so itself.
struct HangWatch {
    directory: PathBuf,
    thread: Arc<WatchThread>,
    hangs: bool,
}

impl HangWatch {
    async fn tell(mut self, clock: Clock, sender: Sender<Event>) {
        while !self.thread.has_ended() && !sender.is_closed() {
            if let Some(what) = self.note(Instant::now()).map(EventKind::Note) {
                let at = clock.now();
                // Nobody receives any more: the loop ends.
                let _ = sender.send(Event { at, what }).await;
            }
            tokio::time::sleep(LOOK_AFTER).await;
        }
    }

    /// Tells once that the directory does not answer, and once that it answers again.
    fn note(&mut self, now: Instant) -> Option<Note> {
        let looking = self.thread.looking();
        let hangs = looking.is_some_and(|since| now.saturating_duration_since(since) >= PATIENCE);
        if std::mem::replace(&mut self.hangs, hangs) == hangs {
            return None;
        }
        let directory = self.directory.display();
        Some(match hangs {
            true => Note::new(
                Level::Warning,
                format!(
                    "the spool directory {directory} has not answered for {} s: ranks of other nodes are not seen until it does",
                    PATIENCE.as_secs()
                ),
            ),
            false => Note::new(
                Level::Info,
                format!("the spool directory {directory} answers again"),
            ),
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

/// Follows the directory until [`SpoolWatch::end`], or until nobody receives events. Must be called in a tokio runtime.
pub fn watch(options: SpoolOptions, clock: Clock, sender: Sender<Event>) -> SpoolWatch {
    let mine = Arc::new(WatchThread::default());
    let watch = SpoolWatch(Arc::clone(&mine));
    let hangs = HangWatch {
        directory: options.directory.clone(),
        thread: Arc::clone(&mine),
        hangs: false,
    };
    tokio::spawn(hangs.tell(clock, sender.clone()));
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
mod tests;
