//! `oomph doctor`: gathers what the checks look at. It changes nothing, starts no training, and
//! waits a few seconds at most for anybody.

mod python;

use super::answer;
use crate::collect::nvml::{self, NoSurvey};
use crate::command::CommandLine;
use crate::config::UserSettings;
use crate::doctor::{
    CommandFacts, DriverFacts, Facts, GpuFacts, MigFacts, NvmlFacts, PlaceFacts, ProbeErrorFacts,
    SlurmFacts, TerminalFacts, Verdict, examine, worst,
};
use crate::event::{EventKind, ProbeErrors};
use crate::live::Ending;
use crate::live::display::mode::{self, Mode, Surface};
use crate::live::display::screen::terminal_size;
use crate::live::session::inputs::SessionInputs;
use crate::recognize::alloc_conf::{CUDA, GENERAL, HIP};
use crate::recording::{self, BaseDir, BaseDirs};
use crate::report;
use crate::supervise;
use crate::ui::theme::{Depth, Glyphs, UNICODE};
use crate::units::Pid;
use clap::Args;
use std::collections::HashMap;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

#[derive(Debug, PartialEq, Args)]
#[command(
    override_usage = "oomph doctor [OPTIONS] [-- [NAME=VALUE...] COMMAND [ARG...]]",
    after_help = "With a command its own Python and environment are checked, without one those of python in PATH.\n\
                  Exit status: 0 if nothing is broken (there may be warnings), 1 otherwise."
)]
pub(super) struct DoctorCommand {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Variables that the checks read.
const VARIABLES: [&str; 4] = [CUDA, HIP, GENERAL, "CUDA_VISIBLE_DEVICES"];

/// Looks at everything that `command`, or any, needs, and prints what it found. The exit status is 1
/// if something is broken.
///
/// # Errors
/// Standard output could not be written.
pub(super) fn run(doctor: &DoctorCommand, command: Option<CommandLine>) -> anyhow::Result<Ending> {
    let facts = gather(command);
    let checks = examine(&facts);
    let shown = (facts.command.given.as_ref()).map(|command| command.without_secrets().shown());
    let write = match doctor.json {
        true => report::doctor::json,
        false => report::doctor::text,
    };
    let text = write(env!("OOMPH_VERSION"), shown.as_deref(), &checks);
    answer(&text)?;
    Ok(Ending::Code(match worst(&checks) {
        Verdict::Ok | Verdict::Warning => 0,
        Verdict::Error => 1,
    }))
}

fn gather(command: Option<CommandLine>) -> Facts {
    // The driver and the interpreter may both take their time.
    let nvml = thread::spawn(nvml);
    let python = python::of(command.as_ref());
    let nvml = nvml.join().unwrap_or_else(|_| crashed());
    Facts {
        nvml,
        state: state(),
        runtime: runtime(),
        terminal: terminal(),
        slurm: slurm(command.as_ref()),
        probe_errors: probe_errors(),
        variables: variables(command.as_ref()),
        command: CommandFacts {
            given: command,
            python,
        },
    }
}

/// The variables that the checks read, as the command will have them.
fn variables(command: Option<&CommandLine>) -> Vec<(String, String)> {
    let of = |name: &str| {
        let typed = command.into_iter().flat_map(|command| &command.env);
        match typed.rev().find(|change| change.name == *name) {
            Some(change) => change.value.as_ref().map(|value| value.to_string_lossy()),
            None => std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
        }
    };
    VARIABLES
        .iter()
        .filter_map(|name| Some((name.to_string(), of(name)?)))
        .collect()
}

/// How long NVML may take: its first call after a boot loads the driver.
const PATIENCE: Duration = Duration::from_secs(6);

fn nvml() -> NvmlFacts {
    let library = std::env::var_os("OOMPH_NVML_LIBRARY").map(PathBuf::from);
    let seen = match nvml::survey(library, PATIENCE) {
        Ok(seen) => seen,
        Err(NoSurvey::Unavailable(problem)) => {
            return NvmlFacts::Unavailable {
                finding: problem.what,
                advice: problem.mend,
            };
        }
        Err(NoSurvey::Silent) => return NvmlFacts::Silent(PATIENCE.as_secs()),
    };
    let gpus = seen.devices.into_iter().map(|device| GpuFacts {
        mig: match (device.is_instance, device.mig) {
            (true, _) => MigFacts::Instance,
            (false, true) => MigFacts::Empty,
            (false, false) => MigFacts::Off,
        },
        exclusive: device.exclusive,
        prohibited: device.prohibited,
        reading: device.reading,
    });
    NvmlFacts::Answered(DriverFacts {
        version: seen.driver,
        cuda: seen.cuda,
        gpus: gpus.collect(),
        unreadable: seen.unreadable,
    })
}

/// The thread that asks ended without an answer.
fn crashed() -> NvmlFacts {
    NvmlFacts::Unavailable {
        finding: "NVML broke off".into(),
        advice: "does nvidia-smi answer?",
    }
}

fn state() -> Vec<PlaceFacts> {
    places(&BaseDirs::of_this_user().state, false)
}

fn runtime() -> Vec<PlaceFacts> {
    places(&BaseDirs::of_this_user().runtime, true)
}

fn places(candidates: &[BaseDir], sockets: bool) -> Vec<PlaceFacts> {
    let examined = recording::examine(candidates, sockets).into_iter();
    let facts = examined.map(|place| PlaceFacts {
        path: place.path,
        problem: place.problem,
        free: place.free,
    });
    facts.collect()
}

/// What the latest recording says of errors of the probe's own.
fn probe_errors() -> Option<ProbeErrorFacts> {
    let session = recording::latest(&BaseDirs::of_this_user())?;
    let mut of_processes: HashMap<Pid, ProbeErrors> = HashMap::new();
    recording::outline(&session.directory, |event| {
        if let EventKind::ProbeErrors(errors) = &event.what {
            of_processes.insert(errors.pid, errors.clone());
        }
    })
    .ok()?;
    Some(ProbeErrorFacts {
        session: session.id,
        count: of_processes.values().map(|errors| errors.count).sum(),
        latest: of_processes.into_values().next()?.latest,
    })
}

fn terminal() -> TerminalFacts {
    let variable = |name: &str| std::env::var(name).ok();
    TerminalFacts {
        headless: match mode::choose(false, &Surface::of_this_process()) {
            Mode::Screen => None,
            Mode::Headless(reason) => Some(reason.words()),
        },
        size: terminal_size().map(|size| (size.cols, size.rows)),
        colors: match Depth::of_environment(&variable) {
            Depth::None => None,
            Depth::Sixteen => Some("16 colors"),
            Depth::TwoFiftySix => Some("256 colors"),
            Depth::True => Some("24-bit colors"),
        },
        utf8: std::ptr::eq(Glyphs::of_environment(&variable), &UNICODE),
        term: variable("TERM"),
    }
}

fn slurm(command: Option<&CommandLine>) -> SlurmFacts {
    let (known, _) = SessionInputs::at_start(&UserSettings::default());
    let part_of = command.and_then(|command| known.recognize(command).part_of_a_job);
    SlurmFacts {
        job: std::env::var("SLURM_JOB_ID").ok(),
        is_signalled: supervise::step_is_signalled(std::env::var_os("SLURM_STEP_ID").as_deref()),
        part_of,
    }
}
