//! Bytes to rows of a chart, in eighths of a row, and the round numbers beside it.

use crate::units::Bytes;

/// Steps between the numbers of the axis, in GiB: round ones and powers of two.
const STEPS: [f64; 23] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 8.0, 10.0, 20.0, 25.0, 40.0, 50.0,
    100.0, 200.0, 250.0, 500.0, 1_000.0, 2_000.0,
];

/// At most every other row has a number.
const ROWS_PER_TICK: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::ui) struct Scale {
    top: f64,
    rows: u16,
}

impl Scale {
    /// A scale with `top` in the middle of the first row.
    pub(in crate::ui) fn with_top(top: Bytes, rows: u16) -> Scale {
        let rows = rows.max(1);
        let share = f64::from(rows) / (f64::from(rows) - 0.5);
        Scale {
            top: (top.0.max(1) as f64) * share,
            rows,
        }
    }

    pub(in crate::ui) fn rows(&self) -> u16 {
        self.rows
    }

    /// How many eighths of a row are filled from below; at least one for anything above zero.
    pub(in crate::ui) fn eighths(&self, bytes: Bytes) -> u32 {
        let all = u32::from(self.rows) * 8;
        let filled = (bytes.0 as f64 / self.top * f64::from(all)).round() as u32;
        filled.clamp(u32::from(bytes > Bytes::ZERO), all)
    }

    /// The row of an amount, counted from the top.
    pub(in crate::ui) fn row(&self, bytes: Bytes) -> u16 {
        let from_below = (bytes.0 as f64 / self.top * f64::from(self.rows)).floor() as u16;
        self.rows - 1 - from_below.min(self.rows - 1)
    }

    /// The numbers of the axis with their rows, from below.
    pub(in crate::ui) fn ticks(&self) -> Vec<(Bytes, u16)> {
        let gib = self.top / Bytes::gib(1).0 as f64;
        let least = gib / f64::from(self.rows) * ROWS_PER_TICK;
        let step = STEPS
            .into_iter()
            .find(|&step| step >= least)
            .unwrap_or(STEPS[STEPS.len() - 1]);
        (0..)
            .map(|n| f64::from(n) * step)
            .take_while(|&at| at < gib)
            .take(usize::from(self.rows))
            .map(|at| {
                let bytes = Bytes((at * Bytes::gib(1).0 as f64) as u64);
                (bytes, self.row(bytes))
            })
            .collect()
    }
}

/// A tick's number without trailing zeros.
pub(super) fn tick_label(bytes: Bytes) -> String {
    let text = format!("{:.2}", bytes.as_gib());
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(top: Bytes, rows: u16) -> Vec<String> {
        let ticks = Scale::with_top(top, rows).ticks();
        ticks.into_iter().map(|(at, _)| tick_label(at)).collect()
    }

    #[test]
    fn axes_have_round_numbers() {
        for (gib, rows, expected) in [
            (24.0, 10, "0 8 16 24"),
            (23.6, 16, "0 4 8 12 16 20 24"),
            (80.0, 12, "0 20 40 60 80"),
            (141.0, 12, "0 25 50 75 100 125"),
            (8.0, 10, "0 2 4 6 8"),
            (1.0, 8, "0 0.5 1"),
            (24.0, 3, "0 20"),
            (24.0, 1, "0"),
        ] {
            let top = Bytes::gib(1).scale(gib);
            assert_eq!(labels(top, rows).join(" "), expected, "{gib} on {rows}");
        }
    }

    #[test]
    fn no_two_numbers_share_a_row() {
        for rows in 1..60 {
            for mib in (64..200_000).step_by(1_777) {
                let scale = Scale::with_top(Bytes::mib(mib), rows);
                let mut taken: Vec<u16> = scale.ticks().into_iter().map(|(_, row)| row).collect();
                let all = taken.len();
                taken.dedup();
                assert_eq!(taken.len(), all, "{mib} MiB on {rows} rows");
                assert!(taken.iter().all(|&row| row < rows));
            }
        }
    }

    #[test]
    fn something_is_never_drawn_as_nothing() {
        let scale = Scale::with_top(Bytes::gib(80), 10);
        assert_eq!(scale.eighths(Bytes::ZERO), 0);
        assert_eq!(scale.eighths(Bytes(1)), 1);
        assert_eq!(scale.eighths(Bytes::gib(500)), 80);
        assert_eq!(scale.row(Bytes::gib(80)), 0);
        assert_eq!(scale.row(Bytes::ZERO), 9);
    }
}
