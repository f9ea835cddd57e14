//! The ranks of several nodes: a cell each, by how much of its device it has reserved, and the ones that
//! stand out by name. 64 ranks on 8 nodes fit on 80 by 24. The map is worked out from all ranks, so not for every frame.

use super::standing_out::standing_out;
use crate::state::{RankState, Run, State, ranges};
use crate::ui::canvas::{Canvas, Pen, columns};
use crate::ui::theme::{Theme, Tone};
use crate::units::{Moment, RunNumber};
use ratatui::style::Modifier;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

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

/// Rows of the map in a place of its own.
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
pub(in crate::ui) fn outliers(state: &State) -> Vec<usize> {
    let found = state.outliers();
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
    Some(before.unwrap_or_else(|| RankMap::new(run, state)))
}

/// Draws the map that is followed, or one of this moment. The cell of the selected device, by its place in the state, is reversed.
pub(super) fn draw(
    canvas: &mut Canvas,
    followed: Option<&RankMap>,
    selected: usize,
    state: &State,
) {
    let Some(run) = state.run() else { return };
    let theme = canvas.theme;
    let made;
    let map = match followed {
        Some(map) if map.holds(run, state.now) => map,
        Some(_) | None => {
            made = RankMap::new(run, state);
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
    let selected = (!state.devices.is_empty()).then(|| selected.min(state.devices.len() - 1));
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
            draw_cell(&mut pen, theme, cell.mark, is_selected(cell));
        }
    }
}

fn width_of(node: &MapNode) -> u16 {
    NAME.min(columns(&node.name)) + 1 + node.cells.len() as u16 + BETWEEN
}

fn draw_cell(pen: &mut Pen, theme: &Theme, mark: RankMark, is_selected: bool) {
    let glyphs = theme.glyphs;
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
    let style = theme.style(tone);
    pen.styled(
        glyph,
        match is_selected {
            true => style.add_modifier(Modifier::REVERSED),
            false => style,
        },
    );
}

/// How long it holds: ranks elsewhere say something every other second.
const HOLDS: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(in crate::ui) struct RankMap {
    run: RunNumber,
    at: Moment,
    nodes: Vec<MapNode>,
    words: Vec<(String, Tone)>,
}

/// A node and its ranks in order.
#[derive(Debug)]
struct MapNode {
    name: String,
    cells: Vec<MapCell>,
}

#[derive(Debug)]
struct MapCell {
    mark: RankMark,
    /// The place of its device in the state.
    device: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum RankMark {
    RanOut,
    Silent,
    Gone,
    /// Without a sample.
    Unknown,
    /// The part of its device that it has reserved.
    Share(f64),
}

impl RankMap {
    fn new(run: &Run, state: &State) -> RankMap {
        let ran_out = run.oom().and_then(|oom| oom.pid);
        let cell = |rank: &RankState| MapCell {
            mark: match state.share(rank) {
                _ if ran_out == Some(rank.hello.pid) => RankMark::RanOut,
                _ if rank.is_silent(state.now) => RankMark::Silent,
                _ if rank.disconnected.is_some() => RankMark::Gone,
                None => RankMark::Unknown,
                Some(share) => RankMark::Share(share),
            },
            device: (rank.device.as_ref()).and_then(|uuid| state.devices.place(uuid)),
        };
        let nodes = nodes(run);
        RankMap {
            run: run.number,
            at: state.now,
            words: words(run, nodes.len(), state),
            nodes: nodes
                .into_iter()
                .map(|(name, ranks)| MapNode {
                    name: name.to_string(),
                    cells: ranks.into_iter().map(cell).collect(),
                })
                .collect(),
        }
    }

    /// Whether it can be shown at this time.
    fn holds(&self, run: &Run, now: Moment) -> bool {
        let is_over = run.ended.is_some_and(|(ended, _)| ended >= self.at);
        self.run == run.number && now >= self.at && now.since(self.at) < HOLDS && !is_over
    }
}

/// The nodes in the order of their first ranks.
fn nodes(run: &Run) -> Vec<(&str, Vec<&RankState>)> {
    let mut ranks: Vec<&RankState> = run.ranks.iter().collect();
    ranks.sort_by_key(|rank| (rank.hello.rank, rank.joined));
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut nodes: Vec<(&str, Vec<&RankState>)> = Vec::new();
    for rank in ranks {
        let name = rank.hello.node.as_deref().unwrap_or("here");
        let place = *places.entry(name).or_insert(nodes.len());
        match nodes.get_mut(place) {
            Some((_, ranks)) => ranks.push(rank),
            None => nodes.push((name, vec![rank])),
        }
    }
    nodes
}

fn words(run: &Run, nodes: usize, state: &State) -> Vec<(String, Tone)> {
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
    lines.extend(standing_out(&state.outliers(), state));
    lines
}

fn seen(run: &Run, nodes: usize) -> String {
    let world = run
        .world_size()
        .map_or(run.ranks.len(), |world| world as usize);
    let seen = run.ranks.len().min(world);
    let nodes = match nodes {
        1 => "1 node".to_string(),
        n => format!("{n} nodes"),
    };
    match seen == world {
        true => format!("{world} ranks on {nodes}"),
        false => format!("{seen} of {world} ranks seen, on {nodes}"),
    }
}
