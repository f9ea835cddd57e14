//! Everything that can happen, stamped at its source; also a line of a recording.
//!
//! NVML's thread, the probe's socket, the keeper, the scanner and a replayed recording all send
//! this enum, so that screen, reports, tests and `attach` build the same state. An event is a fact
//! in the past tense; what follows from it is decided elsewhere.
//!
//! A recording has one event per line, as JSON: `{"at": 1250000, "event": "sample", …}`. A reader
//! must skip unknown kinds and fields, since recordings outlive versions.

mod device;
mod host;
mod inspection;
mod knobs;
mod launch_facts;
mod losses;
mod patch;
mod peak_activity;
mod probe;
mod process_host;
mod run;
mod source_edit;
mod zero;

use crate::command::CommandLine;
use crate::oom;
use crate::units::{Bytes, Moment, Pid, Rank, RunNumber};
pub use device::{DeviceProcess, DeviceReading, NvmlState};
pub use host::{
    HostKill, HostMemory, HostProcess, HostRole, HostUnseen, KillCount, LimitedBy, RoleUse, ShmUse,
};
pub use inspection::{
    BlockOrigin, InChunks, InputSizes, OptimizerMemory, PhaseStart, RankChange, Rehearsal,
    RehearsedVariant, Retainer, RetainerKind, Retainers, SavedInRam, StepLevels, StepTrace,
    ZeroGrad,
};
pub use knobs::{
    Called, GivenChange, GivenSize, Knobs, NamedNumber, ParsedNumber, SourceNumber,
    SourceNumberKind,
};
pub use launch_facts::{ALLOCATOR_VARIABLES, LAUNCH_VARIABLES, LaunchFacts, ProgramFile};
pub use losses::{Losses, Numerics, PrintedLoss, StepLoss};
use nix::time::{ClockId, clock_gettime};
pub use patch::{Blocks, Compiled, HeadShape, PATCHES, Patch, PatchOutcome, Patchable, Patched};
pub use peak_activity::PeakActivity;
pub use probe::{
    BackwardReading, BesideSteps, FreeBlocks, Gathering, GrowingLine, Hello, LineText, LineUsage,
    LoadedCheckpoint, MemoryKind, ModelBytes, NOT_IN_WSL, NOT_ON_MIG, OomRecord, OptimizerRecord,
    Phase, Pool, PrivatePool, ProbeDevice, Sample, SourceLine, SourceText, Step, StepReading,
    Structure,
};
pub use process_host::{HostActivity, HostGrowthSpot, LoaderSettings, ProcessHost};
pub use run::{
    ArrayTask, Basis, CopyTime, Exit, Job, Prediction, PredictionOutcome, RamPrediction, Relief,
    ReliefMoment, RunEnd, likely_fits,
};
use serde::{Deserialize, Serialize};
pub use source_edit::{EDITS, SourceEdit, as_typed, crc32, displayed, to_paste, without_edits};
use std::path::{Path, PathBuf};
pub use zero::ZeroLedger;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Stamped by its source, on the session's clock.
    pub at: Moment,
    #[serde(flatten)]
    pub what: EventKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A session started: the first line of a recording.
    SessionStarted(SessionStarted),
    /// What the first run was started with beside its command.
    LaunchFacts(Box<LaunchFacts>),
    /// A run's command was started.
    Started(Started),
    /// A run's command could not be started.
    SpawnFailed(SpawnFailed),
    /// A run's command ended and was reaped.
    Exited(Exited),
    /// NVML answered or failed to.
    Nvml(NvmlState),
    /// A reading of a device through NVML.
    Device(DeviceReading),
    /// A reading of the host's memory.
    HostMemory(Box<HostMemory>),
    /// The kernel killed processes because memory was short.
    HostKill(Box<HostKill>),
    /// A process of the training initialised CUDA and its probe connected.
    Hello(Hello),
    /// A reading of the allocator for one device in one process.
    Sample(Sample),
    /// What a process did at its highest reading so far.
    PeakActivity(PeakActivity),
    /// An optimizer step of a process.
    Step(Step),
    /// What a process's memory consists of.
    Structure(Structure),
    /// The allocator ran out of memory, as seen by the probe's observer.
    Oom(OomRecord),
    /// What can be patched in a process that ran out of memory.
    Patchable(Patchable),
    /// The step that ran out of memory was rehearsed.
    Rehearsal(Box<Rehearsal>),
    /// The numbers that set the sizes of a process that ran out of memory.
    Knobs(Box<Knobs>),
    /// What the model of a relaunched run was given in its first call.
    Called(Called),
    /// What a process says of its use of the host's memory.
    ProcessHost(Box<ProcessHost>),
    /// A step of a process was traced, allocation by allocation.
    StepTrace(Box<StepTrace>),
    /// What lines of the program say that hold memory.
    SourceText(Box<SourceText>),
    /// A process's objects were searched for who keeps memory alive.
    Retainers(Box<Retainers>),
    /// A patch inside a process was applied or declined.
    Patch(Patched),
    /// An OOM error that nobody caught ends a process.
    UncaughtOom(UncaughtOom),
    /// Errors of the probe's own, in a process: it caught them, and the training noticed nothing.
    ProbeErrors(ProbeErrors),
    /// A probe's connection ended.
    ProbeGone(ProbeGone),
    /// What came of what was predicted of a run.
    PredictionOutcome(PredictionOutcome),
    /// The program's output has an OOM message.
    OomText(oom::OomReport),
    /// The output log has grown.
    Logged(Logged),
    /// The output says what followed from a rank's failure, or that the allocation ends.
    Consequence(Consequence),
    /// Losses of a process's first steps.
    Losses(Losses),
    /// The program's output has the loss of one of the first steps.
    PrintedLoss(PrintedLoss),
    /// The program's output has a new epoch number.
    Epoch(Epoch),
    /// The user, or a signal from outside, asked to stop the training.
    StopRequested(StopRequested),
    /// Anything else worth a line in the list of events.
    Note(Note),
    /// Events were lost before they could be stored or shown.
    Dropped(Dropped),
    /// A kind that this version does not know (from a later version's recording).
    #[serde(other)]
    Unknown,
}

/// The version of a recording's lines, described in `event/RECORDING.md`. It changes when a field that
/// is known changes its meaning; new kinds and fields don't change it.
pub const SCHEMA: u32 = 1;

/// Recordings without it are of the first version.
fn first_schema() -> u32 {
    1
}

/// The header of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// Unique on this machine, and usable as a file name.
    pub id: String,
    /// The wall clock at [`Moment::ZERO`], in seconds since 1970.
    pub wall: f64,
    /// `CLOCK_MONOTONIC` in microseconds at [`Moment::ZERO`], for later fronts in this boot.
    pub monotonic: u64,
    /// [`SCHEMA`] when it was written.
    #[serde(default = "first_schema")]
    pub schema: u32,
    /// oomph's version.
    pub version: String,
    /// The first run's command, secrets masked.
    pub command: CommandLine,
    /// Whether the command was started with the probe.
    pub probe: bool,
    /// Whether NVML is read.
    pub nvml: bool,
    /// The scheduler's job that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
    /// The machine; earlier versions did not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The session whose command this is, started again from its recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_of: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    pub run: RunNumber,
    /// The child process.
    pub pid: Pid,
    /// Secrets masked.
    pub command: CommandLine,
    /// The remedies applied since the command before, for display; empty for the first run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
    /// The predicted peak of allocated memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_peak: Option<Bytes>,
    /// Everything that was predicted of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// What the remedies do to the training's numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numerics: Option<Numerics>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnFailed {
    pub run: RunNumber,
    /// The error number (ENOENT, EACCES, ENOEXEC, EAGAIN, …).
    pub errno: i32,
    /// The path that could not be executed.
    pub path: String,
    /// What happened and what to do, for display.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    pub run: RunNumber,
    pub exit: Exit,
    /// Processes of its tree that were still alive when it was reaped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Pid>,
}

/// The last word of a process. One that catches the error and exits says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncaughtOom {
    pub pid: Pid,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeErrors {
    pub pid: Pid,
    /// Since the process began.
    pub count: u64,
    /// What the probe was doing at the latest one, its kind and its place in the probe.
    pub latest: String,
}

impl ProbeErrors {
    /// `probe: 3 internal errors`
    pub fn words(&self) -> String {
        let plural = if self.count == 1 { "" } else { "s" };
        format!("probe: {} internal error{plural}", self.count)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeGone {
    /// The process of the probe.
    pub pid: Pid,
    /// The reason, unless the process simply ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the process itself has said, as its last word, that it ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub said_end: bool,
}

/// A line of the output that is no cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consequence {
    pub kind: oom::ConsequenceKind,
    /// The rank, if a prefix has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<Rank>,
}

/// How much of the program's output the log was given so far, so that a replay shows it in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logged {
    /// Since the session began. [`Dropped::unlogged`] of them did not reach it.
    pub bytes: Bytes,
}

/// An epoch, from the program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// From 0 or from 1 as the program counts; if the program prints the number of completed
    /// epochs, that number.
    pub number: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequested {
    /// The signal's number.
    pub signal: i32,
    /// Whether it came from the keyboard of our screen, or else from outside.
    pub from_keyboard: bool,
}

/// A line for the list of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub level: Level,
    pub text: String,
    /// What it is about, where something looks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<NoteSubject>,
}

impl Note {
    /// One that nothing waits for.
    pub fn new(level: Level, text: impl Into<String>) -> Note {
        Note {
            level,
            text: text.into(),
            about: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteSubject {
    /// PyTorch's memory snapshot was saved, or why it was not.
    Snapshot,
    /// The program's own mark (`oomph.mark`), of which the chart has a line.
    Mark,
    /// The run has shown enough to `oomph fit` and is stopped.
    Measured,
    /// How far the batch of a run could have gone that went well.
    Room,
    /// What `oomph fit` has found by its runs.
    Fitted,
    /// Why the step that ran out of memory could not be rehearsed.
    NotRehearsed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Info,
    /// Something does not work as it should; the training is unharmed.
    Warning,
}

/// What was lost, as counted by its source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Samples lost to a full channel or a slow reader.
    #[serde(default)]
    pub samples: u64,
    /// Bytes of output that a viewer did not get (they are in the log).
    #[serde(default)]
    pub output: Bytes,
    /// Bytes of output that are not in the log.
    #[serde(default)]
    pub unlogged: Bytes,
    /// Invalid lines on the probe's socket.
    #[serde(default)]
    pub malformed: u64,
}

/// The clock that stamps events: `CLOCK_MONOTONIC` since the session's origin. Sources have a copy of it;
/// modules without I/O never use it. Python's `time.monotonic_ns()` is the same clock,
/// so the probe's stamps only need a subtraction.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin_us: u64,
}

impl Clock {
    /// A clock whose zero is now.
    pub fn start() -> Clock {
        Clock {
            origin_us: monotonic_us(),
        }
    }

    /// The clock of a session that began at `origin_us` on `CLOCK_MONOTONIC`.
    pub fn with_origin(origin_us: u64) -> Clock {
        Clock { origin_us }
    }

    /// `CLOCK_MONOTONIC` in microseconds at this clock's zero.
    pub fn origin_us(self) -> u64 {
        self.origin_us
    }

    pub fn now(self) -> Moment {
        Moment(monotonic_us().saturating_sub(self.origin_us))
    }

    /// The instant of `ns` nanoseconds on `CLOCK_MONOTONIC`; at most now, so that a stamp from
    /// outside can't be in the future.
    pub fn at_monotonic_ns(self, ns: u64) -> Moment {
        Moment((ns / 1_000).saturating_sub(self.origin_us)).min(self.now())
    }
}

fn monotonic_us() -> u64 {
    // CLOCK_MONOTONIC can't fail on Linux; a zero would only misplace marks on a chart.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(|t| t.tv_sec() as u64 * 1_000_000 + t.tv_nsec() as u64 / 1_000)
        .unwrap_or(0)
}

/// The name of an output log's part before the present one: the keeper writes it, and whatever shows a
/// session reads it.
pub fn older_part(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_os_string();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_from_outside_never_lie_in_the_future() {
        let clock = Clock::start();
        assert!(clock.at_monotonic_ns(u64::MAX) <= clock.now());
        assert_eq!(clock.at_monotonic_ns(0), Moment::ZERO);
    }
}
