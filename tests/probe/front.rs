//! A front for the tests: the real installation, the real socket, and the events that came.

use oomph::collect::probe_socket::{self, ProbeRequests};
use oomph::event::{
    Clock, Event, EventKind, Hello, OomRecord, ProbeErrors, Retainers, Sample, Step, StepTrace,
    Structure,
};
use oomph::probe::{Installed, ProbeOptions, ProbeWays, RehearsedStep, install};
use oomph::units::RunNumber;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Long enough for a loaded machine; no test waits for it when all is well.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The run that the tests give the probe.
pub const RUN: RunNumber = RunNumber(4);

/// A directory with the probe in it and the path of a socket.
pub struct Place {
    directory: TempDir,
    installed: Installed,
}

impl Place {
    pub fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let installed = install(&directory.path().join("probe")).unwrap();
        Place {
            directory,
            installed,
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Where the loader lies.
    pub fn loader(&self) -> &Path {
        self.installed.directory()
    }

    /// What oomph adds to the environment of a command that has `inherited` as its PYTHONPATH.
    pub fn environment(&self, inherited: &OsStr, lines: bool) -> Vec<(OsString, OsString)> {
        let options = ProbeOptions {
            interval: Duration::from_millis(20),
            lines,
            rehearses: RehearsedStep::OutOfMemory,
        };
        self.installed
            .environment(
                ProbeWays {
                    socket: &self.socket(),
                    modules: None,
                    spool: None,
                },
                RUN,
                options,
                Some(inherited),
            )
            .into_iter()
            .map(|change| (change.name.0, change.value.unwrap().0))
            .collect()
    }
}

/// A front that listens.
pub struct Front {
    pub requests: ProbeRequests,
    events: Receiver<Event>,
    /// Everything that came so far.
    pub seen: Vec<EventKind>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Front {
    pub fn listen(place: &Place) -> Front {
        let socket = place.socket();
        let (to_test, events) = channel();
        let (ready, is_ready) = channel();
        let requests = ProbeRequests::default();
        let to_probes = requests.clone();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = bind(&socket).await;
                ready.send(()).unwrap();
                let (sender, mut receiver) = tokio::sync::mpsc::channel(10_000);
                let serving = probe_socket::serve(listener, Clock::start(), to_probes, sender);
                let forwarding = async {
                    while let Some(event) = receiver.recv().await {
                        if to_test.send(event).is_err() {
                            break;
                        }
                    }
                };
                tokio::select! {
                    () = serving => {}
                    () = forwarding => {}
                    _ = stopped => {}
                }
            });
        });
        is_ready.recv().unwrap();
        Front {
            requests,
            events,
            seen: Vec::new(),
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Waits until what was seen satisfies `enough`; fails with what was seen otherwise.
    #[track_caller]
    pub fn wait_until(&mut self, enough: impl Fn(&[EventKind]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !enough(&self.seen) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) => self.seen.push(event.what),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("not seen in time; seen: {:#?}", self.seen)
                }
            }
        }
    }

    /// Waits until as many connections as said hello have ended, at least `processes`.
    #[track_caller]
    pub fn wait_for_end_of(&mut self, processes: usize) {
        self.wait_until(|seen| {
            let gone = count(seen, |what| matches!(what, EventKind::ProbeGone(_)));
            gone >= processes && gone == count(seen, |what| matches!(what, EventKind::Hello(_)))
        });
        assert_eq!(self.hellos().len(), processes, "{:#?}", self.seen);
    }

    /// Asserts that nobody reported: what came before a stranger that says garbage now.
    #[track_caller]
    pub fn expect_silence(&mut self, place: &Place) {
        use std::io::Write;
        let mut stranger = std::os::unix::net::UnixStream::connect(place.socket()).unwrap();
        stranger.write_all(b"stranger\n").unwrap();
        self.wait_until(|seen| !seen.is_empty());
        let is_stranger =
            matches!(&self.seen[..], [EventKind::Dropped(dropped)] if dropped.malformed == 1);
        assert!(is_stranger, "{:#?}", self.seen);
        self.seen.clear();
    }

    pub fn hellos(&self) -> Vec<&Hello> {
        self.all(|what| match what {
            EventKind::Hello(hello) => Some(hello),
            _ => None,
        })
    }

    pub fn samples(&self) -> Vec<&Sample> {
        self.all(|what| match what {
            EventKind::Sample(sample) => Some(sample),
            _ => None,
        })
    }

    pub fn steps(&self) -> Vec<&Step> {
        self.all(|what| match what {
            EventKind::Step(step) => Some(step),
            _ => None,
        })
    }

    pub fn structures(&self) -> Vec<&Structure> {
        self.all(|what| match what {
            EventKind::Structure(structure) => Some(structure),
            _ => None,
        })
    }

    pub fn step_traces(&self) -> Vec<&StepTrace> {
        self.all(|what| match what {
            EventKind::StepTrace(trace) => Some(&**trace),
            _ => None,
        })
    }

    pub fn retainers(&self) -> Vec<&Retainers> {
        self.all(|what| match what {
            EventKind::Retainers(found) => Some(&**found),
            _ => None,
        })
    }

    pub fn ooms(&self) -> Vec<&OomRecord> {
        self.all(|what| match what {
            EventKind::Oom(record) => Some(record),
            _ => None,
        })
    }

    pub fn notes(&self) -> Vec<&str> {
        self.all(|what| match what {
            EventKind::Note(note) => Some(note.text.as_str()),
            _ => None,
        })
    }

    pub fn probe_errors(&self) -> Vec<&ProbeErrors> {
        self.all(|what| match what {
            EventKind::ProbeErrors(errors) => Some(errors),
            _ => None,
        })
    }

    /// Asserts that every line was one that the front understands, and that the probe had no errors of its own.
    #[track_caller]
    pub fn expect_nothing_lost(&self) {
        let lost = count(&self.seen, |what| matches!(what, EventKind::Dropped(_)));
        assert_eq!(lost, 0, "{:#?}", self.seen);
        assert!(self.probe_errors().is_empty(), "{:#?}", self.seen);
    }

    fn all<'a, T>(&'a self, pick: impl Fn(&'a EventKind) -> Option<T>) -> Vec<T> {
        self.seen.iter().filter_map(pick).collect()
    }
}

/// Binds, also where a front was just now: a child of another test that is between its fork and its
/// exec holds that one's socket open for a moment.
async fn bind(socket: &Path) -> tokio::net::UnixListener {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match probe_socket::bind(socket) {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

impl Drop for Front {
    /// The front vanishes: the socket is closed, its file stays behind.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has told of itself already.
            let _ = thread.join();
        }
    }
}

fn count(seen: &[EventKind], is: impl Fn(&EventKind) -> bool) -> usize {
    seen.iter().filter(|what| is(what)).count()
}
