//! What weeks of a recording cost, without the weeks: time is in the events.

use super::super::journal::Journal;
use super::super::limits::Limits;
use super::super::line::RecordLine;
use super::{device, exited, note, oom, sample, step};
use crate::event::Event;

/// What the journal would have put on the disk.
#[derive(Default)]
struct Disk {
    main: u64,
    generations: [u64; 2],
    most: u64,
    lines: u64,
}

impl Disk {
    fn take(&mut self, journal: &mut Journal, event: &Event) {
        let batch = journal.accept(event).unwrap();
        let cost = |lines: &[RecordLine]| lines.iter().map(|line| line.cost().0).sum::<u64>();
        self.main += cost(&batch.main);
        self.lines += batch.main.len() as u64;
        if batch.rotate {
            self.generations = [0, self.generations[0]];
        }
        self.generations[0] += cost(&batch.recent);
        self.most = self.most.max(self.generations.iter().sum());
    }
}

/// `ranks` ranks that sample, step and have a device each, `every` seconds, from `from` to `to`.
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
    // What a bucket costs does not depend on how many readings it saw: the week is sampled
    // seldom, and then for two minutes at the real 10 Hz.
    let mut journal = Journal::new(Limits::default());
    let mut disk = Disk::default();
    let mut before = 0;
    for day in 0..7 {
        let from = f64::from(day) * DAY;
        train(&mut disk, &mut journal, 8, 60.0, from, from + DAY);
        assert!(
            disk.main - before + disk.most <= 50 * MB,
            "day {day}: {}",
            disk.main - before
        );
        before = disk.main;
    }
    assert!(
        disk.main > 30 * MB,
        "nor is it thinned for nothing: {}",
        disk.main
    );
    train(
        &mut disk,
        &mut journal,
        8,
        0.1,
        7.0 * DAY,
        7.0 * DAY + 120.0,
    );
    let limits = Limits::default();
    let recent = 2 * (limits.generation.0 + limits.bucket_held.0);
    assert!(
        disk.most > limits.generation.0 && disk.most <= recent,
        "{}",
        disk.most
    );
    assert!(disk.main - before < MB);
}

#[test]
fn an_hour_of_one_rank_is_kept_well() {
    let mut journal = Journal::new(Limits::default());
    let mut disk = Disk::default();
    train(&mut disk, &mut journal, 1, 0.2, 0.0, 3_600.0);
    assert!(disk.main < 10 * MB, "{}", disk.main);
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
    assert!(
        disk.main + disk.most <= 50 * MB,
        "{} + {}",
        disk.main,
        disk.most
    );
}

#[test]
fn a_flood_of_notes_is_cut_and_said_and_what_counts_goes_on() {
    let mut journal = Journal::new(Limits::default());
    let mut main: Vec<RecordLine> = Vec::new();
    for i in 0..30_000 {
        let flood = note(f64::from(i) / 100.0, &"the same trouble again ".repeat(5));
        main.extend(journal.accept(&flood).unwrap().main);
    }
    main.extend(journal.accept(&exited(1_001.0)).unwrap().main);
    main.extend(journal.finish().main);
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
