//! What a session that runs elsewhere writes, read on a thread: a shared file system may hang, and keys
//! must not.

use crate::commands::logs::tail::{LogTail, Taken};
use crate::event::Event;
use crate::session::{self, GrowingRecording, RemoteSession};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Between two looks, and between two questions whether it lives.
const LOOK: Duration = Duration::from_secs(1);
const LISTEN: Duration = Duration::from_secs(5);

/// Events of one message: the screen and the keys have their turn in between.
const AT_A_TIME: usize = 2_000;

/// The output that is shown from before, as much as a keeper keeps for a screen.
const RECENT: u64 = 256 << 10;

/// What the thread tells.
#[derive(Debug)]
pub(super) enum FileNews {
    /// The recording is read from its start again: all that was known is forgotten.
    Again,
    Events(Vec<Event>),
    Output(Vec<u8>),
    /// How long ago it was heard.
    Heard(Duration),
    /// There is nothing more to read.
    Ended,
    /// The recording cannot be read at the moment, and why; `None` when it can again.
    Trouble(Option<String>),
}

/// Reads until the session has ended, or nobody listens any more.
pub(super) fn read(session: RemoteSession) -> mpsc::Receiver<FileNews> {
    let (sender, receiver) = mpsc::channel(4);
    let thread = std::thread::Builder::new().name("watch".into());
    // Without a thread the channel closes, which the screen says.
    let _ = thread.spawn(move || {
        let mut files = WatchedFiles {
            session,
            recording: None,
            output: None,
            in_trouble: false,
            sender,
        };
        // An error: the screen is gone.
        let _ = files.follow();
    });
    receiver
}

struct NobodyListens;

struct WatchedFiles {
    session: RemoteSession,
    recording: Option<GrowingRecording>,
    output: Option<LogTail>,
    in_trouble: bool,
    sender: mpsc::Sender<FileNews>,
}

impl WatchedFiles {
    fn follow(&mut self) -> Result<(), NobodyListens> {
        let mut listened: Option<Instant> = None;
        let mut lives = true;
        loop {
            if listened.is_none_or(|at| at.elapsed() >= LISTEN) {
                listened = Some(Instant::now());
                let heard = self.session.listen();
                lives = heard.is_some();
                if let Some(ago) = heard {
                    self.tell(FileNews::Heard(ago))?;
                }
            }
            // After the end once more: the last lines are there before the session is gone.
            self.read_recording()?;
            self.read_output()?;
            if !lives {
                return self.tell(FileNews::Ended);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn tell(&self, news: FileNews) -> Result<(), NobodyListens> {
        self.sender.blocking_send(news).map_err(|_| NobodyListens)
    }

    fn read_recording(&mut self) -> Result<(), NobodyListens> {
        let Some(path) = self.session.recording() else {
            return Ok(());
        };
        let looked = match &mut self.recording {
            Some(recording) => recording.look().map_err(|error| error.to_string()),
            None => match GrowingRecording::open(&path) {
                Ok(recording) => {
                    self.recording = Some(recording);
                    self.tell(FileNews::Again)?;
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            },
        };
        if let Err(why) = looked {
            self.recording = None;
            self.in_trouble = true;
            return self.tell(FileNews::Trouble(Some(why)));
        }
        if std::mem::take(&mut self.in_trouble) {
            self.tell(FileNews::Trouble(None))?;
        }
        loop {
            let Some(recording) = &mut self.recording else {
                return Ok(());
            };
            let next = std::iter::from_fn(|| recording.next_event());
            let events: Vec<Event> = next.take(AT_A_TIME).collect();
            let is_all = events.len() < AT_A_TIME;
            if !events.is_empty() {
                self.tell(FileNews::Events(events))?;
            }
            if is_all {
                return Ok(());
            }
        }
    }

    fn read_output(&mut self) -> Result<(), NobodyListens> {
        let Some(path) = self.session.log() else {
            return Ok(());
        };
        if self.output.is_none() {
            let opened = LogTail::open(&path, session::open_own);
            self.output = opened.ok().and_then(|mut tail| {
                tail.skip_to_last(RECENT).ok()?;
                Some(tail)
            });
        }
        let mut bytes = Vec::new();
        if let Some(tail) = &mut self.output {
            loop {
                match tail.take(&mut bytes) {
                    Ok(Taken::Part) => {}
                    Ok(Taken::All) => break,
                    Err(_) => {
                        self.output = None;
                        break;
                    }
                }
            }
        }
        match bytes.is_empty() {
            true => Ok(()),
            false => self.tell(FileNews::Output(bytes)),
        }
    }
}
