//! The real path through nvml-wrapper and the loader, against a library that we made up.

use crate::fake_nvml::{Fake, Lacking};
use oomph::collect::nvml::{NvmlWatch, Options, watch};
use oomph::event::{Clock, DeviceReading, Dropped, Event, EventKind, NvmlState};
use oomph::units::{Bytes, Pid, Uuid};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, channel};

/// Longer than anything here takes on a machine that is busy with other things.
const DEADLINE: Duration = Duration::from_secs(30);

/// A watch and what it said, scaled down from seconds to milliseconds.
struct Watched {
    events: Receiver<Event>,
    watch: Option<NvmlWatch>,
}

fn options(library: PathBuf) -> Options {
    Options {
        interval: Duration::from_millis(10),
        library: Some(library),
        retry: Duration::from_millis(50),
        // A machine that is busy with other things may take its time over a call.
        patience: DEADLINE,
    }
}

/// As [`options`], for tests in which a call really hangs.
fn impatient(library: PathBuf) -> Options {
    Options {
        patience: Duration::from_millis(100),
        ..options(library)
    }
}

impl Watched {
    fn over(fake: &Fake) -> Watched {
        Watched::with(options(fake.library()))
    }

    fn with(options: Options) -> Watched {
        let (sender, events) = channel(1_024);
        Watched {
            events,
            watch: Some(watch(options, Clock::start(), sender)),
        }
    }

    fn next(&mut self) -> Event {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.events.try_recv() {
                Ok(event) => return event,
                Err(TryRecvError::Disconnected) => panic!("the watch is over"),
                Err(TryRecvError::Empty) => assert!(Instant::now() < deadline, "nothing came"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for what `pick` picks.
    fn wait<T>(&mut self, mut pick: impl FnMut(EventKind) -> Option<T>) -> T {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(found) = pick(self.next().what) {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "what was waited for did not come"
            );
        }
    }

    fn state(&mut self) -> NvmlState {
        self.wait(|what| match what {
            EventKind::Nvml(state) => Some(state),
            _ => None,
        })
    }

    /// Waits for a state; others may come before it.
    fn state_that_is(&mut self, wanted: &NvmlState) {
        while self.state() != *wanted {}
    }

    fn reading_where(&mut self, fits: impl Fn(&DeviceReading) -> bool) -> DeviceReading {
        self.wait(|what| match what {
            EventKind::Device(reading) if fits(&reading) => Some(reading),
            _ => None,
        })
    }

    fn reading(&mut self) -> DeviceReading {
        self.reading_where(|_| true)
    }

    fn unavailable(&mut self) -> String {
        match self.state() {
            NvmlState::Unavailable { reason } => reason,
            state => panic!("{state:?}"),
        }
    }
}

fn live(devices: u32) -> NvmlState {
    NvmlState::Live {
        driver: "580.00".into(),
        devices,
    }
}

#[test]
fn a_device_is_read_in_full() {
    let fake = Fake::new();
    fake.say(
        "used 0 3221225472\nprocess 0 2147483646 1073741824\nprocess 0 2147483645\n\
         graphics 0 2147483646 1073741824\nbusy 97",
    );
    let mut watched = Watched::over(&fake);
    assert_eq!(watched.state(), live(1));
    let reading = watched.reading();
    assert_eq!(
        reading.uuid,
        Uuid::new("00000000-0000-0000-0000-000000000000")
    );
    assert_eq!((reading.index, reading.name.as_str()), (0, "Fake GPU"));
    assert_eq!(reading.total, Some(Bytes::gib(24)));
    assert_eq!(reading.used, Some(Bytes::gib(3)));
    assert_eq!(reading.driver_reserved, Some(Bytes::mib(600)));
    assert_eq!(reading.free, Some(Bytes::gib(21) - Bytes::mib(600)));
    assert_eq!(
        (reading.utilization, reading.temperature),
        (Some(97), Some(61))
    );
    assert_eq!((reading.power, reading.lost), (Some(312.5), None));
    let processes = reading.processes.unwrap();
    assert_eq!(processes.len(), 2, "{processes:?}");
    assert_eq!(
        (processes[0].pid, processes[0].used),
        (Pid(2_147_483_645), None)
    );
    assert_eq!(processes[1].used, Some(Bytes::gib(1)));
}

#[test]
fn a_process_that_proc_shows_has_a_name_and_a_user() {
    let fake = Fake::new();
    let mut other = Command::new("sleep").arg("100").spawn().unwrap();
    fake.say(&format!("holds 0 {} 4096", other.id()));
    let mut watched = Watched::over(&fake);
    let named = |reading: &DeviceReading| {
        let mut processes = reading.processes.iter().flatten();
        processes.any(|process| process.name.as_deref() == Some("sleep"))
    };
    let reading = watched.reading_where(named);
    let process = reading.processes.unwrap().remove(0);
    assert_eq!(process.used, Some(Bytes(4096)));
    assert_eq!(reading.used, Some(Bytes(4096)));
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap();
    assert_eq!(process.user, user.map(|user| user.name));
    other.kill().unwrap();
    other.wait().unwrap();
    let reading = watched.reading_where(|reading| reading.used == Some(Bytes::ZERO));
    assert_eq!(reading.processes, Some(Vec::new()));
}

#[test]
fn what_cannot_be_asked_is_said_in_one_line() {
    for (lines, words) in [
        ("error init 9", "not loaded"),
        ("error init 18", "differ in version"),
        ("error init 4", "no permission"),
        ("error init 999", "nvidia-smi"),
    ] {
        let fake = Fake::new();
        fake.say(lines);
        let reason = Watched::over(&fake).unavailable();
        assert!(reason.contains(words) && !reason.contains('\n'), "{reason}");
    }
}

#[test]
fn a_library_that_is_missing_or_none_at_all_is_said() {
    let reason = Watched::with(options("/missing/libnvidia-ml.so.1".into())).unavailable();
    assert!(reason.contains("no libnvidia-ml.so.1"), "{reason}");
    assert!(
        reason.contains("--gpus all") && !reason.contains('\n'),
        "{reason}"
    );
    let reason = Watched::over(&Fake::lacking(Lacking::Init)).unavailable();
    assert!(reason.contains("nvmlInit_v2"), "{reason}");
}

#[test]
fn a_mismatch_that_is_mended_is_noticed() {
    let fake = Fake::new();
    fake.say("error init 18");
    let mut watched = Watched::over(&fake);
    watched.unavailable();
    fake.say("");
    assert_eq!(
        watched.state(),
        live(1),
        "said once, however often it was tried"
    );
    watched.reading();
}

#[test]
fn a_figure_that_is_not_to_be_had_is_missing_and_spoils_no_other() {
    let fake = Fake::new();
    fake.say("error temperature 3\nerror utilization 3\nerror power 999\nused 0 4096");
    let reading = Watched::over(&fake).reading();
    assert_eq!(
        (reading.temperature, reading.utilization, reading.power),
        (None, None, None)
    );
    assert_eq!(reading.used, Some(Bytes(4096)));

    let reading = Watched::over(&Fake::lacking(Lacking::MemoryV2)).reading();
    assert_eq!(
        (reading.total, reading.used, reading.free),
        (None, None, None)
    );
    assert_eq!(reading.temperature, Some(61));

    fake.say("error processes 4\nerror graphics 4");
    assert_eq!(Watched::over(&fake).reading().processes, None);
}

#[test]
fn figures_that_cannot_be_are_no_figures() {
    let fake = Fake::new();
    fake.say("total 0");
    let reading = Watched::over(&fake).reading();
    assert_eq!(
        (reading.total, reading.used, reading.free),
        (None, None, None)
    );
    fake.say("total 1000\nreserved 10\nused 0 2000");
    let reading = Watched::over(&fake).reading();
    assert_eq!((reading.total, reading.used), (Some(Bytes(1000)), None));
}

#[test]
fn an_absurd_number_of_processes_is_not_believed() {
    let fake = Fake::new();
    fake.say("processes 4000000000");
    let reading = Watched::over(&fake).reading();
    assert_eq!(reading.processes, None);
    assert_eq!(reading.used, Some(Bytes::ZERO));
}

#[test]
fn one_lost_device_leaves_the_others_alive() {
    let fake = Fake::new();
    fake.say("devices 2");
    let mut watched = Watched::over(&fake);
    assert_eq!(watched.state(), live(2));
    watched.reading_where(|reading| reading.index == 1 && reading.lost.is_none());
    fake.say("devices 2\nlost 1");
    let lost = watched.reading_where(|reading| reading.lost.is_some());
    assert_eq!((lost.index, lost.lost.as_deref()), (1, Some("GPU is lost")));
    assert_eq!(lost.used, None);
    watched.reading_where(|reading| reading.index == 0 && reading.used.is_some());
    fake.say("devices 2");
    watched.reading_where(|reading| reading.index == 1 && reading.lost.is_none());
}

#[test]
fn devices_that_come_and_go_are_followed() {
    let fake = Fake::new();
    fake.say("devices 2\nuuid 1 GPU-b");
    let mut watched = Watched::over(&fake);
    assert_eq!(watched.state(), live(2));
    watched.reading_where(|reading| reading.uuid == Uuid::new("b"));
    fake.say("devices 1");
    let gone = watched.reading_where(|reading| reading.lost.is_some());
    assert_eq!(gone.uuid, Uuid::new("b"));
    assert_eq!(watched.state(), live(1));
    fake.say("devices 3\nuuid 2 GPU-c\nunreachable 1");
    let note = watched.wait(|what| match what {
        EventKind::Note(note) => Some(note.text),
        _ => None,
    });
    assert!(note.contains("cannot read GPU 1"), "{note}");
    watched.reading_where(|reading| reading.uuid == Uuid::new("c"));
}

#[test]
fn slices_of_a_device_are_read_as_devices() {
    let fake = Fake::new();
    fake.say("mig 0 2\nused 0 4096");
    let mut watched = Watched::over(&fake);
    for slot in ["0000", "0001"] {
        let reading = watched.reading_where(|reading| reading.uuid.as_str().contains(slot));
        assert!(reading.uuid.as_str().starts_with("MIG-"));
        assert_eq!(reading.used, Some(Bytes(4096)));
        assert_eq!(reading.utilization, None, "a slice does not say it");
        assert_eq!(reading.temperature, Some(61), "the whole device's");
    }
    fake.say("mig 0 0");
    let whole = Watched::over(&fake).reading();
    assert_eq!(whole.name, "Fake GPU");
}

#[test]
fn a_call_that_hangs_is_said_and_forgiven() {
    let fake = Fake::new();
    let mut watched = Watched::with(impatient(fake.library()));
    watched.state_that_is(&live(1));
    fake.say("hang memory");
    watched.state_that_is(&NvmlState::Stale);
    fake.say("");
    watched.state_that_is(&live(1));
    watched.reading();
}

#[test]
fn a_call_that_hangs_does_not_hold_the_watch_s_end() {
    let fake = Fake::new();
    fake.say("hang init");
    let mut watched = Watched::with(impatient(fake.library()));
    watched.state_that_is(&NvmlState::Stale);
    let before = Instant::now();
    watched.watch = None;
    assert!(before.elapsed() < Duration::from_secs(1));
    // Let go of the thread, which would otherwise look for its file to the end of the process.
    fake.say("");
}

#[test]
fn a_watch_that_is_dropped_ends() {
    let fake = Fake::new();
    let mut watched = Watched::over(&fake);
    watched.reading();
    watched.watch = None;
    let deadline = Instant::now() + DEADLINE;
    while watched.events.try_recv() != Err(TryRecvError::Disconnected) {
        assert!(Instant::now() < deadline, "its threads are still there");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn readings_that_find_no_room_are_counted() {
    let fake = Fake::new();
    let (sender, mut events) = channel(1);
    let options = Options {
        interval: Duration::from_millis(1),
        ..options(fake.library())
    };
    let _watch = watch(options, Clock::start(), sender);
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Ok(EventKind::Dropped(Dropped { samples, .. })) = events.try_recv().map(|e| e.what) {
            assert!(samples > 0);
            return;
        }
        assert!(Instant::now() < deadline, "nothing was counted");
        // Slower than the readings come.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a process does whose end is to be seen: this test binary runs one test of its own once
/// more, with the library to watch in its environment.
const VICTIM: &str = "OOMPH_TEST_VICTIM_OF";

fn victim(test: &str, fake: &Fake) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(VICTIM, fake.library())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() >= deadline {
            child.kill().unwrap();
            panic!("{test}: the process does not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_call_that_hangs_does_not_hold_the_exit() {
    if let Some(library) = std::env::var_os(VICTIM) {
        let mut watched = Watched::with(impatient(library.into()));
        watched.state_that_is(&NvmlState::Stale);
        std::process::exit(7);
    }
    let fake = Fake::new();
    fake.say("hang memory");
    let status = victim("nvml::a_call_that_hangs_does_not_hold_the_exit", &fake);
    assert_eq!(status.code(), Some(7));
}

/// Not a thing to be mended here, but to be known: it is why the training hangs on the keeper.
#[test]
fn a_crash_in_the_library_is_really_one() {
    if let Some(library) = std::env::var_os(VICTIM) {
        let mut watched = Watched::with(options(library.into()));
        loop {
            watched.next();
        }
    }
    let fake = Fake::new();
    fake.say("crash memory");
    let status = victim("nvml::a_crash_in_the_library_is_really_one", &fake);
    assert_eq!(status.signal(), Some(nix::libc::SIGSEGV));
}
