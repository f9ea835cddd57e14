//! Recorded sessions, found by their names: what happened last night is a command or two away.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");

/// A user with recorded sessions: a capacity OOM, and a program that caught one (the latest).
struct Archive(TempDir);

const NIGHT: &str = "20260301-233000-python3";
const MORNING: &str = "20260302-080000-python";

impl Archive {
    fn new() -> Archive {
        let archive = Archive(TempDir::new().expect("a directory"));
        archive.add(NIGHT, "capacity");
        archive.add(MORNING, "caught");
        archive
    }

    fn add(&self, id: &str, recording: &str) {
        let directory = self.0.path().join("state/oomph/sessions").join(id);
        fs::create_dir_all(&directory).expect("a directory");
        let from = format!(
            "{}/tests/replay/{recording}.jsonl",
            env!("CARGO_MANIFEST_DIR")
        );
        let to = directory.join("events.jsonl");
        fs::copy(from, &to).expect("a recording");
        // The order of writing, not the speed of this machine.
        let minutes = if recording == "caught" { 1 } else { 2 };
        let written = std::time::SystemTime::now() - std::time::Duration::from_secs(60 * minutes);
        let file = fs::File::options().append(true).open(to).expect("the copy");
        file.set_modified(written).expect("a time");
        fs::write(directory.join("output.log"), format!("output of {id}\n")).expect("a log");
    }

    fn ask(&self, words: &[&str]) -> Output {
        let output = self.command(OOMPH).args(words).output();
        output.expect("oomph runs")
    }

    fn command(&self, program: &str) -> Command {
        let run = self.0.path().join("run");
        fs::create_dir_all(&run).expect("a directory");
        let mut command = Command::new(program);
        command
            .env("OOMPH_STATE_DIR", self.0.path().join("state"))
            .env("OOMPH_RUNTIME_DIR", run)
            .env("TZ", "UTC")
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command
    }

    fn said(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn refusal(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        assert_eq!(output.status.code(), Some(125), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[test]
fn the_list_has_those_that_have_ended() {
    let archive = Archive::new();
    assert!(archive.said(&["ls"]).contains("no running session"));
    let table = archive.said(&["ls", "--all"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("ID "), "{table}");
    assert!(
        lines[1].starts_with(MORNING) && lines[1].contains("finished"),
        "{table}"
    );
    assert!(
        lines[2].starts_with(NIGHT) && lines[2].contains("out of memory"),
        "{table}"
    );
    let rows: Vec<Value> =
        serde_json::from_str(&archive.said(&["ls", "--all", "--json"])).expect("JSON");
    assert_eq!(rows[1]["id"], NIGHT);
    assert_eq!(rows[1]["state"], "out of memory");
    assert_eq!(rows[1]["ooms"], 1);
    assert!(rows[1]["seconds"].as_f64() > Some(1.0), "{rows:?}");
    assert!(rows[1]["peak"].as_u64() > Some(100 << 30), "{rows:?}");
}

#[test]
fn the_start_of_a_name_is_enough_and_nothing_is_the_latest() {
    let archive = Archive::new();
    let night = archive.said(&["replay", "20260301"]);
    assert!(night.contains("ran out of memory"), "{night}");
    assert!(archive.said(&["replay"]).contains("finished"));
    assert!(archive.said(&["explain", "20260301"]).contains("139.8 GiB"));
    assert_eq!(
        archive.said(&["logs", "20260301"]),
        format!("output of {NIGHT}\n")
    );
    assert_eq!(archive.said(&["logs"]), format!("output of {MORNING}\n"));
    let predict = |words: &[&str]| {
        let mut all = vec!["plan", "--predict", "1"];
        all.extend(words);
        all.extend(["--", "python3", "demo/train.py", "--batch-size", "64"]);
        // Of these recordings nothing is known of it, and the status says so.
        String::from_utf8(archive.ask(&all).stdout).expect("text")
    };
    assert!(predict(&[]).contains("\"batch\":1"));
    assert_eq!(
        predict(&["--recording", "20260301"]),
        predict(&[
            "--recording",
            archive
                .path()
                .join("state/oomph/sessions")
                .join(NIGHT)
                .to_str()
                .expect("text")
        ])
    );
}

#[test]
fn what_no_name_fits_is_said_with_what_to_do() {
    let archive = Archive::new();
    for command in ["replay", "explain", "logs"] {
        let several = archive.refusal(&[command, "2026"]);
        assert!(
            several.contains("matches several") && several.contains(NIGHT),
            "{several}"
        );
        let none = archive.refusal(&[command, "1999"]);
        assert!(none.contains("`oomph ls --all`"), "{none}");
        if command == "logs" {
            continue;
        }
        let file = archive.refusal(&[command, "missing.jsonl"]);
        assert!(file.contains("does not exist"), "{file}");
    }
    let empty = Archive(TempDir::new().expect("a directory"));
    assert!(
        empty
            .refusal(&["replay"])
            .contains("no recorded session yet")
    );
    assert!(empty.said(&["ls", "-a"]).contains("no recorded session"));
}

/// What has no end is refused at its beginning.
#[test]
fn what_is_no_recording_is_said_at_once() {
    let archive = Archive::new();
    for command in ["replay", "report", "explain"] {
        let device = archive.refusal(&[command, "/dev/zero"]);
        assert!(device.contains("it is a device"), "{device}");
        assert!(device.contains("pass a"), "{device}");
    }
    for (writer, said) in [
        ("yes", "its first lines have no event"),
        ("yes ''", "its first lines have no event"),
        ("cat /dev/zero", "its first line has no end"),
    ] {
        for command in ["replay", "report"] {
            let script = format!("{writer} | \"$0\" {command} /dev/stdin");
            let mut endless = archive.command("sh");
            let output = endless.args(["-c", &script, OOMPH]).output();
            let output = output.expect("sh runs");
            assert_eq!(output.status.code(), Some(125), "{output:?}");
            let line = String::from_utf8_lossy(&output.stderr);
            assert!(line.contains(said) && line.contains("oomph ls"), "{line}");
        }
    }
}

#[test]
fn a_report_is_one_file_and_names_no_secret_of_its_user() {
    let archive = Archive::new();
    let said = archive.said(&["report", "20260301"]);
    assert!(said.starts_with("The command ran out of memory"), "{said}");
    let (_, name) = said.trim().rsplit_once("\nwrote ").expect("where it is");
    let page = fs::read_to_string(archive.path().join(name)).expect("a page");
    assert!(page.starts_with("<!doctype html>") && page.contains("ran out of memory"));
    assert!(page.contains("/home/ada"), "the recording's directory");
    let anonymous = archive.said(&["report", "20260301", "--anonymous", "-o", "-"]);
    assert!(anonymous.contains("ran out of memory"));
    for private in ["ada", "/home"] {
        assert!(!anonymous.contains(&format!("{private}/")), "{private}");
    }
    let issue = archive.said(&["report", "20260301", "-o", "night.md"]);
    assert!(issue.ends_with("\nwrote night.md\n"), "{issue}");
    let issue = fs::read_to_string(archive.path().join("night.md")).expect("Markdown");
    assert!(
        issue.contains("| run | outcome |") && issue.contains("✗"),
        "{issue}"
    );
    let both = archive.said(&["report", "20260302", "--compare", "20260301", "-o", "-"]);
    assert!(both.contains("<h2>Compared</h2>"));
    let refused = archive.refusal(&["report", "-o", "no/such/place.html"]);
    assert!(
        refused.contains("cannot write no/such/place.html"),
        "{refused}"
    );
    let refused = archive.refusal(&["report", "-o", "night.pdf"]);
    assert!(refused.contains("HTML or Markdown, not pdf"), "{refused}");
    assert!(!archive.path().join("night.pdf").exists());
}

#[test]
fn a_recording_without_an_end_says_so() {
    let archive = Archive::new();
    let whole = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/replay/two-ranks.jsonl");
    let whole = fs::read_to_string(whole).expect("a recording");
    let end = whole.find("\"exited\"").expect("an end");
    fs::write(archive.path().join("torn.jsonl"), &whole[..end]).expect("a file");
    let said = archive.said(&["replay", "torn.jsonl"]);
    assert!(said.starts_with("run 1: torchrun"), "{said}");
    assert!(
        said.ends_with("its end is not in the recording\n"),
        "{said}"
    );
}

#[test]
fn two_sessions_are_compared() {
    let archive = Archive::new();
    let text = archive.said(&["diff", "20260301", "20260302"]);
    assert!(text.contains("out of memory → finished"), "{text}");
    assert!(text.contains("the same: "), "{text}");
    let json: Value =
        serde_json::from_str(&archive.said(&["diff", "20260301:1", "20260302", "--json"]))
            .expect("JSON");
    assert_eq!(json["rows"][0]["name"], "outcome");
    let one = archive.refusal(&["diff", "20260301"]);
    assert!(one.contains("no second run"), "{one}");
    let none = archive.refusal(&["diff", "20260301:7", "20260302"]);
    assert!(none.contains("has no run 7"), "{none}");
}

#[test]
fn steps_on_inputs_of_other_sizes_are_not_compared_line_by_line() {
    let archive = Archive::new();
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");
    let run = |scenario: &str, batch: &str, name: &str| {
        let recording = format!("--record={}", archive.0.path().join(name).display());
        let told = archive.ask(&[
            "--headless",
            "--no-nvml",
            &recording,
            "OOMPH_SIMULATED_SPEED=20",
            "python3",
            demo,
            "--simulated",
            "--model=mlp",
            "--steps=8",
            scenario,
            batch,
        ]);
        assert!(told.status.success(), "{told:?}");
        archive.0.path().join(name).display().to_string()
    };
    let long = run("--scenario=capacity", "--batch-size=16", "long.jsonl");
    let half = run("--scenario=capacity", "--batch-size=8", "half.jsonl");
    // The first four of its steps are on a quarter of the length.
    let short = run("--scenario=growth", "--batch-size=16", "short.jsonl");
    let text = archive.said(&["diff", &long, &short]);
    assert!(
        text.contains("no lines are compared: the traced steps are of different kinds (step 3 of "),
        "{text}"
    );
    assert!(text.contains(", inputs 16×"), "{text}");
    assert!(!text.contains("most changed first"), "{text}");
    let text = archive.said(&["diff", &long, &half]);
    assert!(text.contains("compared: step 3 (inputs 16×"), "{text}");
    assert!(text.contains("most changed first"), "{text}");
}

#[test]
fn a_session_is_exported_for_other_programs() {
    let archive = Archive::new();
    let table = archive.said(&["export", "20260301", "--to", "csv"]);
    assert!(table.starts_with("seconds,unix_time,source,"), "{table}");
    let said = archive.said(&["export", "20260301", "--to", "trace", "-o", "trace.json"]);
    assert_eq!(said, "wrote trace.json\n");
    let trace = fs::read(archive.path().join("trace.json")).expect("a trace");
    let trace: Value = serde_json::from_slice(&trace).expect("JSON");
    assert!(trace["traceEvents"].as_array().expect("events").len() > 20);
    archive.said(&["export", "20260301", "--to", "tensorboard", "-o", "runs"]);
    assert!(archive.path().join("runs/run1").is_dir());
    let nowhere = archive.refusal(&["export", "20260301", "--to", "tensorboard"]);
    assert!(nowhere.contains("-o DIR"), "{nowhere}");
}

/// A log alone would say that the program went on after the OOM: the next run's output follows.
#[test]
fn a_sessions_own_log_is_explained_with_its_recording() {
    let archive = Archive::new();
    let sessions = archive.path().join("state/oomph/sessions");
    let log = sessions.join(NIGHT).join("output.log");
    let message =
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\nstep 1\n";
    fs::write(&log, message.repeat(2)).expect("a log");
    let path = log.to_str().expect("text");
    let of_log = archive.said(&["explain", path, "--json"]);
    assert_eq!(of_log, archive.said(&["explain", "20260301", "--json"]));
    let json: Value = serde_json::from_str(&of_log).expect("JSON");
    assert_eq!(json["ooms"][0]["outcome"], "fatal");
    assert_eq!(json["ooms"][0]["run"], 1);
}

/// Each relaunch is predicted; what came of it is recorded, and the list says how far off it was.
#[test]
fn the_list_keeps_score_of_predictions() {
    let archive = Archive::new();
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");
    let run = [
        "--headless",
        "--no-nvml",
        "--on-oom=auto",
        "OOMPH_SIMULATED_SPEED=4",
        "python3",
        demo,
        "--simulated",
        "--batch-size=64",
        "--steps=6",
    ];
    let told = archive.ask(&run);
    assert!(told.status.success(), "{told:?}");
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(
        told.contains("run 2: peak ") && told.contains("(estimated)"),
        "{told}"
    );
    let list = archive.said(&["ls", "--all"]);
    let last = list.lines().last().expect("a line");
    assert!(
        last.starts_with(
            "predictions: 1 relaunch was predicted (1 estimated); right about whether it fits"
        ),
        "{list}"
    );
    let rows: Vec<Value> =
        serde_json::from_str(&archive.said(&["ls", "--all", "--json"])).expect("JSON");
    let row = rows
        .iter()
        .find(|row| row["predictions"].is_array())
        .expect("a row");
    let prediction = &row["predictions"][0];
    assert_eq!(
        (&prediction["run"], &prediction["held"]),
        (&2.into(), &true.into())
    );
    assert_eq!(prediction["basis"], "estimated");
    assert_eq!(prediction["came_of_it"]["end"], "finished");
    assert!(
        prediction["off"].as_f64().expect("a share").abs() < 0.5,
        "{prediction}"
    );
    let recording = fs::read_to_string(row["recording"].as_str().expect("a path")).expect("it");
    assert!(
        recording.contains("\"event\":\"prediction_outcome\",\"run\":2"),
        "{recording}"
    );
    let report = archive.said(&["report", "-o", "-"]);
    assert!(
        report.contains("(estimated), off by"),
        "the report says it too"
    );
}

/// A pipe that nobody writes to is waited for by whoever opens it.
#[test]
fn a_pipe_in_place_of_a_sessions_file_is_named_and_not_waited_for() {
    let archive = Archive::new();
    let path = archive
        .path()
        .join("state/oomph/sessions")
        .join(MORNING)
        .join("events.jsonl");
    let log = path.with_file_name("output.log");
    let card = archive.path().join("run/oomph/20260303-1-sh/session.json");
    fs::create_dir_all(card.parent().expect("a directory")).expect("a directory");
    fs::remove_file(&path).expect("the recording");
    fs::remove_file(&log).expect("the log");
    for place in [&path, &log, &card] {
        let made = Command::new("mkfifo").arg(place).status();
        assert!(made.expect("mkfifo runs").success());
    }
    let ask = |words: &[&str]| {
        let mut bounded = archive.command("timeout");
        let output = bounded.args(["20", OOMPH]).args(words).output();
        let output = output.expect("timeout runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (status, said) = ask(&["ls", "--all"]);
    assert_eq!(status, Some(0), "{said}");
    let named = format!("cannot read {}: it is a pipe, not a file", path.display());
    assert!(said.contains(&named), "{said}");
    for words in [
        &["report", MORNING][..],
        &["report", MORNING, "-o", "-"],
        &["diff", NIGHT, MORNING],
        &["export", MORNING, "--to", "csv"],
        &["replay", "--headless", MORNING],
        &["explain", MORNING],
    ] {
        let (status, said) = ask(words);
        assert_eq!(status, Some(125), "{words:?}: {said}");
        assert!(said.contains(&named), "{words:?}: {said}");
    }
    let (status, said) = ask(&["logs", MORNING]);
    assert_eq!(status, Some(125), "{said}");
    let named = format!("cannot read {}: it is a pipe", log.display());
    assert!(said.contains(&named), "{said}");
}

#[test]
fn a_report_in_a_directory_that_does_not_exist_is_refused_by_its_name() {
    let archive = Archive::new();
    let said = archive.refusal(&["report", NIGHT, "-o", "no/such/report.html"]);
    assert!(
        said.contains("the directory no/such does not exist"),
        "{said}"
    );
    assert!(!archive.path().join("no").exists());
}
