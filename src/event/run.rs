//! Of one run: how it ended, what was predicted of it when it was chosen and what came of that, and the
//! scheduler's job that it is part of.

use crate::units::{Bytes, RunNumber};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a process ended. Code and signal are kept apart, so that nothing is lost between the kernel's
/// status and oomph's own exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// An exit code (0 to 255).
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl Exit {
    /// Whether this signal ended it, or a shell says so of its program.
    pub fn is_by(self, signal: i32) -> bool {
        match self {
            Exit::Signal(by) => by == signal,
            Exit::Code(code) => code == 128 + signal,
        }
    }

    /// From the status of `wait(2)`; `None` if the process was only stopped or continued.
    pub fn from_raw(status: i32) -> Option<Exit> {
        if exited(status) {
            Some(Exit::Code((status >> 8) & 0xff))
        } else if (status & 0x7f) != 0x7f && status != 0xffff {
            Some(Exit::Signal(status & 0x7f))
        } else {
            None
        }
    }

    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }

    /// The exit status in a shell: the code, or 128 + the signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}

const fn exited(status: i32) -> bool {
    status & 0x7f == 0
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit {code}"),
            Exit::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(name) => write!(f, "{name}"),
                Err(_) => write!(f, "signal {signal}"),
            },
        }
    }
}

/// What a figure rests on: each one that is shown says it in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Steps that were seen whole, of this batch or another.
    Measured,
    /// The failed step's allocations, computed without running it.
    Rehearsed,
    /// What a remedy did to other trainings, or the sum of what was recorded without what it takes away.
    Estimated,
}

impl Basis {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Rehearsed => "rehearsed",
            Basis::Estimated => "estimated",
        }
    }
}

/// What was predicted of a run before it started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Prediction {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// The peak of allocated memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<Bytes>,
    /// The memory that the allocator must be able to reserve, and between what it lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<(Bytes, Bytes)>,
    /// The memory that was available to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Bytes>,
    /// What it was to have reserved, and between what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_within: Option<(Bytes, Bytes)>,
    /// Whether it would fit; `null` where that was not said, as by an estimate.
    #[serde(default)]
    pub fits: Option<bool>,
    /// What it was to need of the host's memory, where that had run out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram: Option<RamPrediction>,
    /// What the moment was to come to that a remedy takes the cause away from, where its peak may be another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relief: Option<Relief>,
}

/// The moment that memory ran out at, without what a remedy takes away from it: as predicted, or as measured by the patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relief {
    pub at: ReliefMoment,
    /// Allocated on the GPU then, at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Bytes>,
    /// What went to RAM instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ram: Option<Bytes>,
    /// The peak that was predicted without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<Bytes>,
    /// What it takes of a step's time, measured in the first ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<CopyTime>,
}

/// What copies take of a step, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyTime {
    pub copying: u64,
    /// The whole step, with them.
    pub step: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReliefMoment {
    /// `torch.load` of a checkpoint.
    Loading,
    /// An evaluation that keeps its outputs.
    Evaluation,
    /// A training step, whose forward pass saves tensors for its backward pass.
    Step,
}

impl Relief {
    /// Both measured: the larger figures of the two.
    pub fn max(self, other: Relief) -> Relief {
        Relief {
            at: self.at,
            allocated: self.allocated.max(other.allocated),
            to_ram: self.to_ram.max(other.to_ram),
            without: self.without.max(other.without),
            // The slowest of several ranks is the one that the others wait for.
            time: [self.time, other.time]
                .into_iter()
                .flatten()
                .max_by_key(|time| time.copying),
        }
    }
}

/// What a run is expected to need of the host's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RamPrediction {
    /// Of what counts against the limit, at its peak.
    pub needs: Bytes,
    pub limit: Bytes,
    /// Whether that is a lower bound: what it follows from was still growing.
    #[serde(default)]
    pub at_least: bool,
}

/// This share of the limit stays free: other processes grow, too.
const KEPT_FREE: f64 = 0.05;

impl RamPrediction {
    /// Whether it is expected to fit: by figures of a run that ran out, which is no proof.
    pub fn likely_fits(self) -> bool {
        !self.at_least && self.needs <= self.limit.scale(1.0 - KEPT_FREE)
    }
}

impl Prediction {
    /// Whether the run was expected to fit: one that is not said to is still held to its interval.
    pub fn expected_to_fit(&self) -> Option<bool> {
        let likely = likely_fits(self.within, self.room);
        let in_ram = self.ram.is_some_and(RamPrediction::likely_fits);
        self.fits.or((likely || in_ram).then_some(true))
    }
}

/// Whether all of an interval is within what is available. Where that is not said to fit, it is no proof: estimates have
/// been too low, and what follows the step may need more.
pub fn likely_fits(within: Option<(Bytes, Bytes)>, room: Option<Bytes>) -> bool {
    let figures = within.zip(room);
    figures.is_some_and(|((_, most), room)| most <= room)
}

/// How a run that was predicted has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    Finished,
    OutOfMemory,
    Stopped,
    Failed,
}

/// What came of a prediction, once its run has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictionOutcome {
    pub run: RunNumber,
    pub end: RunEnd,
    /// Optimizer steps that ended.
    pub steps: u64,
    /// The peak of allocated memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<Bytes>,
    /// The most that the allocator had reserved: what it needed, and what it kept as a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Bytes>,
    /// The most that counted against the limit of the host's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram: Option<Bytes>,
    /// What the patch measured of what its prediction says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relief: Option<Relief>,
}

/// The longest number of a job that is believed.
const LONGEST: usize = 20;

/// A scheduler's job, as SLURM numbers it: by it the recordings of an array and of a requeued job are told
/// apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// `SLURM_JOB_ID`: another one for each task of an array.
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayTask>,
    /// How often it was requeued: `SLURM_RESTART_COUNT`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restart: u32,
}

/// A task of a job array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayTask {
    /// `SLURM_ARRAY_JOB_ID`: the same for all of them.
    pub job: String,
    /// `SLURM_ARRAY_TASK_ID`.
    pub task: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Job {
    /// The job of the environment that `value_of` reads, if there is one.
    pub fn read(value_of: impl Fn(&str) -> Option<String>) -> Option<Job> {
        let number = |name: &str| {
            let text = value_of(name)?.trim().to_string();
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            (is_number && (1..=LONGEST).contains(&text.len())).then_some(text)
        };
        Some(Job {
            id: number("SLURM_JOB_ID")?,
            array: number("SLURM_ARRAY_JOB_ID")
                .zip(number("SLURM_ARRAY_TASK_ID"))
                .map(|(job, task)| ArrayTask { job, task }),
            restart: number("SLURM_RESTART_COUNT")
                .and_then(|count| count.parse().ok())
                .unwrap_or(0),
        })
    }

    /// As SLURM's tools name it: `1234`, or `1230_7` for a task of an array.
    pub fn name(&self) -> String {
        match &self.array {
            Some(ArrayTask { job, task }) => format!("{job}_{task}"),
            None => self.id.clone(),
        }
    }

    /// Whether somebody means it by `name`: its name, its own number, the array's number, and each of
    /// them with the restart (`1230_7-r2`).
    pub fn is_meant(&self, name: &str) -> bool {
        let (name, restart) = match name.rsplit_once("-r") {
            Some((name, count)) => (name, Some(count)),
            None => (name, None),
        };
        let is_restart = restart.is_none_or(|count| count.parse() == Ok(self.restart));
        let array = self.array.as_ref().map(|array| array.job.as_str());
        is_restart && (name == self.name() || name == self.id || Some(name) == array)
    }
}

/// `1234`, `1230_7`, and with the restart `1230_7-r2`.
impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.restart {
            0 => f.pad(&self.name()),
            count => f.pad(&format!("{}-r{count}", self.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_statuses_are_told_apart() {
        for code in 0..=255 {
            assert_eq!(Exit::from_raw(code << 8), Some(Exit::Code(code)));
        }
        for signal in 1..=64 {
            assert_eq!(Exit::from_raw(signal), Some(Exit::Signal(signal)));
            assert_eq!(
                Exit::from_raw(signal | 0x80),
                Some(Exit::Signal(signal)),
                "core dumped"
            );
        }
        assert_eq!(Exit::from_raw(0x137f), None, "stopped");
        assert_eq!(Exit::from_raw(0xffff), None, "continued");
    }

    #[test]
    fn a_shell_would_show_the_same_number() {
        assert_eq!(Exit::Code(3).shell_code(), 3);
        assert_eq!(Exit::Signal(9).shell_code(), 137);
        assert_eq!(Exit::Signal(9).to_string(), "SIGKILL");
        assert_eq!(Exit::Code(3).to_string(), "exit 3");
    }

    fn of(variables: &[(&str, &str)]) -> Option<Job> {
        Job::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn a_job_has_the_name_that_slurm_gives_it() {
        assert_eq!(of(&[("SLURM_ARRAY_TASK_ID", "7")]), None);
        let alone = of(&[("SLURM_JOB_ID", "1234")]).unwrap();
        assert_eq!(alone.to_string(), "1234");
        let task = [
            ("SLURM_JOB_ID", "1237"),
            ("SLURM_ARRAY_JOB_ID", "1230"),
            ("SLURM_ARRAY_TASK_ID", "7"),
        ];
        assert_eq!(of(&task).unwrap().to_string(), "1230_7");
        let requeued = of(&[&task[..], &[("SLURM_RESTART_COUNT", "2")]].concat()).unwrap();
        assert_eq!(requeued.to_string(), "1230_7-r2");
        for name in ["1230_7", "1237", "1230", "1230_7-r2", "1237-r2"] {
            assert!(requeued.is_meant(name), "{name}");
        }
        for name in ["1230_", "123", "1230_7-r1", "1230_7-r", "7", ""] {
            assert!(!requeued.is_meant(name), "{name}");
        }
    }

    #[test]
    fn what_is_no_number_is_no_job() {
        for text in ["", "12; rm", "\u{1b}[2J", "999999999999999999999"] {
            assert_eq!(of(&[("SLURM_JOB_ID", text)]), None, "{text:?}");
        }
        let odd = of(&[("SLURM_JOB_ID", "5"), ("SLURM_RESTART_COUNT", "x")]);
        assert_eq!(odd.unwrap().restart, 0);
    }
}
