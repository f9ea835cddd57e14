//! What the user types, and how it is parsed.

use super::*;
use crate::command::Word;
use crate::live::{OnOom, Recording, SessionConfig};
use crate::units::Moment;
use std::time::Duration;

fn parsed(words: &[&str]) -> Result<Invocation, EarlyExit> {
    parse(words.iter().map(OsString::from), "/work".into())
}

fn run(words: &[&str]) -> SessionConfig {
    let invocation = parsed(words).unwrap_or_else(|error| panic!("{words:?}: {error:?}"));
    assert_eq!(invocation.subcommand, None, "{words:?}");
    let command = invocation.command.expect("a command");
    run::configure(invocation.run, command).expect("options")
}

fn argv(options: &SessionConfig) -> Vec<String> {
    options
        .command
        .argv
        .iter()
        .map(Word::to_string_lossy)
        .collect()
}

fn mistake_of(words: &[&str]) -> String {
    match parsed(words) {
        Err(EarlyExit::Mistake(text)) => text,
        Ok(Invocation {
            run,
            subcommand: None,
            command: Some(command),
        }) => run::configure(run, command).expect_err("a mistake").0,
        other => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn the_first_word_that_is_no_option_starts_the_command() {
    let options = run(&[
        "--headless",
        "python",
        "train.py",
        "--headless",
        "--help",
        "--",
        "x",
    ]);
    assert!(options.headless);
    assert_eq!(
        argv(&options),
        ["python", "train.py", "--headless", "--help", "--", "x"]
    );
}

#[test]
fn a_double_dash_makes_any_word_the_command() {
    assert_eq!(argv(&run(&["--", "replay", "x"])), ["replay", "x"]);
    assert_eq!(argv(&run(&["--", "--odd"])), ["--odd"]);
}

#[test]
fn run_is_the_same_spelled_out() {
    let options = run(&[
        "--no-probe",
        "run",
        "--no-nvml",
        "--interval",
        "0.5s",
        "--",
        "make",
        "-j",
    ]);
    assert!(!options.probe && !options.nvml);
    assert_eq!(options.interval, Duration::from_millis(500));
    assert_eq!(argv(&options), ["make", "-j"]);
    assert_eq!(argv(&run(&["run", "python", "run"])), ["python", "run"]);
}

#[test]
fn words_with_an_equals_sign_in_front_are_environment() {
    let options = run(&["CUDA_VISIBLE_DEVICES=1", "A=b=c", "python", "x.py", "k=v"]);
    assert_eq!(options.command.env.len(), 2);
    assert_eq!(options.command.env_value("A").unwrap(), &Word::from("b=c"));
    assert_eq!(argv(&options), ["python", "x.py", "k=v"]);
    assert_eq!(argv(&run(&["./a=b", "x"])), ["./a=b", "x"]);
}

#[test]
fn options_become_plain_values() {
    let options = run(&[
        "--record=/tmp/a.jsonl",
        "--on-oom",
        "exit",
        "--alloc-conf",
        "expandable_segments:True",
        "--no-lines",
        "true",
    ]);
    assert_eq!(options.snapshot, None);
    let saved = run(&["--snapshot", "out/snaps", "true"]);
    assert_eq!(saved.snapshot, Some("out/snaps".into()));
    assert_eq!(options.recording(), Recording::To("/tmp/a.jsonl".into()));
    assert_eq!(options.on_oom, Some(OnOom::Exit));
    assert_eq!(
        options.alloc_conf.as_deref(),
        Some("expandable_segments:True")
    );
    assert!(!options.lines);
    assert_eq!(run(&["--no-record", "true"]).recording(), Recording::Off);
    assert_eq!(run(&["true"]).recording(), Recording::InStateDirectory);
}

#[test]
fn mistakes_are_one_line_with_the_mend() {
    for (words, said) in [
        (&["--headles", "python"][..], "--headless"),
        (&["--interval", "soon", "python"], "100ms"),
        (&["--interval", "1ms", "python"], "10ms"),
        (&["--interval"], "needs a value"),
        (&["--on-oom", "panic", "python"], "ask"),
        (&["--record", "a", "--no-record", "python"], "--no-record"),
        (&["A=b"], "no command"),
        (&["run"], "no command"),
        (&["plan", "--predict", "8"], "oomph plan -- python train.py"),
        (&["fit"], "oomph fit -- python train.py"),
        (&["explain", "a.log", "python", "t.py"], "put `--` before"),
        (&["explain", "--jsn", "a.log"], "'--json'"),
        (&["ls", "--jsn"], "'--json' (see `oomph ls --help`)"),
        (&["stop", "--kil"], "'--kill'"),
        (&["plan", "--jsn", "--", "x"], "go after it"),
        (&["replay", "--theme"], "needs a value"),
        (&["replay", "--at", "1:75"], "1:30"),
        (&["replay", "--at", "noon"], "1:30"),
        (&["help", "rnu"], "possible values"),
        (&["explain", "a.log", "--", "A=b"], "no command"),
    ] {
        let text = mistake_of(words);
        assert!(text.contains(said), "{words:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn a_misspelt_subcommand_is_recognized() {
    for (typed, name) in [
        ("replai", Some("replay")),
        ("atach", Some("attach")),
        ("sotp", Some("stop")),
        ("expalin", Some("explain")),
        ("complete", Some("completions")),
        ("python", None),
        ("train.py", None),
        ("torchrun", None),
        ("make", None),
    ] {
        let options = run(&[typed, "x"]);
        assert_eq!(meant(&options.command).as_deref(), name, "{typed}");
    }
}

#[test]
fn help_and_version_are_no_mistakes() {
    for words in [
        &["--help"][..],
        &["-h"],
        &["--version"],
        &["run", "--help"],
        &["explain", "a", "-h"],
    ] {
        assert!(
            matches!(parsed(words), Err(EarlyExit::Help(_))),
            "{words:?}"
        );
    }
}

fn explain(words: &[&str]) -> (ExplainCommand, Option<CommandLine>) {
    match parsed(words) {
        Ok(Invocation {
            subcommand: Some(Subcommand::Explain(explain)),
            command,
            ..
        }) => (explain, command),
        other => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn explain_takes_a_file_before_the_dashes_and_a_command_after() {
    for (words, source, json, command) in [
        (&["explain"][..], None, false, &[][..]),
        (&["explain", "-"], Some("-"), false, &[]),
        (&["explain", "a.log"], Some("a.log"), false, &[]),
        (&["explain", "a.log", "--json"], Some("a.log"), true, &[]),
        (&["explain", "--json", "-"], Some("-"), true, &[]),
        (&["explain", "a.log", "--"], Some("a.log"), false, &[]),
        (&["explain", "run", "--", "x"], Some("run"), false, &["x"]),
        (
            &["explain", "--", "t.py", "--json"],
            None,
            false,
            &["t.py", "--json"],
        ),
        (
            &[
                "explain", "a.log", "--json", "--", "A=1", "plan", "-", "--", "--x",
            ],
            Some("a.log"),
            true,
            &["plan", "-", "--", "--x"],
        ),
    ] {
        let (explain, given) = explain(words);
        let source = source.map(OsString::from);
        assert_eq!((explain.source, explain.json), (source, json), "{words:?}");
        let argv = given.map_or(Vec::new(), |command| command.argv);
        let argv: Vec<String> = argv.iter().map(Word::to_string_lossy).collect();
        assert_eq!(argv, command, "{words:?}");
    }
    let (_, command) = explain(&["explain", "-", "--", "A=1", "t.py"]);
    assert_eq!(command.unwrap().env_value("A").unwrap(), &Word::from("1"));
    assert_eq!(argv(&run(&["--", "explain", "x"])), ["explain", "x"]);
}

fn replay(words: &[&str]) -> ReplayCommand {
    match parsed(words).map(|invocation| invocation.subcommand) {
        Ok(Some(Subcommand::Replay(replay))) => replay,
        other => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn replay_and_plan_have_words_of_their_own() {
    let plain = replay(&["replay", "a.jsonl"]);
    assert_eq!(plain.session, Some("a.jsonl".into()));
    assert_eq!((plain.at, plain.headless, plain.theme), (None, false, None));
    for (text, seconds) in [("90", 90.0), ("1:30", 90.0), ("2:05:00", 7_500.0)] {
        let replay = replay(&["replay", "--at", text]);
        assert_eq!(replay.at, Some(Moment::from_secs_f64(seconds)));
    }
    let words = [
        "plan",
        "--json",
        "--batch-scale",
        "0.25",
        "--",
        "python",
        "t.py",
        "--json",
    ];
    let Ok(Invocation {
        subcommand: Some(Subcommand::Plan(plan)),
        command: Some(command),
        ..
    }) = parsed(&words)
    else {
        panic!("no plan")
    };
    assert!(plan.json);
    assert_eq!(plan.batch_scale, 0.25);
    assert_eq!(command.argv.len(), 3);
}

#[test]
fn doctor_takes_a_command_or_none() {
    let doctor = |words: &[&str]| match parsed(words) {
        Ok(Invocation {
            subcommand: Some(Subcommand::Doctor(doctor)),
            command,
            ..
        }) => (command.map(|command| command.argv.len()), doctor.json),
        other => panic!("{words:?}: {other:?}"),
    };
    assert_eq!(doctor(&["doctor", "--json"]), (None, true));
    for words in [
        &["doctor", "--", "A=1", "python", "t.py", "--json"][..],
        &["doctor", "A=1", "python", "t.py", "--json"],
    ] {
        assert_eq!(doctor(words), (Some(3), false), "{words:?}");
    }
    assert!(mistake_of(&["doctor", "--jsn"]).contains("'--json'"));
}

#[test]
fn a_theme_is_one_of_those_that_there_are() {
    use crate::live::Scheme;
    assert_eq!(run(&["python"]).theme, None);
    let options = run(&["--theme", "contrast", "python"]);
    assert_eq!(options.theme, Some(Scheme::Contrast));
    let words = ["--theme=dark", "run", "--theme", "light", "--", "python"];
    assert_eq!(run(&words).theme, Some(Scheme::Light));
    let said = mistake_of(&["--theme", "drak", "python"]);
    assert!(
        said.contains("possible values: default, dark, light, contrast"),
        "{said}"
    );
}

#[test]
fn signals_are_passed_on_as_asked() {
    use crate::live::{Forwarding, OnHup};
    let plain = run(&["python"]);
    assert_eq!(
        (plain.forward, plain.on_hup),
        (Forwarding::Auto, OnHup::Keep)
    );
    let asked = run(&["--forward", "never", "--on-hup=stop", "python"]);
    assert_eq!(
        (asked.forward, asked.on_hup),
        (Forwarding::Never, OnHup::Stop)
    );
    let asked = run(&[
        "--forward",
        "never",
        "run",
        "--forward=always",
        "--",
        "python",
    ]);
    assert_eq!(asked.forward, Forwarding::Always);
    assert!(mistake_of(&["--forward", "twice", "python"]).contains("always"));
    assert!(mistake_of(&["--on-hup", "run", "python"]).contains("keep"));
}
