//! The GPUs: which ones there are, which the command will see, and who else is on them.

use super::{Check, DriverFacts, Facts, GpuFacts, MigFacts, NvmlFacts};
use crate::event::DeviceProcess;
use crate::units::{Bytes, Uuid};

/// What another process must hold before it is worth a warning: contexts and desktops hold less.
const WORTH_A_WORD: Bytes = Bytes::mib(512);

const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// At most so many processes are named.
const NAMED: usize = 3;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
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
    let mut checks: Vec<Check> = driver.gpus.iter().map(check).collect();
    checks.extend(visible(driver, facts.variable(VISIBLE)));
    checks
}

fn check(gpu: &GpuFacts) -> Check {
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
