//! Whether a command is one of several parts of a job. The parts must agree on what they run, so no
//! part can be relaunched alone: the new command is there to copy.

use super::environment::LaunchEnvironment;
use super::launcher::Anatomy;
use super::spellings::spellings;
use super::variable::Variable;
use crate::command::CommandLine;

/// SLURM's steps for a batch script and an interactive shell (`slurm.h`): these aren't tasks of a
/// job, though they may start one.
const NO_TASK: [&str; 2] = ["4294967291", "4294967290"];

/// The reason, or `None` if the command is the whole job.
pub(crate) fn part_of_a_job(
    command: &CommandLine,
    anatomy: &Anatomy,
    launch: &LaunchEnvironment<'_>,
) -> Option<String> {
    // What starts the launchers of all machines is the whole job: `srun torchrun --nnodes 2`.
    let outermost = anatomy
        .launchers
        .iter()
        .find(|l| l.reaches_nodes || l.part_of.is_some());
    if let Some(part) = outermost.and_then(|l| l.part_of.clone()) {
        return Some(part);
    }
    let value_of = |name: &str| {
        let inherited = launch.inherited_value(name);
        Some(Variable::find(command, anatomy, name, inherited)?.text())
    };
    let number = |name: &str| -> Option<u32> {
        // torchrun's elastic `1:4`: the maximum.
        value_of(name)?.trim().rsplit(':').next()?.parse().ok()
    };
    let shown = |name: &str| format!("{name}={}", value_of(name).unwrap_or_default());
    let more_than = |least: u32, names: &[String]| {
        names
            .iter()
            .find(|name| number(name).is_some_and(|n| n > least))
            .map(|name| shown(name))
    };
    let task_of_slurm = || {
        let step = value_of("SLURM_STEP_ID")?;
        let counts = step.parse::<u32>().is_ok() && !NO_TASK.contains(&step);
        counts.then(|| more_than(1, &["SLURM_STEP_NUM_TASKS".into()]))?
    };
    let rank = || {
        value_of("RANK").or_else(|| value_of("LOCAL_RANK"))?;
        more_than(1, &["WORLD_SIZE".into()])
    };
    let job = &spellings().job;
    more_than(1, &job.machines)
        .or_else(|| more_than(0, &job.machine))
        .or_else(task_of_slurm)
        .or_else(|| more_than(1, &job.processes))
        .or_else(rank)
}
