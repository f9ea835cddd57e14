//! Drops repetitions: programs print a message several times (a logger, the traceback, the
//! traceback of a consequence, the launcher).

use super::report::OomReport;
use std::collections::VecDeque;

/// Further apart, the same figures are another OOM: a program may catch one in every epoch.
const WINDOW_LINES: u64 = 1_000;

/// Messages remembered: enough for all ranks of a node.
const MOST: usize = 128;

#[derive(Debug, Default)]
pub(super) struct RecentReports {
    reports: VecDeque<OomReport>,
}

impl RecentReports {
    /// Whether `report` repeats a message; it is remembered in any case.
    pub(super) fn repeats(&mut self, report: &OomReport) -> bool {
        let known = self.reports.iter_mut().find(|known| {
            report.line.saturating_sub(known.line) <= WINDOW_LINES && is_part_of(report, known)
        });
        if let Some(known) = known {
            known.line = report.line;
            return true;
        }
        if self.reports.len() == MOST {
            self.reports.pop_front();
        }
        self.reports.push_back(report.clone());
        false
    }
}

/// Whether `known` says all that `report` says.
fn is_part_of(report: &OomReport, known: &OomReport) -> bool {
    fn within<T: PartialEq>(part: &Option<T>, whole: &Option<T>) -> bool {
        part.is_none() || part == whole
    }
    let mut sizes = report.sizes().into_iter().zip(known.sizes());
    report.kind == known.kind
        && (within(&report.rank, &known.rank) || known.rank.is_none())
        && within(&report.device, &known.device)
        && sizes.all(|(part, whole)| within(&part, &whole))
        && (report.others.is_empty() || report.others == known.others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::OomKind;
    use crate::units::{Bytes, Rank};

    fn report(line: u64, rank: Option<u32>, requested: Option<u64>) -> OomReport {
        OomReport {
            line,
            rank: rank.map(Rank),
            requested: requested.map(Bytes::mib),
            ..OomReport::default()
        }
    }

    #[test]
    fn the_same_figures_are_one_message() {
        let mut seen = RecentReports::default();
        assert!(!seen.repeats(&report(1, None, Some(20))));
        assert!(seen.repeats(&report(2, None, Some(20))));
        assert!(
            seen.repeats(&report(3, Some(0), Some(20))),
            "the launcher's copy"
        );
        assert!(seen.repeats(&report(4, None, None)), "the class alone");
        assert!(!seen.repeats(&report(5, None, Some(22))));
        let other = OomReport {
            kind: OomKind::Nccl,
            ..report(6, None, None)
        };
        assert!(!seen.repeats(&other));
    }

    #[test]
    fn two_ranks_are_two_messages() {
        let mut seen = RecentReports::default();
        assert!(!seen.repeats(&report(1, Some(0), Some(20))));
        assert!(!seen.repeats(&report(2, Some(1), Some(20))));
        assert!(seen.repeats(&report(3, Some(1), Some(20))));
        assert!(seen.repeats(&report(4, None, Some(20))));
    }

    #[test]
    fn long_after_it_is_another_event() {
        let mut seen = RecentReports::default();
        assert!(!seen.repeats(&report(1, None, Some(20))));
        assert!(seen.repeats(&report(900, None, Some(20))));
        assert!(seen.repeats(&report(1_800, None, Some(20))));
        assert!(!seen.repeats(&report(2_801, None, Some(20))));
    }

    #[test]
    fn memory_is_bounded() {
        let mut seen = RecentReports::default();
        for size in 0..10_000 {
            seen.repeats(&report(1, None, Some(size)));
        }
        assert_eq!(seen.reports.len(), MOST);
    }
}
