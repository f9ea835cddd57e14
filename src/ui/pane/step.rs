//! What is alive at the peak of the last traced step, while the training goes on: the same table as
//! in the full view, which `s` opens.

use crate::state::State;
use crate::ui::canvas::Canvas;
use crate::ui::pane::ListScroll;
use crate::ui::pane::spec::{PaneRows, PaneSpec};
use crate::ui::scene::Scene;
use crate::ui::step;
use crate::ui::theme::Tone;
use crate::ui::view::View;

pub(in crate::ui) const PANE: PaneSpec = PaneSpec {
    subtitle: moment_words,
    first_rows: step::draw_which,
    // Where the column beside the chart would stay empty below the events.
    own_rows: |_, state, _, rest| match is_traced(state) {
        true => rest.saturating_sub(FOR_EVENTS).min(LINES),
        false => 0,
    },
    rows: PaneRows::Fixed(step::rows_of_peak),
    is_there: is_traced,
    ..PaneSpec::plain("step", draw)
};

/// Rows that the events keep below it.
const FOR_EVENTS: u16 = 12;

/// With its title and the table's; what is below the first lines is little.
const LINES: u16 = 12;

fn is_traced(state: &State) -> bool {
    let ranks = state.run().into_iter().flat_map(|run| &run.ranks);
    ranks.into_iter().any(|rank| rank.traces.last().is_some())
}

fn draw(canvas: &mut Canvas, view: &View, scene: &Scene, _: ListScroll) {
    step::draw_peak(canvas, view, scene);
}

/// Which step, and how much.
fn moment_words(view: &View, state: &State) -> Option<(String, Tone)> {
    let read = view.peak.as_ref()?.read()?;
    let run = state.run_numbered(read.key.run);
    let rank = run.and_then(|run| run.rank_with(read.key.pid));
    if let Some((words, tone)) = rank.and_then(|rank| step::higher_peak(read, rank)) {
        return Some((format!("step {}: {words}", read.key.step), tone));
    }
    let bytes = read.anatomy.allocated[read.peak];
    let phase = read.anatomy.in_phase(read.peak);
    Some((
        format!("peak of step {}: {bytes}{phase}", read.key.step),
        Tone::Dim,
    ))
}
