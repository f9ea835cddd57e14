//! A leak: memory allocated between steps grows from step to step. While the training runs, when it will
//! have filled the memory.

use super::baseline_growth::{BaselineGrowth, GrownSoFar, baseline_growth, median};
use super::finding::{EarlierSearch, PartOfLeak, because, with_figures};
use super::fitted_growth::FittedGrowth;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, LittleUse, Phrase};
use crate::anatomy::KEPT;
use crate::calibration::{EXPANDABLE, FIXED, NON_TORCH_USUAL};
use crate::epoch::PrintedGrowth;
use crate::event::{GrowingLine, Retainer};
use crate::state::{DeviceState, RankState, RunOutcome, State};
use crate::units::{Bytes, Rank, Uuid};

pub(super) const CAUSE: CauseSpec = CauseSpec::new("memory leak", examine)
    .explains_capacity()
    .recurs("memory leaks: it would run out again later")
    .ineffective_against(LittleUse::OnlyDelays, "it still leaks");

/// What keeps so much of what has leaked is what leaks.
const MOST_OF_IT: f64 = 0.5;

/// And so much is all of it: a step is not searched at its very end.
const ALL_OF_IT: f64 = 0.9;

/// What one container keeps is what has leaked, no more, where it is so many times what that many steps leak.
const WHOLE_LEAK: f64 = 1.1;

/// What was found so few steps ago is as it is now.
const RECENT: u64 = 2;

/// A forecast reaches this many times as far as the steps it was fitted over.
const REACH: u64 = 25;

/// How much of a cache in pieces there may be by the end, of what there is now. A choice.
const MORE_PIECES: f64 = 1.25;

/// Growth is a leak once the rest of the room is this many times smaller than what has grown.
const NEAR: u64 = 3;

/// And, where that cannot be told, once it has taken so much of the GPU.
const MOST_OF_THE_GPU: f64 = 0.6;

/// The latest step may be this many times as far away as the soonest, plus a few steps.
const WIDEST: u64 = 3;

pub(super) fn advice() -> [Phrase; 2] {
    [
        because(
            ".item() or .detach() on what you keep from each step",
            "a running loss keeps its whole graph",
        ),
        "look for lists that grow with every step: outputs, losses, hooks".into(),
    ]
}

impl GrownSoFar {
    /// By what was found to keep it, if that is all of it, else by how what stays between steps has grown: the steps before that
    /// was steady are left out of that.
    fn of(case: &OomContext) -> Option<GrownSoFar> {
        let leaked = GrownSoFar::by_growth(case)?;
        let steps = case.rank?.steps.count;
        let found = case.found_retainer().filter(|(at, found)| {
            let at_most = leaked.per_step().scale((steps + 1) as f64 * WHOLE_LEAK);
            found.length.is_some()
                && !found.at_least
                && at + RECENT >= steps
                && (leaked.bytes..=at_most).contains(&found.bytes)
        });
        Some(found.map_or(leaked, |(_, found)| GrownSoFar {
            bytes: found.bytes,
            over: steps,
            to: steps,
        }))
    }

    fn by_growth(case: &OomContext) -> Option<GrownSoFar> {
        let steps = &case.rank?.steps;
        let climb = baseline_growth(steps, case.capacity)?;
        Some(climb.so_far(steps))
    }
}

/// What has leaked, where memory grew from step to step.
pub(super) fn leaked(case: &OomContext) -> Option<Bytes> {
    let printed = case.printed.map(|growth| growth.grown());
    printed.or_else(|| GrownSoFar::of(case).map(|leaked| leaked.bytes))
}

/// Whether more has leaked than lies in the cache: what is cached in pieces then is the rest that the leak left.
pub(super) fn outweighs_the_cache(case: &OomContext) -> bool {
    leaked(case)
        .zip(case.cached)
        .is_some_and(|(leaked, cached)| leaked > cached)
}

fn examine(case: &OomContext) -> Option<Finding> {
    if let Some(growth) = case.printed {
        return Some(of_printed(case, growth));
    }
    let steps = &case.rank?.steps;
    let grown = GrownSoFar::of(case)?;
    let (leaked, per_step) = (grown.bytes, grown.per_step());
    let would_fit = case
        .needed()
        .zip(case.own_room())
        .is_some_and(|(needed, room)| needed - leaked <= room);
    let finding = Finding {
        leaked: Some(leaked),
        ..case.finding(
            Cause::Leak,
            Certainty::likely_if(would_fit),
            with_figures("Memory leak", grown.sum()),
        )
    };
    // A search of some steps ago has seen what had leaked by then.
    let leaked_by = |step: u64| {
        let since = per_step.scale(steps.count.saturating_sub(step) as f64);
        leaked - since.min(leaked)
    };
    // What keeps only a part of it is another's: the step's own tensors, say.
    let kept_by = case.found_retainer().filter(|(at, retainer)| {
        let by_then = leaked_by(*at);
        by_then > Bytes::ZERO
            && (retainer.bytes >= by_then.scale(MOST_OF_IT) || grows_with_steps(*at, retainer))
    });
    let earlier = kept_by.filter(|(at, _)| at + RECENT < steps.count);
    let earlier = earlier.map(|(step, retainer)| EarlierSearch {
        step,
        leak: Some(match retainer.bytes >= leaked_by(step).scale(ALL_OF_IT) {
            true => PartOfLeak::All,
            false => PartOfLeak::Most,
        }),
    });
    let kept_by = kept_by.map(|(_, retainer)| retainer);
    // With its name there is nothing to look for.
    let advice: Vec<Phrase> = match (kept_by, origin(case, per_step)) {
        (Some(_), _) => advice().into_iter().take(1).collect(),
        (None, Some(line)) => vec![detach_what(&line)],
        (None, None) => advice().into(),
    };
    let line = kept_by.and_then(|retainer| retainer.line.as_ref());
    Some(
        finding
            .kept_by_after(kept_by, earlier)
            .says(grown.sentence())
            .says("A smaller batch leaks as much of each sample, so it only delays the OOM.")
            .says_if(growing_line(case, per_step))
            .says_if((!would_fit).then_some("Even without the leak it would not fit here."))
            .shows_first([("leak per step", per_step), (KEPT, leaked)])
            .advises(advice)
            // The line that allocates what is kept is not the one that keeps it.
            .at(line),
    )
}

/// By what the program itself printed: steady growth over all of its steps.
fn of_printed(case: &OomContext, growth: PrintedGrowth) -> Finding {
    let grown = GrownSoFar {
        bytes: growth.grown(),
        over: growth.to_step - growth.from_step,
        to: growth.to_step,
    };
    let (per_step, leaked) = (grown.per_step(), grown.bytes);
    let would_fit = case
        .needed()
        .zip(case.own_room())
        .is_some_and(|(needed, room)| needed - leaked <= room);
    let PrintedGrowth {
        from_step,
        to_step,
        from,
        to,
    } = growth;
    let finding = Finding {
        leaked: Some(leaked),
        ..case.finding(
            Cause::Leak,
            Certainty::likely_if(would_fit),
            with_figures("Memory leak", grown.sum()),
        )
    };
    finding
        .says(format!(
            "By what the program printed: {from} allocated in step {from_step}, {to} in step {to_step}, about as much more with each step."
        ))
        .says("A smaller batch leaks as much of each sample, so it only delays the OOM.")
        .says("What keeps it is not in a log; a run under oomph shows it.")
        .says_if((!would_fit).then_some("Even without the leak it would not fit here."))
        .shows_first([("leak per step", per_step), (KEPT, leaked)])
        .advises(advice())
}

/// Whether a search that was cut short saw a container with about as many things in it as there were steps: what it keeps was not
/// summed up to the end, but how many things are in it is exact.
fn grows_with_steps(steps: u64, found: &Retainer) -> bool {
    let as_many = steps.saturating_sub(RECENT)..=steps + RECENT;
    found.at_least && found.length.is_some_and(|length| as_many.contains(&length))
}

/// The program's line that allocates most of what grows.
fn origin(case: &OomContext, per_step: Bytes) -> Option<String> {
    let most = growing(case)?;
    let is_most = most.per_step >= per_step.scale(MOST_OF_IT);
    is_most.then(|| format!("{} {}", most.line.place(), most.line.function))
}

/// What to do where a line is known that allocates what stays, and not who keeps it.
fn detach_what(line: &str) -> Phrase {
    because(
        &format!(".item() or .detach() on what you keep of what {line} allocates"),
        "a list that grows with every step, a running loss, a hook",
    )
}

fn growing<'a>(case: &OomContext<'a>) -> Option<&'a GrowingLine> {
    case.record()?.growing.first()
}

/// The program's line that grows most, if lines were recorded. Lines are known of a part of the memory only: one that accounts for
/// little of the growth is not called its origin.
fn growing_line(case: &OomContext, per_step: Bytes) -> Option<String> {
    let most = growing(case)?;
    let grows = most.per_step;
    Some(match origin(case, per_step) {
        Some(place) => format!("Growing allocations come from {place}: +{grows} per step."),
        None => format!(
            "Of the +{per_step} per step, +{grows} come from {} {}; where the rest comes from was not seen.",
            most.line.place(),
            most.line.function,
        ),
    })
}

/// An OOM to come.
#[derive(Debug, Clone, PartialEq)]
pub struct LeakForecast {
    /// The device that will be full.
    pub device: Uuid,
    /// The rank whose baseline grows, if ranks are known.
    pub rank: Option<Rank>,
    /// Growth per step.
    pub per_step: Bytes,
    /// The number of steps that were fitted.
    pub fitted: u64,
    /// The last completed step at the time of the forecast.
    pub step: u64,
    /// The most likely number of steps until the OOM.
    pub in_steps: u64,
    pub soonest: u64,
    pub latest: u64,
}

impl LeakForecast {
    /// Whether it comes in fewer steps than the growth has been seen for: nobody can wait for it to become certain.
    pub fn is_soon(&self) -> bool {
        self.in_steps <= self.fitted
    }

    /// Whether what has grown is most of what there was room for. A cache, a list that is kept at a size or a replay buffer grows
    /// just as a leak does until it is full; one that would fill the GPU is rare.
    fn is_near(&self) -> bool {
        NEAR * self.in_steps <= self.fitted
    }

    /// "out of memory in about 140 steps (128–152)".
    pub fn words(&self) -> String {
        let LeakForecast {
            in_steps,
            soonest,
            latest,
            ..
        } = self;
        let steps = if *in_steps == 1 { "step" } else { "steps" };
        format!("out of memory in about {in_steps} {steps} ({soonest}–{latest})")
    }
}

/// How sure it is that a process's growth does not end by itself.
pub fn growth_certainty(
    state: &State,
    fitted: &FittedGrowth,
    rank: &RankState,
    climb: &BaselineGrowth,
) -> Certainty {
    let device = rank.device.as_ref().and_then(|uuid| state.device(uuid));
    let capacity = device.and_then(|device| device.capacity);
    let share = capacity.and_then(|capacity| climb.total.fraction_of(capacity));
    // Where the step that fails cannot be told, by what is free or can be given back.
    let cached = rank.reserved_peak - rank.allocated_peak;
    let free = device.and_then(|device| device.headroom(state));
    let room = free.map(|free| (free.bytes + cached).0 as f64);
    let is_almost_full = || {
        let steps = room.map(|room| room / climb.per_step);
        steps.is_some_and(|steps| steps * NEAR as f64 <= climb.steps as f64)
    };
    let is_certain = match of_rank(state, fitted, rank) {
        Some(coming) => coming.is_near(),
        None => is_almost_full() || share.is_some_and(|share| share >= MOST_OF_THE_GPU),
    };
    match is_certain {
        true => Certainty::Certain,
        false => Certainty::Likely,
    }
}

/// The first OOM to come in the current run; `None` if the range of steps would be too wide to be useful.
pub fn leak_forecast(state: &State, fitted: &FittedGrowth) -> Option<LeakForecast> {
    let run = state.run()?;
    if run.outcome() != RunOutcome::Running {
        return None;
    }
    run.alive()
        .filter_map(|rank| of_rank(state, fitted, rank))
        .min_by_key(|forecast| forecast.in_steps)
}

fn of_rank(state: &State, fitted: &FittedGrowth, rank: &RankState) -> Option<LeakForecast> {
    let device = state.device(rank.device.as_ref()?)?;
    let climb = fitted.growth(rank, device.capacity)?;
    let Room {
        least: full_at_least,
        likely: full,
        most: full_at_most,
    } = room(state, device, rank)?;
    let (usual, most) = on_top(rank)?;
    // Several leaking processes fill a device together.
    let others: f64 = state
        .run()?
        .alive()
        .filter(|other| other.hello.pid != rank.hello.pid && other.device == rank.device)
        .filter_map(|other| fitted.growth(other, device.capacity))
        .map(|climb| climb.per_step)
        .sum();
    let steps_until = |full: f64, held: f64, slope: f64| (full - held) / (slope + others);
    let BaselineGrowth {
        per_step,
        slopes: (flattest, steepest),
        level,
        scatter: (below, above),
        ..
    } = climb;
    if flattest <= 0.0 {
        return None;
    }
    let soonest = steps_until(full_at_least, level + above + most, steepest);
    let latest = steps_until(full_at_most, level + below + usual, flattest);
    let likely = steps_until(full, level + (usual + most) / 2.0, per_step);
    if !latest.is_finite() || latest <= 0.0 {
        // By these numbers it should be full already, so they don't explain what happens.
        return None;
    }
    // The step after the last one that fits fails.
    let soonest = soonest.max(0.0) as u64 + u64::from(soonest < 1.0);
    let latest = latest as u64 + 2;
    let in_steps = (likely.max(0.0).ceil() as u64).clamp(soonest, latest);
    let is_useful = latest <= WIDEST * soonest + WIDEST && in_steps <= REACH * climb.steps;
    is_useful.then(|| LeakForecast {
        device: device.uuid.clone(),
        rank: rank.hello.rank,
        per_step: Bytes(per_step as u64),
        fitted: climb.steps,
        step: rank.steps.count,
        in_steps,
        soonest,
        latest,
    })
}

/// How much this process can allocate before the device, or its cap, is full.
struct Room {
    least: f64,
    likely: f64,
    most: f64,
}

fn room(state: &State, device: &DeviceState, rank: &RankState) -> Option<Room> {
    let held = rank.usage_on(&device.uuid)?;
    let headroom = device.headroom(state)?;
    let full = (held.sample.reserved + headroom.bytes).0 as f64;
    let unknown = if headroom.is_upper_bound {
        NON_TORCH_USUAL
    } else {
        Bytes::ZERO
    };
    let is_expandable = rank.hello.expandable_segments == Some(true);
    let (least, most) = match is_expandable {
        true => (EXPANDABLE.0, EXPANDABLE.2),
        false => (FIXED.0, FIXED.2),
    };
    // It never needs more than it reserved while there was enough memory.
    let seen = rank.reserved_peak.fraction_of(rank.allocated_peak)?;
    let factor = most.min(seen + 0.01).max(least);
    // What lies in pieces between blocks that are kept stays there, however much is kept.
    let pieces = match is_expandable {
        true => 0.0,
        false => (rank.reserved_peak - rank.allocated_peak).0 as f64,
    };
    let own = full - unknown.0 as f64;
    Some(Room {
        least: (own / factor).min(own - MORE_PIECES * pieces),
        likely: ((own / factor + full / least) / 2.0).min(full - pieces),
        most: full / least,
    })
}

/// What a step takes on top of the baseline, typically and at most, by the steps whose peak is
/// known exactly.
fn on_top(rank: &RankState) -> Option<(f64, f64)> {
    let exact = rank.steps.marks.ended.iter().filter(|mark| mark.is_exact);
    let mut on_top: Vec<f64> = exact
        .map(|mark| mark.peak.0 as f64 - mark.baseline.0 as f64)
        .map(|bytes| bytes.max(0.0))
        .collect();
    let most = on_top.iter().copied().max_by(f64::total_cmp)?;
    Some((median(&mut on_top)?, most))
}
