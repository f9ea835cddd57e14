//! That a session can only be watched from here: where it runs, when it was heard, and what to type for a
//! screen whose keys act.

use crate::ui::canvas::Canvas;
use crate::ui::scene::{Elsewhere, Scene, Subject};
use crate::ui::theme::Tone;
use crate::units::clock_face;
use std::time::Duration;

/// Files of a session that runs are written more often; what is older is worth a colour.
const LATE: Duration = Duration::from_secs(60);

pub(crate) fn draw(canvas: &mut Canvas, scene: &Scene) {
    let Subject::Elsewhere(session) = scene.subject else {
        return;
    };
    let Elsewhere { place, command, .. } = session;
    let (heard, tone) = heard(&session);
    let mut pen = canvas.pen(0);
    pen.skip(1).text("read-only", Tone::Warning);
    if session.heard.is_none() && session.trouble.is_none() {
        let words = format!(": it ran on {place} and has ended");
        pen.text(&words, Tone::Text);
        return;
    }
    pen.text(&format!(": it runs on {place} ("), Tone::Text)
        .text(&heard, tone)
        .text("), keys act only there: ", Tone::Text)
        .rest(command, Tone::Accent);
}

fn heard(session: &Elsewhere) -> (String, Tone) {
    match (session.trouble, session.heard) {
        (Some(trouble), _) => (trouble.to_string(), Tone::Wrong),
        (None, Some(heard)) if heard > LATE => {
            (format!("not heard for {}", clock_face(heard)), Tone::Wrong)
        }
        (None, Some(heard)) => (format!("heard {} s ago", heard.as_secs()), Tone::Dim),
        (None, None) => (String::new(), Tone::Dim),
    }
}
