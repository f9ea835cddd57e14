//! What SLURM says of a job at a moment: its state, the steps that it still has, the nodes that do not
//! answer. It is asked by its own commands, which change nothing.

mod answers;

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
    let about = output("squeue", &["--noheader", &jobs, "--format=%A|%i|%T|%N"])?;
    let about = answers::about(&about, job).ok_or("squeue does not know the job any more")?;
    let steps = output("squeue", &["--noheader", "--steps", &jobs, "--format=%i"])?;
    let nodes = format!("--nodes={}", about.nodes);
    let states = match about.nodes.is_empty() {
        true => String::new(),
        false => output("sinfo", &["--noheader", "--Node", &nodes, "--format=%N %T"])?,
    };
    Ok(SlurmJob {
        steps: answers::steps(&steps, job, &about.shown),
        silent_nodes: answers::silent_nodes(&states),
        state: about.state,
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
