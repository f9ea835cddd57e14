//! The command line as a program: a closed pipe, a misspelt subcommand, what a completion asks for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// oomph with directories of its own.
fn oomph(home: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
    command
        .env("OOMPH_STATE_DIR", home.path().join("state"))
        .env("OOMPH_RUNTIME_DIR", home.path().join("run"))
        .stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(home: &TempDir, words: &[&str]) -> Output {
    oomph(home).args(words).output().expect("oomph runs")
}

#[test]
fn a_closed_pipe_is_silent() {
    let home = TempDir::new().expect("a directory");
    for words in [
        &["--help"][..],
        &["help", "keys"],
        &["completions", "zsh"],
        &["ls", "--json"],
        &["plan", "--", "python", "train.py", "--batch-size", "4"],
        &["plan", "--json", "--", "python", "train.py"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let child = oomph(&home)
            .args(words)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn();
        let done = child
            .expect("oomph runs")
            .wait_with_output()
            .expect("it ends");
        assert_eq!(text(&done.stderr), "", "{words:?}");
        assert!(done.status.success(), "{words:?}: {}", done.status);
    }
}

/// As every failure of oomph's own. A log that could not be written was read all the same.
#[test]
fn an_answer_that_does_not_fit_is_a_failure_of_every_subcommand() {
    let home = TempDir::new().expect("a directory");
    let recorded = oomph(&home).args(["--no-nvml", "echo", "said"]).output();
    assert!(recorded.expect("oomph runs").status.success());
    for words in [
        &["--version"][..],
        &["--help"],
        &["help", "keys"],
        &["completions", "bash"],
        &["ls"],
        &["ls", "--all"],
        &["logs"],
        &["report", "-o", "-"],
        &["plan", "--", "python", "train.py"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full");
        let done = oomph(&home)
            .args(words)
            .stdout(full.expect("/dev/full"))
            .output();
        let done = done.expect("oomph runs");
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(125), "{words:?}: {said}");
        assert!(said.contains("No space left"), "{words:?}: {said}");
        assert!(!said.contains("cannot read"), "{words:?}: {said}");
    }
}

#[test]
fn a_misspelt_subcommand_is_named_unless_it_is_a_program() {
    let home = TempDir::new().expect("a directory");
    let done = run(&home, &["replai", "x.jsonl"]);
    assert_eq!(done.status.code(), Some(127));
    let said = text(&done.stderr);
    assert!(said.contains("did you mean: oomph replay?"), "{said}");

    let program = home.path().join("replai");
    fs::write(&program, "#!/bin/sh\necho \"ran with $*\"\n").expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    let path = std::env::var("PATH").unwrap_or_default();
    let done = oomph(&home)
        .env("PATH", format!("{}:{path}", home.path().display()))
        .args(["--no-nvml", "replai", "x.jsonl"])
        .output()
        .expect("oomph runs");
    assert_eq!(text(&done.stdout), "ran with x.jsonl\n");
    assert_eq!(text(&done.stderr), "");
}

#[test]
fn what_another_program_calls_a_subcommand_is_understood_as_well() {
    let home = TempDir::new().expect("a directory");
    for (typed, meant) in [
        ("stauts", "oomph ls?"),
        ("fti", "oomph fit?"),
        ("sessions", "oomph ls?"),
        ("histroy", "oomph ls --all?"),
    ] {
        let said = text(&run(&home, &[typed]).stderr);
        assert!(said.contains(&format!("did you mean: {meant}")), "{said}");
    }
}

#[test]
fn a_wrong_word_says_what_was_expected() {
    let home = TempDir::new().expect("a directory");
    let recorded = oomph(&home).args(["--no-nvml", "echo", "said"]).output();
    assert!(recorded.expect("oomph runs").status.success());
    let sessions = run(&home, &["ls", "--all", "--json"]);
    let sessions: serde_json::Value = serde_json::from_slice(&sessions.stdout).expect("json");
    let id = sessions[0]["id"].as_str().expect("an id");
    let batch = ["--", "python3", "train.py", "--batch-size", "8"];
    let with = |words: &[&'static str]| [words, &batch].concat();
    for (words, expected) in [
        (vec!["plan", id], "plan takes a command"),
        (vec!["fit", id], "fit takes a command: oomph fit -- python"),
        (
            with(&["fit", "--room", "24"]),
            "write a size with its unit, such as 24GiB",
        ),
        (
            with(&["--predict", "x"]),
            "--predict is an option of oomph plan; options of the command go after it",
        ),
        (vec!["logs", "zzz"], "running or ended"),
        (
            with(&["plan", "--predict", "x"]),
            "with commas between them: 16,24,32",
        ),
        (
            with(&["plan", "--predict", "0"]),
            "with commas between them: 16,24,32",
        ),
    ] {
        let done = run(&home, &words);
        let said = text(&done.stderr);
        assert!(said.contains(expected), "{words:?}: {said}");
        assert_eq!(done.status.code(), Some(125), "{words:?}");
    }
    // No answer has a reason, and a status.
    let done = run(&home, &with(&["plan", "--predict", "16"]));
    assert_eq!(done.status.code(), Some(1));
    let said = text(&done.stderr);
    assert!(
        said.contains("no run of this command is recorded"),
        "{said}"
    );
    assert!(text(&done.stdout).contains("\"unknown\":\"no run of this command"));
}

#[test]
fn a_recording_of_a_later_version_says_so() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("events.jsonl");
    let replay = |schema: &str| {
        let line = format!(
            r#"{{"at":0,"event":"session_started","id":"x","wall":0.0,"monotonic":0,"version":"9.0.0",{schema}"command":{{"argv":["x"],"cwd":"/"}},"probe":false,"nvml":false}}"#
        );
        fs::write(&path, line + "\n").expect("a recording");
        let path = path.to_str().expect("text");
        text(&run(&home, &["replay", "--headless", path]).stderr)
    };
    let said = replay(r#""schema":99,"#);
    assert!(
        said.contains("oomph 9.0.0 (schema 99;") && said.contains("update oomph"),
        "{said}"
    );
    assert_eq!(replay(r#""schema":1,"#), "");
    // The first recordings did not say it.
    assert_eq!(replay(""), "");
}

#[test]
fn metrics_that_cannot_be_written_are_told_of_at_the_end() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("no/such/place.prom");
    let path = path.to_str().expect("text");
    let done = run(
        &home,
        &["--no-nvml", "--metrics", path, "sh", "-c", "exit 4"],
    );
    assert_eq!(done.status.code(), Some(4));
    let said = text(&done.stderr);
    let expected = format!("oomph: cannot write {path}: No such file or directory");
    assert!(said.starts_with(&expected), "{said}");
}

#[test]
fn a_completion_asks_for_words_and_is_told_where_the_command_begins() {
    let home = TempDir::new().expect("a directory");
    let answer = |words: &[&str]| {
        let mut all = vec!["__complete"];
        all.extend(words);
        text(&run(&home, &all).stdout)
    };
    assert_eq!(answer(&["--theme", "con"]).lines().count(), 2);
    assert_eq!(answer(&["--headless", "A=1", "pyth"]), "command 2\n");
    assert_eq!(answer(&["attach", ""]), "nothing\n");
    // Nothing that is asked for can be wrong.
    assert_eq!(answer(&[]), "nothing\n");
    assert_eq!(answer(&["explain", "a", "b", "c"]), "nothing\n");
}
