//! The parts of the screen, one file each: functions from a scene to cells, chosen by the layout.

pub mod allocator;
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

use super::pane::Pane;
use super::pen::{Pen, columns, head};
use super::scene::Scene;
use super::theme::Tone;
use super::view::{Keyboard, List, View};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

/// Draws a pane in a place of its own, where it goes along with what is new.
pub fn draw_placed(buf: &mut Buffer, area: Rect, pane: Pane, view: &View, scene: &Scene) {
    let theme = &view.theme;
    let separator = theme.glyphs.separator;
    let said;
    let mut title = vec![(pane.title(), Tone::Strong)];
    match pane {
        Pane::Memory => return memory::draw(buf, area, view, scene),
        Pane::MakeUp => {
            let (words, tone) = make_up::instant(view, scene.state);
            title.extend([(separator, Tone::Dim), (words, tone)]);
        }
        Pane::Devices => title[0].0 = "devices and ranks",
        Pane::Allocator => {
            said = allocator::whose(view, scene.state);
            if let Some(whose) = &said {
                title.extend([(separator, Tone::Dim), (whose.as_str(), Tone::Dim)]);
            }
        }
        Pane::Output | Pane::Runs | Pane::Events => {}
    }
    let inside = head(buf, area, theme, &title);
    draw_inside(buf, inside, pane, view, scene, List::default());
}

/// Draws the pane that the user has chosen, the others' names beside its own. Returns where the
/// program's cursor stands.
pub fn draw_chosen(
    buf: &mut Buffer,
    area: Rect,
    view: &View,
    scene: &Scene,
    tabs: &[Pane],
) -> Option<Position> {
    let theme = &view.theme;
    let mut title = tab_titles(tabs, view, area.width);
    let scrolled = format!(
        " {} {} rows up",
        theme.glyphs.paused,
        scene.child.scrolled()
    );
    match (view.pane, view.keyboard) {
        (Pane::Output, Keyboard::Training) => {
            title.push(("  your keys go to the training", Tone::Accent));
        }
        (Pane::Output, Keyboard::Oomph | Keyboard::Selection) if scene.child.scrolled() > 0 => {
            title.push((&scrolled, Tone::Accent));
        }
        (_, Keyboard::Training | Keyboard::Oomph | Keyboard::Selection) => {}
    }
    let inside = head(buf, area, theme, &title);
    draw_inside(buf, inside, view.pane, view, scene, view.list)
}

/// The names of the panes that Tab goes through; where there is no room for all, those from the
/// chosen one on.
fn tab_titles(tabs: &[Pane], view: &View, width: u16) -> Vec<(&'static str, Tone)> {
    let separator = view.theme.glyphs.separator;
    let of = |tabs: &[Pane]| {
        let mut title: Vec<(&'static str, Tone)> = Vec::new();
        for &pane in tabs {
            if !title.is_empty() {
                title.push((separator, Tone::Faint));
            }
            let tone = match pane == view.pane {
                true => Tone::Strong,
                false => Tone::Dim,
            };
            title.push((pane.title(), tone));
        }
        title
    };
    let all = of(tabs);
    if all.iter().map(|(text, _)| columns(text)).sum::<u16>() + 4 <= width {
        return all;
    }
    let chosen = tabs.iter().position(|pane| *pane == view.pane).unwrap_or(0);
    of(&tabs[chosen..])
}

/// Draws what is in a pane. Returns where the program's cursor stands.
fn draw_inside(
    buf: &mut Buffer,
    inside: Rect,
    pane: Pane,
    view: &View,
    scene: &Scene,
    list: List,
) -> Option<Position> {
    let theme = &view.theme;
    match pane {
        Pane::Output if scene.replay.is_some() => {
            let words = "the output is not in the recording: see output.log beside it";
            let room = inside.width;
            Pen::new(buf, inside, 0)
                .skip(1)
                .cut(words, room, theme, theme.style(Tone::Dim));
        }
        Pane::Output => return output::draw(buf, inside, theme, scene.child),
        Pane::Memory => memory::draw_inside(buf, inside, view, scene),
        Pane::MakeUp => make_up::draw(buf, inside, view, scene.state),
        Pane::Runs => runs::draw(buf, inside, view, scene.state, list),
        Pane::Devices => devices::draw(buf, inside, view, scene.state),
        Pane::Events => events::draw(buf, inside, theme, scene, list),
        Pane::Allocator => allocator::draw(buf, inside, view, scene.state),
    }
    None
}
