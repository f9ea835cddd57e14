//! The ranks of several nodes: a cell each, by how much of its device it has reserved, and the ones that
//! stand out by name. 64 ranks on 8 nodes fit on 80 by 24.

use crate::state::{RankState, Run, Standouts, State, ranges, share};
use crate::ui::canvas::Canvas;
use crate::ui::figures::{Figures, count, rate};
use crate::ui::pen::{Pen, columns};
use crate::ui::theme::Tone;
use crate::ui::view::View;
use crate::units::{Bytes, Pid, Uuid};
use ratatui::style::Modifier;
use std::collections::HashMap;

/// Columns of a node's name, at most.
const NAME: u16 = 12;
/// Columns between two nodes.
const BETWEEN: u16 = 2;
/// From these parts of the device on a cell has another colour.
const TIGHT: f64 = 0.8;
const FULL: f64 = 0.95;
/// Rows of words above the map.
const WORDS: u16 = 4;

/// A node and its ranks in order.
struct Node<'a> {
    name: &'a str,
    ranks: Vec<&'a RankState>,
}

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
    let mut places: HashMap<&Uuid, usize> = (state.devices.iter())
        .enumerate()
        .map(|(place, device)| (&device.uuid, place))
        .collect();
    let nodes = nodes(run);
    let ranks = nodes.iter().flat_map(|node| &node.ranks);
    // A device counts where its first rank is.
    ranks
        .filter_map(|rank| places.remove(rank.device.as_ref()?))
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
        let place = (state.devices.iter()).position(|known| Some(&known.uuid) == device);
        if let Some(place) = place.filter(|place| !places.contains(place)) {
            places.push(place);
        }
    }
    places
}

pub(super) fn draw(canvas: &mut Canvas, view: &View, state: &State) {
    let Some(run) = state.run() else { return };
    let nodes = nodes(run);
    let lines = words(run, &nodes, state);
    // The map is what the pane is for: words have what it leaves.
    let width = nodes.iter().map(|node| width_of(node)).max().unwrap_or(1);
    let across = (canvas.area.width / width).max(1);
    let needed = (nodes.len() as u16).div_ceil(across);
    let words = canvas
        .area
        .height
        .saturating_sub(needed)
        .clamp(1, lines.len() as u16);
    for (row, (text, tone)) in (0..words).zip(&lines) {
        canvas.pen(row).rest(text, *tone);
    }
    let cells = Cells {
        view,
        state,
        selected: view.device(state).map(|device| &device.uuid),
        capacities: state.capacities(),
        ran_out: run.oom().and_then(|oom| oom.pid),
    };
    let selected = cells.selected;
    let shown = canvas.area.height.saturating_sub(words);
    let holds = |node: &Node| {
        node.ranks
            .iter()
            .any(|rank| rank.device.as_ref() == selected)
    };
    let at = nodes.iter().position(holds).unwrap_or(0) as u16 / across;
    let most = needed.saturating_sub(shown);
    let first = at.saturating_sub(shown / 2).min(most);
    let names = NAME.min(
        nodes
            .iter()
            .map(|node| columns(node.name))
            .max()
            .unwrap_or(0),
    );
    for (place, node) in (0..).zip(&nodes) {
        let (row, column) = (place / across, place % across * width);
        if row < first || row >= first + shown {
            continue;
        }
        let mut pen = canvas.pen(words + row - first);
        pen.to(column)
            .cut(node.name, names, Tone::Dim)
            .to(column + names + 1);
        for rank in &node.ranks {
            cells.draw(&mut pen, rank);
        }
    }
}

fn width_of(node: &Node) -> u16 {
    NAME.min(columns(node.name)) + 1 + node.ranks.len() as u16 + BETWEEN
}

/// What the cells of the map are drawn by.
struct Cells<'a> {
    view: &'a View,
    state: &'a State,
    selected: Option<&'a Uuid>,
    capacities: HashMap<&'a Uuid, Bytes>,
    ran_out: Option<Pid>,
}

impl Cells<'_> {
    fn draw(&self, pen: &mut Pen, rank: &RankState) {
        let glyphs = &self.view.theme.glyphs;
        let (glyph, tone) = match share(&self.capacities, rank) {
            _ if self.ran_out == Some(rank.hello.pid) => (glyphs.cross, Tone::Wrong),
            _ if rank.is_silent(self.state.now) => (glyphs.ring, Tone::Warning),
            _ if rank.disconnected.is_some() => (glyphs.sparse_dots, Tone::Dim),
            None => (glyphs.ring, Tone::Dim),
            Some(share) => {
                let eighths = ((share * 8.0).ceil() as usize).clamp(1, 8);
                let tone = match share {
                    share if share >= FULL => Tone::Wrong,
                    share if share >= TIGHT => Tone::Warning,
                    _ => Tone::Good,
                };
                (glyphs.eighths[eighths], tone)
            }
        };
        let style = self.view.theme.style(tone);
        let is_selected = rank.device.is_some() && rank.device.as_ref() == self.selected;
        pen.styled(
            glyph,
            match is_selected {
                true => style.add_modifier(Modifier::REVERSED),
                false => style,
            },
        );
    }
}

/// The nodes in the order of their first ranks.
fn nodes(run: &Run) -> Vec<Node<'_>> {
    let mut ranks: Vec<&RankState> = run.ranks.iter().collect();
    ranks.sort_by_key(|rank| (rank.hello.rank, rank.joined));
    let mut nodes: Vec<Node> = Vec::new();
    for rank in ranks {
        let name = rank.hello.node.as_deref().unwrap_or("here");
        match nodes.iter_mut().find(|node| node.name == name) {
            Some(node) => node.ranks.push(rank),
            None => nodes.push(Node {
                name,
                ranks: vec![rank],
            }),
        }
    }
    nodes
}

fn words(run: &Run, nodes: &[Node], state: &State) -> Vec<(String, Tone)> {
    let mut lines = vec![(seen(run, nodes), Tone::Text)];
    let unseen = run.unseen();
    if !unseen.is_empty() {
        lines.push((
            format!(
                "not seen: {} (no shared directory? see oomph help clusters)",
                ranges(&unseen)
            ),
            Tone::Warning,
        ));
    }
    let silent: Vec<&RankState> = (run.ranks.iter())
        .filter(|rank| rank.is_silent(state.now))
        .collect();
    if let Some(first) = silent.first() {
        let others = match silent.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        lines.push((
            format!("no word lately from {}{others}", first.name()),
            Tone::Warning,
        ));
    }
    lines.extend(standing_out(&state.standouts(), state));
    lines
}

fn seen(run: &Run, nodes: &[Node]) -> String {
    let world = run
        .world_size()
        .map_or(run.ranks.len(), |world| world as usize);
    let seen = run.ranks.len().min(world);
    let nodes = match nodes.len() {
        1 => "1 node".to_string(),
        n => format!("{n} nodes"),
    };
    match seen == world {
        true => format!("{world} ranks on {nodes}"),
        false => format!("{seen} of {world} ranks seen, on {nodes}"),
    }
}

fn standing_out(found: &Standouts<'_>, state: &State) -> Vec<(String, Tone)> {
    let mut lines = Vec::new();
    if let Some(out) = &found.fullest {
        let device = out.rank.device.as_ref().and_then(|uuid| state.device(uuid));
        let capacity = device.and_then(|device| device.capacity);
        let reserved = out.rank.sample.as_ref().map(|(_, sample)| sample.reserved);
        let gib = |bytes: Option<Bytes>| Figures::of(capacity).gib(bytes.unwrap_or_default());
        lines.push((
            format!(
                "fullest  {}: {} of {} GiB reserved (median {:.0} %)",
                out.rank.name(),
                gib(reserved),
                gib(capacity),
                out.median * 100.0
            ),
            Tone::Text,
        ));
    }
    if let Some(out) = &found.behind {
        let (value, median) = (count(out.value), count(out.median));
        lines.push((
            format!(
                "behind   {}: {value} steps (median {median})",
                out.rank.name()
            ),
            Tone::Warning,
        ));
    } else if let Some(out) = &found.slowest {
        let (value, median) = (rate(out.value), rate(out.median));
        lines.push((
            format!("slowest  {}: {value} (median {median})", out.rank.name()),
            Tone::Warning,
        ));
    }
    if let Some(out) = &found.odd {
        let (value, median) = (out.value, out.median);
        lines.push((
            format!(
                "odd one  {}: peak {value} (median {median})",
                out.rank.name()
            ),
            Tone::Warning,
        ));
    }
    lines
}
