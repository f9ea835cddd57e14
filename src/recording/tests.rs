//! Whole recordings: written, cut off, damaged, read back.

mod cost;
mod killed;

use super::journal::{Journal, RecordLine};
use super::recorder::{RecordingFile, open_to_append};
use super::*;
use crate::command::{CommandLine, MASK, Word};
use crate::event::{
    DeviceReading, Event, EventKind, Exit, Exited, Level, Note, OomRecord, Sample, SessionStarted,
    Started, Step, StepReading,
};
use crate::units::{Bytes, Moment, Pid, RunNumber, Uuid};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn event(seconds: f64, what: EventKind) -> Event {
    Event {
        at: Moment::from_secs_f64(seconds),
        what,
    }
}

fn sample(seconds: f64, pid: i32, allocated: u64) -> Event {
    let sample = Sample {
        pid: Pid(pid),
        allocated: Bytes(allocated),
        reserved: Bytes::gib(20),
        active: Some(Bytes(allocated)),
        inactive_split: Some(Bytes::mib(31)),
        requested: Some(Bytes(allocated)),
        allocated_peak: Bytes::gib(19),
        reserved_peak: Bytes::gib(20),
        segments: Some(812),
        ..Sample::default()
    };
    event(seconds, EventKind::Sample(sample))
}

fn step(seconds: f64, pid: i32, count: u64) -> Event {
    let reading = StepReading {
        allocated: Bytes::gib(3),
        reserved: Bytes::gib(20),
        peak: Bytes::gib(19),
    };
    let step = Step {
        pid: Pid(pid),
        device: 0,
        count,
        figures_of: None,
        backward: None,
        micros: 8_123,
        before: reading,
        after: reading,
    };
    event(seconds, EventKind::Step(step))
}

fn device(seconds: f64, index: u32, used: u64) -> Event {
    let reading = DeviceReading {
        uuid: Uuid::new(&format!("8c1f0d52-0b6e-4c1a-9f37-2d4be5a9{index:04}")),
        index,
        name: "NVIDIA A card of some length".into(),
        total: Some(Bytes::gib(80)),
        used: Some(Bytes(used)),
        free: Some(Bytes::gib(80) - Bytes(used)),
        driver_reserved: Some(Bytes::mib(600)),
        processes: Some(Vec::new()),
        utilization: Some(97),
        temperature: Some(61),
        power: Some(512.25),
        lost: None,
    };
    event(seconds, EventKind::Device(reading))
}

fn oom(seconds: f64) -> Event {
    let what = EventKind::Oom(OomRecord {
        zero: None,
        lines_known: None,
        lines_alike: None,
        limit_line: None,
        pid: Pid(100),
        device: 0,
        requested: Bytes::gib(2),
        total: Bytes::gib(80),
        free: Bytes::gib(1),
        sample: Sample::default(),
        limit: None,
        largest_free: None,
        free_blocks: Vec::new(),
        private_pools: Vec::new(),
        lines: Vec::new(),
        growing: Vec::new(),
        stack: Vec::new(),
        phase: Default::default(),
        grad_enabled: None,
        progress: None,
        operands: None,
        before: None,
        gathering: None,
        loading: None,
        model: None,
        step: 3,
        gradients: None,
        structure: None,
        optimizer: None,
    });
    event(seconds, what)
}

fn note(seconds: f64, text: &str) -> Event {
    let note = Note::new(Level::Info, text);
    event(seconds, EventKind::Note(note))
}

fn started(seconds: f64, words: &[&str]) -> Event {
    let command = CommandLine {
        argv: words.iter().map(Word::from).collect(),
        env: Vec::new(),
        cwd: "/home/ada".into(),
    };
    let started = Started {
        run: RunNumber::FIRST,
        pid: Pid(100),
        command,
        remedies: Vec::new(),
        predicted_peak: None,
        prediction: None,
        numerics: None,
    };
    event(seconds, EventKind::Started(started))
}

fn exited(seconds: f64) -> Event {
    let exited = Exited {
        run: RunNumber::FIRST,
        exit: Exit::Code(1),
        left: Vec::new(),
    };
    event(seconds, EventKind::Exited(exited))
}

fn all(path: &Path) -> Vec<Event> {
    read(path).unwrap().map(Result::unwrap).collect()
}

fn recorder(path: &Path) -> Recorder {
    Recorder::create(path, RecorderOptions::default()).unwrap()
}

#[test]
fn a_session_reads_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(RECORDING);
    let mut events = vec![started(0.0, &["python", "train.py"])];
    for i in 0..500u32 {
        let seconds = 0.1 + f64::from(i) / 10.0;
        events.push(sample(seconds, 100, u64::from(i % 7)));
        events.push(device(seconds + 0.01, 0, u64::from(i % 5)));
        events.push(step(seconds + 0.02, 100, i.into()));
    }
    events.push(exited(60.0));
    let mut recorder = recorder(&path);
    for event in &events {
        recorder.write(event);
    }
    assert_eq!(recorder.finish(PATIENCE), Ok(()));
    assert_eq!(recorder.note(), None);
    assert!(all(&path) == events, "the last minutes are kept in full");
    assert!(all(dir.path()) == events, "by its directory as well");
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "a clean end leaves one file: {names:?}");
}

#[test]
fn only_the_user_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(RECORDING);
    let mut recorder = recorder(&path);
    recorder.write(&sample(1.0, 1, 1));
    wait_until(|| path.exists());
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn secrets_and_the_environment_are_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(RECORDING);
    let mut run = started(1.0, &["python", "train.py", "--hf_token", "hush-1"]);
    if let EventKind::Started(started) = &mut run.what {
        started
            .command
            .set_env("WANDB_API_KEY", Some(Word::from("hush-2")));
    }
    let session = SessionStarted {
        id: "x".into(),
        wall: 0.0,
        monotonic: 0,
        schema: 1,
        version: "0".into(),
        command: CommandLine {
            argv: vec!["x".into(), "--password=hush-3".into()],
            env: Vec::new(),
            cwd: "/".into(),
        },
        probe: true,
        nvml: true,
        job: None,
        host: None,
        again_of: None,
    };
    let mut recorder = recorder(&path);
    recorder.write(&event(0.0, EventKind::SessionStarted(session)));
    recorder.write(&run);
    assert_eq!(recorder.finish(PATIENCE), Ok(()));
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(MASK) && !text.contains("hush"), "{text}");
    for inherited in ["HOME", "PATH", "CARGO_MANIFEST_DIR"] {
        let value = std::env::var(inherited).unwrap_or_default();
        assert!(!text.contains(inherited) && (value.len() < 4 || !text.contains(&value)));
    }
}

#[test]
fn a_recording_that_is_there_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(RECORDING);
    fs::write(&path, "something\n").unwrap();
    let refused = Recorder::create(&path, RecorderOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("name another file"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "something\n");
    let nowhere = dir.path().join("missing/x");
    let refused = Recorder::create(&nowhere, RecorderOptions::default()).unwrap_err();
    assert!(format!("{refused:#}").contains("missing/x: No such file"));
}

#[test]
fn a_full_disk_is_told_and_costs_only_the_recording() {
    let mut recorder = recorder(Path::new("/dev/full"));
    recorder.write(&started(0.0, &["x"]));
    let mut told = None;
    wait_until(|| {
        told = told.take().or_else(|| recorder.note());
        told.is_some()
    });
    let told = told.unwrap();
    assert_eq!(told.level, Level::Warning);
    assert!(
        told.text
            .contains("not recording to /dev/full: No space left")
    );
    for i in 0..1_000 {
        recorder.write(&sample(f64::from(i), 1, 1));
    }
    let lost = recorder.finish(PATIENCE).unwrap_err();
    assert!(lost.contains("No space left"), "{lost}");
}

#[test]
fn a_disk_that_comes_back_gets_what_counts_and_a_note_of_the_gap() {
    let dir = tempfile::tempdir().unwrap();
    let (path, good) = (dir.path().join("recording"), dir.path().join("good"));
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let options = RecorderOptions {
        retry: Duration::from_millis(20),
        ..RecorderOptions::default()
    };
    // Not by `create`, which would follow the link once and for all.
    let full = RecordingFile::new(path.clone(), open_to_append(&path).unwrap());
    let mut recorder = Recorder::start(&path, full, false, options).unwrap();
    recorder.write(&started(1.0, &["x"]));
    recorder.write(&note(2.0, "lost"));
    wait_until(|| recorder.note().is_some());
    fs::write(&good, "").unwrap();
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&good, &path).unwrap();
    wait_until(|| recorder.note().is_some());
    recorder.write(&exited(3.0));
    assert_eq!(recorder.finish(PATIENCE), Ok(()));
    let events = all(&good);
    assert!(events.contains(&started(1.0, &["x"])), "{events:?}");
    assert!(events.contains(&exited(3.0)));
    let gap = |event: &Event| match &event.what {
        EventKind::Note(note) => note.text.contains("the recording has a gap: 1 events"),
        _ => false,
    };
    assert!(events.iter().any(gap), "{events:?}");
}

#[test]
fn a_disk_that_hangs_holds_neither_the_loop_nor_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let refused = Recorder::create(&path, RecorderOptions::default()).unwrap_err();
    assert!(
        refused.to_string().contains("cannot record to"),
        "nobody reads it"
    );
    let reader = fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let mut recorder = recorder(&path);
    let long = "x".repeat(50_000);
    let mut slowest = Duration::ZERO;
    // More than the pipe and the queue can take.
    for i in 0..200 {
        let before = std::time::Instant::now();
        recorder.write(&started(f64::from(i), &[&long, &long]));
        slowest = slowest.max(before.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    let told = recorder.note().expect("it is told");
    assert!(told.text.contains("is too slow"), "{}", told.text);
    assert!(recorder.finish(Duration::from_millis(50)).is_err());
    drop(reader);
}

#[test]
fn a_line_without_end_is_one_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(RECORDING);
    let file = fs::File::create(&path).unwrap();
    // A hole in the file: zeros that take no space.
    file.set_len(20 << 20).unwrap();
    let mut bytes = vec![b'\n'];
    bytes.extend(RecordLine::new(&note(1.0, "good"), false).unwrap().text());
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 20 << 20).unwrap();
    let read: Vec<_> = read(&path).unwrap().collect();
    assert_eq!(read.len(), 2);
    let error = read[0].as_ref().unwrap_err().to_string();
    assert!(
        error.contains("20971520 bytes without a newline"),
        "{error}"
    );
    assert_eq!(read[1].as_ref().unwrap(), &note(1.0, "good"));
}

#[test]
fn without_a_recording_events_are_forgotten() {
    let mut recorder = Recorder::off();
    recorder.write(&note(0.0, "x"));
    assert_eq!(recorder.path(), None);
    assert_eq!(recorder.finish(Duration::ZERO), Ok(()));
}

#[test]
fn unknown_kinds_half_lines_and_garbage_do_not_end_the_reading() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(RECORDING);
    let good = serde_json::to_string(&note(1.0, "good")).unwrap();
    let mut text = Vec::new();
    text.extend(format!("{good}\n").bytes());
    text.extend(b"{\"at\":2000000,\"event\":\"levitated\",\"height\":3}\n\n");
    text.extend(
        b"{\"at\":2500000,\"event\":\"note\",\"level\":\"info\",\"text\":\"x\",\"new\":1}\n",
    );
    text.extend(b"\xff\xfe\x00garbage\n{\"at\":3\n");
    text.extend(b"{\"event\":\"note\",\"at\":4000000,\"level\":\"info\",\"text\":\"y\"}\n");
    text.extend(good.as_bytes()[..good.len() - 4].iter());
    fs::write(&path, text).unwrap();
    let read: Vec<_> = read(&path).unwrap().collect();
    let texts: Vec<&str> = read
        .iter()
        .filter_map(|item| match &item.as_ref().ok()?.what {
            EventKind::Note(note) => Some(note.text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["good", "x", "y"]);
    let errors: Vec<String> = read
        .iter()
        .filter_map(|item| item.as_ref().err().map(ToString::to_string))
        .collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains(":5: not an event: "), "{errors:?}");
}

#[test]
fn a_missing_recording_is_an_error_that_names_it() {
    let error = read(Path::new("/missing/recording")).unwrap_err();
    assert!(error.to_string().contains("/missing/recording"));
}

#[test]
fn an_oom_keeps_the_minute_before_it_in_full() {
    let mut journal = Journal::new(Limits::default());
    let mut main = Vec::new();
    let mut push = |journal: &mut Journal, event: &Event| {
        main.extend(journal.accept(event).unwrap());
    };
    for i in 0..2_000 {
        push(&mut journal, &sample(f64::from(i) / 10.0, 1, 1));
    }
    push(&mut journal, &oom(200.0));
    for i in 2_001..4_000 {
        push(&mut journal, &sample(f64::from(i) / 10.0, 1, 1));
    }
    let count = |from: f64, to: f64| {
        let (from, to) = (Moment::from_secs_f64(from), Moment::from_secs_f64(to));
        let mut stamps: Vec<Moment> = main.iter().map(|line| line.at).collect();
        stamps.sort();
        stamps.dedup();
        stamps.iter().filter(|at| (from..to).contains(*at)).count()
    };
    assert!(count(140.0, 210.0) >= 699, "{}", count(140.0, 210.0));
    assert!(
        (10..300).contains(&count(0.0, 130.0)),
        "{}",
        count(0.0, 130.0)
    );
    assert!((10..400).contains(&count(220.0, 400.0)));
}

/// Readings wait in the bucket and in the last minute, and are written from whichever comes first.
#[test]
fn no_line_is_written_twice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let mut recorder = recorder(&path);
    for second in 0..400 {
        let second = f64::from(second);
        recorder.write(&sample(second, 100, (second as u64 * 7_919) % 1_009));
        recorder.write(&step(second + 0.5, 100, second as u64));
        if second == 200.0 {
            recorder.write(&oom(second + 0.7));
        }
    }
    assert_eq!(recorder.finish(PATIENCE), Ok(()));
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let written = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), written);
    // The minute before the end is there in full.
    let late = all(&path)
        .into_iter()
        .filter(|event| event.at >= Moment::from_secs_f64(345.0));
    assert_eq!(late.count(), 110);
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "waited too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_cut_of_a_recording_is_a_prefix_of_it(cut in 0usize..4_000, seed in 0u64..1_000) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RECORDING);
        let events: Vec<Event> = (0..20)
            .map(|i| match (seed + i) % 3 {
                0 => note(i as f64, &"é".repeat((seed % 40) as usize)),
                1 => sample(i as f64, 1, seed + i),
                _ => exited(i as f64),
            })
            .collect();
        let bytes: Vec<u8> = events
            .iter()
            .flat_map(|event| RecordLine::new(event, false).unwrap().text().to_vec())
            .collect();
        fs::write(&path, &bytes[..cut.min(bytes.len())]).unwrap();
        let read = all(&path);
        prop_assert_eq!(&read[..], &events[..read.len()]);
    }

    #[test]
    fn no_bytes_end_the_reading(garbage in proptest::collection::vec(any::<u8>(), 0..600)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RECORDING);
        let good = RecordLine::new(&note(1.0, "good"), false).unwrap();
        let mut bytes = garbage;
        bytes.push(b'\n');
        bytes.extend(good.text());
        fs::write(&path, &bytes).unwrap();
        let found = read(&path).unwrap().filter_map(Result::ok).filter(|e| *e == note(1.0, "good"));
        prop_assert_eq!(found.count(), 1);
    }
}
