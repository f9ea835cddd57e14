//! What to run, from the recording alone: `explain`, `report` and `replay` of a recorded session offer the remedies for its
//! command, and `oomph again` starts it with one, end to end.

use crate::harness::at_home;
use oomph::event::{Basis, Event, EventKind};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");
const REPLAYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/replay");

/// A home with its recorded sessions.
struct Home(TempDir);

impl Home {
    fn new() -> Home {
        Home(TempDir::new().expect("a directory"))
    }

    fn oomph(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
        command
            .args(words)
            .env("OOMPH_SIMULATED_SPEED", "8")
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        at_home(&mut command, self.0.path());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.oomph(words).output().expect("oomph runs")
    }

    /// A session of the demo, without a screen.
    fn demo(&self, arguments: &[&str]) -> Output {
        let oomph = ["--headless", "--no-nvml", "python3", DEMO, "--simulated"];
        self.run(&[&oomph[..], arguments].concat())
    }

    fn sessions(&self) -> Vec<PathBuf> {
        let stored = self.0.path().join("oomph/sessions");
        let mut found: Vec<PathBuf> = std::fs::read_dir(stored)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        found.retain(|path| path.join("events.jsonl").exists());
        found.sort();
        found
    }

    fn events(&self, session: usize) -> Vec<Event> {
        let path = self.sessions()[session].join("events.jsonl");
        let events = oomph::recording::read(&path).expect("a recording");
        events.collect::<Result<_, _>>().expect("only events")
    }

    fn id(&self, session: usize) -> String {
        let path = &self.sessions()[session];
        path.file_name().expect("a name").to_string_lossy().into()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn an_agent_asks_why_takes_the_remedy_and_starts_once() {
    let home = Home::new();
    let first = home.demo(&["--batch-size", "64", "--grad-accum", "1", "--steps", "6"]);
    assert_eq!(first.status.code(), Some(1), "{first:?}");
    let id = home.id(0);
    let explained = json(&home.run(&["explain", "--json", &id]));
    assert_eq!(explained["again"], id.as_str());
    let remedies = explained["remedies"].as_array().expect("remedies");
    let fits = remedies
        .iter()
        .find(|remedy| remedy["expected"]["verdict"] == "likely fits");
    let fits = fits.expect("one that is estimated to fit");
    assert_eq!(fits["expected"]["fits"], Value::Null);
    assert_eq!(fits["id"], "batch");
    let needs = fits["expected"]["needs"].as_u64().expect("a figure");
    assert!(needs < fits["expected"]["room"].as_u64().expect("room"));
    let planned = json(&home.run(&["again", "--print", "--json", &id]));
    assert_eq!(planned["starts"], true, "{planned}");
    assert_eq!(planned["changed_since"], Value::Array(Vec::new()));
    assert_eq!(planned["argv"], fits["argv"]);
    assert_eq!(home.sessions().len(), 1, "nothing was started");

    let started = home.run(&["--headless", "--no-nvml", "again", &id]);
    let stderr = text(&started.stderr);
    assert!(started.status.success(), "{stderr}");
    assert!(
        stderr.contains("with smaller batch: --batch-size 64→32"),
        "{stderr}"
    );
    assert_eq!(home.sessions().len(), 2, "one relaunch");
    let events = home.events(1);
    let header = events.iter().find_map(|event| match &event.what {
        EventKind::SessionStarted(header) => Some(header.again_of.clone()),
        _ => None,
    });
    assert_eq!(header.flatten(), Some(id));
    let runs: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.what {
            EventKind::Started(started) => Some(started),
            _ => None,
        })
        .collect();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].remedies, ["smaller batch"]);
    let predicted = runs[0].prediction.as_ref().expect("a prediction");
    assert_eq!(
        (predicted.fits, predicted.basis),
        (None, Some(Basis::Estimated))
    );
    let outcome = events.iter().find_map(|event| match &event.what {
        EventKind::PredictionOutcome(outcome) => Some(outcome),
        _ => None,
    });
    assert_eq!(
        outcome.expect("what came of it").steps,
        6,
        "trained to its end"
    );
}

#[test]
fn explain_report_and_replay_offer_the_remedies_of_a_recorded_command() {
    let home = Home::new();
    home.demo(&["--batch-size", "64", "--steps", "3"]);
    let id = home.id(0);
    for words in [
        &["explain", &id][..],
        &["report", "-o", "-", &id],
        &["report", "-o", "report.md", &id],
        &["report", "--format", "github", &id],
        &["report", "--format", "gitlab", &id],
        &["report", "--format", "slack", &id],
        &["replay", "--headless", &id],
    ] {
        let output = home.run(words);
        assert!(output.status.success(), "{output:?}");
        let said = match words.get(2) {
            Some(&"report.md") => std::fs::read_to_string(home.0.path().join("report.md")).unwrap(),
            _ => text(&output.stdout),
        };
        // The page keeps each word of a command together.
        let said = said.replace("<span>", "").replace("</span>", "");
        assert!(said.contains("To relaunch"), "{words:?}: {said}");
        assert!(
            said.contains("--batch-size 32 --grad-accum 2"),
            "{words:?}: {said}"
        );
        assert!(said.contains("needs about"), "{words:?}: {said}");
        assert!(
            said.contains(&format!("oomph again {id} starts it")) || words.contains(&"slack"),
            "{words:?}: {said}"
        );
    }
    // Whom a report without names is for cannot start it by that name.
    let nameless = text(&home.run(&["report", "--anonymous", "-o", "-", &id]).stdout);
    assert!(
        nameless.contains("To relaunch") && !nameless.contains("oomph again"),
        "{nameless}"
    );
}

#[test]
fn a_command_with_a_masked_secret_is_printed_with_a_gap_and_not_started() {
    let home = Home::new();
    let program = home.0.path().join("trainer.py");
    let code = format!(
        "import runpy, sys\nat = sys.argv.index('--hf_token')\ndel sys.argv[at:at + 2]\nrunpy.run_path({DEMO:?}, run_name='__main__')\n"
    );
    std::fs::write(&program, code).expect("a program");
    let words = [
        "--headless",
        "--no-nvml",
        "python3",
        "trainer.py",
        "--hf_token",
        "hf_soverysecret1234567890",
    ];
    home.run(
        &[
            &words[..],
            &["--simulated", "--batch-size", "64", "--steps", "3"],
        ]
        .concat(),
    );
    let asked = home.run(&["again", "--remedy", "batch", &home.id(0)]);
    let (stdout, stderr) = (text(&asked.stdout), text(&asked.stderr));
    assert_eq!(asked.status.code(), Some(125), "{stderr}");
    assert!(
        stdout.contains("--hf_token <FILL-IN>") && stdout.contains("--batch-size 32"),
        "{stdout}"
    );
    assert!(
        stderr.contains("fill them in and start it yourself"),
        "{stderr}"
    );
    assert!(!stdout.contains("verysecret") && !stderr.contains("verysecret"));
    assert_eq!(home.sessions().len(), 1);
    let printed = home.run(&["again", "--remedy", "batch", "--print", &home.id(0)]);
    assert!(printed.status.success() && text(&printed.stdout) == stdout);
}

#[test]
fn what_has_changed_since_is_said() {
    let home = Home::new();
    let program = home.0.path().join("trainer.py");
    let code =
        format!("import runpy\nimport sizes\nrunpy.run_path({DEMO:?}, run_name='__main__')\n");
    std::fs::write(&program, &code).expect("a program");
    std::fs::write(home.0.path().join("sizes.py"), "WIDTH = 1\n").expect("a module");
    let words = [
        "--headless",
        "--no-nvml",
        "python3",
        "trainer.py",
        "--simulated",
    ];
    let shape = ["--batch-size", "64", "--steps", "3"];
    home.run(&[&words[..], &shape].concat());
    let same = text(&home.run(&["again", "--print", &home.id(0)]).stderr);
    assert!(!same.contains("since then"), "{same}");
    std::fs::write(home.0.path().join("sizes.py"), "WIDTH = 2\n").expect("a module");
    let mut asked = home.oomph(&["again", "--print", &home.id(0)]);
    let asked = asked
        .env("CUDA_VISIBLE_DEVICES", "1")
        .output()
        .expect("oomph runs");
    let said = text(&asked.stderr);
    assert!(
        said.contains("sizes.py has changed") && !said.contains("trainer.py has changed"),
        "{said}"
    );
    assert!(
        said.contains("CUDA_VISIBLE_DEVICES: not set then, \"1\" now"),
        "{said}"
    );
}

#[test]
fn a_remedy_that_does_not_take_effect_is_told_after_the_start() {
    let home = Home::new();
    let program = home.0.path().join("trainer.py");
    let conf = "os.environ.update(PYTORCH_ALLOC_CONF='', PYTORCH_CUDA_ALLOC_CONF='')";
    let code = |first: &str| {
        format!("import os, runpy\n{first}\nrunpy.run_path({DEMO:?}, run_name='__main__')\n")
    };
    std::fs::write(&program, code("")).expect("a program");
    let words = ["--headless", "--no-nvml", "python3", "trainer.py"];
    let shape = ["--simulated", "--batch-size", "64", "--steps", "3"];
    home.run(&[&words[..], &shape].concat());
    // The program has come to set the allocator itself.
    std::fs::write(&program, code(conf)).expect("a program");
    let again = [
        "--headless",
        "--no-nvml",
        "again",
        "--remedy",
        "expandable-segments",
    ];
    home.run(&[&again[..], &[&home.id(0)]].concat());
    let notes: Vec<String> = home
        .events(1)
        .into_iter()
        .filter_map(|event| match event.what {
            EventKind::Note(note) => Some(note.text),
            _ => None,
        })
        .collect();
    let is_told = |note: &String| note.contains("expandable segments") && note.contains("not");
    assert!(notes.iter().any(is_told), "{notes:?}");
}

#[test]
fn a_session_that_finished_is_started_again_only_as_it_was() {
    let home = Home::new();
    home.demo(&["--batch-size", "8", "--steps", "2"]);
    let refused = home.run(&["again", &home.id(0)]);
    let stderr = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("nothing to remedy; --same"), "{stderr}");
    let started = home.run(&["--headless", "--no-nvml", "again", "--same", &home.id(0)]);
    assert!(started.status.success(), "{started:?}");
    assert_eq!(home.sessions().len(), 2);
}

#[test]
fn a_session_whose_relaunch_finished_is_started_again_with_what_it_ended_with() {
    let home = Home::new();
    let auto = ["--headless", "--no-nvml", "--on-oom", "auto"];
    let demo = [
        "python3",
        DEMO,
        "--simulated",
        "--batch-size",
        "64",
        "--steps",
        "3",
    ];
    let done = home.run(&[&auto[..], &demo[..]].concat());
    assert!(done.status.success(), "{done:?}");
    let printed = home.run(&["again", "--print", &home.id(0)]);
    let said = text(&printed.stdout);
    assert!(printed.status.success(), "{printed:?}");
    assert!(said.contains("--batch-size 32"), "{said}");
}

#[test]
fn what_is_not_expected_to_fit_is_not_started_unasked() {
    let home = Home::new();
    // A leak: no remedy helps, and nothing may be started.
    let leak = format!("{REPLAYS}/leak.jsonl");
    let refused = home.run(&["again", &leak]);
    let stderr = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("again: no remedy"), "{stderr}");
    let unknown = home.run(&["again", "--remedy", "smaller", &leak]);
    assert!(
        text(&unknown.stderr).contains("choose of together, stop-leftover"),
        "{unknown:?}"
    );
    assert!(home.sessions().is_empty());
}
