//! Files as probes on other nodes write them, and the events that come of them.

use super::*;
use crate::event::ProbeGone;
use crate::units::{Bytes, Moment, Pid};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::SystemTime;

const HELLO: &str = r#"{"seq":1,"ns":5000000000,"event":"hello","pid":7,"run":1,"rank":9,"world_size":16,"node":"gpu-2","python":"3.12.3","torch":"2.11.0","devices":[{"ordinal":0,"uuid":"aaaa","name":"card","total":1000}]}"#;
const FILE: &str = "1-gpu-2-7-1.jsonl";

fn sample(seq: u64, ns: u64, allocated: u64) -> String {
    format!(
        r#"{{"seq":{seq},"ns":{ns},"event":"sample","pid":7,"device":0,"allocated":{allocated},"reserved":{allocated},"allocated_peak":{allocated},"reserved_peak":{allocated}}}"#
    )
}

struct SpoolStage {
    directory: tempfile::TempDir,
    reader: SpoolReader,
}

fn stage() -> SpoolStage {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    SpoolStage {
        reader: reader(directory.path(), None),
        directory,
    }
}

fn reader(directory: &Path, places: Option<PathBuf>) -> SpoolReader {
    let options = SpoolOptions {
        directory: directory.to_path_buf(),
        places,
        is_ours: true,
    };
    SpoolReader::new(options, Clock::start())
}

fn look(reader: &mut SpoolReader) -> Vec<EventKind> {
    let mut found = Vec::new();
    assert!(reader.look(&mut |event| {
        found.push(event.what);
        true
    }));
    found
}

impl SpoolStage {
    fn append(&self, name: &str, text: &str) {
        let path = self.directory.path().join(name);
        let file = File::options().append(true).create(true).open(&path);
        let mut file = file.unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o600))
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn look(&mut self) -> Vec<EventKind> {
        look(&mut self.reader)
    }
}

/// The figures of samples, and the kinds of other events.
fn told(events: &[EventKind]) -> Vec<String> {
    let word = |what: &EventKind| match what {
        EventKind::Sample(sample) => sample.allocated.0.to_string(),
        EventKind::Hello(hello) => format!("hello {} of node {}", hello.pid, hello.pid.node()),
        EventKind::ProbeGone(ProbeGone { reason, .. }) => match reason {
            None => "gone".into(),
            Some(reason) => format!("gone: {reason}"),
        },
        EventKind::Device(reading) => {
            format!("device {} {:?}", reading.uuid, reading.used.unwrap())
        }
        EventKind::Dropped(dropped) => format!("{} malformed", dropped.malformed),
        EventKind::Note(note) => note.text.clone(),
        other => format!("{other:?}"),
    };
    events.iter().map(word).collect()
}

#[test]
fn a_torn_line_is_awaited() {
    let mut stage = stage();
    let second = sample(2, 6_000_000_000, 20);
    stage.append(FILE, &format!("{HELLO}\n{}", &second[..30]));
    assert_eq!(told(&stage.look()), ["hello 7 of node 1"]);
    assert_eq!(told(&stage.look()), [] as [&str; 0]);
    stage.append(FILE, &second[30..]);
    assert_eq!(told(&stage.look()), [] as [&str; 0], "its end may follow");
    stage.append(FILE, "\n");
    assert_eq!(told(&stage.look()), ["20"]);
}

#[test]
fn a_rank_of_another_node_has_its_own_number_and_device() {
    let mut stage = stage();
    let memory =
        r#"{"seq":2,"ns":5100000000,"event":"device_memory","device":0,"free":300,"total":1000}"#;
    let end = r#"{"seq":3,"ns":5200000000,"event":"end"}"#;
    stage.append(FILE, &format!("{HELLO}\n{memory}\n{end}\n"));
    let other = HELLO
        .replace("gpu-2", "gpu-3")
        .replace(r#""uuid":"aaaa","#, "");
    stage.append("1-gpu-3-7-1.jsonl", &format!("{other}\n"));
    let events = stage.look();
    assert_eq!(
        told(&events),
        [
            "hello 7 of node 1",
            "device aaaa Bytes(700)",
            "gone",
            "hello 7 of node 2"
        ]
    );
    let EventKind::Hello(hello) = &events[3] else {
        panic!("{events:?}")
    };
    assert_eq!(
        hello.devices[0].uuid,
        Some(crate::units::Uuid::new("cuda:0@gpu-3"))
    );
    assert!(!hello.pid.is_here());
}

#[test]
fn the_time_of_a_line_is_told_by_the_files_time() {
    let mut stage = stage();
    stage.reader.clock = Clock::with_origin(stage.reader.clock.origin_us() - 100_000_000);
    stage.append(
        FILE,
        &format!("{HELLO}\n{}\n", sample(2, 65_000_000_000, 20)),
    );
    let mut at = Vec::new();
    stage.reader.look(&mut |event| {
        at.push(event.at);
        true
    });
    let now = stage.reader.clock.now();
    assert!(
        now.since(at[1]).as_secs_f64() < 5.0,
        "written just now: {at:?}"
    );
    let apart = at[1].since(at[0]).as_secs_f64();
    assert!((apart - 60.0).abs() < 0.01, "{at:?}");
}

#[test]
fn after_a_rotation_no_line_comes_twice() {
    let mut stage = stage();
    let first = format!("{HELLO}\n{}\n", sample(2, 6_000_000_000, 20));
    stage.append(FILE, &first);
    assert_eq!(told(&stage.look()), ["hello 7 of node 1", "20"]);
    // The next file begins with lines of this one, and the reader has missed the third.
    let later = format!(
        "{}\n{}\n",
        sample(3, 7_000_000_000, 30),
        sample(4, 8_000_000_000, 40)
    );
    stage.append("1-gpu-2-7-2.jsonl", &(first + &later));
    fs::remove_file(stage.directory.path().join(FILE)).unwrap();
    assert_eq!(told(&stage.look()), ["30", "40"]);
    stage.append("1-gpu-2-7-2.jsonl", &(sample(5, 9_000_000_000, 50) + "\n"));
    assert_eq!(told(&stage.look()), ["50"]);
}

#[test]
fn the_next_front_goes_on_where_this_one_stopped() {
    let mut stage = stage();
    let here = tempfile::tempdir().unwrap();
    let places = here.path().join("spool.json");
    stage.reader = reader(stage.directory.path(), Some(places.clone()));
    stage.append(
        FILE,
        &format!("{HELLO}\n{}\n", sample(2, 6_000_000_000, 20)),
    );
    assert_eq!(stage.look().len(), 2);
    stage.append(FILE, &(sample(3, 7_000_000_000, 30) + "\n"));
    let mut next = reader(stage.directory.path(), Some(places));
    let events = look(&mut next);
    assert_eq!(told(&events), ["30"]);
    let EventKind::Sample(sample) = &events[0] else {
        panic!("{events:?}")
    };
    assert_eq!(sample.pid, Pid::elsewhere(1, 7).unwrap());
    assert_eq!(sample.allocated, Bytes(30));
}

#[test]
fn what_others_could_have_written_is_not_read() {
    let mut stage = stage();
    stage.append("1-gpu-2-7-1.jsonl", &format!("{HELLO}\n"));
    let path = stage.directory.path().join("1-gpu-2-7-1.jsonl");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    fs::write(elsewhere.path(), format!("{HELLO}\n")).unwrap();
    symlink(
        elsewhere.path(),
        stage.directory.path().join("1-gpu-2-8-1.jsonl"),
    )
    .unwrap();
    nix::unistd::mkfifo(
        &stage.directory.path().join("1-gpu-2-9-1.jsonl"),
        nix::sys::stat::Mode::S_IRWXU,
    )
    .unwrap();
    let words = told(&stage.look());
    assert_eq!(words.len(), 3, "{words:?}");
    assert!(words[0].contains("others may write to it"), "{words:?}");
    assert!(words[2].contains("no regular file"), "{words:?}");
    assert_eq!(told(&stage.look()), [] as [&str; 0], "told once");
    fs::set_permissions(stage.directory.path(), fs::Permissions::from_mode(0o770)).unwrap();
    let words = told(&stage.look());
    assert!(words[0].contains("others may write there"), "{words:?}");
}

#[test]
fn a_directory_that_goes_away_and_comes_back_loses_nothing() {
    let mut stage = stage();
    stage.append(FILE, &format!("{HELLO}\n"));
    assert_eq!(stage.look().len(), 1);
    let path = stage.directory.path().to_path_buf();
    let away = path.with_extension("away");
    fs::rename(&path, &away).unwrap();
    let words = told(&stage.look());
    assert!(words[0].contains("are not seen until it can"), "{words:?}");
    assert_eq!(stage.look().len(), 0);
    // Its ranks went on writing.
    fs::write(
        away.join(FILE),
        format!("{HELLO}\n{}\n", sample(2, 6_000_000_000, 20)),
    )
    .unwrap();
    fs::rename(&away, &path).unwrap();
    assert_eq!(
        told(&stage.look()),
        ["the spool directory is there again", "20"]
    );
}

#[test]
fn garbage_is_counted_and_a_file_of_it_given_up() {
    let mut stage = stage();
    stage.append(
        FILE,
        &format!("{HELLO}\nnonsense\n{}\n", sample(2, 6_000_000_000, 20)),
    );
    assert_eq!(
        told(&stage.look()),
        ["hello 7 of node 1", "1 malformed", "20"]
    );
    stage.append(FILE, &"x\n".repeat(200));
    let words = told(&stage.look());
    assert_eq!(words.last().unwrap(), "gone: its file is not a probe's");
    assert_eq!(words.len(), 101);
    // What only the front may say is a forgery.
    let forged = r#"{"seq":9,"ns":1,"event":"exited","run":1,"exit":{"code":0}}"#;
    stage.append("1-gpu-4-7-1.jsonl", &format!("{HELLO}\n{forged}\n"));
    assert_eq!(told(&stage.look()).last().unwrap(), "1 malformed");
}

#[test]
fn the_marker_is_touched_while_the_session_lives() {
    let mut stage = stage();
    stage.append("session", "{}");
    let marker = stage.directory.path().join("session");
    let old = SystemTime::UNIX_EPOCH;
    let times = fs::FileTimes::new().set_modified(old);
    File::options()
        .write(true)
        .open(&marker)
        .unwrap()
        .set_times(times)
        .unwrap();
    stage.look();
    assert!(fs::metadata(&marker).unwrap().modified().unwrap() > old);
    assert_ne!(stage.reader.clock.now(), Moment::ZERO);
}

#[test]
fn a_directory_that_hangs_is_told_of_once_and_so_is_its_answer() {
    let mut watch = HangWatch {
        directory: "/shared".into(),
        thread: Arc::default(),
        hangs: false,
    };
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

#[tokio::test]
async fn a_directory_that_hangs_is_an_event_of_its_own() {
    let hangs = HangWatch {
        directory: "/shared".into(),
        thread: Arc::default(),
        hangs: false,
    };
    let thread = Arc::clone(&hangs.thread);
    thread.look(Instant::now().checked_sub(PATIENCE));
    let (sender, mut events) = tokio::sync::mpsc::channel(1);
    tokio::spawn(hangs.tell(Clock::start(), sender));
    let told = events.recv().await.expect("an event").what;
    let EventKind::Note(note) = told else {
        panic!("{told:?}");
    };
    assert!(note.text.contains("/shared has not answered for 10 s"));
    thread.ended.store(true, Ordering::Relaxed);
}
