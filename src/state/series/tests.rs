//! What a series keeps, and what it may forget.

use super::*;
use proptest::prelude::*;

fn seconds(at: f64) -> Moment {
    Moment::from_secs_f64(at)
}

fn drawn(series: &Series, from: f64, to: f64, columns: usize) -> Vec<Option<(u64, u64, u64)>> {
    series
        .columns(seconds(from), seconds(to), columns)
        .into_iter()
        .map(|column| column.map(|b| (b.min.0, b.max.0, b.last.0)))
        .collect()
}

#[test]
fn a_value_holds_until_the_next_one_or_a_gap() {
    let mut series = Series::default();
    series.push(seconds(1.0), Bytes(5));
    series.push(seconds(3.0), Bytes(7));
    series.gap(seconds(5.0));
    series.push(seconds(7.0), Bytes(2));
    assert_eq!(
        drawn(&series, 0.0, 8.0, 8),
        [
            None,
            Some((5, 5, 5)),
            Some((5, 5, 5)),
            Some((7, 7, 7)),
            Some((7, 7, 7)),
            None,
            None,
            Some((2, 2, 2)),
        ]
    );
    assert_eq!(series.value_at(seconds(0.5)), None);
    assert_eq!(series.value_at(seconds(4.9)), Some(Bytes(7)));
    assert_eq!(series.value_at(seconds(5.5)), None);
    assert_eq!(series.current(), Some(Bytes(2)));
    series.gap(seconds(9.0));
    assert_eq!(series.current(), None);
    assert_eq!(series.last(), Some((seconds(7.0), Bytes(2))));
}

#[test]
fn a_column_of_many_values_has_their_range() {
    let mut series = Series::default();
    for (at, value) in [(0.0, 10), (1.1, 90), (1.2, 10), (2.5, 20)] {
        series.push(seconds(at), Bytes(value));
    }
    assert_eq!(
        drawn(&series, 0.0, 4.0, 4),
        [
            Some((10, 10, 10)),
            Some((10, 90, 10)),
            Some((10, 20, 20)),
            Some((20, 20, 20)),
        ]
    );
    assert_eq!(
        series.max_between(seconds(1.15), seconds(1.3)),
        Some(Bytes(90))
    );
    assert_eq!(
        series.max_between(seconds(1.3), seconds(9.0)),
        Some(Bytes(20))
    );
    assert_eq!(series.columns(seconds(4.0), seconds(4.0), 3), [None; 3]);
    assert_eq!(series.columns(seconds(0.0), seconds(4.0), 0), []);
}

#[test]
fn an_earlier_value_counts_as_of_the_latest_instant() {
    let mut series = Series::default();
    series.push(seconds(5.0), Bytes(1));
    series.push(seconds(3.0), Bytes(2));
    assert_eq!(series.last(), Some((seconds(5.0), Bytes(2))));
    assert_eq!(series.value_at(seconds(4.0)), None);
}

/// A week at 10 Hz with one sample of a peak on each day and a gap of an hour on the fourth.
fn a_week() -> Series {
    let mut series = Series::default();
    let day = 86_400.0;
    for i in 0..7 * 864_000u64 {
        let at = i as f64 / 10.0;
        let in_gap = (3.5 * day..3.5 * day + 3_600.0).contains(&at);
        let peak = i % 864_000 == 432_000 / 2;
        match (in_gap, peak) {
            (true, _) => series.gap(seconds(at)),
            (false, true) => series.push(seconds(at), Bytes(1_000_000 + i)),
            (false, false) => series.push(seconds(at), Bytes(1_000 + i % 97)),
        }
    }
    series
}

#[test]
fn a_week_stays_small_and_keeps_its_peaks_and_its_gap() {
    let series = a_week();
    assert!(series.footprint() < 300_000, "{} bytes", series.footprint());
    let week = seconds(7.0 * 86_400.0);
    let columns = series.columns(Moment::ZERO, week, 200);
    let peaks = columns
        .iter()
        .flatten()
        .filter(|column| column.max >= Bytes(1_000_000))
        .count();
    // A peak whose bucket lies across two columns is seen in both.
    assert!((7..=14).contains(&peaks), "{peaks} columns with a peak");
    assert_eq!(columns.iter().filter(|column| column.is_none()).count(), 1);
    assert_eq!(
        series.max_between(Moment::ZERO, week),
        Some(Bytes(1_000_000 + 6 * 864_000 + 216_000))
    );
    // The last ten minutes are exact.
    assert_eq!(
        series.value_at(seconds(7.0 * 86_400.0 - 500.0)),
        Some(Bytes(1_000 + (6_048_000 - 5_000) % 97))
    );
}

#[test]
fn thinned_it_keeps_range_gaps_and_the_latest() {
    let mut series = Series::default();
    for i in 0..3_000u64 {
        match i {
            1_000..2_000 => series.gap(seconds(i as f64)),
            _ => series.push(seconds(i as f64), Bytes(i % 500)),
        }
    }
    let last = series.last();
    series.thin(64);
    assert!(series.cells.len() <= 64 && series.exact.is_empty());
    assert_eq!(series.last(), last);
    assert_eq!(
        series.max_between(Moment::ZERO, seconds(900.0)),
        Some(Bytes(499))
    );
    let columns = drawn(&series, 0.0, 3_000.0, 6);
    let gaps: Vec<bool> = columns.iter().map(Option::is_none).collect();
    assert_eq!(gaps, [false, false, true, true, false, false]);
    // It can go on all the same.
    series.push(seconds(4_000.0), Bytes(7));
    assert_eq!(series.value_at(seconds(4_001.0)), Some(Bytes(7)));
}

/// What a series should say, second by second, from a list of what happened: the value that
/// holds at each instant, and each value that came at it.
fn oracle(happened: &[(u64, Option<u64>)], from: u64, to: u64) -> Option<(u64, u64, u64)> {
    let mut values: Vec<u64> = Vec::new();
    let before = happened.iter().rfind(|(at, _)| *at < from);
    let at_from = happened.iter().any(|(at, _)| *at == from);
    if let Some((_, Some(value))) = before
        && !at_from
    {
        values.push(*value);
    }
    let inside = happened.iter().filter(|(at, _)| (from..to).contains(at));
    values.extend(inside.filter_map(|(_, value)| *value));
    let (min, max) = (values.iter().min()?, values.iter().max()?);
    Some((*min, *max, *values.last()?))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn columns_are_what_a_slow_reading_says(
        steps in proptest::collection::vec((0..4u64, proptest::option::of(0..9u64)), 0..60),
        from in 0..50u64,
        columns in 1..20usize,
        width in 1..5u64,
    ) {
        let mut series = Series::default();
        let mut happened = Vec::new();
        let mut at = 0;
        for (later, value) in steps {
            at += later;
            // A value that is repeated is no change.
            if happened.last().map(|(_, last)| *last) != Some(value) {
                happened.push((at, value));
            }
            match value {
                Some(value) => series.push(Moment(at), Bytes(value)),
                None => series.gap(Moment(at)),
            }
        }
        let to = from + width * columns as u64;
        let drawn = series.columns(Moment(from), Moment(to), columns);
        for (i, column) in drawn.into_iter().enumerate() {
            let begin = from + width * i as u64;
            prop_assert_eq!(
                column.map(|b| (b.min.0, b.max.0, b.last.0)),
                oracle(&happened, begin, begin + width),
                "column {} of {:?}", i, happened
            );
        }
    }

    #[test]
    fn old_values_lose_neither_their_range_nor_their_place(
        values in proptest::collection::vec((1..900_000u64, 0..1_000u64), 1..400),
        buckets in 2..64usize,
    ) {
        let (mut exact, mut at) = (Series::default(), 0);
        for (later, value) in &values {
            at += later;
            exact.push(Moment(at), Bytes(*value));
        }
        let mut thinned = exact.clone();
        thinned.thin(buckets);
        prop_assert!(thinned.cells.len() <= buckets);
        let to = Moment(at + 1);
        let (a, b) = (exact.columns(Moment::ZERO, to, 7), thinned.columns(Moment::ZERO, to, 7));
        for (exact, thinned) in a.into_iter().zip(b) {
            // Coarser at most: whatever was there is within what is shown.
            if let Some(exact) = exact {
                let shown = thinned.expect("nothing known is lost");
                prop_assert!(shown.min <= exact.min && exact.max <= shown.max);
            }
        }
        prop_assert_eq!(exact.last(), thinned.last());
    }
}
