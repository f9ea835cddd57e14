//! `oomph check` as a program: a short run of the demo, its recording, a baseline, and the exit status of each answer.

use crate::harness::at_home;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");

struct Home(TempDir);

impl Home {
    fn new() -> Home {
        Home(TempDir::new().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
        command
            .arg("check")
            .args(words)
            .current_dir(self.0.path())
            .env("OOMPH_SIMULATED_SPEED", "8")
            .env_remove("GITHUB_ACTIONS")
            .stdin(Stdio::null());
        at_home(&mut command, self.0.path());
        command
    }

    fn check(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("oomph runs")
    }

    /// A short run of the demo, recorded beside.
    fn demo(&self, words: &[&str], batch: &str) -> Output {
        let demo = [
            "--no-nvml",
            "--record",
            "run.jsonl",
            "--",
            "python3",
            DEMO,
            "--simulated",
        ];
        let shape = ["--steps", "400", "--batch-size", batch];
        self.check(&[words, &demo, &shape].concat())
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_short_run_and_its_recording_give_one_answer() {
    let home = Home::new();
    let below = home.demo(&["--max", "22GiB"], "32");
    let line = said(&below);
    assert_eq!(below.status.code(), Some(0), "{below:?}");
    assert!(
        line.starts_with("check: below 22.0 GiB: needs 14."),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1, "the program's output is elsewhere");
    let again = |words: &[&str]| home.check(&[words, &["--recording", "run.jsonl"]].concat());
    let answer = again(&["--max", "22GiB"]);
    assert_eq!((said(&answer), answer.status.code()), (line, Some(0)));
    let answered: Value =
        serde_json::from_str(&said(&again(&["--max", "22GiB", "--json"]))).expect("JSON");
    let needs = answered["needs"]["likely"].as_u64().expect("a figure");
    // By 3 % below and above.
    for (share, status) in [(1.03, 0), (0.97, 1)] {
        let limit = format!("{}MiB", (needs as f64 * share) as u64 >> 20);
        let answer = again(&["--max", &limit]);
        assert_eq!(answer.status.code(), Some(status), "{limit}: {answer:?}");
    }
    assert_eq!(again(&["--fits", "rtx 4090"]).status.code(), Some(0));
    assert_eq!(again(&["--fits", "T4"]).status.code(), Some(1));
    // What CUDA itself takes is no room for PyTorch.
    let tight = format!("{}MiB", (needs >> 20) + 300);
    assert_eq!(again(&["--max", &tight]).status.code(), Some(0));
    assert_eq!(again(&["--room", &tight]).status.code(), Some(1));
}

#[test]
fn a_run_that_ran_out_is_above_what_it_had() {
    let home = Home::new();
    let above = home.demo(&["--max", "20GiB"], "64");
    assert_eq!(above.status.code(), Some(1), "{above:?}");
    assert!(
        said(&above).starts_with("check: above 20.0 GiB: needs "),
        "{above:?}"
    );
}

#[test]
fn growth_beyond_the_tolerance_fails_and_names_the_lines() {
    let home = Home::new();
    let kept = home.demo(&["--json", "--max", "22GiB"], "32");
    assert_eq!(kept.status.code(), Some(0), "{kept:?}");
    std::fs::write(home.path("base.json"), &kept.stdout).expect("a file");
    let same = home.demo(&["--against", "base.json"], "32");
    assert_eq!(same.status.code(), Some(0), "{same:?}");
    let grown = home.demo(&["--against", "base.json", "--tolerance", "5 %"], "36");
    let line = said(&grown);
    assert_eq!(grown.status.code(), Some(1), "{grown:?}");
    assert!(
        line.contains("% more than") && line.contains("models.py:32 forward +"),
        "{line}"
    );
    // The third run is recorded beside the others.
    let borne = [
        "--against",
        "base.json",
        "--tolerance",
        "20",
        "--recording",
        "run-3.jsonl",
    ];
    assert_eq!(home.check(&borne).status.code(), Some(0));
    let marked = home
        .command(&["--against", "base.json", "--recording", "run-3.jsonl"])
        .env("GITHUB_ACTIONS", "true")
        .output()
        .expect("oomph runs");
    let stderr = String::from_utf8_lossy(&marked.stderr).into_owned();
    assert!(
        stderr.starts_with("::error title=oomph check::peak "),
        "{stderr}"
    );
}

#[test]
fn what_cannot_be_known_has_a_status_of_its_own() {
    let home = Home::new();
    for (words, why) in [
        (&["--", "python3", "-c", "1"][..], "say what to check"),
        (&["--max", "1GiB"], "no command given"),
        (
            &["--max", "1GiB", "--recording", "nowhere"],
            "there is no file nowhere, and no session or job of that name",
        ),
        (&["--fits", "RTX 9999", "--", "true"], "no GPU of the name"),
        (
            &["--max", "1GiB", "--", "no-such-program"],
            "no-such-program",
        ),
        (
            &["--against", "none.json", "--", "true"],
            "cannot read none.json",
        ),
    ] {
        let answer = home.check(words);
        let stderr = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert_eq!(answer.status.code(), Some(2), "{words:?}: {answer:?}");
        assert!(stderr.contains(why), "{words:?}: {stderr}");
    }
    let failed = home.check(&[
        "--max",
        "1GiB",
        "--no-nvml",
        "--",
        "python3",
        "-c",
        "raise SystemExit(3)",
    ]);
    assert_eq!(failed.status.code(), Some(2), "{failed:?}");
    assert!(
        said(&failed).contains("not known whether it stays below 1.00 GiB"),
        "{failed:?}"
    );
}
