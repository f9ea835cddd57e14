//! What a command would need at other batch sizes: as a table to read, and as JSON.

use crate::document::text::{TextLayout, lines};
use crate::document::{DocumentBlock, Figure};
use crate::forecast::{BatchRoom, Estimate, Progress};
use crate::units::Bytes;
use serde_json::{Value, json};

/// What one batch needs: the allocated peak, and what the allocator must be able to reserve for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BatchNeed {
    Unknown,
    AtLeast(Bytes),
    Within {
        peak: Estimate,
        needs: Estimate,
    },
    /// By the step that ran out of memory, which came this far.
    Extrapolated {
        peak: Estimate,
        needs: Estimate,
        progress: Progress,
    },
}

#[derive(Debug)]
pub struct PredictedBatches {
    /// For display.
    pub command: String,
    /// Each batch that was asked for.
    pub needs: Vec<(u64, BatchNeed)>,
    /// The sessions that it is predicted from.
    pub sources: Vec<String>,
    /// What PyTorch could reserve on the GPU that was recorded last, if nobody else uses it; no more than a limit that it had.
    pub room: Option<Bytes>,
    /// Whether that is a limit.
    pub is_limited: bool,
    /// What the recorded runs came to: "run 1, batch 8, ran out of memory".
    pub ran: Vec<String>,
    /// How far the batch of the last recorded run could have gone, and whether its steps show that.
    pub larger: Option<(BatchRoom, bool)>,
    /// Why nothing is known, where that is so.
    pub why_unknown: String,
}

impl PredictedBatches {
    /// Whether anything is known.
    pub fn is_known(&self) -> bool {
        let is_known = |need: &(u64, BatchNeed)| need.1 != BatchNeed::Unknown;
        self.needs.iter().any(is_known)
    }

    /// A line of JSON for each batch.
    pub fn json_lines(&self) -> String {
        let each = self
            .needs
            .iter()
            .map(|(batch, need)| self.json(*batch, need));
        each.map(|line| format!("{line}\n")).collect()
    }

    fn json(&self, batch: u64, need: &BatchNeed) -> Value {
        match need {
            BatchNeed::Within { peak, needs } => {
                json!({"version": 1, "batch": batch, "peak": peak, "needs": needs, "verdict": self.verdict(batch, *needs, false)})
            }
            BatchNeed::AtLeast(least) => json!({"version": 1, "batch": batch, "at_least": least}),
            BatchNeed::Extrapolated {
                peak,
                needs,
                progress,
            } => {
                json!({"version": 1, "batch": batch, "peak": peak, "needs": needs, "reckoned": progress, "verdict": self.verdict(batch, *needs, true)})
            }
            BatchNeed::Unknown => {
                json!({"version": 1, "batch": batch, "unknown": self.why_unknown})
            }
        }
    }

    /// A row for each batch: what it needs, and whether that fits.
    pub fn text(&self) -> String {
        if !self.is_known() {
            return String::new();
        }
        let rows = (self.needs.iter())
            .map(|(batch, need)| Figure::new(format!("batch {batch}"), self.row(*batch, need)));
        let from = match self.sources.as_slice() {
            [one] => format!("predicted from session {one}"),
            several => format!("predicted from sessions {}", several.join(", ")),
        };
        let room = self
            .room
            .map_or(String::new(), |room| match self.is_limited {
                true => format!("; it ran with a memory limit of {room}"),
                false => format!("; PyTorch can have {room} of the GPU that it ran on"),
            });
        let mut blocks = vec![
            DocumentBlock::heading(self.command.as_str()),
            DocumentBlock::Table(rows.collect()),
            DocumentBlock::detail(format!("{from}{room}")),
        ];
        if !self.ran.is_empty() {
            blocks.push(DocumentBlock::detail(self.ran.join("; ")));
        }
        let has_partial =
            |need: &(u64, BatchNeed)| matches!(need.1, BatchNeed::Extrapolated { .. });
        if self.needs.iter().any(has_partial) {
            let words = "likely: no whole step was seen, so the rest of it is estimated";
            blocks.push(DocumentBlock::detail(words));
        }
        let text: String = lines(&blocks, TextLayout::Parts)
            .iter()
            .map(|line| format!("{line}\n"))
            .collect();
        text.trim_start_matches('\n').into()
    }

    fn row(&self, batch: u64, need: &BatchNeed) -> String {
        let (peak, needs, is_partial) = match need {
            BatchNeed::Unknown => return format!("unknown: {}", self.why_unknown),
            BatchNeed::AtLeast(least) => {
                let beyond = self.room.is_some_and(|room| *least > room);
                let verdict = if beyond { ", won't fit" } else { "" };
                return format!("needs at least {least}{verdict}");
            }
            BatchNeed::Within { peak, needs } => (peak, needs, false),
            BatchNeed::Extrapolated { peak, needs, .. } => (peak, needs, true),
        };
        let verdict = self.verdict(batch, *needs, is_partial);
        let verdict = verdict.map_or(String::new(), |verdict| format!(", {verdict}"));
        format!(
            "needs {}{verdict}; peak {} allocated",
            needs.shown(),
            peak.shown()
        )
    }

    /// Whether a batch fits, where it is known what PyTorch can have; of one that the recorded run showed to, as its report
    /// says it.
    fn verdict(&self, batch: u64, needs: Estimate, is_partial: bool) -> Option<&'static str> {
        let room = self.room?;
        let larger = self
            .larger
            .filter(|(room, _)| (room.now + 1..=room.could).contains(&batch));
        Some(match larger {
            _ if needs.low > room => "won't fit",
            Some((_, true)) => "would fit",
            Some((_, false)) => "may fit",
            None if needs.likely > room => "likely won't fit",
            None if needs.high > room => "may not fit",
            None if is_partial => "likely fits",
            None => "fits",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::RoomBasis;

    fn around(gib: f64) -> Estimate {
        let of = |factor: f64| Bytes((gib * factor * f64::from(1 << 30)) as u64);
        Estimate::new(of(0.95), of(1.0), of(1.1))
    }

    fn within(gib: f64) -> BatchNeed {
        BatchNeed::Within {
            peak: around(gib),
            needs: around(gib + 0.5),
        }
    }

    #[test]
    fn a_row_says_what_a_batch_needs_and_whether_that_fits() {
        let said = PredictedBatches {
            command: "python train.py --batch-size 8".into(),
            needs: vec![
                (8, within(10.0)),
                (16, within(21.5)),
                (24, within(25.0)),
                (32, BatchNeed::AtLeast(Bytes::gib(30))),
            ],
            sources: vec!["20260301-090000-python".into()],
            room: Some(Bytes::gib(23)),
            is_limited: false,
            ran: Vec::new(),
            larger: None,
            why_unknown: String::new(),
        };
        assert_eq!(
            said.text(),
            "python train.py --batch-size 8:\n  \
             batch 8         needs 10.5 GiB (10.0–11.5), fits; peak 10.0 GiB (9.5–11.0) allocated\n  \
             batch 16        needs 22.0 GiB (20.9–24.2), may not fit; peak 21.5 GiB (20.4–23.6) allocated\n  \
             batch 24        needs 25.5 GiB (24.2–28.0), won't fit; peak 25.0 GiB (23.8–27.5) allocated\n  \
             batch 32        needs at least 30.0 GiB, won't fit\n  \
             predicted from session 20260301-090000-python; PyTorch can have 23.0 GiB of the GPU that it ran on\n"
        );
        assert_eq!(said.json_lines().lines().count(), 4);
        // What the screen and the report say of the run stands here too.
        let larger = BatchRoom {
            now: 8,
            could: 16,
            basis: RoomBasis::Peaks,
            is_alone: false,
            parts: 1,
        };
        for (is_shown, words) in [(true, "would fit"), (false, "may fit")] {
            let said = PredictedBatches {
                needs: said.needs.clone(),
                larger: Some((larger, is_shown)),
                command: said.command.clone(),
                sources: Vec::new(),
                room: said.room,
                is_limited: false,
                ran: Vec::new(),
                why_unknown: String::new(),
            };
            let text = said.text();
            let row = |batch: &str| text.lines().find(|line| line.contains(batch)).unwrap();
            assert!(
                row("batch 16").contains(&format!("(20.9–24.2), {words};")),
                "{text}"
            );
            assert!(row("batch 8 ").contains(", fits;"), "{text}");
            let of_16 = format!("\"verdict\":\"{words}\"");
            assert!(
                said.json_lines()
                    .lines()
                    .any(|line| line.contains("\"batch\":16") && line.contains(&of_16)),
                "{}",
                said.json_lines()
            );
            assert!(row("batch 24").contains(", won't fit;"), "{text}");
        }
        let limited = PredictedBatches {
            needs: vec![(8, within(10.0))],
            room: Some(Bytes::gib(8)),
            is_limited: true,
            ran: vec!["run 1, batch 8, ran out of memory".into()],
            command: said.command.clone(),
            sources: said.sources.clone(),
            larger: None,
            why_unknown: String::new(),
        };
        let text = limited.text();
        assert!(text.contains("won't fit"), "{text}");
        assert!(
            text.ends_with(
                "; it ran with a memory limit of 8.00 GiB\n  run 1, batch 8, ran out of memory\n"
            ),
            "{text}"
        );
        let nothing = PredictedBatches {
            needs: vec![(8, BatchNeed::Unknown)],
            why_unknown: "no run is recorded".into(),
            ..said
        };
        assert_eq!(nothing.text(), "");
        assert_eq!(
            nothing.json_lines(),
            "{\"batch\":8,\"unknown\":\"no run is recorded\",\"version\":1}\n"
        );
    }
}
