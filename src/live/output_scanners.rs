//! Finds OOMs, epochs and the losses of the first steps in the program's output. Each stream has its own scanner, so that a line of
//! one doesn't complete a line of another.

use crate::epoch;
use crate::event::{Consequence, Epoch, EventKind, PrintedLoss};
use crate::oom::{ConsequenceKind, ConsequenceLines, ErrorLines, LastError, Scanner};
use crate::supervise::OutputStream;
use crate::units::{Moment, Rank};
use std::collections::BTreeMap;
use std::time::Duration;

/// A consequence of one kind is told once a rank within this time.
const AGAIN: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct OutputScanners {
    // Made when a stream says something: building their expressions takes longer than the command's start.
    terminal: Option<StreamScanner>,
    out: Option<StreamScanner>,
    err: Option<StreamScanner>,
    /// Of all streams together.
    epochs: epoch::Count,
    losses: epoch::FirstLosses,
    consequences: BTreeMap<(ConsequenceKind, Option<Rank>), Moment>,
    /// Whether one of them had an out-of-memory message.
    has_oom: bool,
}

#[derive(Default)]
struct StreamScanner {
    ooms: Scanner,
    epochs: epoch::EpochLines,
    losses: epoch::LossLines,
    consequences: ConsequenceLines,
    errors: ErrorLines,
}

impl OutputScanners {
    pub(crate) fn feed(
        &mut self,
        stream: OutputStream,
        bytes: &[u8],
        at: Moment,
    ) -> Vec<EventKind> {
        let scanner = match stream {
            OutputStream::Terminal => &mut self.terminal,
            OutputStream::Out => &mut self.out,
            OutputStream::Err => &mut self.err,
        };
        let scanner = scanner.get_or_insert_default();
        let mut found = Vec::new();
        let count = &mut self.epochs;
        let mut report = |report| found.push(EventKind::OomText(report));
        scanner.ooms.feed(bytes, &mut report);
        self.has_oom |= !found.is_empty();
        scanner.errors.feed(bytes);
        scanner.epochs.feed(bytes, &mut |told| {
            let number = count.take(told, at);
            found.extend(number.map(|number| EventKind::Epoch(Epoch { number })));
        });
        let first = &mut self.losses;
        if !first.is_over() {
            scanner.losses.feed(bytes, &mut |mention| {
                found.extend(printed(first, mention));
            });
        }
        let told = &mut self.consequences;
        scanner.consequences.feed(bytes, &mut |mention| {
            found.extend(once(told, mention, at));
        });
        found
    }

    /// At the run's end: what its last line says.
    pub(crate) fn finish(&mut self, at: Moment) -> Vec<EventKind> {
        let mut found = Vec::new();
        let OutputScanners {
            terminal,
            out,
            err,
            epochs: mut count,
            losses: mut first,
            consequences: mut told,
            mut has_oom,
        } = std::mem::take(self);
        // Where a Python that fails says why: on stderr, whatever stands in what it prints.
        let mut decisive = None;
        for mut scanner in [terminal, out, err].into_iter().flatten() {
            let mut report = |report| {
                has_oom = true;
                found.push(EventKind::OomText(report));
            };
            scanner.ooms.finish(&mut report);
            decisive = scanner.errors.finish().or(decisive);
            scanner.epochs.finish(&mut |told| {
                let number = count.take(told, at);
                found.extend(number.map(|number| EventKind::Epoch(Epoch { number })));
            });
            scanner.losses.finish(&mut |mention| {
                found.extend(printed(&mut first, mention));
            });
            scanner.consequences.finish(&mut |mention| {
                found.extend(once(&mut told, mention, at));
            });
        }
        if has_oom && decisive == Some(LastError::Other) {
            let kind = ConsequenceKind::AnotherError;
            found.push(EventKind::Consequence(Consequence { kind, rank: None }));
        }
        found
    }

    /// Scans output from before this front for OOMs. The time of its epochs is unknown, so they count from
    /// the next one on.
    pub(crate) fn catch_up(
        &mut self,
        recent: &[u8],
        mut latest_epoch: Option<u64>,
        losses: &[PrintedLoss],
    ) -> Vec<EventKind> {
        let mut found = Vec::new();
        let scanner = self.terminal.get_or_insert_default();
        let mut report = |report| found.push(EventKind::OomText(report));
        scanner.ooms.feed(recent, &mut report);
        scanner
            .epochs
            .feed(recent, &mut |told| latest_epoch = Some(told.number));
        self.epochs = epoch::Count::from(latest_epoch);
        self.losses = epoch::FirstLosses::from(losses.iter().map(|printed| printed.step.clone()));
        found
    }
}

fn printed(first: &mut epoch::FirstLosses, mention: epoch::LossMention) -> Option<EventKind> {
    let is_news = first.take(&mention);
    let epoch::LossMention { step, loss } = mention;
    is_news.then_some(EventKind::PrintedLoss(PrintedLoss { step, loss }))
}

/// A mention as an event, unless it was told a moment ago.
fn once(
    told: &mut BTreeMap<(ConsequenceKind, Option<Rank>), Moment>,
    (kind, rank): (ConsequenceKind, Option<Rank>),
    at: Moment,
) -> Option<EventKind> {
    let before = told.get(&(kind, rank));
    if before.is_some_and(|before| at.since(*before) < AGAIN) {
        return None;
    }
    told.insert((kind, rank), at);
    Some(EventKind::Consequence(Consequence { kind, rank }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OOM: &str = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    x = torch.empty(9)\n\
                       torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";
    const OTHER: &str = "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    d['val']\n\
                         KeyError: 'val'\n";

    /// Whether a program with this output ended for another reason.
    fn has_another_error(out: &str, err: &str) -> bool {
        let mut scanners = OutputScanners::default();
        scanners.feed(OutputStream::Out, out.as_bytes(), Moment::ZERO);
        scanners.feed(OutputStream::Err, err.as_bytes(), Moment::ZERO);
        let found = scanners.finish(Moment::ZERO);
        found.iter().any(|event| match event {
            EventKind::Consequence(told) => told.kind == ConsequenceKind::AnotherError,
            _ => false,
        })
    }

    #[test]
    fn a_program_says_on_stderr_what_has_ended_it() {
        assert!(has_another_error(OOM, OTHER), "another's log is followed");
        assert!(!has_another_error(OTHER, OOM));
        assert!(!has_another_error(OOM, ""));
        assert!(!has_another_error(OTHER, ""), "no OOM at all");
    }
}
