//! Facts of the machine: NVML, directories, the terminal, SLURM.

use crate::collect::nvml::{self, NoSurvey};
use crate::command::CommandLine;
use crate::config::UserSettings;
use crate::doctor::{
    DriverFacts, GpuFacts, MigFacts, NvmlFacts, PlaceFacts, ProbeErrorFacts, SlurmFacts,
    TerminalFacts,
};
use crate::event::{EventKind, ProbeErrors};
use crate::live::display::mode::{self, Mode, Surface};
use crate::live::display::screen::terminal_size;
use crate::live::session::inputs::SessionInputs;
use crate::session::{self, BaseDir, BaseDirs};
use crate::supervise;
use crate::ui::theme::{Depth, Glyphs, UNICODE};
use crate::units::Pid;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

/// How long NVML may take: its first call after a boot loads the driver.
const PATIENCE: Duration = Duration::from_secs(6);

pub(super) fn nvml() -> NvmlFacts {
    let library = std::env::var_os("OOMPH_NVML_LIBRARY").map(PathBuf::from);
    let seen = match nvml::survey(library, PATIENCE) {
        Ok(seen) => seen,
        Err(NoSurvey::Unavailable(reason)) => return NvmlFacts::Unavailable(reason),
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
pub(super) fn crashed() -> NvmlFacts {
    NvmlFacts::Unavailable("NVML broke off: does nvidia-smi answer?".into())
}

pub(super) fn state() -> Vec<PlaceFacts> {
    places(&BaseDirs::of_this_user().state, false)
}

pub(super) fn runtime() -> Vec<PlaceFacts> {
    places(&BaseDirs::of_this_user().runtime, true)
}

fn places(candidates: &[BaseDir], sockets: bool) -> Vec<PlaceFacts> {
    let examined = session::examine(candidates, sockets).into_iter();
    let facts = examined.map(|place| PlaceFacts {
        path: place.path,
        problem: place.problem,
        free: place.free,
    });
    facts.collect()
}

/// What the latest recording says of errors of the probe's own.
pub(super) fn probe_errors() -> Option<ProbeErrorFacts> {
    let session = session::latest(&BaseDirs::of_this_user())?;
    let mut of_processes: HashMap<Pid, ProbeErrors> = HashMap::new();
    session::outline(&session.directory, |event| {
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

pub(super) fn terminal() -> TerminalFacts {
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

pub(super) fn slurm(command: Option<&CommandLine>) -> SlurmFacts {
    let (known, _) = SessionInputs::at_start(&UserSettings::default());
    let part_of = command.and_then(|command| known.recognize(command).part_of_a_job);
    SlurmFacts {
        job: std::env::var("SLURM_JOB_ID").ok(),
        is_signalled: supervise::step_is_signalled(std::env::var_os("SLURM_STEP_ID").as_deref()),
        part_of,
    }
}
