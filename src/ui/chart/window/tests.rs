//! Windows of made-up sessions.

use super::*;
use crate::event::{Exit, Exited, Started, What};
use crate::state::staged::StagedSession;
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
fn what_is_spent_at_a_dialog_is_not_shown() {
    let mut story = StagedSession::training();
    let (run, exit, left) = (RunNumber(1), Exit::Code(1), Vec::new());
    story.add(20.0, What::Exited(Exited { run, exit, left }));
    story.sampled(300.0, 1.0, 2.0);
    let mut view = TimeView::default();
    view.follow(&story.state);
    let waiting = view.window(story.state.now, 40);
    assert_eq!((waiting.from, waiting.to), (Moment::ZERO, secs(25)));
    let second = Started {
        run: RunNumber(2),
        pid: Pid(200),
        command: story.state.runs[0].command.clone(),
        remedies: Vec::new(),
        predicted_peak: None,
        prediction: None,
    };
    story.add(300.0, What::Started(second));
    story.sampled(310.0, 1.0, 2.0);
    view.follow(&story.state);
    let again = view.window(story.state.now, 40);
    assert!(again.from >= secs(297), "the second run alone: {again:?}");
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
