//! A cap: the program or its environment limits itself to less than the device has.
//!
//! By `set_per_process_memory_fraction`, or by `per_process_memory_fraction` in the allocator's
//! settings (torch ≥ 2.10); CuPy's pool has a limit of its own. Free memory on the device does not help then, since the allocator
//! itself refuses.

use super::finding::{Sum, because, with_figures};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use crate::event::{ALLOCATOR_VARIABLES, SourceLine};
use crate::oom::OomKind;
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("memory limit", examine).of_one_rank();

/// Messages print hundredths of a GiB; three of these are compared.
const ROUNDING: Bytes = Bytes::mib(16);

/// What sets such a limit, of the allocator's settings.
const SETTING: &str = "per_process_memory_fraction";

/// What has set a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitSource<'a> {
    Cupy,
    /// A variable of the allocator's with its value, and whether it was typed before the command.
    Variable {
        name: &'static str,
        value: &'a str,
        is_typed: bool,
    },
    /// The allocator has the setting, and no variable does.
    OwnSettings,
    /// The allocator's settings do not have it; the program's line that sets it, if that is known.
    Program(Option<&'a SourceLine>),
    Unknown,
}

impl<'a> LimitSource<'a> {
    fn new(case: &OomContext<'a>) -> LimitSource<'a> {
        if case.kind == OomKind::Cupy {
            return LimitSource::Cupy;
        }
        let in_force = case.rank.and_then(|rank| rank.hello.alloc_conf.as_deref());
        let line = case
            .record()
            .and_then(|record| record.limit_line.as_deref());
        match (in_force.map(|settings| settings.contains(SETTING)), line) {
            (Some(true), _) => LimitSource::variable(case).unwrap_or(LimitSource::OwnSettings),
            (Some(false), line) | (None, line @ Some(_)) => LimitSource::Program(line),
            (None, None) => LimitSource::Unknown,
        }
    }

    fn variable(case: &OomContext<'a>) -> Option<LimitSource<'a>> {
        let set = ALLOCATOR_VARIABLES.into_iter().find_map(|name| {
            let typed = case.run.and_then(|run| run.command.env_value(name));
            let typed = typed.and_then(|value| value.as_str());
            let inherited = || case.launched?.variables.get(name).map(String::as_str);
            Some((name, typed.or_else(inherited)?, typed.is_some()))
        });
        let (name, value, is_typed) = set.filter(|(_, value, _)| value.contains(SETTING))?;
        Some(LimitSource::Variable {
            name,
            value,
            is_typed,
        })
    }

    fn words(self) -> String {
        match self {
            LimitSource::Cupy => {
                "The limit is CuPy's own: set_limit of its memory pool, or CUPY_GPU_MEMORY_LIMIT."
                    .into()
            }
            LimitSource::Variable {
                name,
                value,
                is_typed,
            } => {
                let place = if is_typed { "command" } else { "environment" };
                format!("{name} in the {place} sets the limit: {value}.")
            }
            LimitSource::OwnSettings => {
                format!("The program sets the limit in its allocator settings: {SETTING}.")
            }
            LimitSource::Program(line) => {
                let place = line.map_or(String::new(), |line| format!(" at {}", line.place()));
                format!(
                    "The program sets the limit itself{place}, by set_per_process_memory_fraction."
                )
            }
            LimitSource::Unknown => format!(
                "The limit comes from set_per_process_memory_fraction in the program or {SETTING} in the allocator settings."
            ),
        }
    }

    fn line(self) -> Option<&'a SourceLine> {
        match self {
            LimitSource::Program(line) => line,
            LimitSource::Variable { .. }
            | LimitSource::Cupy
            | LimitSource::OwnSettings
            | LimitSource::Unknown => None,
        }
    }

    fn advice(self) -> Phrase {
        let advice = "raise or remove the limit";
        match self {
            LimitSource::Variable { name, .. } => because(advice, name),
            LimitSource::Program(_) => because(advice, "set_per_process_memory_fraction"),
            LimitSource::Cupy | LimitSource::OwnSettings | LimitSource::Unknown => advice.into(),
        }
    }
}

fn examine(case: &OomContext) -> Option<Finding> {
    let limit = case.limit?;
    if case.capacity.is_some_and(|capacity| limit >= capacity) {
        // A fraction of 1.0 is printed as a limit too.
        return None;
    }
    let reached = case
        .reserved
        .zip(case.requested)
        .map(|(reserved, requested)| reserved + requested + ROUNDING > limit);
    let room_beyond = case
        .free
        .zip(case.requested)
        .map(|(free, requested)| free >= requested);
    let certainty = match (reached, room_beyond) {
        (Some(false), _) => return None,
        (Some(true), Some(true)) => Certainty::Certain,
        (Some(true), None) | (None, Some(true)) => Certainty::Likely,
        (None, None) | (_, Some(false)) => Certainty::Possible,
    };
    let of_the_gpu = case
        .capacity
        .map(|capacity| format!(" of the GPU's {capacity}"))
        .unwrap_or_default();
    let held = case
        .reserved
        .zip(case.requested)
        .map(|(reserved, requested)| {
            Sum(&[(reserved, "reserved"), (requested, "requested")]).against(limit)
        });
    let free = match (room_beyond, case.free) {
        (Some(true), Some(free)) => Some(format!("{free} is free on the GPU.")),
        (Some(false), Some(free)) => Some(format!(
            "Only {free} is free on the GPU, so it would not have fit without the limit either."
        )),
        (_, _) => None,
    };
    let headline = match held {
        Some(held) => with_figures(
            "A memory limit was reached",
            format!("{held} allowed{of_the_gpu}"),
        ),
        None => format!("A memory limit allows the program only {limit}{of_the_gpu}.").into(),
    };
    let source = LimitSource::new(case);
    Some(
        case.finding(Cause::Limit, certainty, headline)
            .says_if(case.failed_request())
            .says_if(free)
            .says(source.words())
            .shows_first([("limit", limit)])
            .at(source.line())
            .advises([source.advice()]),
    )
}
