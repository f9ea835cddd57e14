//! Everything that can happen, stamped once at its source; also one line of a recording.
//!
//! The same enum comes from NVML's thread, the probe's socket, the keeper, the scanner and from a
//! recording that is replayed, so that screen, reports, tests and `attach` rest on one fold. An
//! event is a fact in the past tense; nothing here decides what follows from it.
//!
//! A recording holds one event a line, as JSON: `{"at": 1250000, "event": "sample", …}`. A reader
//! must pass over kinds and fields it does not know: recordings outlive versions.

mod clock;
mod device;
mod exit;
mod patch;
mod probe;
mod rehearsal;
mod step_trace;

pub use clock::Clock;
pub use device::{DeviceProcess, DeviceReading, NvmlState};
pub use exit::Exit;
pub use patch::{Blocks, PATCHES, Patch, PatchOutcome, Patchable, Patched};
pub use probe::{
    FreeBlocks, GrowingLine, Hello, LineUsage, MemoryKind, ModelBytes, OomRecord, Phase, Pool,
    ProbeDevice, Sample, SourceLine, Step, StepReading, Structure,
};

pub use rehearsal::{OptimizerMemory, Rehearsal, RehearsedVariant};
pub use step_trace::{BlockOrigin, PhaseStart, StepTrace};

use crate::command::CommandLine;
use crate::oom;
use crate::units::{Bytes, Moment, Pid, RunNumber};
use serde::{Deserialize, Serialize};

/// Something that happened, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it happened, by the session's clock, as its source stamped it.
    pub at: Moment,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// A session began: the recording's first line.
    SessionStarted(SessionStarted),
    /// The command of a run was started.
    Started(Started),
    /// The command of a run could not be started.
    SpawnFailed(SpawnFailed),
    /// The command of a run ended and was reaped.
    Exited(Exited),
    /// NVML answered or failed to.
    Nvml(NvmlState),
    /// One reading of one device through NVML.
    Device(DeviceReading),
    /// A process of the training initialised CUDA and its probe connected.
    Hello(Hello),
    /// One reading of the allocator of one device in one process.
    Sample(Sample),
    /// One optimizer step of one process.
    Step(Step),
    /// What the memory of one process is made of.
    Structure(Structure),
    /// The allocator ran out of memory, as the probe's observer saw it.
    Oom(OomRecord),
    /// What a process could be changed in, found when its memory ran out.
    Patchable(Patchable),
    /// The step that memory ran out in was rehearsed.
    Rehearsal(Box<Rehearsal>),
    /// One step of one process was traced, allocation by allocation.
    StepTrace(Box<StepTrace>),
    /// A remedy inside a process was applied, or declined.
    Patch(Patched),
    /// A probe's connection ended.
    ProbeGone(ProbeGone),
    /// An out-of-memory was read in the program's output.
    OomText(oom::OomReport),
    /// The program's output named another epoch than before.
    Epoch(Epoch),
    /// The user, or a signal from outside, asked for the training to stop.
    StopRequested(StopRequested),
    /// Something worth a line in the list of events that has no kind of its own.
    Note(Note),
    /// Events were lost before they could be stored or shown.
    Dropped(Dropped),
    /// A kind that this version does not know (a recording of a later one).
    #[serde(other)]
    Unknown,
}

/// The header of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// The session's name: unique on this machine, fit for a file name.
    pub id: String,
    /// What the wall clock showed at [`Moment::ZERO`], in seconds since 1970.
    pub wall: f64,
    /// `CLOCK_MONOTONIC` in microseconds at [`Moment::ZERO`], to tell a later front of this boot.
    pub monotonic: u64,
    /// oomph's version.
    pub version: String,
    /// The command of the first run, secrets masked.
    pub command: CommandLine,
    /// Whether the probe was put in front of the command.
    pub probe: bool,
    /// Whether NVML is asked.
    pub nvml: bool,
}

/// A run's beginning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Which run.
    pub run: RunNumber,
    /// The direct child.
    pub pid: Pid,
    /// What was started, secrets masked.
    pub command: CommandLine,
    /// The remedies that made this command of the one before it, in words; empty for the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
    /// The peak that was predicted for it, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_peak: Option<Bytes>,
}

/// Why a command could not be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnFailed {
    /// Which run.
    pub run: RunNumber,
    /// The system's error number (ENOENT, EACCES, ENOEXEC, EAGAIN, …).
    pub errno: i32,
    /// The path that was to be executed.
    pub path: String,
    /// What happened and what to do, in words.
    pub reason: String,
}

/// A run's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    /// Which run.
    pub run: RunNumber,
    /// How it ended.
    pub exit: Exit,
    /// Processes of its tree that were still alive when it was reaped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Pid>,
}

/// The end of a probe's connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeGone {
    /// The process that the probe was in.
    pub pid: Pid,
    /// Why, where it was not simply the end of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Another epoch, as the program's own output names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Its number, from 0 or from 1 as the program counts; where the program prints how many have
    /// ended, that.
    pub number: u64,
}

/// A request to stop the training.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequested {
    /// The signal's number.
    pub signal: i32,
    /// Whether it came from the keyboard of our screen (otherwise from outside).
    pub from_keyboard: bool,
}

/// A line for the list of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// How much it matters.
    pub level: Level,
    /// The line.
    pub text: String,
}

/// How much a note matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    Info,
    /// Something does not work as it should; the training is unharmed.
    Warning,
}

/// What was lost, by the one who lost it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Samples that a full channel or a slow reader cost.
    #[serde(default)]
    pub samples: u64,
    /// Bytes of output that a viewer did not get (the log has them).
    #[serde(default)]
    pub output: Bytes,
    /// Bytes of output that the log did not get.
    #[serde(default)]
    pub unlogged: Bytes,
    /// Lines on the probe's socket that were no event.
    #[serde(default)]
    pub malformed: u64,
}
