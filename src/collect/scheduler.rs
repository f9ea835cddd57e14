//! What SLURM says of a job at a moment: its state, the steps that it still has, the nodes that do not
//! answer. It is asked by its own commands, which change nothing.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long one of its commands may take: a busy controller answers after seconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// Variables that change what its commands answer.
const FILTERS: [&str; 7] = [
    "SQUEUE_FORMAT",
    "SQUEUE_FORMAT2",
    "SQUEUE_STATES",
    "SQUEUE_USERS",
    "SQUEUE_PARTITION",
    "SINFO_FORMAT",
    "SINFO_PARTITION",
];

/// A job of SLURM's as its controller knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmJob {
    /// `RUNNING`, `COMPLETING`.
    pub state: String,
    /// The numbers of the steps that have not ended. The batch script is none of them.
    pub steps: Vec<u32>,
    /// Its nodes that are down or do not answer: processes may run there whatever is said of them.
    pub silent_nodes: Vec<String>,
}

/// Asks for a job by its id. Takes seconds: to be called on a thread.
///
/// # Errors
/// Why there is no answer, for display.
pub fn ask(job: &str) -> Result<SlurmJob, String> {
    let jobs = format!("--jobs={job}");
    let jobs_lines = output("squeue", &["--noheader", &jobs, "--format=%A|%i|%T|%N"])?;
    let found = about(&jobs_lines, job).ok_or("squeue does not know the job any more")?;
    let step_lines = output("squeue", &["--noheader", "--steps", &jobs, "--format=%i"])?;
    let nodes = format!("--nodes={}", found.nodes);
    let states = match found.nodes.is_empty() {
        true => String::new(),
        false => output("sinfo", &["--noheader", "--Node", &nodes, "--format=%N %T"])?,
    };
    Ok(SlurmJob {
        steps: steps(&step_lines, job, &found.shown),
        silent_nodes: silent_nodes(&states),
        state: found.state,
    })
}

fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    for name in FILTERS {
        command.env_remove(name);
    }
    let mut child = command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{program} cannot be run ({error})"))?;
    let pipe = child.stdout.take();
    let (done, text) = channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = pipe.map(|mut pipe| pipe.read_to_string(&mut text));
        // If nobody waits any more, it was too late.
        let _ = done.send(read.is_some_and(|read| read.is_ok()).then_some(text));
    });
    let text = text.recv_timeout(PATIENCE);
    if text.is_err() {
        // It may have ended in this moment.
        let _ = child.kill();
    }
    let status = child
        .wait()
        .map_err(|error| format!("{program}: {error}"))?;
    match text {
        Err(_) => Err(format!(
            "{program} did not answer within {} s",
            PATIENCE.as_secs()
        )),
        Ok(Some(text)) if status.success() => Ok(text),
        Ok(_) => Err(format!("{program} failed ({status})")),
    }
}

/// A step number from here on is none of srun's: the batch script, an interactive shell (`slurm.h`).
const NO_STEP: u32 = 0xffff_fff0;

/// Parts of a node's state (`sinfo`'s `%T`) that leave open what runs there. `*` stands behind the state
/// of a node that does not answer.
const SILENT: [&str; 6] = ["*", "down", "fail", "unknown", "power", "reboot"];

#[derive(Debug, PartialEq, Eq)]
struct AboutJob {
    /// As its steps are shown: `12`, or `10_3` in an array.
    shown: String,
    pub state: String,
    /// `n[1-4]`.
    pub nodes: String,
}

/// The job's line: for the first job of an array there are those of the whole array.
fn about(text: &str, job: &str) -> Option<AboutJob> {
    text.lines().find_map(|line| {
        let mut parts = line.split('|').map(str::trim);
        let mut next = || parts.next().map(str::to_string);
        let (id, shown, state, nodes) = (next()?, next()?, next()?, next()?);
        (id == job).then_some(AboutJob {
            shown,
            state,
            nodes,
        })
    })
}

pub(super) fn steps(text: &str, job: &str, shown: &str) -> Vec<u32> {
    let step = |line: &str| {
        let (of, step) = line.trim().rsplit_once('.')?;
        let number: u32 = step.parse().ok()?;
        ((of == job || of == shown) && number < NO_STEP).then_some(number)
    };
    text.lines().filter_map(step).collect()
}

fn silent_nodes(text: &str) -> Vec<String> {
    let silent = |line: &str| {
        let (node, state) = line.trim().split_once(' ')?;
        let state = state.to_ascii_lowercase();
        let is_silent = SILENT.iter().any(|part| state.contains(part));
        is_silent.then(|| node.to_string())
    };
    let mut nodes: Vec<String> = text.lines().filter_map(silent).collect();
    // A node stands there once for each of its partitions.
    nodes.dedup();
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_found_among_those_of_its_array() {
        let text = "41|40_1|RUNNING|n1\n40|40_3|COMPLETING|n[1-2]\n";
        let job = about(text, "40").unwrap();
        let expected = ("40_3", "COMPLETING", "n[1-2]");
        assert_eq!(
            (job.shown.as_str(), job.state.as_str(), job.nodes.as_str()),
            expected
        );
        for other in ["", "41|40_1|RUNNING\n", "slurm_load_jobs error"] {
            assert_eq!(about(other, "40"), None);
        }
    }

    #[test]
    fn only_steps_of_srun_in_this_job_count() {
        let text = "40_3.0\n40_3.batch\n40_3.extern\n40_1.7\n40.2\n40.4294967291\n40_3.12\n";
        assert_eq!(steps(text, "40", "40_3"), [0, 2, 12]);
        assert_eq!(steps("", "40", "40"), [0_u32; 0]);
    }

    #[test]
    fn a_node_that_does_not_answer_is_no_witness() {
        let text = "n1 mixed\nn2 allocated*\nn2 allocated*\nn3 down\nn4 idle\nn5 draining\nn6 powered_down\n";
        assert_eq!(silent_nodes(text), ["n2", "n3", "n6"]);
    }
}
