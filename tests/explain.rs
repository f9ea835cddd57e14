//! `oomph explain` as a program: files, pipes, recordings, and what it says of what it cannot read.

use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");

/// A log that ends with the traceback.
const LOG: &str = "\
epoch 1  12% 31/250\r\nTraceback (most recent call last):
  File \"/w/fit.py\", line 57, in <module>
    main()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB. GPU 2 has a total capacity of 15.77 GiB of \
which 410.25 MiB is free. Process 5150 has 6.31 GiB memory in use. Including non-PyTorch memory, this process has \
9.06 GiB memory in use. Of the allocated memory 8.40 GiB is allocated by PyTorch, and 190.75 MiB is reserved by \
PyTorch but unallocated.
";

fn oomph() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
    command
        .env_remove("PYTORCH_CUDA_ALLOC_CONF")
        .env_remove("PYTORCH_ALLOC_CONF")
        .stdin(Stdio::null());
    command
}

fn explain(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = oomph()
        .arg("explain")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("oomph runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A refusal may come before all is read.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("an end")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(done: &Output) -> Value {
    assert!(done.status.success(), "{}", text(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("JSON")
}

fn file(place: &TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = place.path().join(name);
    fs::write(&path, content).expect("a file");
    path
}

#[test]
fn a_file_and_a_pipe_say_the_same() {
    let place = TempDir::new().expect("a directory");
    let path = file(&place, "fit.log", LOG.as_bytes());
    let of_file = json(&explain(&["--json", path.to_str().expect("text")], b""));
    assert_eq!(of_file, json(&explain(&["--json", "-"], LOG.as_bytes())));
    assert_eq!(of_file, json(&explain(&["--json"], LOG.as_bytes())));
    let oom = &of_file["ooms"][0];
    assert_eq!(oom["kind"], "cuda_oom");
    assert_eq!(oom["outcome"], "fatal");
    assert_eq!((&oom["line"], &oom["device"]), (&5.into(), &2.into()));
    assert_eq!(oom["requested"], 1_879_048_192u64);
    assert_eq!(oom["others"][0]["pid"], 5150);
    assert_eq!(of_file["findings"][0]["cause"], "foreign_process");
    assert_eq!(of_file["findings"][0]["oom"], 0);
    assert_eq!(of_file["remedies"], Value::Array(Vec::new()));
}

#[test]
fn words_name_the_cause_and_the_numbers() {
    let done = explain(&["-"], LOG.as_bytes());
    let said = text(&done.stdout);
    for part in [
        "Out of memory in standard input: line 5, device 2",
        "requested       1.75 GiB",
        "process 5150    6.31 GiB",
        "another process",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    assert!(!said.contains("To run it again"), "{said}");
    assert!(done.stderr.is_empty());
}

#[test]
fn a_command_brings_its_remedies_and_is_not_run() {
    let place = TempDir::new().expect("a directory");
    let trace = place.path().join("was-run");
    let words = ["-", "--", "touch", trace.to_str().expect("text")];
    assert!(explain(&words, LOG.as_bytes()).status.success());
    assert!(!trace.exists());

    let words = [
        "--json",
        "-",
        "--",
        "python",
        "fit.py",
        "--batch-size",
        "48",
    ];
    let value = json(&explain(&words, LOG.as_bytes()));
    let batch = value["remedies"]
        .as_array()
        .and_then(|all| all.iter().find(|remedy| remedy["id"] == "batch"))
        .expect("a smaller batch");
    assert_eq!(
        batch["argv"],
        serde_json::json!(["python", "fit.py", "--batch-size", "24"])
    );
    let said = text(&explain(&words[1..], LOG.as_bytes()).stdout);
    assert!(said.contains("python fit.py --batch-size 24"), "{said}");
}

#[test]
fn nothing_found_is_said_and_no_failure() {
    for (input, said) in [
        (&b""[..], "standard input is empty"),
        (b"epoch 1 done\n", "No OOM found"),
        (b"{\"loss\": 1.5}\n{\"loss\": 1.4}\n", "No OOM found"),
        (b"{", "No OOM found"),
    ] {
        let done = explain(&["-"], input);
        assert_eq!(done.status.code(), Some(0));
        assert!(text(&done.stdout).contains(said), "{}", text(&done.stdout));
        assert_eq!(
            json(&explain(&["--json"], input))["ooms"],
            Value::Array(Vec::new())
        );
    }
}

#[test]
fn our_own_last_words_in_a_log_say_that_it_died() {
    let place = TempDir::new().expect("a directory");
    let done = oomph()
        .args(["--headless", "--no-nvml", "--no-record", "python3", DEMO])
        .args(["--simulated", "--batch-size", "64", "--grad-accum", "1"])
        .env("XDG_STATE_HOME", place.path())
        .env("OOMPH_SIMULATED_SPEED", "0")
        .output()
        .expect("oomph runs");
    assert!(text(&done.stderr).contains("oomph: out of memory: "));
    let value = json(&explain(&["--json"], &done.stderr));
    let ooms = value["ooms"].as_array().expect("a list");
    assert_eq!(ooms.len(), 1, "{ooms:#?}");
    assert_eq!(ooms[0]["outcome"], "fatal");
}

/// The message alone would be taken for another cause.
#[test]
fn a_log_that_oomph_wrote_has_the_cause_that_oomph_named() {
    let place = TempDir::new().expect("a directory");
    let of = |arguments: &[&str]| {
        oomph()
            .args(arguments)
            .env("XDG_STATE_HOME", place.path())
            .env("OOMPH_SIMULATED_SPEED", "0")
            .output()
            .expect("oomph runs")
    };
    let command = [
        "python3",
        DEMO,
        "--simulated",
        "--scenario",
        "eval",
        "--batch-size",
        "32",
    ];
    let ran = of(&[&["--headless", "--no-nvml"], &command[..]].concat());
    let log = file(&place, "train.log", &ran.stderr);
    let log = log.to_str().expect("text");
    let said = text(&ran.stderr);
    let recording = (said.lines())
        .find_map(|line| line.strip_prefix("oomph: recorded in "))
        .and_then(|words| words.strip_suffix(" (oomph replay plays it)"))
        .expect("its place");
    let cause = |value: &Value| value["findings"][0]["cause"].clone();
    let named = json(&of(&["explain", "--json", recording]));
    for arguments in [
        &[&["explain", "--json", log][..]].concat(),
        &[&["explain", "--json", log, "--"], &command[..]].concat(),
    ] {
        let value = json(&of(arguments));
        assert_eq!(cause(&value), cause(&named));
        assert_eq!(value["ooms"][0]["run"], 1);
    }
    let shown = text(&of(&["explain", log]).stdout);
    assert!(
        shown.starts_with("Out of memory in session ") && shown.contains(", which wrote "),
        "{shown}"
    );
    // Of another command, or where the recording is gone, it is quoted.
    let other = of(&["explain", log, "--", "python3", "other.py"]);
    fs::remove_file(recording).expect("removed");
    for done in [other, of(&["explain", log])] {
        let shown = text(&done.stdout);
        let headline = (said.lines())
            .find_map(|line| line.strip_prefix("oomph: out of memory: "))
            .expect("a cause");
        assert!(
            shown.contains("oomph wrote there when the run ended:") && shown.contains(headline),
            "{shown}"
        );
        assert!(!shown.contains("Cause ("), "{shown}");
    }
    // A later error is explained by its own message.
    let later = [ran.stderr.as_slice(), LOG.as_bytes()].concat();
    let later = json(&explain(&["--json"], &later));
    assert_eq!(later["oomph_said"], Value::Array(Vec::new()));
    let of_later = (later["findings"].as_array().expect("a list").iter())
        .find(|finding| finding["oom"] == 1)
        .expect("its cause");
    assert_eq!(of_later["cause"], "foreign_process");
}

/// In a script or over ssh there is no terminal, and nothing is given either.
#[test]
fn without_a_terminal_and_without_input_it_is_the_latest_session_that_ran_out() {
    let place = TempDir::new().expect("a directory");
    let of = |arguments: &[&str]| {
        oomph()
            .args(arguments)
            .env("XDG_STATE_HOME", place.path())
            // Sessions of other tests are met by the runtime directory.
            .env("XDG_RUNTIME_DIR", place.path())
            .env("OOMPH_SIMULATED_SPEED", "0")
            .output()
            .expect("oomph runs")
    };
    of(&[
        "--headless",
        "--no-nvml",
        "python3",
        DEMO,
        "--simulated",
        "--batch-size",
        "64",
    ]);
    let said = text(&of(&["explain"]).stdout);
    assert!(said.starts_with("Out of memory in session "), "{said}");
}

#[test]
fn a_log_of_lines_of_json_is_a_log() {
    let mut log = b"{\"at\": 3, \"event\": \"started\", \"step\": 7}\n".to_vec();
    log.extend(LOG.as_bytes());
    let value = json(&explain(&["--json"], &log));
    assert_eq!(value["ooms"][0]["line"], 6, "the first line is counted");
}

#[test]
fn what_cannot_be_read_is_125_with_the_mend() {
    let place = TempDir::new().expect("a directory");
    let directory = place.path().to_str().expect("text");
    for (arguments, said) in [
        (&["no/such.log"][..], "does not exist; pass"),
        (&[directory], "cannot read"),
        (&["/dev/zero"], "it is a device"),
        (&["fit.log", "python", "fit.py"], "`--`"),
    ] {
        let done = explain(arguments, b"");
        assert_eq!(done.status.code(), Some(125));
        let line = text(&done.stderr);
        assert!(line.contains(said), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(done.stdout.is_empty());
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    // More than a pipe holds, so that the write meets the closed end whatever the order.
    let log = "RuntimeError: CUDA out of memory. Tried to allocate 3.00 GiB (GPU 0; 11.17 GiB total capacity; \
               9.20 GiB already allocated; 1.10 GiB free; 9.40 GiB reserved in total by PyTorch)\n";
    let place = TempDir::new().expect("a directory");
    let many: String = (0..200)
        .map(|n| log.replace("3.00", &format!("3.{n:03}")) + "step done\n")
        .collect();
    let path = file(&place, "many.log", many.as_bytes());
    let mut child = oomph()
        .args(["explain", "--json"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("oomph runs");
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0; 2]).expect("some of it");
    drop(stdout);
    let done = child.wait_with_output().expect("an end");
    assert_eq!(text(&done.stderr), "");
    assert_eq!(done.status.code(), Some(0));
}

#[test]
fn memory_does_not_grow_with_the_text() {
    let mut child = oomph()
        .args(["explain", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("oomph runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let block = "epoch 3 loss 0.1234 lr 1e-4\n".repeat(2_000);
    let peak = |pid: u32| -> u64 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("alive");
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let words = line.and_then(|line| line.split_whitespace().nth(1));
        words.and_then(|kib| kib.parse().ok()).expect("a peak")
    };
    let mut feed = |blocks: usize| {
        for _ in 0..blocks {
            stdin.write_all(block.as_bytes()).expect("written");
        }
        peak(child.id())
    };
    let (early, late) = (feed(40), feed(400));
    drop(stdin);
    assert!(child.wait_with_output().expect("an end").status.success());
    assert!(late < early + 4_096, "{early} KiB, then {late} KiB");
}

/// A recording of the simulated demo that ran out of memory.
fn recorded(place: &Path) -> PathBuf {
    let path = place.join("events.jsonl");
    let done = oomph()
        .args(["--no-nvml", "--record"])
        .arg(&path)
        .args(["python3", DEMO, "--simulated", "--batch-size", "64"])
        .args(["--grad-accum", "1"])
        .env("XDG_STATE_HOME", place)
        .env("OOMPH_SIMULATED_SPEED", "0")
        .output()
        .expect("oomph runs");
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    path
}

#[test]
fn of_several_runs_the_last_one_matters() {
    let place = TempDir::new().expect("a directory");
    let first = r#"{"at":0,"event":"session_started","id":"s","wall":0.0,"monotonic":0,"version":"0.1.0","command":{"argv":["python","fit.py"],"env":[],"cwd":"/w"},"probe":true,"nvml":false}"#;
    let run = |at: u64, number: u32, requested: u64| {
        format!(
            r#"{{"at":{at},"event":"started","run":{number},"pid":{number}00,"command":{{"argv":["python","fit.py"],"env":[],"cwd":"/w"}}}}
{{"at":{},"event":"oom_text","kind":"cuda_oom","outcome":"unknown","line":9,"rank":null,"device":0,"requested":{requested},"total":17179869184,"free":1048576,"allocated":16106127360,"reserved":16642998272,"unallocated":null,"process_used":null,"limit":null,"private_pools":null}}
{{"at":{},"event":"exited","run":{number},"exit":{{"code":1}}}}
"#,
            at + 5,
            at + 9
        )
    };
    let whole = format!("{first}\n{}{}", run(10, 1, 4 << 30), run(50, 2, 3 << 30));
    // Half a line at the end, as of a front that was killed.
    let path = file(
        &place,
        "events.jsonl",
        (whole + r#"{"at":90,"ev"#).as_bytes(),
    );
    let done = explain(&["--json", path.to_str().expect("text")], b"");
    let value = json(&done);
    let ooms = value["ooms"].as_array().expect("a list");
    let told: Vec<(&Value, &Value, &Value)> = ooms
        .iter()
        .map(|oom| (&oom["run"], &oom["outcome"], &oom["decisive"]))
        .collect();
    assert_eq!(
        told,
        [
            (&1.into(), &"fatal".into(), &false.into()),
            (&2.into(), &"fatal".into(), &true.into())
        ]
    );
    assert!(ooms[0]["held_by"].is_null(), "the text alone was a witness");
}

#[test]
fn a_recording_is_replayed_with_what_held_the_memory() {
    let place = TempDir::new().expect("a directory");
    let path = recorded(place.path());
    let path = path.to_str().expect("text");
    let value = json(&explain(&["--json", path], b""));
    let oom = &value["ooms"][0];
    assert_eq!(oom["outcome"], "fatal");
    assert_eq!(oom["run"], 1);
    assert!(oom["reserved"].as_u64() >= oom["allocated"].as_u64());
    assert!(
        oom["held_by"]
            .as_array()
            .is_some_and(|lines| !lines.is_empty())
    );
    assert!(!value["findings"].as_array().expect("findings").is_empty());

    let said = text(&explain(&[path], b"").stdout);
    assert!(said.contains("What used the memory:"), "{said}");
    assert!(said.contains("command: python3"), "{said}");

    // What the lines say is in the recording: as the demo's files have it.
    let source = oom["source"].as_array().expect("texts of lines");
    assert!(!source.is_empty());
    for line in source {
        let file = fs::read_to_string(line["file"].as_str().expect("a path")).expect("the demo");
        let number = line["line"].as_u64().expect("a number") as usize;
        let text = file.lines().nth(number - 1).expect("the line").trim();
        assert_eq!(line["text"], text);
        assert!(
            said.contains(&format!("\n      {text}\n")),
            "{text} in {said}"
        );
    }
    let report = |options: &[&str]| {
        let mut report = oomph();
        report.args(["report", path, "-o", "-"]).args(options);
        text(&report.output().expect("oomph runs").stdout)
    };
    assert!(report(&[]).contains("<br><code class=\"dim\">"));
    assert!(!report(&["--anonymous"]).contains("<br><code class=\"dim\">"));

    let directory = place.path().to_str().expect("text");
    assert_eq!(json(&explain(&["--json", directory], b"")), value);

    let piped = explain(&["-"], &fs::read(path).expect("the recording"));
    assert_eq!(piped.status.code(), Some(125));
    assert!(text(&piped.stderr).contains("pass it as a file"));
}

/// A recording that stops where workers had nearly all of the RAM, `ago` seconds before now.
fn broken_off(place: &Path, ago: u64) -> PathBuf {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let wall = now.expect("a clock").as_secs() - ago - 60;
    let command = r#"{"argv":["python","train.py","--num-workers","8"],"cwd":"/w"}"#;
    let reading = |at: u64, used: u64| {
        format!(
            r#"{{"at":{at},"event":"host_memory","used":{used},"limit":34359738368,"limited_by":"slurm","shared":0,"roles":[{{"role":"loader_worker","count":8,"held":{},"exact":true,"mapped":{used}}}]}}"#,
            used - (4 << 30)
        )
    };
    let lines = [
        format!(
            r#"{{"at":1,"event":"session_started","id":"20260304-050607-python","wall":{wall}.0,"monotonic":0,"schema":1,"version":"0.2.0","command":{command},"probe":true,"nvml":false,"host":"elsewhere"}}"#
        ),
        format!(r#"{{"at":2,"event":"started","run":1,"pid":77,"command":{command}}}"#),
        reading(30_000_000, 20 << 30),
        reading(60_000_000, 33 << 30),
    ];
    let path = place.join("events.jsonl");
    fs::write(&path, lines.join("\n") + "\n").expect("a file");
    path
}

#[test]
fn a_recording_that_breaks_off_with_the_ram_gone_names_who_filled_it() {
    let place = TempDir::new().expect("a directory");
    let path = broken_off(place.path(), 3_600);
    let of = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        let path = path.to_string_lossy();
        all.push(&path);
        explain(&all, b"")
    };
    let found = json(&of(&["--json"]));
    assert_eq!(found["findings"][0]["cause"], "host_workers");
    assert_eq!(found["findings"][0]["certainty"], "likely");
    let words = text(&of(&[]).stdout);
    for part in [
        "nobody goes on with it",
        "--mem of the job above 32.0 GiB",
        "--num-workers 4",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn a_recording_that_may_go_on_is_not_called_out_of_memory() {
    let place = TempDir::new().expect("a directory");
    let path = broken_off(place.path(), 5);
    let done = explain(&[&path.to_string_lossy()], b"");
    let words = text(&done.stdout);
    assert!(words.starts_with("No OOM in "), "{words}");
    assert!(
        words.contains("If the run is gone, it was this: 8 data loader workers filled the RAM"),
        "{words}"
    );
}
