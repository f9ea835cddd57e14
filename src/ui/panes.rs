//! The parts of the screen, one file each: functions from a scene to cells, chosen by the layout.

pub mod bar;
pub mod devices;
pub mod events;
pub mod footer;
pub mod header;
pub mod headroom;
pub mod line;
pub mod make_up;
pub mod memory;
pub mod output;
pub mod runs;

use super::pen::{Pen, head};
use super::scene::Scene;
use super::theme::Tone;
use super::view::{Keyboard, Pane, View};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

/// Draws the pane that the user has chosen, the others' names beside its own. Returns where the
/// program's cursor stands.
pub fn draw_chosen(
    buf: &mut Buffer,
    area: Rect,
    view: &View,
    scene: &Scene,
    panes: &[Pane],
) -> Option<Position> {
    let theme = &view.theme;
    let mut title: Vec<(&str, Tone)> = Vec::new();
    for &pane in panes {
        if !title.is_empty() {
            title.push((theme.glyphs.separator, Tone::Faint));
        }
        let tone = if pane == view.pane {
            Tone::Strong
        } else {
            Tone::Dim
        };
        title.push((pane.title(), tone));
    }
    let scrolled = format!(
        " {} {} rows up",
        theme.glyphs.paused,
        scene.child.scrolled()
    );
    match (view.pane, view.keyboard) {
        (Pane::Output, Keyboard::Training) => {
            title.push(("  your keys go to the training", Tone::Accent));
        }
        (Pane::Output, Keyboard::Oomph) if scene.child.scrolled() > 0 => {
            title.push((&scrolled, Tone::Accent));
        }
        (Pane::Output | Pane::Runs | Pane::Devices | Pane::Events, _) => {}
    }
    let inside = head(buf, area, theme, &title);
    match view.pane {
        Pane::Output if scene.replay.is_some() => {
            let words = "the output is not in the recording: see output.log beside it";
            let room = inside.width;
            Pen::new(buf, inside, 0)
                .skip(1)
                .cut(words, room, theme, theme.style(Tone::Dim));
        }
        Pane::Output => return output::draw(buf, inside, theme, scene.child),
        Pane::Runs => runs::draw(buf, inside, theme, scene.state, view.list),
        Pane::Devices => devices::draw(buf, inside, view, scene.state),
        Pane::Events => events::draw(buf, inside, theme, scene, view.list),
    }
    None
}
