//! Checks of the machine: the driver, the GPUs, the directories for oomph's files, the terminal, SLURM.

use super::{
    Check, DriverFacts, Facts, GpuFacts, MigFacts, NvmlFacts, PlaceFacts, SlurmFacts, TerminalFacts,
};
use crate::event::DeviceProcess;
use crate::units::{Bytes, Uuid};

const DRIVER: &str = "driver";

/// The oldest driver line that has been tried with NVML's second memory call (510).
const OLDEST: u32 = 510;

pub(super) fn driver(nvml: &NvmlFacts) -> Vec<Check> {
    let driver = match nvml {
        NvmlFacts::Unavailable { finding, advice } => {
            return vec![Check::error(DRIVER, finding.clone(), *advice)];
        }
        NvmlFacts::Silent(seconds) => {
            return vec![Check::error(
                DRIVER,
                format!("NVML did not answer within {seconds} s"),
                "does nvidia-smi answer? If not, the driver hangs: see `dmesg | grep -i xid`, reset the GPU or reboot",
            )];
        }
        NvmlFacts::Answered(driver) => driver,
    };
    let version = driver.version.as_deref().unwrap_or("of unknown version");
    let cuda = driver.cuda.map_or(String::new(), |(major, minor)| {
        format!(", runs CUDA up to {major}.{minor}")
    });
    let finding = format!("NVIDIA {version}{cuda}");
    let major: Option<u32> = version.split('.').next().and_then(|text| text.parse().ok());
    let mut checks = vec![match major {
        Some(major) if major < OLDEST => Check::warning(
            DRIVER,
            finding,
            format!("drivers before {OLDEST} do not tell all figures; update it"),
        ),
        Some(_) | None => Check::ok(DRIVER, finding),
    }];
    checks.extend(driver.unreadable.iter().map(|reason| {
        Check::error(
            "GPU",
            reason.clone(),
            "see `nvidia-smi` and `dmesg | grep -i xid`; reset the GPU or reboot",
        )
    }));
    checks
}

/// What another process must hold before it is worth a warning: contexts and desktops hold less.
const WORTH_A_WORD: Bytes = Bytes::mib(512);

const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// At most so many processes are named.
const NAMED: usize = 3;

pub(super) fn gpus(facts: &Facts) -> Vec<Check> {
    let NvmlFacts::Answered(driver) = &facts.nvml else {
        return Vec::new();
    };
    if driver.gpus.is_empty() && driver.unreadable.is_empty() {
        return vec![Check::error(
            "GPU",
            "the driver has no GPU",
            "give the container or the job its GPUs (docker run --gpus all, #SBATCH --gres=gpu:1)",
        )];
    }
    let mut checks: Vec<Check> = driver.gpus.iter().map(gpu).collect();
    checks.extend(visible(driver, facts.variable(VISIBLE)));
    checks
}

fn gpu(gpu: &GpuFacts) -> Check {
    let reading = &gpu.reading;
    let subject = format!("GPU {}", reading.index);
    if let Some(reason) = &reading.lost {
        return Check::error(
            subject,
            format!("{}: {reason}", reading.name),
            "see `dmesg | grep -i xid`; reset the GPU or reboot",
        );
    }
    let memory = match (reading.used, reading.total) {
        (Some(used), Some(total)) => format!("{used} of {total} in use"),
        (None, Some(total)) => total.to_string(),
        (_, None) => "memory unknown".into(),
    };
    let finding = format!("{}, {memory}", reading.name);
    if gpu.mig == MigFacts::Empty {
        return Check::error(
            subject,
            format!("{finding}; MIG is on, but there is no instance, so no program can use it"),
            "create one (nvidia-smi mig -cgi … -C), or turn MIG off (nvidia-smi -mig 0)",
        );
    }
    if gpu.prohibited {
        return Check::error(
            subject,
            format!("{finding}; its compute mode is Prohibited, so no program can use it"),
            "sudo nvidia-smi -c DEFAULT",
        );
    }
    let processes = reading.processes.as_deref().unwrap_or_default();
    let large: Vec<&DeviceProcess> = processes
        .iter()
        .filter(|process| process.used.is_none_or(|used| used >= WORTH_A_WORD))
        .collect();
    if gpu.exclusive && !processes.is_empty() {
        return Check::error(
            subject,
            format!(
                "{finding}; its compute mode allows one process, and {} is on it",
                names(processes)
            ),
            "wait for it to end, or use another GPU",
        );
    }
    if !large.is_empty() {
        let large: Vec<DeviceProcess> = large.into_iter().cloned().collect();
        return Check::warning(
            subject,
            format!("{finding}; on it: {}", names(&large)),
            "their memory is not yours: wait for them to end, or choose another GPU with CUDA_VISIBLE_DEVICES",
        );
    }
    match gpu.mig {
        MigFacts::Instance => Check::ok(subject, format!("{finding} (MIG instance)")),
        MigFacts::Off | MigFacts::Empty => Check::ok(subject, finding),
    }
}

/// `python3 train.py (pid 41, ada, 12 GiB)`.
fn names(processes: &[DeviceProcess]) -> String {
    let mut words: Vec<String> = (processes.iter().take(NAMED))
        .map(|process| {
            let name = process.name.as_deref().unwrap_or("a process out of sight");
            let mut about = vec![format!("pid {}", process.pid)];
            about.extend(process.user.clone());
            about.extend(process.used.map(|used| used.to_string()));
            format!("{name} ({})", about.join(", "))
        })
        .collect();
    if processes.len() > NAMED {
        words.push(format!("{} more", processes.len() - NAMED));
    }
    words.join(", ")
}

/// Which of them the command will see.
fn visible(driver: &DriverFacts, value: Option<&str>) -> Option<Check> {
    let value = value?;
    let hides = |what: &str| {
        Some(Check::error(
            VISIBLE,
            format!("{VISIBLE}={value} {what}"),
            format!("unset it, or name a GPU: {VISIBLE}=0"),
        ))
    };
    let named: Vec<&str> = value.split(',').map(str::trim).collect();
    if value.trim().is_empty() || named[0] == "-1" {
        return hides("hides every GPU from the command");
    }
    let exists = |name: &str| match name.parse::<u32>() {
        Ok(index) => driver.gpus.iter().any(|gpu| gpu.reading.index == index),
        // CUDA takes the start of a UUID; an instance may be named by its parent's.
        Err(_) if name.starts_with("MIG-") => true,
        Err(_) => {
            let named = Uuid::new(name);
            let mut uuids = driver.gpus.iter().map(|gpu| gpu.reading.uuid.as_str());
            uuids.any(|uuid| uuid.starts_with(named.as_str()))
        }
    };
    // CUDA uses the GPUs in front of the first one that does not exist.
    match named.iter().position(|name| !exists(name)) {
        Some(0) => hides("names a GPU that does not exist, which hides every GPU"),
        Some(at) => Some(Check::warning(
            VISIBLE,
            format!(
                "{VISIBLE}={value}: {} does not exist; CUDA uses only those in front of it",
                named[at]
            ),
            "remove it from the list",
        )),
        None => Some(Check::ok(
            VISIBLE,
            format!("{value}: the command sees {} of these GPUs", named.len()),
        )),
    }
}

/// Below this a recording is soon cut off.
const LITTLE: Bytes = Bytes::mib(256);

pub(super) fn directory(subject: &str, places: &[PlaceFacts]) -> Check {
    let problems: Vec<String> = places
        .iter()
        .map_while(|place| Some((place.path.display(), place.problem.as_ref()?)))
        .map(|(path, problem)| format!("{path}: {problem}"))
        .collect();
    let variable = match subject {
        "sockets" => "OOMPH_RUNTIME_DIR",
        _ => "OOMPH_STATE_DIR",
    };
    let Some(place) = places.get(problems.len()) else {
        let without = match subject {
            "sockets" => "there will be no probe and no `oomph attach`",
            _ => "nothing will be recorded",
        };
        return Check::error(
            subject,
            format!("no directory can be used: {}", problems.join("; ")),
            format!("{without}: set {variable} to a directory of yours"),
        );
    };
    let free = (place.free).map_or(String::new(), |free| format!(", {free} free"));
    let finding = format!("{}{free}", place.path.display());
    if place.free.is_some_and(|free| free < LITTLE) {
        return Check::warning(
            subject,
            finding,
            format!("make room, or set {variable} to another directory"),
        );
    }
    match problems.is_empty() {
        true => Check::ok(subject, finding),
        false => Check::warning(
            subject,
            format!("{finding}, since {}", problems.join("; ")),
            format!("it works; set {variable} if another directory is better"),
        ),
    }
}

const TERMINAL: &str = "terminal";

/// What the whole screen needs; below it panes are left out.
const COLUMNS: u16 = 80;
const ROWS: u16 = 24;

pub(super) fn terminal(terminal: &TerminalFacts) -> Vec<Check> {
    if let Some(reason) = terminal.headless {
        return vec![Check::ok(
            TERMINAL,
            format!("{reason}: oomph will be headless, and say at the end why memory ran out"),
        )];
    }
    let size = terminal
        .size
        .map_or("size unknown".into(), |(columns, rows)| {
            format!("{columns} x {rows}")
        });
    let colors = terminal.colors.unwrap_or("no colors");
    let characters = match terminal.utf8 {
        true => "UTF-8",
        false => "ASCII",
    };
    let term = terminal.term.as_deref().unwrap_or("unset");
    let finding = format!("{size}, {colors}, {characters} (TERM={term})");
    let mut advice = Vec::new();
    if terminal
        .size
        .is_some_and(|(columns, rows)| columns < COLUMNS || rows < ROWS)
    {
        advice.push(format!("enlarge it to {COLUMNS} x {ROWS} to see all panes"));
    }
    if terminal.colors.is_none() {
        advice.push("for colors unset NO_COLOR, or set TERM=xterm-256color".into());
    }
    if !terminal.utf8 {
        advice.push("for finer charts set LANG=C.UTF-8".into());
    }
    vec![match advice.is_empty() {
        true => Check::ok(TERMINAL, finding),
        false => Check::warning(TERMINAL, finding, advice.join("; ")),
    }]
}

const SLURM: &str = "SLURM";

pub(super) fn slurm(slurm: &SlurmFacts) -> Check {
    let Some(job) = &slurm.job else {
        return match &slurm.part_of {
            None => Check::ok(SLURM, "not in a job"),
            Some(part) => Check::warning(SLURM, format!("not in a job, but {part}"), PART),
        };
    };
    let signals = match slurm.is_signalled {
        true => {
            "in a step of srun, whose processes SLURM signals itself; oomph passes no signal on"
        }
        false => "in the batch script; oomph passes signals on to the command",
    };
    match &slurm.part_of {
        None => Check::ok(SLURM, format!("job {job}, {signals}")),
        Some(part) => Check::warning(
            SLURM,
            format!("job {job}, one of several tasks ({part})"),
            PART,
        ),
    }
}

const PART: &str = "each task has an oomph of its own, and none can relaunch the others: it shows the changed \
                    command to copy; or put oomph in front of one launcher a node (torchrun)";
