//! The one line of a tiny screen: used of capacity, the run's outcome, its steps.

use crate::ui::canvas::Canvas;
use crate::ui::figures::{Figures, count};
use crate::ui::scene::{Scene, Subject};
use crate::ui::theme::Tone;
use crate::ui::view::View;
use crate::ui::words::outcome_words;

pub(crate) fn draw(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let state = scene.state;
    let mut pen = canvas.pen(0);
    if let Subject::Elsewhere(_) = scene.subject {
        pen.text("read-only ", Tone::Warning);
    }
    if let Some(device) = view.device(state) {
        let figures = Figures::of(device.capacity);
        let held = device.used.current().or(device.reserved.current());
        let held = held.map_or("?".to_string(), |bytes| figures.gib(bytes));
        let of = device.capacity.map_or(String::new(), |capacity| {
            format!("/{}", figures.gib(capacity))
        });
        pen.text(&format!("{held}{of} GiB "), Tone::Strong);
    }
    if let Some(run) = state.run() {
        let (words, tone) = outcome_words(run);
        pen.text(&words, tone)
            .text(&format!(" step {}", count(run.steps())), Tone::Dim);
    }
}
