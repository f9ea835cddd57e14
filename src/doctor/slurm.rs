//! SLURM: who signals the training, and whether this is one of several tasks.

use super::{Check, SlurmFacts};

const SUBJECT: &str = "SLURM";

pub(super) fn check(slurm: &SlurmFacts) -> Check {
    let Some(job) = &slurm.job else {
        return match &slurm.part_of {
            None => Check::ok(SUBJECT, "not in a job"),
            Some(part) => Check::warning(SUBJECT, format!("not in a job, but {part}"), PART),
        };
    };
    let signals = match slurm.is_signalled {
        true => {
            "in a step of srun, whose processes SLURM signals itself; oomph passes no signal on"
        }
        false => "in the batch script; oomph passes signals on to the command",
    };
    match &slurm.part_of {
        None => Check::ok(SUBJECT, format!("job {job}, {signals}")),
        Some(part) => Check::warning(
            SUBJECT,
            format!("job {job}, one of several tasks ({part})"),
            PART,
        ),
    }
}

const PART: &str = "each task has an oomph of its own, and none can relaunch the others: it shows the changed \
                    command to copy; or put oomph in front of one launcher a node (torchrun)";
