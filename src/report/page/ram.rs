//! The host's memory: what counted against its limit over the last run, and who held it where that was most.

use crate::document::html::text;
use crate::event::HostMemory;
use crate::report::ram::{HeldRam, held_at_peak};
use crate::report::story::SessionStory;
use crate::units::{Bytes, Moment, clock_face};
use std::fmt::Write;

/// Of the curve, in its own units.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 80.0;

/// Nothing where nothing was read of it.
pub(super) fn section(page: &mut String, story: &SessionStory) {
    let Some((at, memory)) = story.ram_at_peak() else {
        return;
    };
    let _ = writeln!(
        page,
        "<section class=\"ram\">\n<h2>RAM</h2>\n<p>{}</p>",
        text(&format!(
            "In use{}: at most {} of {} ({}), at {}.",
            story.of_last_run(),
            memory.used,
            memory.limit,
            memory.limited_by.words(),
            clock_face(at.since(Moment::ZERO))
        ))
    );
    curve(page, story, memory);
    page.push_str("<div class=\"scroll\"><table>\n<thead><tr><th>held then by</th><th class=\"n\">RAM</th></tr></thead>\n<tbody>\n");
    for HeldRam { who, held } in held_at_peak(memory) {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=\"n\">{}</td></tr>",
            text(&who),
            text(&held)
        );
    }
    page.push_str("</tbody>\n</table></div>\n");
    for unseen in story.state.host.unseen() {
        let _ = writeln!(page, "<p class=\"dim\">{}</p>", text(unseen.words()));
    }
    page.push_str("</section>\n");
}

/// What was used, as a line that holds until the next reading; the limit is the upper edge.
fn curve(page: &mut String, story: &SessionStory, memory: &HostMemory) {
    let points: Vec<(Moment, Bytes)> = story.state.host.history().collect();
    let (Some((first, _)), Some((last, _))) = (points.first(), points.last()) else {
        return;
    };
    let span = last.since(*first).as_secs_f64();
    if points.len() < 2 || span <= 0.0 {
        return;
    }
    let mut line = String::new();
    let mut before: Option<f64> = None;
    for (at, used) in &points {
        let x = at.since(*first).as_secs_f64() / span * WIDTH;
        let share = used.fraction_of(memory.limit).unwrap_or(0.0).min(1.0);
        let y = HEIGHT * (1.0 - share);
        if let Some(before) = before {
            let _ = write!(line, "{x:.1},{before:.1} ");
        }
        let _ = write!(line, "{x:.1},{y:.1} ");
        before = Some(y);
    }
    let _ = writeln!(
        page,
        "<svg class=\"ram\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"RAM over time\" \
         width=\"100%\" height=\"80\"><polyline points=\"{}\" fill=\"none\" stroke=\"currentColor\" vector-effect=\"non-scaling-stroke\"/></svg>\n\
         <p class=\"dim\">{} to {}; the upper edge is the limit.</p>",
        line.trim_end(),
        clock_face(first.since(Moment::ZERO)),
        clock_face(last.since(Moment::ZERO)),
    );
}
