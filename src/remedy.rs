//! What can be changed so that the next run fits, and what it costs.
//!
//! A remedy is a list of edits of the command's words (never of a shell string), with its expected
//! need and its cost; one that isn't offered says why. No I/O: what is on disk is passed in, and
//! nothing is run.
//!
//! Each remedy has a file, with what is known of it in its `REMEDY`, and a row of the list below.
//! To add one: the recipe in `src/README.md`.

mod amp;
mod batch;
mod candidates;
mod change;
mod checkpointing;
mod chunked_loss;
mod compiled;
mod device;
mod early_release;
mod edited;
mod empty_cache;
mod expandable_segments;
mod expectation;
mod fused_attention;
mod fused_optimizer;
mod host_limit;
mod inputs;
mod load_to_cpu;
mod loader;
mod max_split_size;
mod measured;
mod no_foreach;
mod no_limit;
mod offer;
mod offload;
mod optimizer;
mod outputs_to_ram;
mod persistent_workers;
mod pin_memory;
mod plan;
mod plan_output;
mod prefetch;
mod proof;
mod proposal;
mod ram;
mod recommended;
mod record_streams;
mod resume;
mod setting;
mod sharding;
mod sharing;
mod single;
mod smaller_samples;
mod stop_leftover;
mod switch;
#[cfg(test)]
mod tests;
mod together;
mod verify;
mod wait;
mod workers;

pub use change::{CommandChange, PredictedChange, predicted};
pub use edited::EditedNeed;
pub use expandable_segments::with_alloc_conf;
pub use inputs::{Leftover, RemedyInputs};
pub use measured::as_it_ran;
pub use offer::{expectation, remedies, too_large_by};
pub use plan::{
    Alteration, Availability, BatchChange, Edit, Expectation, FileCopy, FileEdit, FitVerdict, Plan,
    RanBefore, Remedy,
};
pub use plan_output::{plan_json, plan_text};
pub use proof::{
    Compared, LossesFrom, NumericsProof, ProofOutcome, ROUNDING, Unchecked, numerics_of,
};
pub use recommended::{Promise, may_help, promise, recommended};
pub use setting::{Setting, Which, places_written, with_argument};
pub use together::combination;
pub use verify::{
    Ended, UndoneRemedy, WhyUndone, in_loaders, not_in_force, rejected, without_rejected,
};

use crate::diagnosis::{Cause, Help};
use crate::event::{Hello, LoaderSettings};
use crate::forecast::Target;
use crate::units::Uuid;
use candidates::{first, second, third};
use compiled::{budget, dynamic};
use proposal::{Offering, Proposal};
use serde::{Deserialize, Serialize};
use sharding::{gradients_in_buckets, reshard, shards_in_bf16, shards_to_ram};
use verify::RejectedThing;

/// Makes the enum, the list of all remedies and the way to their specs from one list of names and
/// files.
macro_rules! remedies {
    ($($(#[$attribute:meta])* $name:ident: $file:ident,)*) => {
        /// A remedy. Its name in recordings and JSON is that of the variant: `max-split-size`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum RemedyId {
            $($(#[$attribute])* $name,)*
        }

        impl RemedyId {
            const ALL: &[RemedyId] = &[$(RemedyId::$name,)*];

            pub fn spec(self) -> &'static RemedySpec {
                match self {
                    $(RemedyId::$name => &$file::REMEDY,)*
                }
            }
        }
    };
}

// In the order in which they are offered; a cause can prefer a remedy (`comes_before`).
remedies! {
    /// Several of the others, where none of them by itself is known to fit.
    Together: together,
    /// The same command, after stopping what is left of an earlier session.
    StopLeftover: stop_leftover,
    /// The same command, once another process has left the device.
    Wait: wait,
    /// The command without the memory limit that its allocator's settings have.
    NoLimit: no_limit,
    /// An optimizer that steps through its parameters one by one.
    NoForeach: no_foreach,
    /// An optimizer that steps in one kernel.
    FusedOptimizer: fused_optimizer,
    /// A checkpoint loaded to the CPU.
    LoadToCpu: load_to_cpu,
    /// An evaluation's outputs in RAM.
    OutputsToRam: outputs_to_ram,
    /// Collectives that do not hold on to tensors by `record_stream`.
    RecordStreams: record_streams,
    /// A cross-entropy over some rows at a time, or a fused one.
    ChunkedLoss: chunked_loss,
    /// Attention by a fused kernel.
    FusedAttention: fused_attention,
    /// A smaller batch; the effective batch is kept if the program can accumulate.
    Batch: batch,
    /// A smaller value of a number that may be the batch, where it is not sure which one is.
    FirstCandidate: first,
    /// The same of another number.
    SecondCandidate: second,
    /// The same of one more.
    ThirdCandidate: third,
    /// `expandable_segments:True`.
    ExpandableSegments: expandable_segments,
    /// Activation checkpointing.
    Recompute: checkpointing,
    /// Parameters that FSDP divides again behind forward.
    Reshard: reshard,
    /// Gradients that are views of DistributedDataParallel's buckets.
    GradientsInBuckets: gradients_in_buckets,
    /// Mixed precision.
    Amp: amp,
    /// What a forward pass saves waits in RAM.
    Offload: offload,
    /// FSDP's parameters gathered in bf16.
    ShardsInBf16: shards_in_bf16,
    /// What FSDP divides kept in RAM.
    ShardsToRam: shards_to_ram,
    /// Activations recomputed in compiled graphs, up to a share of what they keep.
    CompileBudget: budget,
    /// Graphs compiled once for all sizes.
    CompileDynamic: dynamic,
    /// `max_split_size_mb`, for versions of PyTorch without expandable segments.
    MaxSplitSize: max_split_size,
    /// `garbage_collection_threshold`, where no segment can grow.
    EarlyRelease: early_release,
    /// PyTorch's cache emptied between training and evaluation.
    EmptyCache: empty_cache,
    /// Another GPU of this machine.
    Device: device,
    /// An optimizer with a smaller state.
    Optimizer: optimizer,
    /// Fewer DataLoader workers, if the host's memory ran out.
    DataloaderWorkers: workers,
    /// Fewer batches that workers fetch in advance.
    PrefetchFactor: prefetch,
    /// No pinned memory for batches.
    PinMemory: pin_memory,
    /// Workers that end with their epoch.
    PersistentWorkers: persistent_workers,
    /// Tensors shared by files with names.
    SharingStrategy: sharing,
    /// A larger `--mem`, `--memory` or `--shm-size` of what starts the program.
    HostLimit: host_limit,
    /// Resume from a checkpoint of the run that ended.
    Resume: resume,
    /// The previous choice without the edit that the program rejected.
    Without: verify,
    /// Shorter sequences or smaller images.
    SmallerSamples: smaller_samples,
}

/// Reads the first message of a run's probe, and says if the remedy did not take effect; the second
/// argument is the device that ran out of memory before.
type EffectCheck = fn(&Hello, Option<&Uuid>) -> Option<String>;

/// Compares the DataLoaders of the run before with those of a relaunched one: what shows that the remedy is in force, or an
/// error that says that it isn't.
type LoaderCheck =
    fn(before: &[LoaderSettings], now: &[LoaderSettings]) -> Option<Result<String, String>>;

/// What is known of a remedy before it is applied to a command.
#[derive(Debug)]
pub struct RemedySpec {
    /// Its key in the dialog.
    pub key: char,
    /// For display: "smaller batch".
    pub title: &'static str,
    pub effect: RemedyEffect,
    /// What it always changes in the training. A batch decides for itself.
    pub alters: Option<Alteration>,
    pub action: RemedyAction,
    need: NeedFrom,
    /// If the cause asks for this help, its place is before that remedy's.
    comes_before: Option<(Help, RemedyId)>,
    /// What it does to a command; `None` to leave it out of the list.
    propose: fn(&Offering<'_>) -> Option<Proposal>,
    verify: Option<EffectCheck>,
    of_loader: Option<LoaderCheck>,
    /// What a program or library may reject, apart from its arguments.
    rejects: Option<RejectedThing>,
}

/// What a remedy does to the memory that the run needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemedyEffect {
    LessAllocated,
    /// It takes away the very memory that the cause is about, and is offered for nothing else.
    RemovesCause,
    /// As much is allocated, with less fragmentation.
    LessFragmentation,
    /// As much is allocated on a device, or at a time, with more free memory.
    MoreFree,
    /// It needs as much GPU memory as before.
    None,
}

/// How a remedy is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemedyAction {
    /// By edits of the command, its environment or a patch at runtime.
    Edit,
    /// By something done before the next run.
    Act,
}

/// Where the estimate for a remedy on its own comes from. One that is forecast says what it changes in
/// the run that is predicted, or it would be predicted to need what the unchanged command needs.
#[derive(Debug)]
enum NeedFrom {
    /// The forecast of the whole step.
    Forecast(ForecastChange),
    /// The forecast if it knows a need, else the remedy.
    ForecastIfKnown(ForecastChange),
    /// Only the allocation that failed.
    FailedAllocation,
    /// The remedy.
    Itself,
}

/// Changes the run that is predicted as the remedy will change it.
type ForecastChange = fn(&Remedy, &mut Target);

impl RemedySpec {
    /// A remedy that edits the command and keeps the training's numbers.
    const fn new(
        key: char,
        title: &'static str,
        effect: RemedyEffect,
        need: NeedFrom,
        propose: fn(&Offering<'_>) -> Option<Proposal>,
    ) -> RemedySpec {
        RemedySpec {
            key,
            title,
            effect,
            alters: None,
            action: RemedyAction::Edit,
            need,
            comes_before: None,
            propose,
            verify: None,
            of_loader: None,
            rejects: None,
        }
    }

    /// What it changes in the run that is predicted; `None` if it needs as much as the command.
    fn in_forecast(&self) -> Option<ForecastChange> {
        match self.need {
            NeedFrom::Forecast(change) | NeedFrom::ForecastIfKnown(change) => Some(change),
            NeedFrom::FailedAllocation | NeedFrom::Itself => None,
        }
    }
}

impl RemedyId {
    pub fn all() -> impl Iterator<Item = RemedyId> {
        RemedyId::ALL.iter().copied()
    }

    /// Its name in JSON and on the command line.
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        let name = name.as_ref().and_then(|name| name.as_str());
        name.unwrap_or_default().to_string()
    }

    /// The remedy of this name.
    ///
    /// # Errors
    /// There is none; which there are.
    pub fn named(text: &str) -> Result<RemedyId, String> {
        RemedyId::all().find(|id| id.name() == text).ok_or_else(|| {
            let names: Vec<String> = RemedyId::all().map(RemedyId::name).collect();
            format!("choose of {}", names.join(", "))
        })
    }

    /// Whether it is nothing that oomph would choose: it changes what the model is trained on, or a number of which it is
    /// not sure that it is the batch, or takes away a limit that somebody has set.
    pub fn is_never_unasked(self) -> bool {
        let lifts_a_limit = self == RemedyId::NoLimit;
        self.is_candidate() || self.is_of_details() || self.is_measured() || lifts_a_limit
    }

    /// Whether what it needs is only known once it has run.
    pub(in crate::remedy) fn is_measured(self) -> bool {
        matches!(self, RemedyId::CompileBudget | RemedyId::CompileDynamic)
    }

    /// Whether it is shown among the details alone.
    pub fn is_of_details(self) -> bool {
        self == RemedyId::SmallerSamples
    }

    /// Whether it changes a number of which it is not sure that it is the batch.
    pub fn is_candidate(self) -> bool {
        matches!(
            self,
            RemedyId::FirstCandidate | RemedyId::SecondCandidate | RemedyId::ThirdCandidate
        )
    }

    /// Whether it makes each step much slower: taken by itself only where nothing cheaper is expected to fit.
    pub fn is_last_resort(self) -> bool {
        self == RemedyId::Offload
    }

    /// Whether it is for the host's memory.
    pub fn is_of_host(self) -> bool {
        matches!(self.spec().comes_before, Some((Help::LessHostMemory, _)))
    }

    /// Its place among the remedies for a cause, to sort by.
    fn place(self, cause: Option<Cause>) -> (RemedyId, bool, RemedyId) {
        let prefers = cause.map_or(Help::LessMemory, |cause| cause.spec().prefers);
        match self.spec().comes_before {
            Some((help, other)) if help == prefers => (other, false, self),
            Some(_) | None => (self, true, self),
        }
    }
}
