//! The numbers of one OOM, gathered once for all rules: from the observer's record if there is one,
//! else from the message, else from the latest readings. Which other processes are on the device is told
//! by the message's list of processes, else by NVML's last reading.

use super::finding::{Sum, because};
use super::printed_phase;
use super::situation::{CallStack, RequestPlace};
use super::{Cause, Certainty, Finding, Phrase};
use crate::anatomy::StepAnatomy;
use crate::calibration::{FIXED_LEAST_WASTE, NON_TORCH_AT_MOST, NON_TORCH_WITH_NCCL, USUAL_CACHE};
use crate::epoch::PrintedGrowth;
use crate::event::{
    BesideSteps, DeviceProcess, LaunchFacts, OomRecord, Phase, Retainer, Structure,
};
use crate::forecast::{RecordedStep, Rehearsed, WholeStep};
use crate::oom::{OomKind, OomSign, OtherProcess};
use crate::state::{OomIncident, RankState, Run, State};
use crate::units::{Bytes, Pid, Rank, RunNumber};

/// A need this many times the available memory is beyond a rehearsal's error.
const FAR: f64 = 1.05;

/// The maximum difference of two figures in a message, each rounded to hundredths of a GiB.
const ROUNDING: Bytes = Bytes::mib(11);

/// So much of a GPU may be the driver's own; measured: 13 MiB on an H200.
const OF_THE_DRIVER: Bytes = Bytes::mib(32);

/// What is left of the GPU is little where it is less than so many times what was requested.
const FEW_REQUESTS: f64 = 4.0;

/// One OOM and the numbers around it; `None` is unknown.
pub(super) struct OomContext<'a> {
    pub oom: &'a OomIncident,
    pub rank: Option<&'a RankState>,
    pub run: Option<&'a Run>,
    /// What the session was started with.
    pub launched: Option<&'a LaunchFacts>,
    pub kind: OomKind,
    pub requested: Option<Bytes>,
    pub allocated: Option<Bytes>,
    pub reserved: Option<Bytes>,
    pub cached: Option<Bytes>,
    pub capacity: Option<Bytes>,
    pub limit: Option<Bytes>,
    pub free: Option<Bytes>,
    pub largest_free: Option<Bytes>,
    /// The training's memory outside of PyTorch's allocator.
    pub non_pytorch: Option<Bytes>,
    /// The other processes on the device; `None` if unknown.
    pub others: Option<Vec<Other>>,
    /// The memory of the other processes in total.
    pub other_processes: Option<Bytes>,
    /// Memory used on the device apart from this process's PyTorch.
    pub elsewhere: Option<Bytes>,
    /// Whether `allocated` and `reserved` are from the last sample before the OOM.
    pub by_last_sample: bool,
    pub phase: Phase,
    /// What ran, innermost first.
    pub stack: CallStack<'a>,
    /// The optimizer step that failed, from 1.
    pub step: Option<u64>,
    pub structure: Option<Structure>,
    /// The need of the whole step, if it was rehearsed.
    pub whole_step: Option<WholeStep>,
    /// The least that a step of one sample needs by its rehearsals.
    pub least_step: Option<WholeStep>,
    /// What the program printed of its memory, of a log that is all there is.
    pub printed: Option<PrintedGrowth>,
    /// What is wrong with the device itself.
    pub fault: Option<String>,
}

/// With fewer steps the optimizer's state may have been to come.
const STEPS_WITH_STATE: u64 = 2;

/// Whether a run of the session has trained with less than this at its peak: no rehearsal says that it cannot.
fn has_trained_below(state: &State, least: Bytes) -> bool {
    let mut ranks = state.runs.iter().flat_map(|run| &run.ranks);
    ranks.any(|rank| {
        let has_state = rank.steps.count >= STEPS_WITH_STATE;
        has_state && rank.allocated_peak > Bytes::ZERO && rank.allocated_peak < least
    })
}

/// What ZeRO's ledger says of it: an optimizer of torch's knows the fp32 copy alone.
fn of_zero(record: &OomRecord) -> Option<Structure> {
    let zero = record.zero.as_deref()?;
    Some(Structure {
        pid: record.pid,
        device: record.device,
        parameters: zero.parameters + zero.gathered + zero.master,
        gradients: zero.gradients + zero.buckets,
        optimizer_state: zero.state,
        whole: (zero.whole > zero.parameters).then_some(zero.whole),
    })
}

/// An optimizer tells of its gradients when it steps: of those that are not known to have been there none is counted.
fn as_then(structure: Structure, record: &OomRecord, rank: Option<&RankState>) -> Structure {
    let phase = record.phase;
    let traced = (|| {
        let traces = &rank?.traces;
        // A step that went well says so of the forward pass alone.
        let says_so = phase == Phase::Forward || traces.failed().is_some();
        let step = says_so.then(|| StepAnatomy::of_oom(traces)).flatten()?;
        step.gradients_at_oom(phase)
    })();
    let then = record.gradients_then(structure.gradients, traced);
    Structure {
        gradients: then.unwrap_or_default(),
        ..structure
    }
}

impl<'a> OomContext<'a> {
    pub fn new(state: &'a State, run: Option<&'a Run>, oom: &'a OomIncident) -> OomContext<'a> {
        let rank = run.and_then(|run| run.rank_of(oom));
        let record = oom.record.as_ref();
        let device = oom.device.as_ref().and_then(|uuid| state.device(uuid));
        let sample = rank
            .and_then(|rank| rank.usage_on(oom.device.as_ref()?))
            .map(|usage| &usage.sample);
        let kind = oom.kind();
        let stack = CallStack::new(oom);
        let phase = record.map_or_else(
            || printed_phase::phase(&stack, oom.report.as_ref()),
            |record| record.phase,
        );
        let reserved = oom.reserved().or(sample.map(|s| s.reserved));
        let mut limit = oom.limit();
        let mut capacity = oom.capacity().or(device.and_then(|d| d.capacity));
        if kind == OomKind::MpsOom {
            // MPS's own limit is all the memory there is; nobody set a cap.
            capacity = capacity.or(limit.take());
        }
        let neighbours = Neighbours::new(state, run, oom, reserved, capacity);
        OomContext {
            oom,
            rank,
            run,
            launched: state.launched.as_ref(),
            kind,
            requested: oom.requested(),
            allocated: oom.allocated().or(sample.map(|s| s.allocated)),
            reserved,
            cached: oom.cached().or(sample.map(|s| s.reserved - s.allocated)),
            capacity,
            limit,
            free: oom.free(),
            largest_free: record.and_then(|record| record.largest_free),
            non_pytorch: neighbours.non_pytorch,
            others: neighbours.others,
            other_processes: neighbours.bytes,
            elsewhere: neighbours.elsewhere,
            by_last_sample: oom.allocated().is_none() && sample.is_some(),
            phase,
            stack,
            step: step(record, rank, phase),
            whole_step: rank.and_then(|rank| rehearsed(rank, phase)?.whole_step()),
            least_step: rank
                .and_then(|rank| rehearsed(rank, phase)?.least_step())
                .filter(|least| !has_trained_below(state, least.total())),
            printed: None,
            fault: device.and_then(|device| device.fault(state)),
            structure: record.and_then(of_zero).or_else(|| {
                let record = record?;
                let of_steps = record.structure.as_deref();
                let of_steps = of_steps.or_else(|| rank?.structure_on(record.device))?;
                Some(as_then(*of_steps, record, rank))
            }),
        }
    }

    /// What the words of the message are about, if they tell.
    pub fn sign(&self) -> Option<OomSign> {
        self.oom.report.as_ref()?.sign
    }

    /// The same, if it is of the host's memory.
    pub fn host_sign(&self) -> Option<OomSign> {
        self.sign().filter(|_| self.kind == OomKind::HostOom)
    }

    /// The observer's record, if there was a probe.
    pub fn record(&self) -> Option<&'a OomRecord> {
        self.oom.record.as_ref()
    }

    /// What in the program keeps most of the memory alive, if that was searched.
    pub fn retainer(&self) -> Option<&'a Retainer> {
        Some(self.found_retainer()?.1)
    }

    /// The same, and after which step it was searched.
    pub fn found_retainer(&self) -> Option<(u64, &'a Retainer)> {
        let (_, found) = self.rank?.retainers.as_ref()?;
        Some((found.step, found.main()?))
    }

    /// Allocated plus requested.
    pub fn needed(&self) -> Option<Bytes> {
        Some(self.allocated? + self.requested?)
    }

    /// The need of the whole step, if it is far more than PyTorch could ever have here.
    pub fn far_too_much(&self) -> Option<WholeStep> {
        let (whole, room) = (self.whole_step?, self.own_room()?);
        (whole.total() > room.scale(FAR)).then_some(whole)
    }

    /// What a step needs that is changed in every way that oomph knows, if that is far more than PyTorch could ever have here.
    pub fn least_is_too_much(&self) -> Option<WholeStep> {
        let (least, room) = (self.least_step?, self.own_room()?);
        (least.total() > room.scale(FAR)).then_some(least)
    }

    /// The optimizer's step that is to come, or that has failed.
    pub fn optimizer_step(&self) -> Option<RecordedStep<'a>> {
        match self.phase {
            Phase::Load | Phase::Forward | Phase::Backward | Phase::Optimizer => {
                RecordedStep::new(self.record()?)
            }
            Phase::Evaluation | Phase::Unknown => None,
        }
    }

    /// The bytes of the model, where one was on the GPU before its first call.
    pub fn built_model(&self) -> Option<Bytes> {
        let optimizer = self.record()?.optimizer.as_deref()?;
        let parameters = optimizer.parameters();
        (self.phase == Phase::Load && parameters > Bytes::ZERO).then_some(parameters)
    }

    /// Whether memory ran out before the first step, with what is no part of a model.
    pub fn places_data(&self) -> bool {
        self.built_model().is_none() && self.record().is_some_and(OomRecord::places_data)
    }

    /// Whether the largest of the other processes is an inference engine: then it is no stranger.
    pub(super) fn is_beside_an_engine(&self) -> bool {
        let others = self.others.iter().flatten();
        others
            .max_by_key(|other| other.bytes)
            .is_some_and(Other::is_engine)
    }

    /// What would be left if all free memory, in PyTorch's cache and on the GPU, could be used;
    /// negative if that isn't enough.
    pub fn spare(&self) -> Option<i128> {
        let pieces = self.free? + self.cached?;
        Some(i128::from(pieces.0) - i128::from(self.requested.unwrap_or_default().0))
    }

    /// Whether no allocator could have found room: all free memory together is not enough, or only
    /// without the overhead that every allocator has.
    pub fn is_full(&self) -> Option<bool> {
        let waste = self.allocated?.scale(FIXED_LEAST_WASTE);
        let free_alone_is_short = self.free? < self.requested.unwrap_or_default();
        let rounding_alone = self.cache_is_notable() == Some(false) && free_alone_is_short;
        Some(self.spare()? < i128::from(waste.0) || rounding_alone)
    }

    /// Whether more is cached than the allocator usually does.
    pub fn cache_is_notable(&self) -> Option<bool> {
        Some(self.cached?.fraction_of(self.reserved?)? >= USUAL_CACHE)
    }

    /// What PyTorch could have on this device without other processes.
    pub fn own_room(&self) -> Option<Bytes> {
        Some(self.capacity? - self.non_pytorch.unwrap_or(Bytes::ZERO))
    }

    /// Activations and everything else that isn't parameters, gradients or optimizer state.
    pub fn unnamed(&self) -> Option<Bytes> {
        let named = self.structure?;
        Some(self.allocated? - named.total())
    }

    /// Whether expandable segments were on, as far as is known.
    pub fn expandable_segments(&self) -> bool {
        let hello = self.rank.map(|rank| &rank.hello);
        hello.is_some_and(|hello| hello.expandable_segments == Some(true))
    }

    /// Whether they could be turned on, as far as is known: torch has them since 2.1.
    pub fn has_expandable_segments(&self) -> bool {
        let known = match self.rank.map(|rank| &rank.hello) {
            Some(hello) => hello.no_segments().is_none(),
            None => !self.is_worded_before_2_1(),
        };
        self.kind.spec().has_segments && known
    }

    /// Whether the message is in the words of a torch before 2.1.
    pub fn is_worded_before_2_1(&self) -> bool {
        let report = self.oom.report.as_ref();
        report.is_some_and(|report| report.before_2_1)
    }

    /// "Failed in the backward pass of step 2."
    pub fn failed(&self) -> Option<String> {
        self.place().map(|place| format!("Failed {place}."))
    }

    /// The same with the program's own line: "Failed in the backward pass of step 2 (train.py:88 in train_step)."
    pub fn failed_where(&self) -> Option<String> {
        let Some(call) = self.stack.own() else {
            return self.failed();
        };
        Some(match self.place() {
            Some(place) => format!("Failed {place} ({}).", call.shown()),
            None => format!("Failed at {}.", call.shown()),
        })
    }

    /// The same with the request: "Failed in the forward pass of step 2: 80 MiB requested at model.py:14 forward → elu."
    pub fn failed_request(&self) -> Option<String> {
        let Some((bytes, asking)) = self.request() else {
            return self.failed_where();
        };
        let asked = format!("{bytes} requested at {}.", asking.path("→"));
        Some(match self.place() {
            Some(place) => format!("Failed {place}: {asked}"),
            None => asked,
        })
    }

    /// How much was requested and by what; nothing of a small tensor, for which the allocator requests more.
    fn request(&self) -> Option<(Bytes, RequestPlace)> {
        let requested = self
            .requested
            .filter(|bytes| !self.kind.is_small_segment(*bytes));
        requested.zip(self.stack.asking())
    }

    /// "in the backward pass of step 2"
    fn place(&self) -> Option<String> {
        if let Some(activity) = self.record().and_then(OomRecord::activity) {
            return Some(beside_steps(activity, self.step));
        }
        let phase = match self.phase {
            Phase::Load if self.places_data() => "before the first step",
            Phase::Load => "while the model was being built",
            Phase::Forward => "in the forward pass",
            Phase::Backward => "in the backward pass",
            Phase::Optimizer => "in the optimizer step",
            Phase::Evaluation => "during evaluation",
            Phase::Unknown => return self.step.map(|step| format!("in step {step}")),
        };
        Some(match (self.phase, self.step) {
            (Phase::Evaluation, Some(step)) => format!("{phase} after step {}", step - 1),
            (Phase::Load, _) | (_, None) => phase.to_string(),
            (Phase::Optimizer, Some(step)) => format!("in optimizer step {step}"),
            (_, Some(step)) => format!("{phase} of step {step}"),
        })
    }

    /// Whether what is cached and free, in one piece, would be little more than what was requested.
    pub fn fits_barely(&self) -> bool {
        let left = self.cached.unwrap_or_default() + self.free.unwrap_or_default();
        self.requested
            .is_none_or(|requested| left < requested.scale(FEW_REQUESTS))
    }

    /// "312 MiB requested"
    pub fn asked(&self) -> Option<String> {
        let requested = self.requested?;
        Some(if self.kind.is_small_segment(requested) {
            format!("{requested} (a small allocation's segment)")
        } else {
            format!("{requested} requested")
        })
    }

    /// "see who is on the GPU": what lists a GPU's processes.
    pub fn see_who_is_there(&self) -> Phrase {
        let list = match self.kind {
            OomKind::HipOom => "rocm-smi --showpids on the host",
            OomKind::XpuOom => "xpu-smi ps on the host",
            OomKind::NpuOom => "npu-smi info on the host",
            OomKind::HpuOom => "hl-smi on the host",
            OomKind::OtherAcceleratorOom => "its vendor's tool on the host: mthreads-gmi, cnmon",
            OomKind::DeviceOom => {
                "its vendor's tool on the host: nvidia-smi, intel_gpu_top, neuron-top"
            }
            OomKind::MpsOom | OomKind::MlxOom => "Activity Monitor, Memory",
            _ => "nvidia-smi on the host",
        };
        because("see who else is on the GPU", list)
    }

    /// "another GPU": what hides all others.
    pub fn another_gpu(&self) -> Phrase {
        let variable = match self.kind {
            OomKind::HipOom => "HIP_VISIBLE_DEVICES",
            OomKind::XpuOom => "ZE_AFFINITY_MASK",
            OomKind::NpuOom => "ASCEND_RT_VISIBLE_DEVICES",
            OomKind::HpuOom => "HABANA_VISIBLE_MODULES",
            OomKind::OtherAcceleratorOom => "MUSA_VISIBLE_DEVICES, MLU_VISIBLE_DEVICES",
            OomKind::DeviceOom => "by its number in the program's own options",
            _ => "CUDA_VISIBLE_DEVICES",
        };
        because("another GPU", variable)
    }

    /// What did not fit as a sum: allocated, requested, and what else took part in it. Printed with
    /// what there was.
    pub fn sum(
        &self,
        more: Option<(Bytes, &'static str)>,
    ) -> Option<impl Fn(Bytes) -> String + use<>> {
        let requested = self.requested?;
        let asked = match self.kind.is_small_segment(requested) {
            true => "for a small allocation's segment",
            false => "requested",
        };
        let mut parts = vec![(self.allocated?, "allocated"), (requested, asked)];
        parts.extend(more);
        Some(move |room| Sum(&parts).against(room))
    }

    /// What takes part in that sum beside PyTorch: the process's own, or all that others may have as well, where only with
    /// that it does not fit.
    pub fn outside(&self) -> Option<(Bytes, &'static str)> {
        let (needed, capacity) = (self.needed()?, self.capacity?);
        match (self.non_pytorch, self.elsewhere) {
            (Some(outside), Some(elsewhere))
                if needed + outside <= capacity && needed + elsewhere > capacity =>
            {
                Some((elsewhere, "used elsewhere"))
            }
            (Some(outside), _) => Some((outside, "non-PyTorch")),
            // The sum is too large even without it.
            (None, _) if needed > capacity => None,
            (None, Some(elsewhere)) => Some((elsewhere, "used elsewhere")),
            (None, None) => None,
        }
    }

    /// Says where PyTorch's figures come from if they are older than the OOM.
    pub fn caveat(&self) -> Option<&'static str> {
        self.by_last_sample
            .then_some("PyTorch's figures are from the last sample before the OOM.")
    }

    /// A finding with the numbers of this case; the rule adds its own sentences.
    pub fn finding(
        &self,
        cause: Cause,
        certainty: Certainty,
        headline: impl Into<Phrase>,
    ) -> Finding {
        let numbers = [
            ("requested", self.requested),
            ("allocated", self.allocated),
            ("reserved", self.reserved),
            ("cached", self.cached),
            ("capacity", self.capacity),
            ("free", self.free),
            ("non-PyTorch", self.non_pytorch),
        ];
        let finding = Finding {
            device: self.oom.device.clone(),
            rank: self.oom.rank,
            request: self.request(),
            ..Finding::new(cause, certainty, headline)
        };
        finding.shows(numbers.into_iter().filter_map(|(what, n)| Some((what, n?))))
    }
}

/// "during generation after step 10"
fn beside_steps(activity: BesideSteps, step: Option<u64>) -> String {
    match step {
        Some(step) => format!("{} after step {}", activity.words(), step - 1),
        None => activity.words().to_string(),
    }
}

/// The rehearsal, if it is of the step that failed.
fn rehearsed(rank: &RankState, phase: Phase) -> Option<Rehearsed> {
    let of_a_step = match phase {
        Phase::Forward | Phase::Backward | Phase::Optimizer => true,
        Phase::Load | Phase::Evaluation | Phase::Unknown => false,
    };
    let rehearsal = rank.rehearsal.as_ref().filter(|_| of_a_step)?;
    Rehearsed::new(rehearsal, rehearsal.batch)
}

/// The step that failed, if any step is known or the phase is one of a step.
fn step(record: Option<&OomRecord>, rank: Option<&RankState>, phase: Phase) -> Option<u64> {
    let ended = match record {
        Some(record) => record.step,
        None => rank?.steps.count,
    };
    let in_a_step = match phase {
        Phase::Forward | Phase::Backward | Phase::Optimizer => true,
        Phase::Load | Phase::Evaluation | Phase::Unknown => ended > 0,
    };
    in_a_step.then_some(ended + 1)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Other {
    pub pid: Pid,
    pub bytes: Option<Bytes>,
    pub name: Option<String>,
    pub user: Option<String>,
    pub relation: Relation,
}

/// What the processes of inference engines are called.
const ENGINES: [&str; 3] = ["vllm", "sglang", "lmdeploy"];

impl Other {
    /// Whether nothing is known of it but its size.
    pub fn is_unknown(&self) -> bool {
        self.relation == Relation::Stranger && self.name.is_none() && self.user.is_none()
    }

    pub fn is_a_worker(&self) -> bool {
        self.relation == Relation::LoaderWorker
    }

    pub fn is_engine(&self) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        ENGINES.iter().any(|engine| name.contains(engine))
    }
}

/// What another process is to the training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Stranger,
    /// A rank of the same run, on the same device.
    Rank(Option<Rank>),
    /// A process that loads data for the same run.
    LoaderWorker,
    /// A process of an earlier run that is still alive.
    Earlier(RunNumber),
    /// It runs the same program for the same user, and what started it is gone.
    Orphan,
    /// It runs the same program, and whoever started it is there.
    SameProgram,
}

/// What else is on the device; `None` is unknown.
#[derive(Debug, Default)]
struct Neighbours {
    others: Option<Vec<Other>>,
    /// The memory of the others in total.
    bytes: Option<Bytes>,
    /// This process's memory outside of PyTorch's allocator.
    non_pytorch: Option<Bytes>,
    /// Both together, exact when memory ran out. Also `None` if the figures contradict each other:
    /// on Windows more can be reserved than the GPU has, on an APU more can be free.
    elsewhere: Option<Bytes>,
}

impl Neighbours {
    fn new(
        state: &State,
        run: Option<&Run>,
        oom: &OomIncident,
        reserved: Option<Bytes>,
        capacity: Option<Bytes>,
    ) -> Neighbours {
        let nvml = oom.nvml_at_oom.as_ref();
        let seen = nvml.and_then(|nvml| nvml.others.as_deref());
        let elsewhere = (|| {
            let (capacity, free, reserved) = (capacity?, oom.free()?, reserved?);
            (capacity >= free + reserved).then(|| capacity - free - reserved)
        })();
        let (of_text, non_pytorch) = by_text(oom, reserved, capacity);
        let mut known = Neighbours {
            non_pytorch: non_pytorch.or_else(|| nvml?.non_pytorch),
            elsewhere,
            ..Neighbours::default()
        };
        let Some(listed) = of_text.or_else(|| {
            let listed = seen?.iter().map(|process| OtherProcess {
                pid: process.pid,
                used: process.used,
            });
            Some(listed.collect())
        }) else {
            return known;
        };
        let others: Vec<Other> = listed
            .into_iter()
            .map(|other| {
                let seen = seen.and_then(|seen| seen.iter().find(|p| p.pid == other.pid));
                Other {
                    pid: other.pid,
                    bytes: other.used.or(seen.and_then(|process| process.used)),
                    name: seen.and_then(|process| process.name.clone()),
                    user: seen.and_then(|process| process.user.clone()),
                    relation: match relation(state, run, other.pid) {
                        Relation::Stranger => by_program(run, seen),
                        known => known,
                    },
                }
            })
            .collect();
        let listed: Option<Bytes> = others.iter().map(|other| other.bytes).sum();
        known.others = Some(others);
        known.bytes = listed;
        if let Some(elsewhere) = elsewhere {
            // The message's figures are exact at that moment. NVML was read earlier, when less was
            // reserved, so its figure outside of PyTorch may be too large.
            let not_listed = elsewhere - listed.unwrap_or(Bytes::ZERO);
            known.non_pytorch = match known.non_pytorch {
                // The driver's few MiB are nobody's, and the message's figures are rounded: the exact rest of the GPU is told,
                // as it is wherever the GPU's memory is divided up.
                Some(outside) if not_listed.0.abs_diff(outside.0) <= OF_THE_DRIVER.0 => {
                    Some(not_listed)
                }
                Some(outside) => Some(outside.min(not_listed)),
                None => listed.map(|_| not_listed),
            };
            // The rest belongs to a process of unknown size, or to one that isn't listed.
            let unclaimed = not_listed - known.non_pytorch.unwrap_or(NON_TORCH_AT_MOST);
            known.bytes = match listed {
                Some(listed) if unclaimed <= NON_TORCH_AT_MOST => Some(listed),
                Some(listed) => Some(listed + unclaimed),
                None => Some(unclaimed),
            };
        }
        known
    }
}

/// The other processes listed in the message, if it lists any, and this process's memory outside of
/// PyTorch, if the message has it.
fn by_text(
    oom: &OomIncident,
    reserved: Option<Bytes>,
    capacity: Option<Bytes>,
) -> (Option<Vec<OtherProcess>>, Option<Bytes>) {
    let Some(report) = &oom.report else {
        return (None, None);
    };
    // NVML knows processes by the host's ids, so that in a container this one has nothing by its own: a listed one is it.
    if let Some(used) = report.process_used.filter(|used| *used > Bytes::ZERO) {
        let outside = reserved.map(|reserved| used - reserved);
        return (Some(report.others.clone()), outside);
    }
    if report.outside.is_some() {
        return (None, report.outside);
    }
    let Some(reserved) = reserved else {
        return (None, None);
    };
    // One of the listed processes is this one: its size must be at least what was reserved and not
    // much more, or so large that two of them would not fit. (In a container PyTorch compares the
    // host's PIDs with its own and lists itself as another process.)
    let may_be_us = |other: &&OtherProcess| {
        other.used.is_some_and(|used| {
            let no_room_for_both = capacity.is_some_and(|capacity| used + reserved > capacity);
            used + ROUNDING >= reserved
                && (used - reserved <= NON_TORCH_WITH_NCCL || no_room_for_both)
        })
    };
    let candidates: Vec<&OtherProcess> = report.others.iter().filter(may_be_us).collect();
    let [us] = candidates[..] else {
        return (None, None);
    };
    let others = report.others.iter().filter(|other| *other != us);
    (
        Some(others.cloned().collect()),
        us.used.map(|used| used - reserved),
    )
}

/// What a process that is none of this session's is by the program that it runs, as far as its name tells: the script of an
/// interpreter.
fn by_program(run: Option<&Run>, seen: Option<&DeviceProcess>) -> Relation {
    let of_ours = || {
        let script = seen?.name.as_deref()?.split_once(' ')?.1;
        let words = &run?.command.argv;
        let is_it = |word: &str| word.rsplit('/').next() == Some(script);
        let mut words = words.iter().filter_map(|word| word.as_str());
        words.any(is_it).then_some(seen?.orphaned)
    };
    match of_ours() {
        Some(true) => Relation::Orphan,
        Some(false) => Relation::SameProgram,
        None => Relation::Stranger,
    }
}

fn relation(state: &State, run: Option<&Run>, pid: Pid) -> Relation {
    let loads = |run: &Run| run.loaders().any(|loader| loader.pids.contains(&pid));
    if run.is_some_and(loads) {
        return Relation::LoaderWorker;
    }
    if let Some(rank) = run.and_then(|run| run.rank_with(pid)) {
        return Relation::Rank(rank.hello.rank);
    }
    let this = run.map(|run| run.number);
    (state.runs.iter())
        .filter(|run| Some(run.number) != this)
        .rfind(|run| run.owns(pid))
        .map_or(Relation::Stranger, |run| Relation::Earlier(run.number))
}
