//! Whether what oomph reads of the host's memory is of the program that a command starts: a server or another node may be the
//! parent of that, and a container has a /dev/shm of its own.

use super::layout::{CommandLayout, Launcher};
use crate::command::CommandLine;
use crate::event::{HostMemory, LimitedBy};

/// What readings of the host's memory are of, for the program that a command starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostView {
    /// The program's.
    Whole,
    /// The program's, but in a container, which has a /dev/shm of its own.
    ButShm,
    /// Only what starts it.
    Nothing,
}

/// How full SLURM's limit of the job must be on this node to be the one that was reached: its steps may run on others.
const AT_LIMIT: f64 = 0.9;

/// The longest name of a process (Linux' `TASK_COMM_LEN`).
const NAME: usize = 15;

/// What starts a container beside the word that was typed.
const HELPERS: [&str; 3] = ["conmon", "crun", "runc"];

/// Whether `memory` was read of what the command starts: a server, or another node, may be the parent of that.
pub fn host_view(command: &CommandLine, memory: &HostMemory) -> HostView {
    let layout = CommandLayout::new(command);
    let Some(at) = layout.launchers.iter().position(|one| one.is_outside) else {
        return HostView::Whole;
    };
    let (starts, launcher) = (&layout.launchers[..=at], &layout.launchers[at]);
    let is_launcher = |name: &str| {
        let is_of = |one: &Launcher| {
            let word = one.name.split(' ').next().unwrap_or_default();
            let word: String = word.chars().take(NAME).collect();
            name == word
                || name
                    .strip_prefix(&word)
                    .is_some_and(|rest| rest.starts_with('-'))
        };
        HELPERS.contains(&name) || starts.iter().any(is_of)
    };
    let is_seen = (memory.processes.iter()).any(|process| !is_launcher(&process.name));
    // A job's steps are in its control group, whoever started them.
    let is_of_job =
        memory.limited_by == LimitedBy::Slurm && memory.used >= memory.limit.scale(AT_LIMIT);
    match (is_seen, launcher.is_container) {
        (true, true) => HostView::ButShm,
        (true, false) => HostView::Whole,
        (false, false) if is_of_job => HostView::Whole,
        (false, _) => HostView::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::HostProcess;
    use crate::units::Bytes;

    #[test]
    fn what_a_server_or_another_node_starts_is_not_seen_unless_it_is() {
        use HostView::{ButShm, Nothing, Whole};
        let reading = |names: &[&str], limited_by, used| HostMemory {
            used: Bytes::gib(used),
            limit: Bytes::gib(32),
            limited_by,
            processes: names
                .iter()
                .map(|name| HostProcess {
                    name: (*name).into(),
                    ..HostProcess::default()
                })
                .collect(),
            ..HostMemory::default()
        };
        let (machine, slurm) = (LimitedBy::Machine, LimitedBy::Slurm);
        for (line, names, by, used, view) in [
            ("python t.py", &["python"][..], machine, 31, Whole),
            (
                "docker run -m8g img python t.py",
                &["docker"],
                machine,
                31,
                Nothing,
            ),
            (
                "sudo docker run img python t.py",
                &["sudo", "docker"],
                machine,
                31,
                Nothing,
            ),
            (
                "docker compose run x",
                &["docker", "docker-compose"],
                machine,
                9,
                Nothing,
            ),
            (
                "nvidia-docker run img python t.py",
                &["nvidia-docker"],
                machine,
                9,
                Nothing,
            ),
            (
                "podman run img python t.py",
                &["podman", "conmon"],
                machine,
                9,
                Nothing,
            ),
            (
                "podman run img python t.py",
                &["python3", "podman"],
                machine,
                9,
                ButShm,
            ),
            ("srun python t.py", &["srun"], machine, 31, Nothing),
            ("srun python t.py", &["srun"], slurm, 31, Whole),
            ("srun python t.py", &["srun"], slurm, 9, Nothing),
            (
                "systemd-run python t.py",
                &["systemd-run"],
                machine,
                31,
                Nothing,
            ),
            (
                "systemd-run --scope python t.py",
                &["systemd-run"],
                machine,
                31,
                Whole,
            ),
            (
                "salloc srun python t.py",
                &["salloc", "python"],
                machine,
                31,
                Whole,
            ),
            (
                "apptainer exec img.sif python t.py",
                &["python"],
                machine,
                31,
                Whole,
            ),
            ("docker run img python t.py", &[], machine, 31, Nothing),
        ] {
            let view_of = host_view(&CommandLine::typed(line), &reading(names, by, used));
            assert_eq!(view_of, view, "{line} {names:?}");
        }
    }
}
