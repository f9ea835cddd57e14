//! What the map shows: a cell for each rank and the words above it. Worked out from all ranks, so not for
//! every frame.

use crate::state::{RankState, Run, Standouts, State, ranges};
use crate::ui::figures::{Figures, count, rate};
use crate::ui::theme::Tone;
use crate::units::{Bytes, Moment, RunNumber};
use std::collections::HashMap;
use std::time::Duration;

/// How long it holds: ranks elsewhere say something every other second.
const HOLDS: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(in crate::ui) struct RankMap {
    run: RunNumber,
    at: Moment,
    pub(super) nodes: Vec<MapNode>,
    pub(super) words: Vec<(String, Tone)>,
}

/// A node and its ranks in order.
#[derive(Debug)]
pub(super) struct MapNode {
    pub(super) name: String,
    pub(super) cells: Vec<MapCell>,
}

#[derive(Debug)]
pub(super) struct MapCell {
    pub(super) mark: RankMark,
    /// The place of its device in the state.
    pub(super) device: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RankMark {
    RanOut,
    Silent,
    Gone,
    /// Without a sample.
    Unknown,
    /// The part of its device that it has reserved.
    Share(f64),
}

impl RankMap {
    pub(super) fn of(run: &Run, state: &State) -> RankMap {
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
    pub(super) fn holds(&self, run: &Run, now: Moment) -> bool {
        let is_over = run.ended.is_some_and(|(ended, _)| ended >= self.at);
        self.run == run.number && now >= self.at && now.since(self.at) < HOLDS && !is_over
    }
}

/// The nodes in the order of their first ranks.
pub(super) fn nodes(run: &Run) -> Vec<(&str, Vec<&RankState>)> {
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
    lines.extend(standing_out(&state.standouts(), state));
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
