//! A warning while a run goes on: the host's memory grows steadily and will be gone within the hour, or leaks.

use super::finding::{because, with_figures};
use super::{Cause, Certainty, Finding, Phrase};
use crate::event::HostRole;
use crate::state::{HostLeak, State};

/// A warning while the run goes on: the host's memory grows steadily and will be gone within the hour.
pub(super) fn filling(state: &State) -> Option<Finding> {
    if let Some(leak) = leaking(state) {
        return Some(leak);
    }
    let growth = state.host.growth()?;
    let (_, memory) = state.host.latest()?;
    let minutes = growth.full_in.as_secs() / 60;
    let when = match minutes {
        0 => "full in less than a minute".to_string(),
        1 => "full in about a minute".to_string(),
        n => format!("full in about {n} minutes"),
    };
    let who = growth
        .role
        .and_then(|role| memory.roles.iter().find(|known| known.role == role));
    let who = who.map_or(String::new(), |who| {
        format!(": {}", who.role.words(who.count))
    });
    let headline = with_figures(
        "RAM is filling up",
        format!(
            "{} of {}, growing {} a minute{who}; {when}",
            memory.used, memory.limit, growth.per_minute
        ),
    );
    Some(
        Finding::new(Cause::HostMemory, Certainty::Likely, headline)
            .says("What is used has grown steadily over the last minutes.")
            .shows([("RAM used", memory.used), ("RAM limit", memory.limit)])
            .advises(["look for what is kept from batch to batch, in the workers too"]),
    )
}

/// While the run goes on.
pub(super) fn leaking(state: &State) -> Option<Finding> {
    let leak = state.host_leak()?;
    let (_, memory) = state.host.latest()?;
    let growth = state.host.growth();
    let when = growth.map_or(String::new(), |growth| {
        format!(
            "; full in about {} min",
            growth.full_in.as_secs().div_ceil(60)
        )
    });
    let headline = with_figures(
        "RAM leak",
        format!(
            "{}; {} of {}{when}",
            words(&leak),
            memory.used,
            memory.limit
        ),
    );
    Some(
        Finding::new(Cause::HostLeak, Certainty::Certain, headline)
            .says(said(&leak))
            .shows([("leaked", leak.total), ("a minute", leak.per_minute)])
            .advises(advice(leak.role)),
    )
}

/// "4 data loader workers grow by 120 MiB a minute"
pub(super) fn words(leak: &HostLeak) -> String {
    let verb = if leak.count == 1 { "grows" } else { "grow" };
    format!(
        "{} {verb} by {} a minute",
        leak.role.words(leak.count),
        leak.per_minute
    )
}

pub(super) fn said(leak: &HostLeak) -> String {
    let minutes = leak.over.as_secs_f64() / 60.0;
    format!(
        "It grew by {} in {minutes:.0} minutes, at one rate from the first of them to the last, and gave nothing back.",
        leak.total
    )
}

pub(super) fn advice(role: HostRole) -> [Phrase; 2] {
    match role.is_worker() {
        true => [
            because(
                "what __getitem__ keeps: a cache without a bound, open files, lists that grow",
                "each worker keeps its own",
            ),
            because(
                "persistent_workers=False",
                "workers then end with their epoch, and what they have piled up goes with them",
            ),
        ],
        false => [
            because(
                ".item() or .detach().cpu() of what is kept from each step, and not more of it than is needed",
                "losses, metrics and outputs in lists grow with every step",
            ),
            "python -m memray run, or tracemalloc.take_snapshot() twice: the line whose memory has grown".into(),
        ],
    }
}
