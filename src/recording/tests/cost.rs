//! The size of recordings of weeks, simulated: time is in the events.

use super::super::journal::Journal;
use super::super::limits::Limits;
use super::{device, exited, note, oom, sample, started, step};
use crate::event::{
    Event, EventKind, HostMemory, HostProcess, HostRole, LoaderSettings, ProcessHost, RoleUse,
};
use crate::recording::journal::RecordLine;
use crate::units::{Bytes, Pid};

/// What the journal would have written.
#[derive(Default)]
struct Disk {
    bytes: u64,
    lines: u64,
}

impl Disk {
    fn take(&mut self, journal: &mut Journal, event: &Event) {
        self.write(journal.accept(event).unwrap());
    }

    fn write(&mut self, lines: Vec<RecordLine>) {
        self.bytes += lines.iter().map(|line| line.cost().0).sum::<u64>();
        self.lines += lines.len() as u64;
    }
}

/// `ranks` ranks that each sample, step and have a device, every `every` seconds, from `from` to
/// `to`.
fn train(disk: &mut Disk, journal: &mut Journal, ranks: i32, every: f64, from: f64, to: f64) {
    for i in 0..((to - from) / every) as u64 {
        let seconds = from + i as f64 * every;
        for rank in 0..ranks {
            let value = i.wrapping_mul(2_654_435_761) % 40_000_000_000;
            disk.take(journal, &sample(seconds, 100 + rank, value));
            disk.take(journal, &step(seconds, 100 + rank, i));
            disk.take(journal, &device(seconds, rank as u32, value));
        }
    }
}

const DAY: f64 = 86_400.0;
const MB: u64 = 1_000_000;

#[test]
fn a_week_of_eight_ranks_stays_under_fifty_megabytes_a_day() {
    // The size of a bucket does not depend on the number of readings: the week is sampled rarely,
    // then for two minutes at the real 10 Hz.
    let mut journal = Journal::new(Limits::default());
    let mut disk = Disk::default();
    let mut before = 0;
    for day in 0..7 {
        let from = f64::from(day) * DAY;
        train(&mut disk, &mut journal, 8, 60.0, from, from + DAY);
        let today = disk.bytes - before;
        assert!(today <= 50 * MB, "day {day}: {today}");
        before = disk.bytes;
    }
    assert!(
        disk.bytes > 30 * MB,
        "nor is it thinned for nothing: {}",
        disk.bytes
    );
    let week = 7.0 * DAY;
    train(&mut disk, &mut journal, 8, 0.1, week, week + 120.0);
    assert!(disk.bytes - before < MB);
    let before = disk.bytes;
    disk.write(journal.finish());
    let limits = Limits::default();
    let at_end = limits.before_oom_held.0 + limits.bucket_held.0;
    assert!(disk.bytes - before <= at_end, "the last minute in full");
}

#[test]
fn an_hour_of_one_rank_is_kept_well() {
    let mut journal = Journal::new(Limits::default());
    let mut disk = Disk::default();
    train(&mut disk, &mut journal, 1, 0.2, 0.0, 3_600.0);
    assert!(disk.bytes < 10 * MB, "{}", disk.bytes);
    // Three streams; a curve of an hour is drawn in hundreds of columns.
    assert!(disk.lines > 3 * 1_000, "{}", disk.lines);
}

#[test]
fn a_thousand_ranks_and_an_oom_in_every_step_stay_in_bounds() {
    let mut journal = Journal::new(Limits::default());
    let mut disk = Disk::default();
    for i in 0..60 {
        let from = f64::from(i) * 60.0;
        train(&mut disk, &mut journal, 1_000, 60.0, from, from + 60.0);
        for k in 0..200 {
            disk.take(&mut journal, &oom(from + f64::from(k) / 10.0));
        }
    }
    disk.write(journal.finish());
    assert!(disk.bytes <= 50 * MB, "{}", disk.bytes);
}

#[test]
fn a_flood_of_notes_is_cut_and_said_and_what_counts_goes_on() {
    let mut journal = Journal::new(Limits::default());
    let mut main: Vec<RecordLine> = Vec::new();
    for i in 0..30_000 {
        let flood = note(f64::from(i) / 100.0, &"the same trouble again ".repeat(5));
        main.extend(journal.accept(&flood).unwrap());
    }
    main.extend(journal.accept(&exited(1_001.0)).unwrap());
    main.extend(journal.finish());
    let cost: u64 = main.iter().map(|line| line.cost().0).sum();
    assert!(cost < 3 * MB, "{cost}");
    let text: Vec<u8> = main.iter().flat_map(RecordLine::text).copied().collect();
    let text = String::from_utf8(text).unwrap();
    let told: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("were not recorded"))
        .collect();
    assert!((1..4).contains(&told.len()), "{told:?}");
    assert!(text.contains("\"event\":\"exited\""));
}

/// A day of eight ranks, with an occasional peak, OOM, start and exit that must all be found again.
/// The size of a bucket does not depend on the number of readings, so most of the day has a reading
/// every ten seconds, and one minute has ten per second.
#[test]
fn a_day_of_eight_ranks_keeps_every_peak() {
    let mut journal = Journal::new(Limits::default());
    let (mut kept, mut bytes) = (Vec::new(), 0);
    let mut peaks = Vec::new();
    let mut seconds = 0.0;
    let mut n = 0u64;
    while seconds < DAY {
        let fast = (40_000.0..40_060.0).contains(&seconds);
        for rank in 0..8 {
            n += 1;
            let value = n.wrapping_mul(2_654_435_761) % 40_000_000_000;
            let mut sampled = sample(seconds, 100 + rank, value);
            if n.is_multiple_of(2_003) {
                let EventKind::Sample(sample) = &mut sampled.what else {
                    unreachable!()
                };
                sample.allocated = Bytes(50_000_000_000 + n);
                peaks.push(sampled.clone());
            }
            let mut stepped = step(seconds, 100 + rank, n);
            if n.is_multiple_of(2_503) {
                let EventKind::Step(step) = &mut stepped.what else {
                    unreachable!()
                };
                step.after.peak = Bytes(60_000_000_000 + n);
                peaks.push(stepped.clone());
            }
            let read = device(seconds, rank as u32, value);
            for event in [sampled, stepped, read] {
                take(&mut journal, &event, &mut bytes, &mut kept);
            }
        }
        if n.is_multiple_of(12_000) {
            for event in [oom(seconds), exited(seconds), started(seconds, &["python"])] {
                take(&mut journal, &event, &mut bytes, &mut kept);
                peaks.push(event);
            }
        }
        seconds += if fast { 0.1 } else { 10.0 };
    }
    let lost = peaks.iter().filter(|event| !kept.contains(event)).count();
    println!(
        "{bytes} bytes, {} of {} peaks and exact events lost",
        lost,
        peaks.len()
    );
    assert!(bytes < 50 * MB, "{bytes}");
    assert_eq!(lost, 0);
    assert!(peaks.len() > 30);
}

fn take(journal: &mut Journal, event: &Event, bytes: &mut u64, kept: &mut Vec<Event>) {
    let rare = |event: &Event| match &event.what {
        EventKind::Sample(sample) => sample.allocated > Bytes(50_000_000_000),
        EventKind::Step(step) => step.after.peak > Bytes(60_000_000_000),
        EventKind::Device(_) => false,
        _ => true,
    };
    for line in journal.accept(event).unwrap() {
        *bytes += line.cost().0;
        let text = line.text();
        // Ordinary readings are not searched for.
        if !text.windows(5).any(|part| part == b"\"used") || text.len() > 2_000 {
            let event: Event = serde_json::from_slice(text).unwrap();
            if rare(&event) {
                kept.push(event);
            }
        }
    }
}

/// A day in which the host's memory changes each second, near its limit, with 64 workers: within its budget, and what it came to is there.
#[test]
fn a_day_of_the_hosts_memory_is_two_megabytes_at_most() {
    let process = |pid| HostProcess {
        pid: Pid(pid),
        role: HostRole::LoaderWorker,
        name: "pt_data_worker".into(),
        resident: Bytes(5_123_456_789),
        shared: Bytes(123_456_789),
        own: Some(Bytes(4_123_456_789)),
        locked: None,
    };
    let role = |role, count| RoleUse {
        role,
        count,
        held: Bytes(23_123_456_789),
        exact: true,
        mapped: Bytes(213_123_456_789),
    };
    let reading = |n: u64| HostMemory {
        used: Bytes::gib(25 + n % 6),
        limit: Bytes::gib(32),
        cache: Some(Bytes(12_345_678_901)),
        shared: Some(Bytes(2_345_678_901)),
        pressure: Some(123),
        roles: vec![role(HostRole::LoaderWorker, 64), role(HostRole::Rank, 1)],
        processes: (0..6).map(|n| process(100_000 + n)).collect(),
        ..HostMemory::default()
    };
    // What an epoch's new workers are told as.
    let loader = LoaderSettings {
        workers: 64,
        prefetch: Some(2),
        batch: Some(256),
        pids: (0..64).map(|n| Pid(100_000 + n)).collect(),
        ..LoaderSettings::default()
    };
    let epoch = ProcessHost {
        pid: Pid(99_999),
        loaders: Some(vec![loader]),
        ..ProcessHost::default()
    };
    let mut journal = Journal::new(Limits::default());
    let mut disk = Disk::default();
    let (mut saved, mut epochs) = (0, 0);
    for n in 0..86_400 {
        let what = EventKind::HostMemory(Box::new(reading(n)));
        disk.take(&mut journal, &super::event(n as f64, what));
        if n % 300 == 0 {
            let what = EventKind::ProcessHost(Box::new(epoch.clone()));
            disk.take(&mut journal, &super::event(n as f64, what));
            epochs += 1;
        }
        saved += usize::from(journal.bucket_to_save().is_some());
    }
    assert!(disk.bytes <= 2 * MB, "{}", disk.bytes);
    assert!(disk.lines > 1_000, "{}", disk.lines);
    let unsaved = 86_400 + epochs - saved - disk.lines as usize;
    assert_eq!(
        unsaved, 0,
        "near the limit each one is on the disk within its second"
    );
    let lines = journal.accept(&exited(86_400.0)).unwrap();
    let told = lines
        .iter()
        .filter(|line| line.text().windows(11).any(|part| part == b"host_memory"));
    assert_eq!(told.count(), 1, "what it came to stands before the end");
}
