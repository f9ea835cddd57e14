//! The ranks of a run by what their memory consists of, a row each, and the odd one out with the reason. The chart's rank is
//! selected, as in the list of devices.

use super::rank_map;
use super::standing_out::late_and_odd;
use crate::state::{RankParts, RankState, Run, State};
use crate::ui::canvas::{Canvas, Pen, columns};
use crate::ui::pane::ListScroll;
use crate::ui::pane::spec::{PaneRows, PaneSpec, Scrolling};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use crate::ui::words::Figures;
use crate::units::{Bytes, Rank};
use std::collections::BTreeMap;

pub(in crate::ui) const PANE: PaneSpec = PaneSpec {
    scrolling: Scrolling::Devices,
    rows: PaneRows::Fixed(|_, scene, _| {
        let ranks = scene.state.run().map_or(0, |run| latest(run).len());
        HEADS + ranks as u16 + WORDS
    }),
    is_there: has_ranks,
    has_tab: has_ranks,
    ..PaneSpec::plain("ranks", draw)
};

const HEADS: u16 = 1;
/// Rows for those that stand out.
const WORDS: u16 = 2;
/// Columns of a node's name.
const NODE: u16 = 12;
/// From this width on the node is named.
const ROOM_FOR_NODE: u16 = 96;
/// The least number of rows for ranks.
const LEAST: usize = 2;

/// Whether a run has several processes with a number.
fn has_ranks(state: &State) -> bool {
    state.run().is_some_and(|run| latest(run).len() > 1)
}

/// The latest process of each rank, by number.
fn latest(run: &Run) -> Vec<&RankState> {
    let mut latest: BTreeMap<Rank, &RankState> = BTreeMap::new();
    for rank in &run.ranks {
        if let Some(number) = rank.hello.rank {
            latest.insert(number, rank);
        }
    }
    latest.into_values().collect()
}

/// A column: its head, how wide it is, its tone, and what it has of a rank.
type Column = (&'static str, usize, Tone, fn(&RankParts) -> Option<Bytes>);

const ALLOCATED: Column = ("alloc", 7, Tone::Allocated, |parts| Some(parts.allocated));
const PARAMETERS: Column = ("params", 8, Tone::Parameters, |parts| parts.of.parameters);
const SHARDS: Column = ("shards", 8, Tone::Parameters, |parts| parts.of.parameters);
const GATHERED: Column = ("gathered", 9, Tone::Parameters, |parts| parts.of.gathered);
const GRADIENTS: Column = ("grads", 7, Tone::Gradients, |parts| parts.of.gradients);
const OPTIMIZER: Column = ("optim", 7, Tone::OptimizerState, |parts| {
    parts.of.optimizer_state
});
const REST: Column = ("activ. + other", 15, Tone::Activations, |parts| {
    parts.of.activations_and_other
});
const CACHED: Column = ("cached", 8, Tone::Cached, |parts| parts.of.cached);

const WHOLE: [Column; 6] = [ALLOCATED, PARAMETERS, GRADIENTS, OPTIMIZER, REST, CACHED];
const DIVIDED: [Column; 7] = [
    ALLOCATED, SHARDS, GATHERED, GRADIENTS, OPTIMIZER, REST, CACHED,
];

fn draw(canvas: &mut Canvas, view: &View, scene: &Scene, _: ListScroll) {
    let state = scene.state;
    let Some(run) = state.run().filter(|_| has_ranks(state)) else {
        let words = "one process: the memory of several ranks stands here side by side";
        canvas.pen(0).skip(1).rest(words, Tone::Dim);
        return;
    };
    let ranks = latest(run);
    let found = state.outliers();
    let mut words = late_and_odd(&found, state);
    if words.is_empty() {
        words.push((
            "no rank stands out: all peaks within 10 %".into(),
            Tone::Dim,
        ));
    }
    let height = usize::from(canvas.area.height.saturating_sub(HEADS));
    if height < ranks.len() + words.len() {
        // The most telling one is the last.
        words = words.split_off(words.len() - 1);
    }
    if height < LEAST + words.len() {
        words.clear();
    }
    let parts: Vec<(&RankState, Option<RankParts>)> = ranks
        .into_iter()
        .map(|rank| (rank, rank.parts(state, run)))
        .collect();
    let is_divided = |(_, parts): &(&RankState, Option<RankParts>)| {
        parts.is_some_and(|parts| parts.of.is_sharded)
    };
    let table = RanksTable {
        view,
        state,
        columns: match parts.iter().any(is_divided) {
            true => &DIVIDED,
            false => &WHOLE,
        },
        odd: found.odd.as_ref().map(|out| out.rank),
        has_nodes: canvas.area.width >= ROOM_FOR_NODE && rank_map::is_wanted(state),
    };
    table.draw_heads(canvas.pen(0));
    let shown = height.saturating_sub(words.len());
    let selected = parts.iter().position(|(rank, _)| table.is_selected(rank));
    let most = parts.len().saturating_sub(shown);
    let first = selected.unwrap_or(0).saturating_sub(shown / 2).min(most);
    let mut row = HEADS;
    for (rank, parts) in parts.iter().skip(first).take(shown) {
        table.draw_row(canvas.pen(row), rank, parts.as_ref());
        row += 1;
    }
    for (text, tone) in &words {
        canvas.pen(row).rest(text, *tone);
        row += 1;
    }
}

struct RanksTable<'a> {
    view: &'a View,
    state: &'a State,
    columns: &'static [Column],
    odd: Option<&'a RankState>,
    has_nodes: bool,
}

impl RanksTable<'_> {
    fn is_selected(&self, rank: &RankState) -> bool {
        let device = self.view.device(self.state);
        device.is_some_and(|device| rank.device.as_ref() == Some(&device.uuid))
    }

    fn draw_heads(&self, mut pen: Pen) {
        pen.text("  rank", Tone::Dim);
        if self.has_nodes {
            pen.text(&format!("  {:<1$}", "node", usize::from(NODE)), Tone::Dim);
        }
        pen.text("   peak", Tone::Dim);
        for (head, width, ..) in self.columns {
            pen.text(&format!("{head:>width$}"), Tone::Dim);
        }
    }

    fn draw_row(&self, mut pen: Pen, rank: &RankState, parts: Option<&RankParts>) {
        let theme = &self.view.theme;
        let device = rank
            .device
            .as_ref()
            .and_then(|uuid| self.state.device(uuid));
        let figures = device.map_or(Figures::new(None), Figures::of);
        let gone = rank.disconnected.is_some();
        let text = if gone { Tone::Dim } else { Tone::Text };
        let mark = match self.is_selected(rank) {
            true => theme.glyphs.pointer,
            false => " ",
        };
        let number = rank
            .hello
            .rank
            .map_or(String::new(), |rank| rank.to_string());
        pen.text(mark, Tone::Accent)
            .text(&format!(" {number:>4}"), text);
        if self.has_nodes {
            let node = rank.hello.node.as_deref().unwrap_or("here");
            pen.skip(2).cut(node, NODE, Tone::Dim);
            pen.skip(NODE - NODE.min(columns(node)));
        }
        let is_odd = self.odd.is_some_and(|odd| odd.hello.pid == rank.hello.pid);
        let peak = format!("{:>7}", figures.column(Some(rank.allocated_peak)));
        pen.text(&peak, if is_odd { Tone::Warning } else { Tone::Text });
        for (_, width, tone, of) in self.columns {
            let figure = parts
                .and_then(of)
                .map_or("-".into(), |bytes| figures.gib(bytes));
            pen.text(&format!("{figure:>width$}"), *tone);
        }
        let (words, tone) = match parts {
            Some(parts) if parts.is_oom => ("ran out", Tone::Wrong),
            _ if rank.is_silent(self.state.now) => ("silent", Tone::Warning),
            _ if gone => ("gone", Tone::Dim),
            _ if is_odd => (theme.glyphs.climb, Tone::Warning),
            _ => return,
        };
        pen.skip(2).rest(words, tone);
    }
}
