//! The time that the chart shows: how long (zoom), where (follow, pan, pause), and which column a
//! moment falls on.

use crate::state::{Run, RunOutcome, State};
use crate::units::{Bytes, Moment, RunNumber};
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

/// In microseconds.
pub(super) const SECOND: u64 = 1_000_000;

pub(super) const MIN: u64 = 60;
pub(super) const HOUR: u64 = 60 * MIN;
pub(super) const DAY: u64 = 24 * HOUR;

/// By default the chart shows the whole run, in steps of these: each is at most two fifths longer than
/// the one before, so that a run always fills most of the width.
#[rustfmt::skip]
const UNASKED: [u64; 66] = [
    5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50,
    MIN, 80, 100, 2 * MIN, 150, 3 * MIN, 4 * MIN, 5 * MIN, 6 * MIN, 8 * MIN, 10 * MIN, 12 * MIN, 15 * MIN, 20 * MIN, 25 * MIN, 30 * MIN, 40 * MIN, 50 * MIN,
    HOUR, 80 * MIN, 100 * MIN, 2 * HOUR, 150 * MIN, 3 * HOUR, 4 * HOUR, 5 * HOUR, 6 * HOUR, 8 * HOUR, 10 * HOUR, 12 * HOUR, 15 * HOUR, 18 * HOUR,
    DAY, 32 * HOUR, 40 * HOUR, 2 * DAY, 60 * HOUR, 3 * DAY, 4 * DAY, 5 * DAY, 7 * DAY, 9 * DAY, 12 * DAY, 16 * DAY, 21 * DAY, 28 * DAY, 37 * DAY, 49 * DAY, 65 * DAY, 87 * DAY, 115 * DAY, 154 * DAY, 205 * DAY, 273 * DAY, 364 * DAY,
];

/// Earlier runs stay in view as long as the time between them is at most this share of it: what was
/// spent at a dialog is not shown.
const PAUSE: f64 = 0.15;

/// Where nothing runs, the chart ends so long after the last run's end.
const AFTER: Duration = Duration::from_secs(1);

/// Or this part of what is shown, if that is less.
const AFTER_SHORT: u32 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Zoom {
    /// Fits the runs' age.
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
    /// Where it was when the chart was paused: what is shown stays.
    Paused(Moment),
    /// Fixed.
    Held(Moment),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TimeView {
    zoom: Zoom,
    edge: Edge,
    cursor: Option<Moment>,
    runs: RunTimes,
}

/// The time of the runs in view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct RunTimes {
    began: Moment,
    /// When the first of them began to allocate.
    used: Option<(RunNumber, Moment)>,
    /// When the last one ended, if nothing runs.
    ended: Option<Moment>,
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

impl Move {
    /// Whether it goes elsewhere in time, which has ends.
    pub fn only_moves(self) -> bool {
        match self {
            Move::In
            | Move::Out
            | Move::Back
            | Move::Forward
            | Move::CursorBack
            | Move::CursorForward
            | Move::Reset => true,
            Move::PauseOrGoOn => false,
        }
    }
}

impl TimeView {
    /// Whether the chart does not follow the current time.
    pub(crate) fn is_held(&self) -> bool {
        match self.edge {
            Edge::Paused(_) | Edge::Held(_) => true,
            Edge::Following => false,
        }
    }

    /// Whether it stays as it was, with the runs that were in view then.
    fn is_paused(&self) -> bool {
        match self.edge {
            Edge::Paused(_) => true,
            Edge::Following | Edge::Held(_) => false,
        }
    }

    /// Whether it shows what it does without a key, of now or of when it was paused.
    fn is_unasked(&self) -> bool {
        match (self.zoom, self.edge) {
            (Zoom::Unasked, Edge::Following | Edge::Paused(_)) => true,
            (Zoom::Unasked, Edge::Held(_)) | (Zoom::Chosen(_), _) => false,
        }
    }

    /// Whether [`Move::Reset`] would change anything.
    pub(crate) fn is_chosen(&self) -> bool {
        *self != self.unasked()
    }

    /// The default view of these runs.
    fn unasked(&self) -> TimeView {
        TimeView {
            runs: self.runs,
            ..TimeView::default()
        }
    }

    /// Takes the times of the runs: the last one, and those before it that it followed soon.
    pub(crate) fn follow(&mut self, state: &State) {
        let Some(last) = state.runs.last().filter(|_| !self.is_paused()) else {
            return;
        };
        let end = |run: &Run| run.ended.map_or(state.now, |(at, _)| at);
        let until = end(last);
        let mut first = last;
        for pair in state.runs.windows(2).rev() {
            let pause = pair[1].started.since(end(&pair[0])).as_secs_f64();
            let shown = until.since(pair[0].started).as_secs_f64();
            if pause > PAUSE * shown {
                break;
            }
            first = &pair[0];
        }
        // It is looked for until it is found, and stays.
        let known = self.runs.used.filter(|(number, _)| *number == first.number);
        let used = known.or_else(|| Some((first.number, first_use(first, state.now)?)));
        // A first run begins with the session.
        let started = match first.number == state.runs[0].number {
            true => Moment::ZERO,
            false => first.started,
        };
        let ended = last_of(last);
        self.runs = RunTimes {
            began: seen_from(first, used, ended).unwrap_or(started),
            used,
            ended,
        };
    }

    /// How long the start of the run is that the default view leaves out on the left of a window.
    pub(crate) fn left_out(&self, state: &State, window: &Window) -> Option<Duration> {
        let (number, used) = self.runs.used.filter(|_| self.is_unasked())?;
        let run = state.run_numbered(number)?;
        if window.from > used {
            return None;
        }
        let left_out = window.from.since(run.started);
        (left_out >= SHORT_START).then_some(left_out)
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
        let span_us = self.span_us(now);
        match step {
            Move::CursorBack => self.move_cursor(-1, now, columns),
            Move::CursorForward => self.move_cursor(1, now, columns),
            Move::In => {
                let shorter = SPANS.iter().rposition(|span| span * SECOND < span_us);
                self.zoom = Zoom::Chosen(shorter.unwrap_or(0));
            }
            Move::Out => {
                let unasked = self.unasked().span_us(now);
                let longer = SPANS.iter().position(|span| span * SECOND > span_us);
                match longer.filter(|_| span_us <= now.0) {
                    // Back to all of the run.
                    Some(longer) if span_us < unasked && SPANS[longer] * SECOND >= unasked => {
                        self.zoom = Zoom::Unasked;
                    }
                    Some(longer) => self.zoom = Zoom::Chosen(longer),
                    // Beyond the session's age there is nothing to see.
                    None => {}
                }
            }
            Move::Back => {
                let earliest = Moment(span_us).min(now);
                let moved = Moment(self.edge_at(now).0.saturating_sub(span_us / PANS));
                self.edge = edge_unless_now(moved.max(earliest), now);
            }
            Move::Forward => {
                let moved = Moment(self.edge_at(now).0 + span_us / PANS);
                self.edge = edge_unless_now(moved, now);
            }
            Move::PauseOrGoOn => {
                self.edge = match self.edge {
                    Edge::Following => Edge::Paused(self.edge_at(now)),
                    Edge::Paused(_) | Edge::Held(_) => Edge::Following,
                }
            }
            Move::Reset => *self = self.unasked(),
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
        let span_us = self.span_us(now);
        // The runs in view begin at the left: what was before them is not shown, and what is to come has the room on the right.
        let begins_later = self.is_unasked() && self.runs.began > Moment::ZERO;
        // The column in which they begin is one more.
        let whole = columns - u64::from(begins_later && columns > 1);
        let column_us = span_us.div_ceil(whole);
        let edge = self.edge_at(now).0.div_ceil(column_us) * column_us;
        let least = match begins_later {
            true => (self.runs.began.0 / column_us + columns) * column_us,
            false => column_us * columns,
        };
        let to = edge.max(least);
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
            Edge::Following => match self.runs.ended {
                Some(ended) => {
                    let shown = ended.since(self.runs.began) / AFTER_SHORT;
                    now.min(ended + AFTER.min(shown))
                }
                None => now,
            },
            Edge::Paused(at) | Edge::Held(at) => at,
        }
    }

    /// How long the window is.
    fn span_us(&self, now: Moment) -> u64 {
        let shown = self.edge_at(now).since(self.runs.began);
        match (self.zoom, self.edge, self.runs.ended) {
            (Zoom::Chosen(number), _, _) => SPANS[number.min(SPANS.len() - 1)] * SECOND,
            // Nothing more comes: all of the width is for what was.
            (Zoom::Unasked, Edge::Following | Edge::Paused(_), Some(_)) => {
                (shown.as_micros() as u64).max(SHORTEST)
            }
            (Zoom::Unasked, _, _) => unasked(shown.as_secs()) * SECOND,
        }
    }
}

/// When a process of the run first had memory allocated, as far as it is known by now.
fn first_use(run: &Run, now: Moment) -> Option<Moment> {
    let firsts = run.ranks.iter().filter_map(|rank| {
        let by = |at: Moment| rank.allocated.max_between(Moment::ZERO, at) > Some(Bytes::ZERO);
        let (mut before, mut after) = (rank.joined, now);
        if !by(after) {
            return None;
        }
        while after.since(before) > CLOSE_ENOUGH {
            let middle = Moment(before.0 + (after.0 - before.0) / 2);
            match by(middle) {
                true => after = middle,
                false => before = middle,
            }
        }
        Some(before)
    });
    firsts.min()
}

/// So closely the first allocation is looked for.
const CLOSE_ENOUGH: Duration = Duration::from_millis(20);

/// A start of this length is in view: the time in which a program loads its libraries.
const SHORT_START: Duration = Duration::from_secs(2);

/// Of a longer one so much.
const OF_START: Duration = Duration::from_millis(500);

/// From when on there is something to see of a run that was long in starting, or of one that has ended and did little else.
fn seen_from(
    run: &Run,
    used: Option<(RunNumber, Moment)>,
    ended: Option<Moment>,
) -> Option<Moment> {
    let (_, used) = used?;
    let from = Moment(used.0.saturating_sub(OF_START.as_micros() as u64));
    if from.since(run.started) >= SHORT_START {
        return Some(from);
    }
    let ended = ended.filter(|ended| *ended > used)?;
    let (start, rest) = (used.since(run.started), ended.since(used));
    let before = Moment(
        used.0
            .saturating_sub((rest / OF_SHORT_RUN).as_micros() as u64),
    );
    (start * MUCH_OF_IT >= rest).then_some(before.max(run.started))
}

/// Of a short run this part of what is to be seen is shown before it.
const OF_SHORT_RUN: u32 = 12;

/// A start is left out that takes this part of what is to be seen, or more.
const MUCH_OF_IT: u32 = 2;

/// The last moment of a run that is to be seen: what a program still holds that has run out of memory and is ending is no training.
pub(super) fn last_of(run: &Run) -> Option<Moment> {
    let (ended, _) = run.ended?;
    let oom = run
        .oom()
        .filter(|_| run.outcome() == RunOutcome::OutOfMemory);
    Some(oom.map_or(ended, |oom| oom.at.min(ended)))
}

/// Panning to the end follows again.
fn edge_unless_now(edge: Moment, now: Moment) -> Edge {
    if edge >= now {
        Edge::Following
    } else {
        Edge::Held(edge)
    }
}

/// So much is shown of a run that has ended, at least.
const SHORTEST: u64 = SECOND / 4;

/// One press pans by this part of the window.
const PANS: u64 = 8;

/// The shortest default span that is longer than `seconds`.
fn unasked(seconds: u64) -> u64 {
    let longer = UNASKED.into_iter().find(|span| *span > seconds);
    longer.unwrap_or(UNASKED[UNASKED.len() - 1])
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
    use crate::event::{EventKind, Exit, Exited, Started};
    use crate::state::tests::staged::StagedSession;
    use crate::units::{Pid, RunNumber};

    fn secs(n: u64) -> Moment {
        Moment(n * 1_000_000)
    }

    #[test]
    fn the_unasked_window_grows_with_the_run_and_is_mostly_filled() {
        let view = TimeView::default();
        for (now, span) in [
            (0, 5),
            (4, 5),
            (5, 6),
            (59, 60),
            (60, 80),
            (299, 300),
            (300, 360),
            (86_000, DAY),
            (DAY, 32 * HOUR),
            (1_000 * DAY, 364 * DAY),
        ] {
            assert_eq!(unasked(now), span, "at {now}");
        }
        for ms in (4_000..2_000_000).step_by(1_700) {
            let now = Moment(ms * 1_000);
            let window = view.window(now, 60);
            assert_eq!(window.from, Moment::ZERO);
            let filled = now.0 as f64 / window.to.0 as f64;
            assert!(filled > 0.6 && filled <= 1.0, "{filled} at {ms}");
        }
    }

    #[test]
    fn a_long_start_is_left_out_and_said() {
        use crate::state::tests::staged::{gib, hello, sample, started};
        let told = |start: f64| {
            let mut story = StagedSession::default();
            story.add(0.0, started(1, 100, "train.py"));
            story.add(start - 1.0, hello(1, 100, None));
            story.add(
                start - 0.5,
                EventKind::Sample(sample(100, 0, gib(0.0), gib(0.0))),
            );
            story.add(start, EventKind::Sample(sample(100, 0, gib(1.0), gib(2.0))));
            story.add(
                start + 4.0,
                EventKind::Sample(sample(100, 0, gib(2.0), gib(3.0))),
            );
            let mut view = TimeView::default();
            view.follow(&story.state);
            let window = view.window(story.state.now, 60);
            let left_out = view
                .left_out(&story.state, &window)
                .map(|out| out.as_secs());
            view.apply(Move::Out, story.state.now, 60);
            let wider = view.window(story.state.now, 60);
            assert_eq!(view.left_out(&story.state, &wider), None);
            (window.from.0 / SECOND, left_out, wider.from)
        };
        let (from, left_out, _) = told(10.0);
        assert!((8..10).contains(&from), "{from}");
        assert_eq!(left_out, Some(from));
        let (from, left_out, wider) = told(1.5);
        assert_eq!((from, left_out, wider), (0, None, Moment::ZERO));
    }

    #[test]
    fn a_run_that_ran_out_of_memory_is_shown_up_to_then() {
        use crate::state::tests::staged::{exited, gib, record};
        let mut story = StagedSession::training();
        story.sampled(1.0, 20.0, 21.0);
        let record = record(100, gib(20.0), gib(21.0), gib(1.0), gib(0.0));
        story.add(24.0, EventKind::Oom(record));
        story.sampled(30.0, 20.0, 21.0);
        story.add(36.0, exited(1, Exit::Code(1)));
        let mut view = TimeView::default();
        view.follow(&story.state);
        let window = view.window(story.state.now, 50);
        assert_eq!((window.from, window.to), (Moment::ZERO, secs(25)));
        assert_eq!(last_of(&story.state.runs[0]), Some(secs(24)));
    }

    #[test]
    fn a_short_run_has_the_width_of_the_chart() {
        use crate::state::tests::staged::{exited, gib, hello, sample, started};
        let mut story = StagedSession::default();
        story.add(0.0, started(1, 100, "train.py"));
        story.add(1.0, hello(1, 100, None));
        for (at, allocated) in [(1.1, 0.0), (1.2, 4.0), (1.5, 8.0)] {
            let sample = sample(100, 0, gib(allocated), gib(allocated));
            story.add(at, EventKind::Sample(sample));
        }
        story.add(1.6, exited(1, Exit::Code(0)));
        let mut view = TimeView::default();
        view.follow(&story.state);
        let window = view.window(story.state.now, 50);
        let used = window.first_column(Moment::from_secs_f64(1.2));
        let end = window.first_column(Moment::from_secs_f64(1.6));
        assert!(used < 10 && end > 40, "{window:?}");
    }

    #[test]
    fn what_is_spent_at_a_dialog_is_not_shown() {
        let mut story = StagedSession::training();
        let (run, exit, left) = (RunNumber(1), Exit::Code(1), Vec::new());
        story.add(20.0, EventKind::Exited(Exited { run, exit, left }));
        story.sampled(300.0, 1.0, 2.0);
        let mut view = TimeView::default();
        view.follow(&story.state);
        let waiting = view.window(story.state.now, 40);
        assert_eq!(
            (waiting.from, waiting.to),
            (Moment::ZERO, secs(21)),
            "and no future"
        );
        let second = Started {
            run: RunNumber(2),
            pid: Pid(200),
            command: story.state.runs[0].command.clone(),
            remedies: Vec::new(),
            predicted_peak: None,
            prediction: None,
            numerics: None,
        };
        story.add(300.0, EventKind::Started(second));
        story.sampled(310.0, 1.0, 2.0);
        view.follow(&story.state);
        let again = view.window(story.state.now, 40);
        assert!(again.from >= secs(299), "the second run alone: {again:?}");
        assert!(again.to > story.state.now, "it goes on to the right");
        assert!(!view.is_chosen());
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
    fn pausing_the_chart_of_a_later_run_moves_nothing() {
        use crate::state::tests::staged::started;
        let exited = || {
            let (run, exit, left) = (RunNumber(1), Exit::Code(1), Vec::new());
            EventKind::Exited(Exited { run, exit, left })
        };
        let mut story = StagedSession::training();
        story.add(20.0, exited());
        story.sampled(300.0, 1.0, 2.0);
        // Beside the dialog, and in the run that follows.
        for at in [None, Some(310.0)] {
            if let Some(at) = at {
                story.add(300.0, started(2, 200, "train.py"));
                story.sampled(at, 1.0, 2.0);
            }
            let now = story.state.now;
            let mut view = TimeView::default();
            view.follow(&story.state);
            let (before, seen) = (view.window(now, 40), view.seen_until(now));
            view.apply(Move::PauseOrGoOn, now, 40);
            assert!(view.is_held() && view.is_chosen());
            assert_eq!(view.window(now, 40), before);
            story.sampled(now.0 as f64 / 1e6 + 60.0, 1.0, 2.0);
            view.follow(&story.state);
            let later = story.state.now;
            assert_eq!(view.window(later, 40), before, "and it stays");
            assert_eq!(view.seen_until(later), seen);
            view.apply(Move::PauseOrGoOn, later, 40);
            assert!(!view.is_held());
            assert_eq!(view.window(later, 40) != before, at.is_some());
        }
    }

    #[test]
    fn the_cursor_goes_through_the_columns_and_takes_the_stretch_along() {
        let now = secs(1_000);
        let mut view = TimeView::default();
        view.apply(Move::CursorBack, now, 60);
        let window = view.window(now, 60);
        assert_eq!(window.column(view.cursor().unwrap()), Some(50));
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
        let pointed = view.cursor().expect("a cursor");
        assert!(pointed <= secs(30) && pointed > secs(29), "{pointed:?}");
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
