//! The banner of a session that can only be watched: where it runs, and what to type for a screen that can act on it.

use super::canvas::{Canvas, labelled};
use super::scene::{Elsewhere, Scene, Subject};
use super::theme::Tone;
use crate::units::clock_face;
use std::time::Duration;

/// Files of a session that runs are written more often; what is older is worth a colour.
const LATE: Duration = Duration::from_secs(60);

/// What a read-only screen says of where its session is, and what to type for one that can act on it.
fn parts_of(session: &Elsewhere) -> [(String, Tone); 5] {
    let place = session.place;
    let (heard, tone) = heard(session);
    [
        ("read-only".into(), Tone::Warning),
        (format!(": it runs on {place} ("), Tone::Text),
        (heard, tone),
        ("), keys act only there: ".into(), Tone::Text),
        (session.command.into(), Tone::Accent),
    ]
}

/// Rows of that: a command that is cut cannot be typed, so it goes on below where the screen has rows for it.
pub(super) fn rows(session: &Elsewhere, (width, height): (u16, u16)) -> u16 {
    if session.heard.is_none() && session.trouble.is_none() {
        return 1;
    }
    let lines = labelled(" ", &parts_of(session), width).len();
    let has_room = |rows: &u16| *rows <= height / 8;
    u16::try_from(lines).ok().filter(has_room).unwrap_or(1)
}

pub(super) fn draw(canvas: &mut Canvas, scene: &Scene) {
    let Subject::Elsewhere(session) = scene.subject else {
        return;
    };
    if session.heard.is_none() && session.trouble.is_none() {
        let words = format!(": it ran on {} and has ended", session.place);
        let mut pen = canvas.pen(0);
        pen.skip(1).text("read-only", Tone::Warning);
        pen.text(&words, Tone::Text);
        return;
    }
    let parts = parts_of(&session);
    let lines = labelled(" ", &parts, canvas.area.width);
    if lines.len() > usize::from(canvas.area.height) {
        let mut pen = canvas.pen(0);
        pen.skip(1);
        let [before @ .., (command, tone)] = &parts;
        for (words, tone) in before {
            pen.text(words, *tone);
        }
        pen.rest(command, *tone);
        return;
    }
    for (row, line) in (0..).zip(&lines) {
        line.draw(canvas, row);
    }
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
