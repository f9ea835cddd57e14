//! What oomph needs, and whether it is there: facts in, checks out, each with what to do.
//!
//! It sees the world only through [`Facts`], which `commands/doctor.rs` gathers; so a machine without a
//! GPU, an old driver or a full disk is a value in a test.

mod facts;
mod machine;
mod python;

#[cfg(test)]
mod tests;

pub use facts::{
    AskedPython, CommandFacts, DriverFacts, Facts, GpuFacts, Keeps, MigFacts, NvmlFacts,
    PlaceFacts, ProbeErrorFacts, PythonFacts, SlurmFacts, TerminalFacts, TorchFacts,
};

use serde::Serialize;

/// What a check comes to, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Ok,
    /// Something is missing or lessened; the training runs.
    Warning,
    /// The training will fail, or oomph will show nothing of its GPU.
    Error,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// `driver`, `GPU 0`, `torch`, …
    pub subject: String,
    pub verdict: Verdict,
    /// What was found.
    pub finding: String,
    /// What to do, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Check {
    fn ok(subject: impl Into<String>, finding: impl Into<String>) -> Check {
        Check {
            subject: subject.into(),
            verdict: Verdict::Ok,
            finding: finding.into(),
            advice: None,
        }
    }

    fn warning(
        subject: impl Into<String>,
        finding: impl Into<String>,
        advice: impl Into<String>,
    ) -> Check {
        Check {
            verdict: Verdict::Warning,
            advice: Some(advice.into()),
            ..Check::ok(subject, finding)
        }
    }

    fn error(
        subject: impl Into<String>,
        finding: impl Into<String>,
        advice: impl Into<String>,
    ) -> Check {
        Check {
            verdict: Verdict::Error,
            ..Check::warning(subject, finding, advice)
        }
    }
}

/// All checks, in the order in which they are read.
pub fn examine(facts: &Facts) -> Vec<Check> {
    let mut checks = machine::driver(&facts.nvml);
    checks.extend(machine::gpus(facts));
    checks.extend(python::python(facts));
    checks.extend(python::probe(facts));
    checks.extend(python::probe_errors(facts));
    checks.extend(python::allocator(facts));
    checks.push(machine::directory("recordings", &facts.state));
    checks.push(machine::directory("sockets", &facts.runtime));
    checks.extend(machine::terminal(&facts.terminal));
    checks.push(machine::slurm(&facts.slurm));
    checks
}

/// The worst of them.
pub fn worst(checks: &[Check]) -> Verdict {
    let verdicts = checks.iter().map(|check| check.verdict);
    verdicts.max().unwrap_or(Verdict::Ok)
}
