//! What remedies are based on beside the command: its surroundings, what its runs have shown, and the
//! findings.

use crate::command::CommandLine;
use crate::diagnosis::{Cause, Finding};
use crate::event::{Hello, Patchable};
use crate::forecast::ForecastInputs;
use crate::recognize::alloc_conf::TorchVersion;
use crate::recognize::{LaunchEnvironment, Recognized};
use crate::state::RankState;
use crate::units::{Bytes, Pid};

/// A process of an earlier session of this user that oomph no longer supervises and that still uses
/// the device's memory. It is detected elsewhere, where processes can be inspected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub pid: Pid,
    /// Start time in kernel ticks since boot: it identifies the process even if the PID is reused.
    pub started: u64,
    /// The session that it was part of.
    pub session: String,
    /// Its device memory.
    pub held: Option<Bytes>,
}

/// Any of it may be missing.
#[derive(Debug, Clone)]
pub struct RemedyInputs<'a> {
    /// The surroundings of the command.
    pub launch: LaunchEnvironment<'a>,
    /// What its need is predicted from.
    pub forecast: ForecastInputs<'a>,
    /// What was found about the OOM.
    pub findings: &'a [Finding],
    /// Whether the device supports bf16.
    pub bf16: Option<bool>,
    /// Whether to offer the largest batch predicted to fit, if that is known, instead of scaling by
    /// `batch_scale`.
    pub batch_fits: bool,
    /// What the batch is multiplied by; 0.5 by default.
    pub batch_scale: f64,
    /// Processes left over from this user's earlier sessions.
    pub leftovers: &'a [Leftover],
}

impl<'a> RemedyInputs<'a> {
    /// The command as it is understood with this launch.
    pub fn recognize(&self, command: &'a CommandLine) -> Recognized<'a> {
        Recognized::new(command, &self.launch)
    }

    /// The likeliest cause.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.findings.first().map(|finding| finding.cause)
    }

    /// What the first process of the latest run said of itself.
    pub(super) fn hello(&self) -> Option<&'a Hello> {
        let ranks = &self.forecast.state?.run()?.ranks;
        ranks.first().map(|rank| &rank.hello)
    }

    /// torch's version, as the run reported it, else as installed.
    pub(super) fn torch(&self) -> Option<TorchVersion> {
        self.hello()
            .and_then(|hello| TorchVersion::parse(&hello.torch))
            .or_else(|| self.launch.torch.and_then(TorchVersion::parse))
    }

    /// Whether the program runs in WSL2.
    pub fn is_wsl(&self) -> bool {
        self.launch.wsl || self.hello().is_some_and(|hello| hello.wsl)
    }

    /// What an earlier run's probe found patchable; `None` if it reported nothing.
    pub(super) fn patchable(&self) -> Option<&'a Patchable> {
        self.patchable_rank()?.patchable.as_ref()
    }

    /// The process that ran out of memory, if its probe found anything patchable; else any process
    /// with findings, since the ranks of a training are alike.
    pub(super) fn patchable_rank(&self) -> Option<&'a RankState> {
        if self.forecast.state.is_none() {
            return self.forecast.earlier_rank;
        }
        let run = self.forecast.state?.run()?;
        let of_oom = self.forecast.oom.and_then(|oom| run.rank_of(oom));
        of_oom
            .into_iter()
            .chain(&run.ranks)
            .find(|rank| rank.patchable.is_some())
    }
}

impl Default for RemedyInputs<'_> {
    fn default() -> Self {
        RemedyInputs {
            launch: LaunchEnvironment::default(),
            forecast: ForecastInputs::default(),
            findings: &[],
            bf16: None,
            batch_fits: false,
            batch_scale: 0.5,
            leftovers: &[],
        }
    }
}
