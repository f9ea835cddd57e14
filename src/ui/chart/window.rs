//! The time that the chart shows: how long (zoom), where (follow, pan, pause), and which column a
//! moment falls on.

use crate::units::Moment;
use std::time::Duration;

/// The zoom levels in seconds, from ten seconds to a year.
const SPANS: [u64; 18] = [
    10,
    30,
    MIN,
    2 * MIN,
    5 * MIN,
    10 * MIN,
    20 * MIN,
    30 * MIN,
    HOUR,
    2 * HOUR,
    4 * HOUR,
    8 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    28 * DAY,
    91 * DAY,
    364 * DAY,
];

pub(super) const MIN: u64 = 60;
pub(super) const HOUR: u64 = 60 * MIN;
pub(super) const DAY: u64 = 24 * HOUR;

/// By default the chart shows at least this much …
const SHORTEST_UNASKED: u64 = 60;
/// … and at most this much, so that recent changes can be seen; zooming out shows the rest.
const LONGEST_UNASKED: u64 = 10 * 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Zoom {
    /// Fits the session's age.
    #[default]
    Unasked,
    /// An index of [`SPANS`].
    Chosen(usize),
}

/// Where the right edge is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Edge {
    /// At the current time.
    #[default]
    Following,
    /// Fixed.
    Held(Moment),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TimeView {
    zoom: Zoom,
    edge: Edge,
    cursor: Option<Moment>,
}

/// A way to move the chart in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    In,
    Out,
    Back,
    Forward,
    /// Moves the cursor a column to the left; without a cursor, puts one at the end.
    CursorBack,
    CursorForward,
    /// Fixes the right edge, or follows again.
    PauseOrGoOn,
    /// Back to the default.
    Reset,
}

impl TimeView {
    /// Whether the chart does not follow the current time.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.edge, Edge::Held(_))
    }

    /// Whether [`Move::Reset`] would change anything.
    pub(crate) fn is_chosen(&self) -> bool {
        *self != TimeView::default()
    }

    /// The moment under the cursor.
    pub(crate) fn cursor(&self) -> Option<Moment> {
        self.cursor
    }

    /// Puts the cursor on a column of the window, but on none in the future.
    pub(crate) fn point(&mut self, column: u16, now: Moment, columns: u16) {
        let window = self.window(now, columns);
        let begun = window.until(self.seen_until(now)).columns;
        let column = column.min(begun.saturating_sub(1));
        self.cursor = Some(window.begin_of(column));
    }

    /// Moves; `columns` is the width of the plot.
    pub(crate) fn apply(&mut self, step: Move, now: Moment, columns: u16) {
        let at = self.span_number(now);
        match step {
            Move::CursorBack => self.move_cursor(-1, now, columns),
            Move::CursorForward => self.move_cursor(1, now, columns),
            Move::In => self.zoom = Zoom::Chosen(at.saturating_sub(1)),
            Move::Out => {
                // Beyond the session's age there is nothing to see, except the default of a young
                // one.
                let age = fitting(now.0 / 1_000_000, u64::MAX);
                let most = age.max(TimeView::default().span_number(now));
                self.zoom = Zoom::Chosen((at + 1).min(most.max(at)));
            }
            Move::Back => {
                let earliest = Moment(SPANS[at] * 1_000_000).min(now);
                let moved = Moment(self.edge_at(now).0.saturating_sub(step_us(at)));
                self.edge = edge_unless_now(moved.max(earliest), now);
            }
            Move::Forward => {
                let moved = Moment(self.edge_at(now).0 + step_us(at));
                self.edge = edge_unless_now(moved, now);
            }
            Move::PauseOrGoOn => {
                self.edge = match self.edge {
                    Edge::Following => Edge::Held(now),
                    Edge::Held(_) => Edge::Following,
                }
            }
            Move::Reset => *self = TimeView::default(),
        }
    }

    /// Moves the cursor; at the edge the chart pans.
    fn move_cursor(&mut self, by: i32, now: Moment, columns: u16) {
        let window = self.window(now, columns);
        let Some(column) = self.cursor.and_then(|at| window.column(at)) else {
            return self.point(u16::MAX, now, columns);
        };
        match column.checked_add_signed(by as i16) {
            Some(column) if column < window.columns => self.point(column, now, columns),
            Some(_) if window.to >= now => self.point(u16::MAX, now, columns),
            Some(_) => {
                self.apply(Move::Forward, now, columns);
                self.cursor = Some(window.to);
            }
            None if window.from == Moment::ZERO => {}
            None => {
                self.apply(Move::Back, now, columns);
                self.cursor = Some(Moment(window.from.0.saturating_sub(1)));
            }
        }
    }

    /// The window in `columns` columns. Its edges are multiples of a column since the start of the
    /// session, so that columns keep their contents while the chart scrolls.
    pub(crate) fn window(&self, now: Moment, columns: u16) -> Window {
        let columns = u64::from(columns.max(1));
        let span_us = SPANS[self.span_number(now)] * 1_000_000;
        let column_us = span_us.div_ceil(columns);
        let edge = self.edge_at(now).0.div_ceil(column_us) * column_us;
        let to = edge.max(column_us * columns);
        Window {
            from: Moment(to - column_us * columns),
            to: Moment(to),
            columns: columns as u16,
        }
    }

    /// Up to when the chart has data: now, or where it is paused.
    pub(crate) fn seen_until(&self, now: Moment) -> Moment {
        self.edge_at(now).min(now)
    }

    fn edge_at(&self, now: Moment) -> Moment {
        match self.edge {
            Edge::Following => now,
            Edge::Held(at) => at,
        }
    }

    fn span_number(&self, now: Moment) -> usize {
        match self.zoom {
            Zoom::Chosen(number) => number.min(SPANS.len() - 1),
            Zoom::Unasked => {
                let seconds = (now.0 / 1_000_000).max(SHORTEST_UNASKED - 1);
                fitting(seconds, LONGEST_UNASKED)
            }
        }
    }
}

/// Panning to the end follows again.
fn edge_unless_now(edge: Moment, now: Moment) -> Edge {
    if edge >= now {
        Edge::Following
    } else {
        Edge::Held(edge)
    }
}

/// One press pans by an eighth of the window.
fn step_us(span_number: usize) -> u64 {
    SPANS[span_number] * 1_000_000 / 8
}

/// The shortest span that is longer than `seconds`, but none longer than `most`.
fn fitting(seconds: u64, most: u64) -> usize {
    SPANS
        .iter()
        .position(|&span| span > seconds || span >= most)
        .unwrap_or(SPANS.len() - 1)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub from: Moment,
    pub to: Moment,
    pub columns: u16,
}

impl Window {
    /// The column of a moment, if it is in the window.
    pub(crate) fn column(&self, at: Moment) -> Option<u16> {
        if at < self.from || at >= self.to {
            return None;
        }
        let share = (at.0 - self.from.0) as u128 * u128::from(self.columns);
        Some((share / u128::from(self.to.0 - self.from.0)) as u16)
    }

    /// The first column of something that holds from a moment on.
    pub(crate) fn first_column(&self, since: Moment) -> u16 {
        match self.column(since) {
            Some(column) => column,
            None if since < self.from => 0,
            None => self.columns,
        }
    }

    /// The length of a column in microseconds.
    pub(crate) fn column_us(&self) -> u64 {
        (self.to.0 - self.from.0) / u64::from(self.columns.max(1))
    }

    pub(crate) fn begin_of(&self, column: u16) -> Moment {
        Moment(self.from.0 + self.column_us() * u64::from(column))
    }

    /// The part up to `now`, in whole columns.
    pub(crate) fn until(&self, now: Moment) -> Window {
        let columns = match self.column(now) {
            Some(column) => column + 1,
            None if now < self.from => 0,
            None => self.columns,
        };
        Window {
            from: self.from,
            to: self.begin_of(columns),
            columns,
        }
    }

    pub(crate) fn span(&self) -> Duration {
        self.to.since(self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(n: u64) -> Moment {
        Moment(n * 1_000_000)
    }

    #[test]
    fn the_unasked_window_grows_with_the_session_and_then_scrolls() {
        let view = TimeView::default();
        for (now, from, to) in [
            (0, 0, 60),
            (59, 0, 60),
            (60, 0, 120),
            (299, 0, 300),
            (599, 0, 600),
            (600, 0, 600),
            (900, 300, 900),
        ] {
            let window = view.window(secs(now), 60);
            assert_eq!((window.from, window.to), (secs(from), secs(to)), "at {now}");
        }
    }

    #[test]
    fn columns_keep_their_edges_while_time_goes_on() {
        let view = TimeView::default();
        let first = view.window(secs(900), 50);
        for ms in (0..60_000).step_by(700) {
            let window = view.window(Moment(900_000_000 + ms * 1_000), 50);
            let column = (window.to.0 - window.from.0) / 50;
            assert_eq!(window.span(), first.span());
            assert_eq!(window.from.0 % column, first.from.0 % column);
        }
    }

    #[test]
    fn zooming_and_panning_stay_within_the_session() {
        let now = secs(1_000);
        let mut view = TimeView::default();
        for _ in 0..40 {
            view.apply(Move::Out, now, 40);
        }
        assert_eq!(view.window(now, 10).span(), Duration::from_secs(1_200));
        for _ in 0..40 {
            view.apply(Move::In, now, 40);
        }
        assert_eq!(view.window(now, 10).span(), Duration::from_secs(10));
        for _ in 0..2_000 {
            view.apply(Move::Back, now, 40);
        }
        assert_eq!(view.window(now, 10).from, Moment::ZERO);
        for _ in 0..2_000 {
            view.apply(Move::Forward, now, 40);
        }
        assert!(!view.is_held(), "at the end it follows again");
        view.apply(Move::Reset, now, 40);
        assert!(!view.is_chosen());
    }

    #[test]
    fn a_held_chart_stands_still() {
        let mut view = TimeView::default();
        view.apply(Move::PauseOrGoOn, secs(700), 40);
        let held = view.window(secs(700), 40);
        assert_eq!(view.window(secs(5_000), 40), held);
        view.apply(Move::PauseOrGoOn, secs(5_000), 40);
        assert_ne!(view.window(secs(5_000), 40), held);
    }

    #[test]
    fn the_cursor_goes_through_the_columns_and_takes_the_stretch_along() {
        let now = secs(1_000);
        let mut view = TimeView::default();
        view.apply(Move::CursorBack, now, 60);
        let window = view.window(now, 60);
        assert_eq!(window.column(view.cursor().unwrap()), Some(59));
        for _ in 0..500 {
            view.apply(Move::CursorBack, now, 60);
            let window = view.window(now, 60);
            assert!(window.column(view.cursor().unwrap()).is_some());
        }
        assert_eq!(view.cursor(), Some(Moment::ZERO));
        for _ in 0..500 {
            view.apply(Move::CursorForward, now, 60);
            let window = view.window(now, 60);
            assert!(window.column(view.cursor().unwrap()).is_some());
        }
        assert!(!view.is_held() && view.is_chosen());
        view.apply(Move::Reset, now, 60);
        assert_eq!(view.cursor(), None);
        // What has not begun has nothing to point at.
        view.point(50, secs(30), 60);
        assert_eq!(view.cursor(), Some(secs(30)));
    }

    #[test]
    fn instants_fall_on_columns() {
        let window = Window {
            from: secs(10),
            to: secs(20),
            columns: 5,
        };
        for (at, column) in [
            (9, None),
            (10, Some(0)),
            (12, Some(1)),
            (19, Some(4)),
            (20, None),
        ] {
            assert_eq!(window.column(secs(at)), column);
        }
    }
}
