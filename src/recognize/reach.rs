//! Whether a command's ranks run on this machine alone, are all started by one launcher, or are one
//! machine's part of a job that others have a launcher of their own for.

use super::environment::LaunchEnvironment;
use super::recognition::recognise;
use crate::command::CommandLine;

/// Where a command's ranks run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Here, as far as can be told.
    ThisNode,
    /// On several nodes, all started by this launcher of the command: it can be changed and started again
    /// as a whole.
    OneLauncher(String),
    /// Each node has its own launcher.
    OneOfMany,
    /// The job has several nodes, and the command does not say whether it uses them.
    Unknown,
}

impl Reach {
    /// Whether ranks may run on other nodes.
    pub fn is_far(&self) -> bool {
        *self != Reach::ThisNode
    }
}

/// The number of nodes of the allocation, by SLURM.
const NODES: [&str; 2] = ["SLURM_JOB_NUM_NODES", "SLURM_NNODES"];

pub fn reach(command: &CommandLine, launch: &LaunchEnvironment<'_>) -> Reach {
    let recognised = recognise(command, launch);
    if recognised.part_of_a_job.is_some() {
        return Reach::OneOfMany;
    }
    let nodes = NODES.iter().find_map(|name| {
        let value = launch.inherited_value(name)?;
        value.trim().parse::<u32>().ok()
    });
    let launchers = recognised.launchers();
    let far = launchers.iter().find(|launcher| launcher.reaches_nodes);
    match (far, nodes) {
        (_, Some(1)) | (None, None) => Reach::ThisNode,
        (Some(launcher), _) => Reach::OneLauncher(launcher.name.clone()),
        (None, Some(_)) => Reach::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Word;

    #[test]
    fn a_launcher_or_the_allocation_says_where_the_ranks_are() {
        let one = |name: &str| Reach::OneLauncher(name.into());
        for (line, nodes, expected) in [
            ("python train.py", None, Reach::ThisNode),
            ("python train.py", Some("1"), Reach::ThisNode),
            ("bash run.sh", Some("4"), Reach::Unknown),
            (
                "torchrun --nproc_per_node 8 train.py",
                None,
                Reach::ThisNode,
            ),
            ("torchrun --nnodes 2 train.py", None, Reach::OneOfMany),
            ("srun -N2 python train.py", None, one("srun")),
            ("srun -N2 python train.py", Some("2"), one("srun")),
            ("srun python train.py", Some("1"), Reach::ThisNode),
            ("srun torchrun --nnodes 2 train.py", Some("2"), one("srun")),
            ("mpirun -np 16 python train.py", None, one("mpirun")),
            ("deepspeed --hostfile h train.py", None, one("deepspeed")),
            ("deepspeed --num_nodes 2 train.py", None, one("deepspeed")),
            ("deepspeed --node_rank 1 train.py", None, Reach::OneOfMany),
        ] {
            let command = CommandLine {
                argv: line.split(' ').map(Word::from).collect(),
                ..CommandLine::default()
            };
            let environment: Vec<(String, String)> = nodes
                .map(|nodes| ("SLURM_JOB_NUM_NODES".to_string(), nodes.to_string()))
                .into_iter()
                .collect();
            let launch = LaunchEnvironment {
                environment: &environment,
                ..LaunchEnvironment::default()
            };
            assert_eq!(reach(&command, &launch), expected, "{line} {nodes:?}");
        }
    }
}
