//! The next run over nodes, against a stand-in for SLURM: srun starts one rank that is on another node as far
//! as oomph can see, squeue and sinfo say what they are told to. `tests/cluster` has a real SLURM.

use oomph::event::{Event, EventKind};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");

/// Its task is rank 1 of two, on another node, in step 3 of job 12.
const SRUN: &str = r#"#!/bin/sh
while case $1 in -*) true;; *) false;; esac; do shift; done
exec env OOMPH_PROBE_SOCKET=/nonexistent/probe.sock SLURMD_NODENAME=gpu-2 SLURM_STEP_ID=3 RANK=1 WORLD_SIZE=2 SLURM_NNODES=2 "$@"
"#;

struct FakeSlurm {
    place: TempDir,
}

impl FakeSlurm {
    /// `steps` is a shell command that prints the steps, `state` the job's state.
    fn new(steps: &str, state: &str) -> FakeSlurm {
        let slurm = FakeSlurm {
            place: TempDir::new().expect("a directory"),
        };
        let squeue = format!(
            "#!/bin/sh\ncd {}\ncase \"$*\" in *--steps*) {steps};; *) echo '12|12|{state}|gpu-[1-2]';; esac\n",
            slurm.place.path().display()
        );
        slurm.program("srun", SRUN);
        slurm.program("squeue", &squeue);
        slurm.program("sinfo", "#!/bin/sh\necho 'gpu-1 mixed\ngpu-2 mixed'\n");
        slurm
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path("bin")).expect("a directory");
        let path = self.path("bin").join(name);
        std::fs::write(&path, text).expect("a program");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    /// A training that runs out of memory behind srun, unattended.
    fn run(&self) -> Output {
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        Command::new(env!("CARGO_BIN_EXE_oomph"))
            .env("PATH", path)
            .env("OOMPH_STATE_DIR", self.path("state"))
            .env("OOMPH_RUNTIME_DIR", self.path("run"))
            .env("OOMPH_SPOOL", self.path("spool"))
            .env("SLURM_JOB_ID", "12")
            .env("SLURM_JOB_NUM_NODES", "2")
            .env("OOMPH_SIMULATED_SPEED", "20")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env_remove("SLURM_STEP_ID")
            .env_remove("PYTORCH_CUDA_ALLOC_CONF")
            .args(["--headless", "--no-nvml", "--on-oom=auto", "--scaled=20"])
            .arg(format!("--record={}", self.path("events.jsonl").display()))
            .args(["srun", "-N2", "python3", DEMO, "--simulated"])
            .args(["--steps", "30", "--batch-size", "64"])
            .stdin(Stdio::null())
            .output()
            .expect("oomph runs")
    }

    fn events(&self) -> Vec<Event> {
        oomph::recording::read(&self.path("events.jsonl"))
            .expect("a recording")
            .map(|event| event.expect("an event"))
            .collect()
    }

    fn runs(&self) -> usize {
        let events = self.events().into_iter();
        events
            .filter(|event| matches!(event.what, EventKind::Started(_)))
            .count()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_next_run_waits_for_the_end_of_the_step() {
    // It ends between the second question and the third.
    let steps =
        "echo asked >> asked; [ $(wc -l < asked) -gt 2 ] || echo 12.3; echo 12.batch; echo 12.0";
    let slurm = FakeSlurm::new(steps, "RUNNING");
    let output = slurm.run();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(slurm.runs(), 2);
    let asked = std::fs::read_to_string(slurm.path("asked")).expect("questions");
    assert_eq!(asked.lines().count(), 3);
    let said_so = |event: &Event| match &event.what {
        EventKind::Note(note) => {
            note.text == "no rank of run 1 is left on any node: SLURM says that its step has ended"
        }
        _ => false,
    };
    assert!(slurm.events().iter().any(said_so));
}

#[test]
fn nothing_is_started_beside_a_step_that_does_not_end() {
    let slurm = FakeSlurm::new("echo 12.3", "RUNNING");
    let output = slurm.run();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(slurm.runs(), 1);
    let words = "oomph: not relaunched: a rank may still run on another node (step 3 has not ended); nothing was started";
    assert!(said(&output).contains(words), "{}", said(&output));
    // The changed command is there to copy.
    assert!(
        said(&output).contains("--batch-size 32"),
        "{}",
        said(&output)
    );
}

#[test]
fn nothing_is_started_where_the_scheduler_does_not_answer() {
    let slurm = FakeSlurm::new("exit 1", "RUNNING");
    let output = slurm.run();
    assert_eq!(slurm.runs(), 1);
    assert!(said(&output).contains("squeue failed"), "{}", said(&output));
}

#[test]
fn nothing_is_started_in_an_allocation_that_ends() {
    let slurm = FakeSlurm::new("true", "COMPLETING");
    let output = slurm.run();
    assert_eq!(slurm.runs(), 1);
    let words = "not relaunched: the allocation is completing; nothing was started";
    assert!(said(&output).contains(words), "{}", said(&output));
}
