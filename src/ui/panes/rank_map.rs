//! The ranks of several nodes: a cell each, by how much of its device it has reserved, and the ones that
//! stand out by name. 64 ranks on 8 nodes fit on 80 by 24.

mod map;

pub(in crate::ui) use map::RankMap;

use crate::state::{Run, State};
use crate::ui::canvas::Canvas;
use crate::ui::pen::{Pen, columns};
use crate::ui::theme::Tone;
use crate::ui::view::View;
use map::{MapCell, MapNode, RankMark, nodes};
use ratatui::style::Modifier;
use std::collections::BTreeSet;

/// Columns of a node's name, at most.
const NAME: u16 = 12;
/// Columns between two nodes.
const BETWEEN: u16 = 2;
/// From these parts of the device on a cell has another colour.
const TIGHT: f64 = 0.8;
const FULL: f64 = 0.95;
/// Rows of words above the map.
const WORDS: u16 = 4;

/// Whether a run's ranks are shown as a map.
pub(in crate::ui) fn is_wanted(state: &State) -> bool {
    state.run().is_some_and(Run::is_spread)
}

/// Its rows in a place of its own.
pub(super) fn rows(state: &State) -> u16 {
    let ranks = state.run().map_or(&[][..], |run| &run.ranks[..]);
    // Numbered from 1, beside this one.
    let nodes = ranks.iter().map(|rank| rank.hello.pid.node() + 1).max();
    WORDS + (nodes.unwrap_or(1) as u16).div_ceil(4).clamp(1, 8)
}

/// The devices in the map's order, by their places in the state.
pub(in crate::ui) fn order(state: &State) -> Vec<usize> {
    let Some(run) = state.run() else {
        return Vec::new();
    };
    // A device counts where its first rank is.
    let mut seen = BTreeSet::new();
    let ranks = nodes(run).into_iter().flat_map(|(_, ranks)| ranks);
    ranks
        .filter_map(|rank| state.devices.place(rank.device.as_ref()?))
        .filter(|place| seen.insert(*place))
        .collect()
}

/// The devices of the ranks that stand out: the fullest, the slowest, the odd one out.
pub(in crate::ui) fn standouts(state: &State) -> Vec<usize> {
    let found = state.standouts();
    let ranks = [
        found.fullest.map(|out| out.rank),
        found.behind.map(|out| out.rank),
        found.slowest.map(|out| out.rank),
        found.odd.map(|out| out.rank),
    ];
    let mut places: Vec<usize> = Vec::new();
    for rank in ranks.into_iter().flatten() {
        let device = rank.device.as_ref();
        let place = device.and_then(|uuid| state.devices.place(uuid));
        if let Some(place) = place.filter(|place| !places.contains(place)) {
            places.push(place);
        }
    }
    places
}

/// What the map shows now, where it is on the screen; what held before is kept as long as it holds.
pub(in crate::ui) fn followed(before: Option<RankMap>, state: &State) -> Option<RankMap> {
    let run = state.run().filter(|_| is_wanted(state))?;
    let before = before.filter(|map| map.holds(run, state.now));
    Some(before.unwrap_or_else(|| RankMap::of(run, state)))
}

pub(super) fn draw(canvas: &mut Canvas, view: &View, state: &State) {
    let Some(run) = state.run() else { return };
    let made;
    let map = match &view.rank_map {
        Some(map) if map.holds(run, state.now) => map,
        Some(_) | None => {
            made = RankMap::of(run, state);
            &made
        }
    };
    // The map is what the pane is for: words have what it leaves.
    let width = map.nodes.iter().map(width_of).max().unwrap_or(1);
    let across = (canvas.area.width / width).max(1);
    let needed = (map.nodes.len() as u16).div_ceil(across);
    let words = canvas
        .area
        .height
        .saturating_sub(needed)
        .clamp(1, map.words.len() as u16);
    for (row, (text, tone)) in (0..words).zip(&map.words) {
        canvas.pen(row).rest(text, *tone);
    }
    let selected = (!state.devices.is_empty()).then(|| view.device.min(state.devices.len() - 1));
    let is_selected = |cell: &MapCell| cell.device.is_some() && cell.device == selected;
    let shown = canvas.area.height.saturating_sub(words);
    let holds = |node: &MapNode| node.cells.iter().any(is_selected);
    let at = map.nodes.iter().position(holds).unwrap_or(0) as u16 / across;
    let most = needed.saturating_sub(shown);
    let first = at.saturating_sub(shown / 2).min(most);
    let names = map.nodes.iter().map(|node| columns(&node.name)).max();
    let names = NAME.min(names.unwrap_or(0));
    for (place, node) in (0..).zip(&map.nodes) {
        let (row, column) = (place / across, place % across * width);
        if row < first || row >= first + shown {
            continue;
        }
        let mut pen = canvas.pen(words + row - first);
        pen.to(column)
            .cut(&node.name, names, Tone::Dim)
            .to(column + names + 1);
        for cell in &node.cells {
            draw_cell(&mut pen, view, cell.mark, is_selected(cell));
        }
    }
}

fn width_of(node: &MapNode) -> u16 {
    NAME.min(columns(&node.name)) + 1 + node.cells.len() as u16 + BETWEEN
}

fn draw_cell(pen: &mut Pen, view: &View, mark: RankMark, is_selected: bool) {
    let glyphs = &view.theme.glyphs;
    let (glyph, tone) = match mark {
        RankMark::RanOut => (glyphs.cross, Tone::Wrong),
        RankMark::Silent => (glyphs.ring, Tone::Warning),
        RankMark::Gone => (glyphs.sparse_dots, Tone::Dim),
        RankMark::Unknown => (glyphs.ring, Tone::Dim),
        RankMark::Share(share) => {
            let eighths = ((share * 8.0).ceil() as usize).clamp(1, 8);
            let tone = match share {
                share if share >= FULL => Tone::Wrong,
                share if share >= TIGHT => Tone::Warning,
                _ => Tone::Good,
            };
            (glyphs.eighths[eighths], tone)
        }
    };
    let style = view.theme.style(tone);
    pen.styled(
        glyph,
        match is_selected {
            true => style.add_modifier(Modifier::REVERSED),
            false => style,
        },
    );
}
