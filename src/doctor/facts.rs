//! What is gathered before anything is judged. What could not be found out is `None` or an error in
//! words, never a guess.

use crate::command::CommandLine;
use crate::event::DeviceReading;
use crate::units::Bytes;
use std::path::PathBuf;

/// All facts.
#[derive(Debug, Clone)]
pub struct Facts {
    pub nvml: NvmlFacts,
    pub command: CommandFacts,
    /// For recordings and logs, best first.
    pub state: Vec<PlaceFacts>,
    /// For sockets and the probe, best first.
    pub runtime: Vec<PlaceFacts>,
    pub terminal: TerminalFacts,
    pub slurm: SlurmFacts,
    /// Errors of the probe's own in the latest recorded session, if it had any.
    pub probe_errors: Option<ProbeErrorFacts>,
    /// Variables that reach the command: inherited ones that are read here, with those typed in
    /// front of it.
    pub variables: Vec<(String, String)>,
}

impl Facts {
    /// A variable as the command will have it.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let mut variables = self.variables.iter().rev();
        variables
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// What a session's recording says of errors of the probe's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeErrorFacts {
    /// The session's ID.
    pub session: String,
    /// In all processes together.
    pub count: u64,
    /// The latest error: what the probe was doing, its kind and place.
    pub latest: String,
}

/// What NVML said.
#[derive(Debug, Clone)]
pub enum NvmlFacts {
    /// Why it can't be used, and what to do.
    Unavailable {
        finding: String,
        advice: &'static str,
    },
    /// It did not answer in this many seconds.
    Silent(u64),
    Answered(DriverFacts),
}

/// A driver that answers.
#[derive(Debug, Clone, Default)]
pub struct DriverFacts {
    pub version: Option<String>,
    /// The newest CUDA that it can run, major and minor.
    pub cuda: Option<(u32, u32)>,
    pub gpus: Vec<GpuFacts>,
    /// GPUs that could not be read, and why.
    pub unreadable: Vec<String>,
}

/// A GPU, or an instance of one that is divided by MIG.
#[derive(Debug, Clone)]
pub struct GpuFacts {
    pub reading: DeviceReading,
    pub mig: MigFacts,
    /// Only one process may use it at a time (compute mode).
    pub exclusive: bool,
    /// No process may use it (compute mode).
    pub prohibited: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigFacts {
    Off,
    /// This is an instance.
    Instance,
    /// MIG is on, and there is no instance.
    Empty,
}

/// The command, or what `python` would be without one.
#[derive(Debug, Clone)]
pub struct CommandFacts {
    /// `None` if none was given.
    pub given: Option<CommandLine>,
    /// How the program's Python is started.
    pub python: PythonFacts,
}

/// The Python that will run the program.
#[derive(Debug, Clone)]
pub enum PythonFacts {
    /// It is started out of sight: in a container, on another machine, by a shell script.
    OutOfSight { by: String, keeps: Keeps },
    /// No interpreter was found for this word.
    NotFound(String),
    Found {
        path: PathBuf,
        /// What it answered, or why it did not.
        asked: Result<AskedPython, String>,
    },
}

/// What a Python that is started out of sight has of what the probe needs: the environment and the
/// files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Neither.
    Nothing,
    /// The environment; the files are its own but for some.
    Environment,
    /// A shell passes both on.
    Both,
}

/// What an interpreter says, started with the command's own options but not its program, or what its
/// files say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedPython {
    /// Major, minor, and what follows where it is known.
    pub version: (u32, u32, Option<u32>),
    /// Why it was not run and is only known from its files.
    pub not_run: Option<String>,
    /// Whether it takes PYTHONPATH into account.
    pub reads_pythonpath: bool,
    /// Whether it imports `site`, and so sitecustomize.
    pub imports_site: bool,
    pub torch: Option<TorchFacts>,
}

/// torch as it is installed, read without importing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorchFacts {
    pub directory: PathBuf,
    /// `2.11.0+cu130`
    pub version: Option<String>,
    /// The CUDA that it is built for, if any: `13.0`.
    pub cuda: Option<String>,
    /// The ROCm that it is built for, if any.
    pub rocm: Option<String>,
}

/// A directory that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceFacts {
    pub path: PathBuf,
    /// Why it can't be used.
    pub problem: Option<String>,
    pub free: Option<Bytes>,
}

#[derive(Debug, Clone, Default)]
pub struct TerminalFacts {
    /// Why there will be no screen.
    pub headless: Option<&'static str>,
    /// Columns and rows.
    pub size: Option<(u16, u16)>,
    /// `None` without any.
    pub colors: Option<&'static str>,
    pub utf8: bool,
    /// `TERM`.
    pub term: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub struct SlurmFacts {
    pub job: Option<String>,
    /// This is a step that srun started, whose processes SLURM signals itself.
    pub is_signalled: bool,
    /// Why this command is one of several parts of a job.
    pub part_of: Option<String>,
}
