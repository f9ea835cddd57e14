//! Ranks of other nodes, on one machine: processes that the front's socket does not exist for and that
//! see the session's spool. `tests/cluster` has real nodes.

mod relaunch;

use oomph::event::{Event, EventKind, Hello};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");

struct Stage {
    place: TempDir,
}

impl Stage {
    fn new() -> Stage {
        Stage {
            place: TempDir::new().expect("a directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// oomph with this shell script as its command; `elsewhere` in it is what makes a process one of
    /// another node.
    fn run(&self, options: &[&str], script: &str) -> Output {
        let elsewhere = format!(
            "env OOMPH_PROBE_SOCKET={} PYTHONDONTWRITEBYTECODE=1",
            self.path("none/probe.sock").display()
        );
        Command::new(env!("CARGO_BIN_EXE_oomph"))
            .env("OOMPH_STATE_DIR", self.path("state"))
            .env("OOMPH_RUNTIME_DIR", self.path("run"))
            .env_remove("PYTORCH_CUDA_ALLOC_CONF")
            .env_remove("OOMPH_SPOOL")
            .env("elsewhere", elsewhere)
            .env("OOMPH_SIMULATED_SPEED", "20")
            .arg("--headless")
            .arg(format!("--record={}", self.path("events.jsonl").display()))
            .arg("--no-nvml")
            .args(options)
            .args(["sh", "-c", script])
            .stdin(Stdio::null())
            .output()
            .expect("oomph runs")
    }

    fn with_spool(&self, script: &str) -> Output {
        let spool = self.path("shared");
        self.run(&["--spool", spool.to_str().expect("text")], script)
    }

    fn events(&self) -> Vec<Event> {
        oomph::recording::read(&self.path("events.jsonl"))
            .expect("a recording")
            .map(|event| event.expect("an event"))
            .collect()
    }

    fn hellos(&self) -> Vec<Hello> {
        let hello = |event: Event| match event.what {
            EventKind::Hello(hello) => Some(hello),
            _ => None,
        };
        self.events().into_iter().filter_map(hello).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_empty(directory: &Path) -> bool {
    let mut entries = std::fs::read_dir(directory).expect("a directory");
    entries.next().is_none()
}

#[test]
fn a_rank_of_another_node_reports_through_the_spool() {
    let stage = Stage::new();
    let done = stage.with_spool(&format!(
        "SLURMD_NODENAME=gpu-2 RANK=1 WORLD_SIZE=2 $elsewhere python3 {DEMO} --simulated --batch-size 64"
    ));
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    let hellos = stage.hellos();
    let [hello] = hellos.as_slice() else {
        panic!("{hellos:?}")
    };
    assert!(!hello.pid.is_here());
    assert_eq!(hello.node.as_deref(), Some("gpu-2"));
    let events = stage.events();
    let oom = events.iter().find_map(|event| match &event.what {
        EventKind::Oom(oom) => Some(oom),
        _ => None,
    });
    assert!(oom.is_some_and(|oom| oom.pid == hello.pid && !oom.lines.is_empty()));
    let whole = |event: &Event| matches!(&event.what, EventKind::Device(reading) if reading.used > Some(oomph::units::Bytes::gib(1)));
    assert!(events.iter().any(whole), "the device by mem_get_info");
    let said = text(&done.stderr);
    assert!(said.contains("oomph: out of memory"), "{said}");
    assert!(said.contains("training/models.py"), "{said}");
    assert!(is_empty(
        &stage
            .path("shared")
            .join(format!("oomph-{}", nix::unistd::geteuid()))
    ));
}

#[test]
fn without_a_shared_directory_nothing_is_said_or_done() {
    let stage = Stage::new();
    let script = format!(
        "$elsewhere python3 {DEMO} --simulated --steps 2 --batch-size 16; echo \"spool $OOMPH_PROBE_SPOOL\""
    );
    let done = stage.run(&[], &script);
    assert!(
        text(&done.stdout).ends_with("spool \n"),
        "{}",
        text(&done.stdout)
    );
    assert_eq!(text(&done.stderr), "");
    assert!(stage.hellos().is_empty());
}

#[test]
fn programs_get_the_path_that_they_would_have_without_oomph() {
    let stage = Stage::new();
    let script = "$elsewhere python3 -c 'import sys; print(sys.path)'; python3 -c 'import sys; print(sys.path)'";
    let done = stage.with_spool(script);
    let plain = Command::new("python3")
        .args(["-c", "import sys; print(sys.path)"])
        .env_remove("PYTHONPATH")
        .output()
        .expect("Python");
    let expected = text(&plain.stdout).repeat(2);
    assert_eq!(text(&done.stdout), expected);
}

#[test]
fn a_spool_that_cannot_be_made_costs_only_what_it_would_show() {
    let stage = Stage::new();
    std::fs::write(stage.path("shared"), "").expect("a file");
    let done = stage.with_spool("echo hello");
    assert_eq!(text(&done.stdout), "hello\n");
    assert!(done.status.success());
    let told = stage.events().into_iter().any(|event| match event.what {
        EventKind::Note(note) => note.text.starts_with("ranks of other nodes are not seen: "),
        _ => false,
    });
    assert!(told);
}
