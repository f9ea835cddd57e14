//! The log on disks that are slow, full or taken.

use super::*;
use crate::event::older_part;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn log(path: &Path, part: u64, retry: Duration) -> BackgroundWriter {
    start(path.to_path_buf(), part, retry).unwrap()
}

#[test]
fn parts_follow_one_another_and_nothing_is_lost_between_two() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("output.log");
    let log = log(&path, 1000, Duration::ZERO);
    let bytes: Vec<u8> = (0..1500u32).map(|n| (n % 251) as u8).collect();
    for piece in bytes.chunks(70) {
        log.push(piece);
    }
    log.close(Duration::from_secs(10));
    let mut whole = std::fs::read(older_part(&path)).unwrap();
    assert_eq!(whole.len(), 1000);
    whole.extend(std::fs::read(&path).unwrap());
    assert_eq!(whole, bytes);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_log_that_cannot_be_written_is_counted_and_taken_up_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("not/yet/output.log");
    let log = log(&path, PART, Duration::ZERO);
    let mut lost = 0;
    log.push(b"first");
    log.nudge();
    // The thread opens the file in its own time.
    let mut error = None;
    while lost == 0 {
        let news = log.news();
        lost += news.dropped;
        error = error.or(news.failed);
        std::thread::yield_now();
    }
    assert_eq!((lost, error.unwrap().kind()), (5, io::ErrorKind::NotFound));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    // What is pushed into a try that fails yet is missing like the first.
    while log.news().recovered.is_none() {
        std::thread::yield_now();
    }
    log.push(b"second");
    log.close(Duration::from_secs(10));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        format!("{}second", marker(5))
    );
}

#[test]
fn a_name_that_is_taken_means_no_log_and_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("output.log");
    let refused = |path: &Path, part| {
        let log = log(path, part, Duration::ZERO);
        log.push(&[b'x'; 100]);
        log.nudge();
        let why = loop {
            if let Some(why) = log.news().failed {
                break why;
            }
            std::thread::yield_now();
        };
        assert_eq!(why.kind(), io::ErrorKind::AlreadyExists);
        log.push(b"more");
        assert_eq!(
            log.news().dropped,
            0,
            "nothing is missing where nothing is kept"
        );
        log.close(Duration::from_secs(10));
    };
    for content in ["", "precious"] {
        std::fs::write(&path, content).unwrap();
        refused(&path, PART);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
    // Neither a device, nor what a link leads to.
    refused(Path::new("/dev/null"), PART);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(directory.path().join("new"), &link).unwrap();
    refused(&link, PART);
    assert!(!directory.path().join("new").exists());
    // The older part's name.
    let path = directory.path().join("other");
    std::fs::write(older_part(&path), "precious").unwrap();
    refused(&path, 50);
    assert_eq!(
        std::fs::read_to_string(older_part(&path)).unwrap(),
        "precious"
    );
    assert_eq!(std::fs::read(&path).unwrap(), [b'x'; 50]);
}

/// 53: a pipe that nobody reads stands in for a disk that never answers.
#[test]
fn a_write_that_blocks_for_ever_holds_up_nothing() {
    let (reading, writing) = nix::unistd::pipe().unwrap();
    let parts = LogParts::on(File::from(writing), "/dev/null/no".into(), PART);
    let log = of(parts, Duration::ZERO).unwrap();
    let mut lost = 0;
    for _ in 0..1000 {
        log.push(&[b'x'; 10_000]);
        log.nudge();
        lost += log.news().dropped;
    }
    assert!(lost > 10_000_000 - 2 * CAPACITY as u64, "{lost}");
    log.close(Duration::from_millis(10));
    // Now the thread's write fails, and it goes on.
    drop(reading);
}

#[test]
fn after_a_failure_our_own_file_is_taken_up_again_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("output.log");
    let mut parts = LogParts::new(path.clone(), 1 << 20);
    assert!(parts.write(b"one").is_ok());
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    parts.open = Some((full, 3));
    let (written, why) = parts.write(b"two").unwrap_err();
    assert_eq!((written, why.kind()), (0, io::ErrorKind::StorageFull));
    assert!(parts.write(b"three").is_ok());
    assert_eq!(std::fs::read(&path).unwrap(), b"onethree");
    // Deleted: made anew. Replaced by somebody else's: left alone.
    std::fs::remove_file(&path).unwrap();
    parts.open = None;
    assert!(parts.write(b"four").is_ok());
    assert_eq!(std::fs::read(&path).unwrap(), b"four");
    std::fs::rename(&path, directory.path().join("moved")).unwrap();
    std::fs::write(&path, "precious").unwrap();
    parts.open = None;
    let (_, why) = parts.write(b"five").unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

fn bytes(report: Option<KeeperReport>) -> Option<u64> {
    match report? {
        KeeperReport::Logged { bytes, .. } => Some(bytes.0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mark_a_second_and_one_after_each_pause() {
    let began = Instant::now();
    let at = |millis| began + Duration::from_millis(millis);
    let mut marks = LogMarks::default();
    assert_eq!(marks.due(), None);
    assert_eq!(bytes(marks.given(10, at(0))), Some(0));
    assert_eq!(bytes(marks.given(10, at(500))), None);
    assert_eq!(marks.due(), Some(at(1_000)));
    assert_eq!(bytes(marks.rest(at(1_000))), Some(20));
    assert_eq!((marks.due(), bytes(marks.rest(at(1_000)))), (None, None));
    // It goes on soon, and after a pause.
    assert_eq!(bytes(marks.given(5, at(1_200))), None);
    assert_eq!(bytes(marks.rest(at(2_000))), Some(25));
    assert_eq!(bytes(marks.given(5, at(9_000))), Some(25));
    assert_eq!(marks.due(), Some(at(10_000)));
    assert_eq!(bytes(marks.rest(at(9_500))), Some(30));
}

#[test]
fn one_return_is_taken_from_each_newline_wherever_the_pieces_end() {
    let wrote = b"a\nb\r\n\r\r\n\n10%\r20%\rend\r";
    let terminal: Vec<u8> = wrote
        .iter()
        .flat_map(|byte| match byte {
            b'\n' => vec![b'\r', b'\n'],
            byte => vec![*byte],
        })
        .collect();
    for size in 1..terminal.len() {
        let mut ends = LineEnds::default();
        let mut log = Vec::new();
        for piece in terminal.chunks(size) {
            log.extend_from_slice(&ends.undo(piece, true));
        }
        log.extend_from_slice(ends.end());
        assert_eq!(log, wrote, "pieces of {size}");
    }
    let mut ends = LineEnds::default();
    assert_eq!(ends.undo(b"raw\r\n", false).as_ref(), b"raw\r\n");
}
