//! From state to findings: what ran out of memory and why, with the numbers.
//!
//! Each cause has a file and a row of [`CAUSES`]. A rule gets a case (an OOM and the numbers around
//! it) and returns a finding or `None`; no rule guesses a missing number. No I/O: the same
//! recording gives the same findings.

mod advice;
mod baseline_growth;
mod capacity;
mod case;
mod device_fault;
mod diagnose;
mod evaluation_graph;
mod finding;
mod fragmentation;
mod host_memory;
mod leak;
mod leak_forecast;
mod limit;
mod neighbours;
mod non_pytorch;
mod optimizer_state;
mod other_process;
mod outlier_batch;
mod ranks;
mod sum;
#[cfg(test)]
mod tests;
mod thrashing;
mod unexplained;
mod watch;
mod wording;

pub use baseline_growth::{BaselineGrowth, baseline_growth};
pub use diagnose::{diagnose, diagnose_incident};
pub use finding::{Certainty, Evidence, Finding};
pub use leak_forecast::{LeakForecast, leak_forecast};
pub use ranks::{AmongRanks, RankNeed};
pub use watch::{LiveWarnings, warnings};
pub use wording::Phrase;

use case::OomContext;
use serde::Serialize;

/// Why memory ran out, in the order of [`CAUSES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The host's memory, not the device's.
    HostMemory,
    /// The device itself failed.
    DeviceFault,
    /// A cap set by the program or its environment.
    Limit,
    /// Another process uses the device's memory.
    #[serde(rename = "foreign_process")]
    OtherProcess,
    /// Memory allocated between steps grows from step to step.
    Leak,
    /// An evaluation that builds the autograd graph.
    EvaluationGraph,
    /// The optimizer's state, allocated in its first step, does not fit.
    OptimizerState,
    /// One batch larger than the others.
    #[serde(rename = "odd_batch")]
    OutlierBatch,
    /// Enough memory is cached, but in pieces that are too small.
    Fragmentation,
    /// Memory of this process outside PyTorch's allocator.
    NonPytorch,
    /// What is allocated and what was requested do not fit on the device together.
    Capacity,
    /// The allocator flushes its cache again and again.
    Thrashing,
}

/// The kind of help to offer first for a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Help {
    LessMemory,
    LessHostMemory,
    NoFragmentation,
    AnotherDevice,
}

/// What a remedy achieves against a cause that it does not remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LittleUse {
    OnlyDelays,
    UnlikelyToHelp,
}

impl LittleUse {
    pub fn words(self) -> &'static str {
        match self {
            LittleUse::OnlyDelays => "only delays the OOM",
            LittleUse::UnlikelyToHelp => "unlikely to help",
        }
    }
}

/// What using less GPU memory, or a GPU with more of it, achieves against a cause that it does not
/// remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IneffectiveAgainst {
    pub verdict: LittleUse,
    pub reason: &'static str,
}

/// What is known of a cause outside of its rule.
#[derive(Debug)]
pub struct CauseSpec {
    cause: Cause,
    /// "capacity", "memory leak".
    pub title: &'static str,
    examine: Rule,
    /// Whether it explains why the device is full, so that capacity only follows from it.
    explains_capacity: bool,
    /// Why the run would fail again whatever is changed; `None` if a remedy can help.
    pub recurs: Option<&'static str>,
    /// The kind of remedies to offer first.
    pub prefers: Help,
    pub ineffective_against: Option<IneffectiveAgainst>,
}

type Rule = fn(&OomContext) -> Option<Finding>;

impl CauseSpec {
    /// A cause that a smaller run can avoid.
    const fn new(cause: Cause, title: &'static str, examine: Rule) -> CauseSpec {
        CauseSpec {
            cause,
            title,
            examine,
            explains_capacity: false,
            recurs: None,
            prefers: Help::LessMemory,
            ineffective_against: None,
        }
    }

    const fn explains_capacity(mut self) -> CauseSpec {
        self.explains_capacity = true;
        self
    }

    const fn recurs(mut self, why: &'static str) -> CauseSpec {
        self.recurs = Some(why);
        self
    }

    const fn prefers(mut self, help: Help) -> CauseSpec {
        self.prefers = help;
        self
    }

    const fn ineffective_against(mut self, verdict: LittleUse, reason: &'static str) -> CauseSpec {
        self.ineffective_against = Some(IneffectiveAgainst { verdict, reason });
        self
    }
}

/// Of two equally certain findings the earlier row comes first: outside influences, then particular
/// causes, then capacity.
static CAUSES: &[CauseSpec] = &[
    CauseSpec::new(Cause::HostMemory, "host memory", host_memory::examine)
        .recurs("host memory ran out, not GPU memory")
        .prefers(Help::LessHostMemory),
    CauseSpec::new(Cause::DeviceFault, "GPU fault", device_fault::examine).recurs("the GPU failed"),
    CauseSpec::new(Cause::Limit, "memory limit", limit::examine),
    CauseSpec::new(
        Cause::OtherProcess,
        "another process",
        other_process::examine,
    )
    .prefers(Help::AnotherDevice),
    CauseSpec::new(Cause::Leak, "memory leak", leak::examine)
        .explains_capacity()
        .recurs("memory leaks: it would run out again later")
        .ineffective_against(
            LittleUse::OnlyDelays,
            "each step leaks less, but it still leaks",
        ),
    CauseSpec::new(
        Cause::EvaluationGraph,
        "evaluation with gradients enabled",
        evaluation_graph::examine,
    )
    .explains_capacity()
    .recurs("evaluation keeps its graphs: it would run out again (torch.no_grad() fixes it)")
    .ineffective_against(
        LittleUse::UnlikelyToHelp,
        "every evaluation batch keeps its activations",
    ),
    CauseSpec::new(
        Cause::OptimizerState,
        "optimizer state",
        optimizer_state::examine,
    )
    .explains_capacity(),
    CauseSpec::new(Cause::OutlierBatch, "outlier batch", outlier_batch::examine)
        .explains_capacity(),
    CauseSpec::new(
        Cause::Fragmentation,
        "fragmentation",
        fragmentation::examine,
    )
    .prefers(Help::NoFragmentation),
    CauseSpec::new(
        Cause::NonPytorch,
        "non-PyTorch memory",
        non_pytorch::examine,
    )
    .explains_capacity(),
    CauseSpec::new(Cause::Capacity, "capacity", capacity::examine),
    CauseSpec::new(Cause::Thrashing, "allocator thrashing", thrashing::examine)
        .prefers(Help::NoFragmentation),
];

impl Cause {
    pub fn spec(self) -> &'static CauseSpec {
        let spec = &CAUSES[self as usize];
        debug_assert_eq!(spec.cause, self, "the table has the order of the enum");
        spec
    }
}
