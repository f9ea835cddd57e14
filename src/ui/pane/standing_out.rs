//! The ranks that stand out, in words: the fullest, the slowest, and the odd one out with the reason.

use crate::state::{OddReason, Outlier, Outliers, RankState, Run, State};
use crate::ui::theme::Tone;
use crate::ui::words::{Figures, count, rate};
use crate::units::Bytes;
use std::fmt::Display;

/// A line each, the fullest first, with what it holds.
pub(super) fn standing_out(found: &Outliers<'_>, state: &State) -> Vec<(String, Tone)> {
    let fullest = found.fullest.as_ref().map(|out| fullest(out, state));
    let fullest = fullest.map(|words| (words, Tone::Text));
    fullest
        .into_iter()
        .chain(late_and_odd(found, state))
        .collect()
}

/// Those that are behind or slow, and the odd one out, the most telling last.
pub(super) fn late_and_odd(found: &Outliers<'_>, state: &State) -> Vec<(String, Tone)> {
    let late = match (&found.behind, &found.slowest) {
        (Some(out), _) => {
            let (value, median) = (count(out.value), count(out.median));
            let name = out.rank.name();
            Some(format!("behind   {name}: {value} steps (median {median})"))
        }
        (None, Some(out)) => {
            let (value, median) = (rate(out.value), rate(out.median));
            let name = out.rank.name();
            Some(format!("slowest  {name}: {value} (median {median})"))
        }
        (None, None) => None,
    };
    let lines = late.into_iter().chain(odd_one(found, state));
    lines.map(|words| (words, Tone::Warning)).collect()
}

/// Of two ranks the other, or the median.
fn beside<T>(out: &Outlier<'_, T>, state: &State, value: impl Display) -> String {
    match state.run().map_or(0, |run| run.ranks.len()) {
        0..=2 => format!("{}: {value}", out.usual.name()),
        _ => format!("median {value}"),
    }
}

fn fullest(out: &Outlier<'_, f64>, state: &State) -> String {
    let capacity = out.rank.device.as_ref();
    let capacity = capacity
        .and_then(|uuid| state.device(uuid))
        .and_then(|device| device.capacity);
    let reserved = out.rank.sample.as_ref().map(|(_, sample)| sample.reserved);
    let gib = |bytes: Option<Bytes>| Figures::new(capacity).gib(bytes.unwrap_or_default());
    let divided = state
        .run()
        .and_then(|run| divided(out.rank, state, run, gib));
    format!(
        "fullest  {}: {} of {} GiB reserved ({}){}",
        out.rank.name(),
        gib(reserved),
        gib(capacity),
        beside(out, state, format_args!("{:.0} %", out.median * 100.0)),
        divided.unwrap_or_default()
    )
}

/// Of a rank that has shards what is divided, gathered and the rest.
fn divided(
    rank: &RankState,
    state: &State,
    run: &Run,
    gib: impl Fn(Option<Bytes>) -> String,
) -> Option<String> {
    let parts = rank.parts(state, run)?.of;
    let gathered = parts.gathered?;
    let [shards, gathered, rest] = [
        parts.parameters,
        Some(gathered),
        parts.activations_and_other,
    ]
    .map(gib);
    Some(format!(
        ": shards {shards}, gathered {gathered}, activations + other {rest}"
    ))
}

/// The odd one out, and why it is.
fn odd_one(found: &Outliers<'_>, state: &State) -> Option<String> {
    let out = found.odd.as_ref()?;
    let why = found.why_odd.as_ref().map(|why| reason(why, out));
    let [value, median] = in_one_unit(out.value, out.median);
    let peak = beside(out, state, median);
    let name = out.rank.name();
    let why = why.unwrap_or_default();
    Some(format!("odd one  {name}: peak {value} ({peak}){why}"))
}

/// The unit of both is said once where it is the same.
fn in_one_unit(value: Bytes, other: Bytes) -> [String; 2] {
    let (value, other) = (value.to_string(), other.to_string());
    match (value.split_once(' '), other.split_once(' ')) {
        (Some((_, unit)), Some((figure, same))) if unit == same => {
            let figure = figure.to_string();
            [value, figure]
        }
        (_, _) => [value, other],
    }
}

fn reason(why: &OddReason, out: &Outlier<'_, Bytes>) -> String {
    let usual = out.usual.name();
    match why {
        OddReason::Layers(own, other) => format!(": it has {own} layers, {usual} has {other}"),
        OddReason::Modules(names) => format!(": it has {names}, {usual} has not"),
        OddReason::States(own, other) => {
            let [own, other] = in_one_unit(*own, *other);
            format!(": parameters, gradients, optimizer {own} ({other})")
        }
        OddReason::Evaluation { alone: true } => ": in an evaluation, no other's is".into(),
        OddReason::Evaluation { alone: false } => ": in an evaluation".into(),
        OddReason::Checkpoint => ": while a checkpoint was saved".into(),
        OddReason::Step => ": in activations + other".into(),
    }
}
