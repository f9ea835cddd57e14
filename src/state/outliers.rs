//! Of many ranks the few to look at: the fullest, the slowest, the odd one out; and those that nothing is
//! known of.

use super::{RankState, Run, State};
use crate::event::{HostActivity, Phase, Structure};
use crate::units::{Bytes, Moment, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A rank is odd if its peak is this much above or below the median.
const ODD: f64 = 0.1;
/// A rank is slow if it makes this much fewer steps a second than the median.
const SLOW: f64 = 0.05;
/// Or if it is this many steps behind: ranks that wait for each other in every step are at most one apart.
const BEHIND: u64 = 3;
/// Fewer ranks than this have no median to speak of: of two each is compared with the other.
const FEWEST: usize = 3;
const TWO: usize = 2;
/// A probe on another node says something every few seconds; after this its node or its mount is silent.
const SILENT: Duration = Duration::from_secs(20);

/// A rank, and by how much it stands out.
#[derive(Debug, Clone, Copy)]
pub struct Outlier<'a, T> {
    pub rank: &'a RankState,
    pub value: T,
    pub median: T,
    /// The rank of which the median is.
    pub usual: &'a RankState,
}

/// The ranks that stand out of the current run's.
#[derive(Debug, Clone, Default)]
pub struct Outliers<'a> {
    /// With the largest part of its device reserved; the share, and the median's.
    pub fullest: Option<Outlier<'a, f64>>,
    /// Steps per second.
    pub slowest: Option<Outlier<'a, f64>>,
    /// Steps, of one that is behind.
    pub behind: Option<Outlier<'a, u64>>,
    /// The largest `allocated`.
    pub odd: Option<Outlier<'a, Bytes>>,
    /// Why that one is odd, as far as it is known.
    pub why_odd: Option<OddReason>,
}

/// What makes a rank's peak another one than that of the rank in the middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OddReason {
    /// So many layers, and those of the other.
    Layers(usize, usize),
    /// Modules that the other does not have: the head, an embedding.
    Modules(String),
    /// Its parameters, gradients and optimizer state. Its bytes, and the other's.
    States(Bytes, Bytes),
    /// An evaluation, in which its peak was or it ran out of memory; whether the others' peaks were in none.
    Evaluation { alone: bool },
    /// A checkpoint that it saved or gathered, in which its peak was.
    Checkpoint,
    /// As much is there for good: activations, gathered layers, or what else a step needs.
    Step,
}

impl State {
    /// The ranks of the current run that stand out.
    pub fn outliers(&self) -> Outliers<'_> {
        let Some(run) = self.run() else {
            return Outliers::default();
        };
        let ranks = || run.ranks.iter().filter(|rank| rank.sample.is_some());
        let by_share = |rank: &RankState| self.share(rank);
        let rate = |rank: &RankState| rank.steps.rate;
        let slow = |out: &Outlier<'_, f64>| out.value < out.median * (1.0 - SLOW);
        let behind = |out: &Outlier<'_, u64>| out.value + BEHIND <= out.median;
        let count = |rank: &RankState| rank.disconnected.is_none().then_some(rank.steps.count);
        let odd = odd(ranks());
        Outliers {
            why_odd: odd.and_then(|out| why_odd(&out, run)),
            fullest: extreme(ranks(), by_share, f64::total_cmp, true, TWO),
            slowest: extreme(ranks(), rate, f64::total_cmp, false, FEWEST).filter(slow),
            behind: extreme(ranks(), count, u64::cmp, false, FEWEST).filter(behind),
            odd,
        }
    }

    /// The part of its device that a rank has reserved.
    pub fn share(&self, rank: &RankState) -> Option<f64> {
        let (_, sample) = rank.sample.as_ref()?;
        let capacity = self.device(rank.device.as_ref()?)?.capacity?;
        sample.reserved.fraction_of(capacity)
    }
}

fn extreme<'a, T: Copy>(
    ranks: impl Iterator<Item = &'a RankState>,
    value: impl Fn(&RankState) -> Option<T>,
    order: impl Fn(&T, &T) -> std::cmp::Ordering,
    largest: bool,
    fewest: usize,
) -> Option<Outlier<'a, T>> {
    let mut known: Vec<(&RankState, T)> = ranks
        .filter_map(|rank| Some((rank, value(rank)?)))
        .collect();
    // The one with the lower number first, among equals.
    known.sort_by(|(_, a), (_, b)| match largest {
        true => order(b, a),
        false => order(a, b),
    });
    let (rank, value) = *known.first()?;
    let (usual, median) = *known.get(known.len() / 2)?;
    (known.len() >= fewest).then_some(Outlier {
        rank,
        value,
        median,
        usual,
    })
}

fn odd<'a>(ranks: impl Iterator<Item = &'a RankState> + Clone) -> Option<Outlier<'a, Bytes>> {
    let peak = |rank: &RankState| Some(rank.allocated_peak);
    let above = extreme(ranks.clone(), peak, Bytes::cmp, true, TWO)?;
    let below = extreme(ranks, peak, Bytes::cmp, false, TWO)?;
    let apart = |out: &Outlier<'_, Bytes>| {
        let share = out.value.fraction_of(out.median).unwrap_or(1.0);
        (share - 1.0).abs()
    };
    let furthest = match apart(&above) >= apart(&below) {
        true => above,
        false => below,
    };
    (apart(&furthest) >= ODD).then_some(furthest)
}

/// The reason of most of the difference, by what tells most: its modules, what it did at its peak, what it holds for good.
fn why_odd(out: &Outlier<'_, Bytes>, run: &Run) -> Option<OddReason> {
    let (odd, usual) = (out.rank, out.usual);
    let is_more = out.value > out.median;
    let ran_out = |rank: &RankState| {
        run.ooms.iter().any(|oom| {
            let phase = oom.record.as_ref().map(|record| record.phase);
            oom.pid == Some(rank.hello.pid) && phase == Some(Phase::Evaluation)
        })
    };
    let doing = |rank: &RankState| rank.doing_at_peak().filter(|_| is_more);
    let evaluates = |rank: &RankState| doing(rank) == Some(HostActivity::Evaluation);
    if ran_out(odd) || evaluates(odd) {
        let alone = (run.ranks.iter())
            .filter(|rank| rank.hello.pid != odd.hello.pid)
            .all(|rank| !ran_out(rank) && !evaluates(rank));
        return Some(OddReason::Evaluation { alone });
    }
    if doing(odd) == Some(HostActivity::Checkpoint) {
        return Some(OddReason::Checkpoint);
    }
    if let Some(modules) = of_modules(odd, usual).filter(|_| is_more) {
        return Some(modules);
    }
    let states = |rank: &RankState| rank.structure.as_ref().map(Structure::total);
    let (own, other) = (states(odd)?, states(usual)?);
    let apart = |a: Bytes, b: Bytes| (a - b).max(b - a);
    Some(
        match apart(own, other).scale(2.0) >= apart(out.value, out.median) {
            true => OddReason::States(own, other),
            false => OddReason::Step,
        },
    )
}

/// What one rank has of the model and the other has not, by the modules of their traced steps.
fn of_modules(odd: &RankState, usual: &RankState) -> Option<OddReason> {
    let (own, other) = (HeldModules::of(odd)?, HeldModules::of(usual)?);
    if own.layers > other.layers && other.layers > 0 {
        return Some(OddReason::Layers(own.layers, other.layers));
    }
    let alone: Vec<&str> = own
        .outermost
        .difference(&other.outermost)
        .copied()
        .collect();
    match alone.split_at_checked(NAMED) {
        _ if alone.is_empty() => None,
        Some((first, rest)) if !rest.is_empty() => {
            let words = format!("{} and {} more", first.join(", "), rest.len());
            Some(OddReason::Modules(words))
        }
        Some(_) | None => Some(OddReason::Modules(alone.join(", "))),
    }
}

/// Modules that are named.
const NAMED: usize = 3;

/// The modules of a rank's part of the model.
struct HeldModules<'a> {
    /// How many numbered ones, of the kind of which there are most: `layers.0` to `layers.11`.
    layers: usize,
    /// The names in front of numbers, or of modules without any.
    outermost: BTreeSet<&'a str>,
}

impl<'a> HeldModules<'a> {
    /// By the latest traced step that knows modules.
    fn of(rank: &'a RankState) -> Option<HeldModules<'a>> {
        let mut traces = rank.traces.all();
        let known = traces.rfind(|trace| !trace.modules.is_empty())?;
        Some(HeldModules::new(&known.modules))
    }

    fn new(names: &'a [String]) -> HeldModules<'a> {
        let mut layers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut outermost = BTreeSet::new();
        for name in names {
            let is_number = |part: &str| part.parse::<u64>().is_ok();
            let mut at = 0;
            let numbered = name.split('.').find_map(|part| {
                let (from, to) = (at, at + part.len());
                at = to + 1;
                is_number(part).then(|| (&name[..from.saturating_sub(1)], &name[from..to]))
            });
            match numbered {
                Some((of, number)) => {
                    layers.entry(of).or_default().insert(number);
                }
                None if !name.is_empty() => {
                    outermost.insert(name.as_str());
                }
                None => {}
            }
        }
        // A module that only has numbered ones within it is no part of its own.
        let within = |of: &str, name: &str| {
            of.strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        outermost.retain(|name| !layers.keys().any(|of| within(of, name)));
        HeldModules {
            layers: layers.values().map(BTreeSet::len).max().unwrap_or(0),
            outermost,
        }
    }
}

impl Run {
    /// How many ranks there are, as their launcher says.
    pub fn world_size(&self) -> Option<u32> {
        let sizes = self.ranks.iter().map(|rank| rank.hello.world_size);
        sizes.max().flatten()
    }

    /// Whether ranks run on other nodes, seen or not.
    pub fn is_spread(&self) -> bool {
        let elsewhere = |rank: &RankState| !rank.hello.pid.is_here() || rank.hello.nodes > Some(1);
        self.ranks.iter().any(elsewhere)
    }

    /// The ranks that have said nothing, as ranges.
    pub fn unseen(&self) -> Vec<(u32, u32)> {
        let Some(world) = self.world_size() else {
            return Vec::new();
        };
        let numbers = self.ranks.iter().filter_map(|rank| rank.hello.rank);
        let mut seen: Vec<u32> = numbers.map(|Rank(number)| number).collect();
        if seen.is_empty() {
            return Vec::new();
        }
        seen.sort_unstable();
        let mut unseen = Vec::new();
        let mut next = 0;
        for number in seen
            .into_iter()
            .filter(|number| *number < world)
            .chain([world])
        {
            if number > next {
                unseen.push((next, number - 1));
            }
            next = next.max(number.saturating_add(1));
        }
        unseen
    }
}

impl RankState {
    /// Whether nothing has come from another node for a while.
    pub fn is_silent(&self, now: Moment) -> bool {
        let heard = self.sample.as_ref().map_or(self.joined, |(at, _)| *at);
        let heard = heard.max(self.steps.last.as_ref().map_or(heard, |(at, _)| *at));
        !self.hello.pid.is_here() && self.disconnected.is_none() && now.since(heard) > SILENT
    }
}

/// `3, 8-15`.
pub fn ranges(unseen: &[(u32, u32)]) -> String {
    let words: Vec<String> = unseen
        .iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, OomRecord, PeakActivity, StepTrace};
    use crate::state::tests::staged::*;
    use crate::units::Pid;

    fn session(peaks: &[u64]) -> StagedSession {
        let mut scene = StagedSession::default();
        scene.add(0.0, started(1, 100, "srun -N2 python train.py"));
        for (rank, peak) in (0..).zip(peaks) {
            let pid = 100 + rank;
            scene.add(1.0, hello(1, pid, Some(rank as u32)));
            let peak = Bytes::gib(*peak);
            scene.add(
                2.0,
                crate::event::EventKind::Sample(sample(pid, 0, peak, peak)),
            );
        }
        scene
    }

    #[test]
    fn the_fullest_and_the_odd_one_out_are_named() {
        let scene = session(&[40, 41, 60, 40, 39]);
        let found = scene.state.outliers();
        let number = |rank: &RankState| rank.hello.rank.unwrap().0;
        assert_eq!(number(found.fullest.unwrap().rank), 2);
        let odd = found.odd.unwrap();
        assert_eq!((number(odd.rank), odd.median), (2, Bytes::gib(40)));
        let scene = session(&[40, 41, 4, 40, 39]);
        assert_eq!(number(scene.state.outliers().odd.unwrap().rank), 2);
        assert!(session(&[40, 41, 42]).state.outliers().odd.is_none());
        let scene = session(&[60, 40]);
        let found = scene.state.outliers();
        let odd = found.odd.unwrap();
        assert_eq!((number(odd.rank), odd.median), (0, Bytes::gib(40)));
        assert_eq!(
            number(odd.usual),
            1,
            "of two one is compared with the other"
        );
        assert!(found.slowest.is_none() && found.behind.is_none());
        assert!(session(&[40, 41]).state.outliers().odd.is_none());
        assert!(session(&[40]).state.outliers().fullest.is_none());
    }

    #[test]
    fn the_odd_ones_reason_is_what_most_of_the_difference_is() {
        let why = |structures: [u64; 4], phase: Option<Phase>| {
            let mut scene = session(&[40, 41, 60, 40]);
            for (pid, states) in (100..).zip(structures) {
                scene.add(
                    3.0,
                    crate::event::EventKind::Structure(Structure {
                        pid: Pid(pid),
                        device: 0,
                        parameters: Bytes::gib(states),
                        gradients: Bytes::ZERO,
                        optimizer_state: Bytes::ZERO,
                        whole: None,
                    }),
                );
            }
            if let Some(phase) = phase {
                let out = OomRecord {
                    phase,
                    ..record(
                        102,
                        Bytes::gib(60),
                        Bytes::gib(60),
                        Bytes::gib(20),
                        Bytes::ZERO,
                    )
                };
                scene.add(4.0, crate::event::EventKind::Oom(out));
            }
            scene.state.outliers().why_odd
        };
        let states = |own, median| Some(OddReason::States(Bytes::gib(own), Bytes::gib(median)));
        assert_eq!(why([10, 10, 28, 10], None), states(28, 10));
        assert_eq!(why([10, 10, 12, 10], None), Some(OddReason::Step));
        let evaluation = Some(Phase::Evaluation);
        assert_eq!(
            why([10, 10, 10, 10], evaluation),
            Some(OddReason::Evaluation { alone: true })
        );
        assert_eq!(session(&[40, 41, 60, 40]).state.outliers().why_odd, None);
    }

    #[test]
    fn the_odd_ones_reason_is_what_it_alone_did_at_its_peak() {
        let why = |doing: [Option<HostActivity>; 2]| {
            let mut scene = session(&[60, 40]);
            for (pid, doing) in [100, 101].into_iter().zip(doing) {
                let said = |doing| {
                    EventKind::PeakActivity(PeakActivity {
                        pid: Pid(pid),
                        device: 0,
                        doing,
                    })
                };
                // The latest counts.
                scene.add(3.0, said(Some(HostActivity::Checkpoint)));
                scene.add(3.1, said(doing));
            }
            scene.state.outliers().why_odd
        };
        let evaluation = Some(HostActivity::Evaluation);
        let evaluates = |alone| Some(OddReason::Evaluation { alone });
        assert_eq!(why([evaluation, None]), evaluates(true));
        assert_eq!(why([evaluation, evaluation]), evaluates(false));
        assert_eq!(why([None, evaluation]), None, "of the smaller peak");
        let checkpoint = Some(HostActivity::Checkpoint);
        assert_eq!(why([checkpoint, None]), Some(OddReason::Checkpoint));
    }

    #[test]
    fn the_odd_ones_reason_is_the_part_of_the_model_that_it_has() {
        let layers = |numbers: std::ops::Range<u32>, more: &[&str]| {
            let layers = numbers.map(|at| format!("model.layers.{at}.mlp.up"));
            let more = more.iter().map(|name| name.to_string());
            layers.chain(more).collect::<Vec<String>>()
        };
        let why = |modules: [Vec<String>; 2]| {
            let mut scene = session(&[60, 40]);
            for (pid, modules) in [100, 101].into_iter().zip(modules) {
                let traced = StepTrace {
                    pid: Pid(pid),
                    step: 3,
                    trace: "512 | 512 -1".into(),
                    modules,
                    ..StepTrace::default()
                };
                scene.add(3.0, EventKind::StepTrace(Box::new(traced)));
            }
            scene.state.outliers().why_odd
        };
        let same = ["model"];
        assert_eq!(
            why([layers(0..12, &same), layers(12..22, &same)]),
            Some(OddReason::Layers(12, 10))
        );
        // The last part of a pipeline has fewer layers, and what comes behind them.
        assert_eq!(
            why([layers(12..22, &["model", "lm_head"]), layers(0..12, &same)]),
            Some(OddReason::Modules("lm_head".into()))
        );
        assert_eq!(
            why([layers(0..2, &["a", "b", "c", "d"]), layers(0..2, &[])]),
            Some(OddReason::Modules("a, b, c and 1 more".into()))
        );
        assert_eq!(why([layers(0..2, &same), layers(0..2, &same)]), None);
    }

    #[test]
    fn a_rank_that_makes_fewer_steps_is_slow_or_behind() {
        let mut scene = session(&[40; 4]);
        let gib = Bytes::gib(4);
        for count in 1..=10 {
            for pid in 100..104 {
                // The last one stands still after five, the second takes twice as long.
                if (pid == 103 && count > 5) || (pid == 101 && count % 2 == 1) {
                    continue;
                }
                let count = if pid == 101 { count / 2 } else { count };
                scene.add(2.0 + count as f64 * 0.5, step(pid, count, gib, gib));
            }
        }
        let found = scene.state.outliers();
        assert_eq!(found.behind.unwrap().rank.hello.rank, Some(Rank(1)));
        assert_eq!(found.behind.unwrap().value, 5);
    }

    #[test]
    fn ranks_that_say_nothing_are_known_by_the_number_of_ranks() {
        let scene = session(&[40, 40]);
        let run = scene.state.run().unwrap();
        assert_eq!(run.world_size(), Some(2));
        assert_eq!(run.unseen(), []);
        let mut run = run.clone();
        for rank in &mut run.ranks {
            rank.hello.world_size = Some(16);
        }
        run.ranks[1].hello.rank = Some(Rank(4));
        assert!(!run.is_spread(), "they may be late");
        run.ranks[1].hello.nodes = Some(2);
        assert_eq!(run.unseen(), [(1, 3), (5, 15)]);
        assert_eq!(ranges(&run.unseen()), "1-3, 5-15");
        assert!(run.is_spread());
    }
}
