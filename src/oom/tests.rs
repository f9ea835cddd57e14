//! Helpers for tests: a text in, the reports out.

use crate::oom::report::OomReport;
use crate::oom::scanner::Scanner;
use crate::units::Bytes;

/// What a live scanner reports of `text`.
pub(super) fn reports(text: &str) -> Vec<OomReport> {
    reports_in_chunks(text.as_bytes(), usize::MAX)
}

/// The same, fed in chunks of `length`.
pub(super) fn reports_in_chunks(text: &[u8], length: usize) -> Vec<OomReport> {
    let mut reports = Vec::new();
    let mut scanner = Scanner::new();
    for chunk in text.chunks(length.max(1)) {
        scanner.feed(chunk, &mut |report| reports.push(report));
    }
    scanner.finish(&mut |report| reports.push(report));
    reports
}

/// The one report of `text`, without its line number.
#[track_caller]
pub(super) fn one(text: &str) -> OomReport {
    let mut found = reports(text);
    assert_eq!(found.len(), 1, "{text}\n{found:#?}");
    OomReport {
        line: 0,
        ..found.remove(0)
    }
}

/// No report of `text`.
#[track_caller]
pub(super) fn none(text: &str) {
    let found = reports(text);
    assert!(found.is_empty(), "{text}\n{found:#?}");
}

/// `size("1.50 GiB")`, a figure as the fixtures have it.
#[track_caller]
pub(super) fn size(figure: &str) -> Option<Bytes> {
    Some(Bytes::parse(figure).expect("a fixture's figure"))
}
