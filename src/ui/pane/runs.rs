//! The runs so far: outcome, batch, measured and predicted peak, duration, steps, rate, and what
//! was changed.

use crate::forecast::score;
use crate::state::{Run, RunOutcome, State};
use crate::ui::canvas::Canvas;
use crate::ui::canvas::Pen;
use crate::ui::chart::curves::COMPARED;
use crate::ui::difference;
use crate::ui::pane::ListScroll;
use crate::ui::pane::spec::{PaneRows, PaneSpec, Scrolling};
use crate::ui::scene::Scene;
use crate::ui::theme::{Theme, Tone};
use crate::ui::view::View;
use crate::ui::words::{Figures, age, count, rate, short_command};
use crate::ui::words::{outcome_words, patching_words, steps_per_second};
use ratatui::layout::Rect;

pub(in crate::ui) const PANE: PaneSpec = PaneSpec {
    own_rows: |_, state, _, rest| match (state.runs.len(), rest) {
        // A single one is what the header speaks of: where there is little room, the events have it.
        (0 | 1, ..ROOM_FOR_ONE) => 0,
        (runs, _) => (2 + 2 * runs as u16).min((rest * 2 / 5).max(4)),
    },
    scrolling: Scrolling::List {
        length: |scene| scene.state.runs.len(),
        shown,
    },
    rows: PaneRows::Growing(|_, scene, width| {
        1 + scene.state.runs.len() as u16 * RunsShape::for_width(width).rows()
    }),
    ..PaneSpec::plain("runs", draw)
};

/// Rows from which on a single run has a place beside the events.
const ROOM_FOR_ONE: u16 = 10;

/// How a run is shown, by the width of the pane.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunsShape {
    /// Outcome, peak and time, and the changes on a second row.
    Brief,
    /// All figures, and the changes on a second row.
    Full,
    /// Everything on one row.
    OneRow,
}

impl RunsShape {
    fn for_width(width: u16) -> RunsShape {
        match width {
            110.. => RunsShape::OneRow,
            72.. => RunsShape::Full,
            _ => RunsShape::Brief,
        }
    }

    fn heads(self) -> &'static str {
        match self {
            RunsShape::Brief => " #   outcome         peak     time",
            RunsShape::Full | RunsShape::OneRow => {
                " #   outcome        batch   peak predicted     time     step    rate"
            }
        }
    }

    fn rows(self) -> u16 {
        match self {
            RunsShape::Brief | RunsShape::Full => 2,
            RunsShape::OneRow => 1,
        }
    }
}

fn shown(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(1) / RunsShape::for_width(area.width).rows()).max(1)
}

fn draw(canvas: &mut Canvas, view: &View, scene: &Scene, list: ListScroll) {
    let (theme, state) = (canvas.theme, scene.state);
    let shape = RunsShape::for_width(canvas.area.width);
    let mut heads = canvas.pen(0);
    heads.text(shape.heads(), Tone::Dim);
    if shape == RunsShape::OneRow {
        heads.skip(2).text("changes", Tone::Dim);
    }
    let shown = shown(canvas.area);
    let first = list.first(state.runs.len(), shown);
    let runs = state.runs.iter().enumerate().skip(first).take(shown);
    for (place, (n, run)) in (0..).zip(runs) {
        let before = n.checked_sub(1).and_then(|before| state.runs.get(before));
        let row = 1 + place * shape.rows();
        let mut pen = canvas.pen(row);
        draw_outcome(&mut pen, theme, run, view.compared == Some(run.number));
        draw_figures(&mut pen, view, state, run, shape);
        if shape == RunsShape::OneRow {
            pen.skip(2);
            draw_difference(&mut pen, theme, run, before);
        } else {
            let mut pen = canvas.pen(row + 1);
            pen.skip(5);
            draw_difference(&mut pen, theme, run, before);
        }
    }
}

fn figures_of(state: &State, run: &Run) -> Figures {
    let uuid = run.ranks.first().and_then(|rank| rank.device.as_ref());
    let device = uuid.and_then(|uuid| state.device(uuid));
    let device = device.or(state.devices.first());
    device.map_or(Figures::new(None), Figures::of)
}

fn draw_outcome(pen: &mut Pen, theme: &Theme, run: &Run, compared: bool) {
    let (words, tone) = outcome_words(run);
    let mark = match run.outcome() {
        RunOutcome::Running => theme.glyphs.playing,
        RunOutcome::Finished if run.is_hidden_failure() => theme.glyphs.cross,
        // That it was ended is what oomph wanted.
        RunOutcome::Failed(_) if run.measured.is_some() => theme.glyphs.dot,
        RunOutcome::Finished | RunOutcome::Stopped => theme.glyphs.dot,
        RunOutcome::Failed(_) if run.measured.is_some() => theme.glyphs.dot,
        RunOutcome::TrainedNothing | RunOutcome::OutOfMemory | RunOutcome::Failed(_) => {
            theme.glyphs.cross
        }
    };
    // The number of a compared run has the hue of its curve in the chart.
    let number = if compared { COMPARED } else { Tone::Dim };
    pen.text(&format!("{:>2} ", run.number.0), number)
        .text(mark, tone)
        .text(" ", tone);
    let name = pen.column();
    pen.cut(&words, 14, tone).to(name + 14);
}

fn draw_figures(pen: &mut Pen, view: &View, state: &State, run: &Run, shape: RunsShape) {
    let figures = figures_of(state, run);
    let text = Tone::Text;
    if shape != RunsShape::Brief {
        let batch = view.batch_of(run.number).map_or("?".to_string(), count);
        pen.text(&format!("{batch:>6}"), text);
    }
    pen.text(&format!("{:>7}", figures.column(run.peak())), text);
    if shape != RunsShape::Brief {
        let peak = run.predicted_peak.map(|peak| figures.gib(peak));
        let predicted = peak.or_else(|| predicted_need(run, figures));
        let predicted = predicted.unwrap_or_default();
        pen.text(&format!("{predicted:>10}"), Tone::Predicted);
    }
    let ended = run.ended.map_or(state.now, |(at, _)| at);
    let time = age(ended.since(run.started));
    pen.text(&format!(" {time:>8}"), text);
    if shape != RunsShape::Brief {
        // Of the run that goes on it is the one in the header.
        let printed = view.output.printed_pace().filter(|_| run.ended.is_none());
        let printed = printed.map(|pace| pace.replace(" it/s", "/s"));
        let ours = || steps_per_second(run).map(rate);
        let rate = printed.or_else(ours).unwrap_or_default();
        pen.text(&format!(" {:>8} {rate:>7}", count(run.steps())), text);
    }
}

/// The need that was predicted where no peak was: of a rough estimate the end that says something.
fn predicted_need(run: &Run, figures: Figures) -> Option<String> {
    let prediction = run.prediction.as_ref()?;
    let needs = score::predicted_need(prediction)?;
    let fits = prediction.room.is_some_and(|room| needs.high <= room);
    Some(match (needs.is_rough(), fits) {
        (true, true) => format!("≤ {}", figures.gib(needs.high)),
        (true, false) => format!("≥ {}", figures.gib(needs.low)),
        (false, _) => figures.gib(needs.likely),
    })
}

fn draw_difference(pen: &mut Pen, theme: &Theme, run: &Run, before: Option<&Run>) {
    if let Some(patching) = run.patching() {
        let (words, tone) = patching_words(patching);
        pen.text(words, tone).skip(1);
    }
    if run.changes.is_empty() {
        let room = pen.room();
        let command = short_command(&run.shown, room, theme.glyphs.ellipsis);
        pen.rest(&command, Tone::Dim);
        return;
    }
    for piece in difference::brief(theme, before.map(|run| &run.command), &run.changes) {
        pen.rest(&piece.text, piece.kind.tone()).skip(1);
    }
}
