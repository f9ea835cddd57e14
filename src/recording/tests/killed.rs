//! What a killed front leaves, and how the next one continues.

use super::super::journal::Journal;
use super::super::*;
use super::{PATIENCE, all, device, exited, recorder, sample, step, wait_until};
use crate::event::Event;
use crate::recording::journal::RecordLine;
use crate::units::Moment;
use std::fs;
use std::time::Duration;

/// As left by a front of an earlier version: closed buckets and half a line.
#[test]
fn a_killed_front_leaves_the_last_minutes_and_the_next_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(RECORDING);
    let mut journal = Journal::new(Limits::default());
    let mut expected = Vec::new();
    let (mut main, mut beside) = (Vec::new(), Vec::new());
    for i in 0..300u32 {
        let event = sample(f64::from(i) / 10.0, 100, 1_000 + u64::from(i % 13));
        let lines = journal.accept(&event).unwrap();
        main.extend(lines.iter().flat_map(RecordLine::text).copied());
        beside.extend(RecordLine::new(&event, false).unwrap().text());
        expected.push(event);
    }
    assert!(!main.is_empty(), "buckets were closed on the way");
    let half = b"{\"at\":30000000,\"event\":\"sam";
    main.extend(half);
    beside.extend(half);
    fs::write(&path, &main).unwrap();
    fs::write(dir.path().join(format!("{RECORDING}.recent-0")), &beside).unwrap();
    assert!(all(&path) == expected);

    let mut recorder = Recorder::resume(&path, RecorderOptions::default()).unwrap();
    recorder.write(&exited(31.0));
    assert_eq!(recorder.finish(PATIENCE), Ok(()));
    expected.push(exited(31.0));
    let (events, errors): (Vec<_>, Vec<_>) = read(&path).unwrap().partition(Result::is_ok);
    let events: Vec<Event> = events.into_iter().map(Result::unwrap).collect();
    assert!(events == expected);
    assert_eq!(errors.len(), 1, "the half line, now between others");
}

#[test]
fn a_killed_front_loses_no_more_than_the_open_bucket() {
    let mut journal = Journal::new(Limits::default());
    let mut written = Moment::ZERO;
    for i in 0..600u32 {
        let event = sample(f64::from(i) / 10.0, 100, u64::from(i % 13));
        for line in journal.accept(&event).unwrap() {
            written = written.max(line.at);
        }
        assert!(event.at.since(written) <= Duration::from_secs(2));
    }
}

/// Eight ranks have buckets of more than a minute.
#[test]
fn a_killed_front_of_many_ranks_loses_seconds_and_the_next_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(RECORDING);
    let mut killed = recorder(&path);
    for i in 0..600u32 {
        let seconds = f64::from(i) / 10.0;
        for rank in 0..8 {
            killed.write(&sample(seconds, 100 + rank, u64::from(i % 13)));
            killed.write(&step(seconds, 100 + rank, i.into()));
            killed.write(&device(seconds, rank as u32, u64::from(i % 11)));
        }
        if i % 100 == 99 {
            let at = Moment::from_secs_f64(seconds);
            wait_until(|| {
                let newest = all(&path).last().map_or(Moment::ZERO, |event| event.at);
                at.since(newest) <= Duration::from_secs(11)
            });
        }
    }
    let before = all(&path);
    std::mem::forget(killed);

    let mut next = Recorder::resume(&path, RecorderOptions::default()).unwrap();
    next.write(&exited(61.0));
    assert_eq!(next.finish(PATIENCE), Ok(()));
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(
        names.len(),
        1,
        "its readings are in the recording: {names:?}"
    );
    let after = all(&path);
    assert!(before.iter().all(|event| after.contains(event)));
}
