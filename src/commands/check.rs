//! `oomph check`: whether a training stays below a limit of memory, and whether it needs more than a baseline says. One
//! short run of the program, or none where a recording is given.

use super::run::configure;
use super::{answer, no_command};
use crate::calibration::{NON_TORCH_USUAL, gpus};
use crate::command::CommandLine;
use crate::live::policy::check::{CheckRun, CheckTerms};
use crate::live::{self, Ending, SessionConfig, print};
use crate::query::recordings;
use crate::query::told::read_state;
use crate::report::check::{CheckBaseline, CheckedRun, MemoryLimit};
use crate::units::Bytes;
use crate::{recording, supervise};
use anyhow::{Context, ensure};
use clap::Args;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Nothing is known: the exit status, also of what keeps us from finding out.
const NOT_KNOWN: i32 = 2;

/// A longer file is no baseline.
const LONGEST_BASELINE: u64 = 4 << 20;

#[derive(Debug, PartialEq, Args)]
#[command(
    override_usage = "oomph check [OPTIONS] -- [NAME=VALUE...] COMMAND [ARG...]\n       oomph check [OPTIONS] --recording ID|FILE",
    after_help = "The program really runs, until N optimizer steps were seen, and may write files as it always does; with --recording \
                  nothing runs, and no GPU is needed. Its output goes to stderr, the answer to stdout; in GitHub Actions ::error and \
                  ::warning lines go to stderr.\n\
                  Exit status: 0 below and not grown, 1 above or grown, 2 not known. `oomph help ci` has examples."
)]
pub(super) struct CheckCommand {
    /// The most that PyTorch may need to reserve: 22GiB
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with_all = ["fits", "room"])]
    max: Option<Bytes>,
    /// A GPU, by its name: "RTX 4090", H100, "A100 40GB"
    #[arg(long, value_name = "GPU", conflicts_with = "room")]
    fits: Option<String>,
    /// A GPU with this much memory, of which CUDA takes its part
    #[arg(long, value_name = "SIZE", value_parser = size)]
    room: Option<Bytes>,
    /// Check the last run of this session or recording; run nothing
    #[arg(long, value_name = "ID|FILE")]
    recording: Option<OsString>,
    /// Fail where the peak has grown since this earlier answer of --json
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    against: Option<PathBuf>,
    /// The growth that is no failure, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    tolerance: f64,
    /// Check for these settings of PyTorch's allocator: the run gets them, a recording is replayed with them
    #[arg(long, value_name = "KEY:VALUE[,...]")]
    alloc_conf: Option<String>,
    /// Optimizer steps of the run; up to four times as many while memory still grows
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
    steps: u64,
    /// As JSON, to be kept as a baseline
    #[arg(long)]
    json: bool,
    /// Run without NVML
    #[arg(long)]
    no_nvml: bool,
    /// Record the session to this file
    #[arg(long, value_name = "PATH", conflicts_with = "recording")]
    record: Option<PathBuf>,
}

fn size(text: &str) -> Result<Bytes, String> {
    Bytes::parse_size(text).ok_or_else(|| "write a size with its unit, such as 22GiB".into())
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent),
        Ok(_) | Err(_) => Err("write a share in percent, such as 5".into()),
    }
}

impl CheckCommand {
    /// What the run is held to.
    fn limit(&self) -> anyhow::Result<Option<MemoryLimit>> {
        if let Some(bytes) = self.max {
            return Ok(Some(MemoryLimit {
                name: bytes.to_string(),
                bytes,
                for_torch: bytes,
            }));
        }
        let (name, bytes) = match (&self.fits, self.room) {
            (Some(gpu), _) => (gpu.clone(), memory_of(gpu)?),
            (None, Some(bytes)) => (format!("a GPU with {bytes}"), bytes),
            (None, None) => return Ok(None),
        };
        Ok(Some(MemoryLimit {
            name,
            bytes,
            for_torch: bytes - NON_TORCH_USUAL,
        }))
    }

    fn terms(&self) -> anyhow::Result<CheckTerms> {
        let limit = self.limit()?;
        ensure!(
            limit.is_some() || self.against.is_some(),
            "say what to check: --max 22GiB, --fits \"RTX 4090\", --room 24GiB or --against BASELINE.json"
        );
        let against = match &self.against {
            Some(path) => Some((path.display().to_string(), baseline(path)?)),
            None => None,
        };
        Ok(CheckTerms {
            limit,
            against,
            tolerance: self.tolerance / 100.0,
            alloc_conf: self.alloc_conf.clone(),
            json: self.json,
            annotates: std::env::var_os("GITHUB_ACTIONS").is_some_and(|said| said == "true"),
        })
    }
}

fn memory_of(gpu: &str) -> anyhow::Result<Bytes> {
    gpus::memory_of(gpu).with_context(|| {
        format!(
            "no GPU of the name {gpu:?} is known; give its memory with --room 24GiB, or one of {}",
            gpus::names().join(", ")
        )
    })
}

fn baseline(path: &Path) -> anyhow::Result<CheckBaseline> {
    let shown = path.display();
    let file = recording::open_regular(path).with_context(|| format!("cannot read {shown}"))?;
    let mut text = String::new();
    (file.take(LONGEST_BASELINE).read_to_string(&mut text))
        .with_context(|| format!("cannot read {shown}"))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{shown} is not what `oomph check --json` prints"))
}

/// Checks, and answers in one line or as JSON.
///
/// # Errors
/// Standard output could not be written.
pub(super) fn run(asked: CheckCommand, command: Option<CommandLine>) -> anyhow::Result<Ending> {
    match check(asked, command) {
        Err(error) => {
            print::complain(&format!("check: {error:#}"));
            Ok(Ending::Code(NOT_KNOWN))
        }
        ended => ended,
    }
}

fn check(asked: CheckCommand, command: Option<CommandLine>) -> anyhow::Result<Ending> {
    let terms = asked.terms()?;
    match (&asked.recording, command) {
        (Some(_), Some(_)) => {
            anyhow::bail!("give a command or --recording, not both")
        }
        (Some(name), None) => recorded(name, &terms),
        (None, Some(command)) => short_run(&asked, terms, command),
        (None, None) => Err(no_command().into()),
    }
}

/// No run: by what was recorded.
fn recorded(name: &OsString, terms: &CheckTerms) -> anyhow::Result<Ending> {
    let path = recordings::find(Some(name))?;
    let state = read_state(&path)?;
    let result = terms.result(CheckedRun::new(&state, terms.alloc_conf.as_deref()));
    answer(&terms.answer(&result))?;
    if let Some(said) = result.annotation().filter(|_| terms.annotates) {
        print::aside(&said);
    }
    Ok(Ending::Code(result.verdict().status()))
}

fn short_run(
    asked: &CheckCommand,
    terms: CheckTerms,
    command: CommandLine,
) -> anyhow::Result<Ending> {
    let session = SessionConfig {
        headless: true,
        nvml: !asked.no_nvml,
        record: asked.record.clone(),
        alloc_conf: asked.alloc_conf.clone(),
        ..SessionConfig::default()
    };
    let config = configure(session, command)?;
    let path = std::env::var_os("PATH");
    supervise::resolve(&config.command, path.as_deref())
        .map_err(|missing| anyhow::anyhow!("{missing}"))?;
    if let Some(lack) = supervise::lacking() {
        anyhow::bail!("{lack}; nothing was run");
    }
    // The program's standard output becomes our standard error before the keeper is started.
    let out = nix::unistd::dup(io::stdout()).context("cannot duplicate standard output")?;
    nix::unistd::dup2_stdout(io::stderr()).context("cannot redirect standard output")?;
    // The run itself gets the settings: what it shows is of them.
    let terms = CheckTerms {
        alloc_conf: None,
        ..terms
    };
    live::run_to_end(
        config,
        Some(Box::new(CheckRun::new(terms, asked.steps, out))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_with_and_without_its_sign() {
        assert_eq!(percent("5 %"), Ok(5.0));
        assert_eq!(percent("2.5%"), Ok(2.5));
        assert!(percent("-1").is_err() && percent("much").is_err());
    }
}
