//! From state to findings: what ran out of memory and why, with the numbers.
//!
//! Each cause has a file, with what is known of it in its `CAUSE`, and a row of the list below. A rule
//! gets an OOM and the numbers around it and returns a finding or `None`; no rule guesses a missing
//! number. No I/O: the same recording gives the same findings. To add a cause: the recipe in
//! `src/README.md`.

mod advised;
mod attention_scores;
mod baseline_growth;
mod beside_training;
mod capacity;
mod checkpoint_in_ram;
mod checkpoint_loading;
mod checkpoint_saving;
mod compilation;
mod device_fault;
mod driver_refused;
mod evaluation_graph;
mod evaluation_in_ram;
mod evaluation_outputs;
mod finding;
mod fitted_growth;
mod foreign_process;
mod fragmentation;
mod gpu_in_workers;
mod growth_verdict;
mod held_by_exception;
mod host_figures;
mod host_growth;
mod host_leak;
mod host_memory;
mod host_process;
mod host_workers;
mod idle_checkpointing;
mod inference_engine;
mod large_logits;
mod leak;
mod leftover_process;
mod library_memory;
mod limit;
mod model_placement;
mod non_pytorch;
mod odd_batch;
mod oom_context;
mod open_files;
mod optimizer_state;
mod other_frameworks;
mod own_ranks;
mod own_settings;
mod pinned_memory;
mod prefetch_queue;
mod printed_phase;
mod private_pools;
mod ranks;
mod shared_memory;
mod situation;
mod slurm_limit;
#[cfg(test)]
mod tests;
mod thrashing;
mod unused_block;
mod watch;
mod worker_copies;
mod wrong_size;
mod zero;

pub use advised::AdvisedChange;
pub use baseline_growth::{
    BaselineGrowth, GrownSoFar, baseline_growth, grows_by, may_grow, steady_baseline,
};
pub use finding::{
    AmongRanks, Certainty, EarlierSearch, Evidence, Finding, PartOfLeak, Phrase, RankNeed,
    capitalized, sum,
};
pub use fitted_growth::FittedGrowth;
pub use growth_verdict::GrowthVerdict;
pub use leak::{LeakForecast, growth_certainty, leak_forecast};
pub use situation::{RecognizedCalls, RequestPlace, Situation, recognized_calls};
pub use watch::{LiveWarning, LiveWarnings, certain_leak, warnings};

use crate::epoch::PrintedTrend;
use crate::oom::OomKind;
use crate::state::{OomIncident, Run, State};
use oom_context::OomContext;
use serde::Serialize;

/// Makes the enum, the list of all causes and the way to their specs from one list of names and files.
macro_rules! causes {
    ($($(#[$attribute:meta])* $name:ident: $file:ident,)*) => {
        /// Why memory ran out. Its name in recordings and JSON is that of the variant: `odd_batch`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Cause {
            $($(#[$attribute])* $name,)*
        }

        impl Cause {
            /// Of two equally certain findings the earlier one comes first.
            pub const ALL: &[Cause] = &[$(Cause::$name,)*];

            pub fn spec(self) -> &'static CauseSpec {
                match self {
                    $(Cause::$name => &$file::CAUSE,)*
                }
            }
        }
    };
}

// Outside influences come first, then particular causes, then capacity.
causes! {
    /// File descriptors, of which each tensor that a worker passes on takes one.
    OpenFiles: open_files,
    /// Batches that workers have fetched in advance.
    PrefetchQueue: prefetch_queue,
    /// Shared memory of the host: /dev/shm.
    SharedMemory: shared_memory,
    /// Memory of the host that is pinned for the GPU.
    PinnedMemory: pinned_memory,
    /// Each worker has copied what it shared with the others.
    WorkerCopies: worker_copies,
    /// A kind of process has grown at one rate for minutes.
    HostLeak: host_leak,
    /// Workers of the data's loading filled the host's memory.
    HostWorkers: host_workers,
    /// A checkpoint was gathered in RAM.
    CheckpointInRam: checkpoint_in_ram,
    /// An evaluation keeps its outputs in RAM.
    EvaluationInRam: evaluation_in_ram,
    /// One process of the program did.
    HostProcess: host_process,
    /// SLURM's limit of the job; nobody is known to have filled it.
    SlurmLimit: slurm_limit,
    /// The host's memory, not the device's; nobody is known to have filled it.
    HostMemory: host_memory,
    /// The device itself failed.
    DeviceFault: device_fault,
    /// A size that no GPU has and no batch needs.
    WrongSize: wrong_size,
    /// A cap set by the program or its environment.
    Limit: limit,
    /// Other ranks of the same training use this device.
    OwnRanks: own_ranks,
    /// A process of an earlier run is still alive.
    LeftoverProcess: leftover_process,
    /// Workers of a DataLoader have memory on the device.
    GpuInWorkers: gpu_in_workers,
    /// An inference engine has its share of the device.
    InferenceEngine: inference_engine,
    /// A model's loader planned parts of it off the device.
    ModelPlacement: model_placement,
    /// Another process uses the device's memory.
    ForeignProcess: foreign_process,
    /// A retry while the first OOM's exception keeps its frames.
    HeldByException: held_by_exception,
    /// Memory allocated between steps grows from step to step.
    Leak: leak,
    /// An evaluation that builds the autograd graph.
    EvaluationGraph: evaluation_graph,
    /// An evaluation whose outputs stay on the device.
    EvaluationOutputs: evaluation_outputs,
    /// A checkpoint is loaded onto the device.
    CheckpointLoading: checkpoint_loading,
    /// A checkpoint is put together on the device.
    CheckpointSaving: checkpoint_saving,
    /// torch.compile's trials and graphs.
    Compilation: compilation,
    /// The optimizer's state, allocated in its first step, does not fit.
    OptimizerState: optimizer_state,
    /// One batch larger than the others.
    OddBatch: odd_batch,
    /// Logits of a large vocabulary.
    LargeLogits: large_logits,
    /// Attention that keeps its scores.
    AttentionScores: attention_scores,
    /// A free block that would have fit.
    UnusedBlock: unused_block,
    /// Enough memory is cached, but in pieces that are too small.
    Fragmentation: fragmentation,
    /// Memory of this process outside PyTorch's allocator.
    NonPytorch: non_pytorch,
    /// A library found no memory outside PyTorch's allocator.
    LibraryMemory: library_memory,
    /// The driver refused, though far more was free.
    DriverRefused: driver_refused,
    /// What is allocated and what was requested do not fit on the device together.
    Capacity: capacity,
    /// The allocator flushes its cache again and again.
    Thrashing: thrashing,
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
    /// Whether it may be that one rank of many has more to do than the others.
    of_one_rank: bool,
}

type Rule = fn(&OomContext) -> Option<Finding>;

impl Cause {
    /// Whether it is of the host's memory, for which nothing helps that is changed on the GPU.
    pub fn is_of_host(self) -> bool {
        self.spec().prefers == Help::LessHostMemory
    }
}

impl CauseSpec {
    /// A cause that a smaller run can avoid.
    const fn new(title: &'static str, examine: Rule) -> CauseSpec {
        CauseSpec {
            title,
            examine,
            explains_capacity: false,
            recurs: None,
            prefers: Help::LessMemory,
            ineffective_against: None,
            of_one_rank: false,
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

    /// A cause in the host's memory, and why the run would fail again.
    const fn of_host(self, why: &'static str) -> CauseSpec {
        self.recurs(why).prefers(Help::LessHostMemory)
    }

    const fn of_one_rank(mut self) -> CauseSpec {
        self.of_one_rank = true;
        self
    }

    const fn ineffective_against(mut self, verdict: LittleUse, reason: &'static str) -> CauseSpec {
        self.ineffective_against = Some(IneffectiveAgainst { verdict, reason });
        self
    }
}

/// What explains the current run's decisive OOM, most certain first; empty without an OOM.
pub fn diagnose(state: &State) -> Vec<Finding> {
    match state.run().and_then(|run| Some((run, run.oom()?))) {
        Some((run, oom)) => diagnose_incident(state, Some(run), oom),
        None => Vec::new(),
    }
}

/// What explains the last OOM that the current run has survived, where none ended it.
pub fn diagnose_survived(state: &State) -> Vec<Finding> {
    let survived = state.run().filter(|run| run.oom().is_none());
    match survived.and_then(|run| Some((run, run.ooms.last()?))) {
        Some((run, oom)) => diagnose_incident(state, Some(run), oom),
        None => Vec::new(),
    }
}

/// What explains one OOM. A message alone is enough: with an empty state and no run.
pub fn diagnose_incident(state: &State, run: Option<&Run>, oom: &OomIncident) -> Vec<Finding> {
    let mut findings = causes(&OomContext::new(state, run, oom));
    if let Some(first) = findings.first_mut()
        && let Some(ranks) = run.and_then(|run| AmongRanks::new(run, oom))
    {
        first.advice.extend(ranks.advice(first.cause));
        first.ranks = Some(ranks);
    }
    findings
}

/// What explains an OOM in a log, of which its message is all that is known, and what the program printed of its memory.
pub fn diagnose_log(oom: &OomIncident, printed: PrintedTrend) -> Vec<Finding> {
    let nothing_else = State::default();
    let mut case = OomContext::new(&nothing_else, None, oom);
    if let PrintedTrend::Grows(growth) = printed {
        case.printed = Some(growth);
    }
    let mut findings = causes(&case);
    if let (Some(first), PrintedTrend::Unsaid) = (findings.first_mut(), printed)
        && matches!(first.cause, Cause::Capacity | Cause::Fragmentation)
    {
        *first = first.clone().says(NO_LEAK_IN_A_LOG);
    }
    findings
}

/// Of a log that says nothing of memory before its end.
const NO_LEAK_IN_A_LOG: &str =
    "A log does not show whether memory grew from step to step (a leak): a run under oomph does.";

fn causes(case: &OomContext) -> Vec<Finding> {
    let of_host = case.kind == OomKind::HostOom;
    let mut findings = Cause::ALL
        .iter()
        .filter(|cause| (cause.spec().prefers == Help::LessHostMemory) == of_host);
    if of_host {
        // The first that names somebody: the last of them always applies.
        let first = findings.find_map(|cause| (cause.spec().examine)(case));
        return first.into_iter().collect();
    }
    let mut findings: Vec<Finding> = findings
        .filter_map(|cause| (cause.spec().examine)(case))
        .collect();
    if findings.is_empty() {
        findings.push(capacity::nothing_else(case));
    }
    let particular = findings.iter().any(|finding| {
        finding.cause.spec().explains_capacity && finding.certainty >= Certainty::Likely
    });
    if particular {
        // A leak also ends with a full GPU: capacity then only follows from the particular cause
        // and must not come first.
        for finding in &mut findings {
            if finding.cause == Cause::Capacity {
                finding.certainty = finding.certainty.min(Certainty::Likely);
            }
        }
    }
    if leak::outweighs_the_cache(case) || evaluation_outputs::outweighs_the_cache(case) {
        // Another allocator would only delay the end.
        for finding in &mut findings {
            if finding.cause == Cause::Fragmentation {
                finding.certainty = finding.certainty.min(Certainty::Likely);
            }
        }
    }
    if case.far_too_much().is_some() {
        // The step would not fit even without the memory that something else takes.
        for finding in &mut findings {
            if finding.cause != Cause::Capacity && finding.cause != Cause::Limit {
                finding.certainty = finding.certainty.min(Certainty::Likely);
            }
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.certainty));
    findings
}
