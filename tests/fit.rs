//! `oomph fit`, end to end on the simulated GPU: the answer, its table and its JSON, and what it
//! says before anything runs.

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");

/// oomph in front of the demo; its sessions lie in `state`.
fn oomph(state: &TempDir, options: &[&str], demo: &[&str]) -> Output {
    let mut command = vec!["python3", DEMO, "--simulated"];
    command.extend(demo);
    oomph_on(state, options, &command)
}

fn oomph_on(state: &TempDir, options: &[&str], command: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oomph"))
        .args(options)
        .args(["--no-nvml", "--"])
        .args(command)
        .env("XDG_STATE_HOME", state.path())
        .env("OOMPH_SIMULATED_SPEED", "4")
        .env_remove("PYTORCH_CUDA_ALLOC_CONF")
        .env_remove("PYTORCH_ALLOC_CONF")
        .stdin(Stdio::null())
        .output()
        .expect("oomph runs")
}

fn directory() -> TempDir {
    TempDir::new().expect("a directory")
}

fn fit(options: &[&str], demo: &[&str]) -> Output {
    oomph(&directory(), &[&["fit"], options].concat(), demo)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_leak_is_told_beside_the_answer_that_it_will_outgrow() {
    let demo = ["--batch-size", "48", "--scenario", "leak", "--steps", "400"];
    let done = fit(&["--steps", "6"], &demo);
    let said = text(&done.stdout);
    assert!(said.contains("grows by"), "{said}");
    assert!(said.contains("no value lasts"), "{said}");
}

#[test]
fn the_largest_batch_is_found_and_proven() {
    let done = fit(
        &["--json"],
        &[
            "--batch-size",
            "16",
            "--scenario",
            "none",
            "--steps",
            "50",
            "--model",
            "cnn",
        ],
    );
    let said = text(&done.stderr);
    assert!(done.status.success(), "{said}");
    // Standard output is the answer alone; the program's words are on standard error.
    let answer: Value = serde_json::from_slice(&done.stdout).expect("one JSON object");
    assert!(said.contains("fit really runs the program"), "{said}");
    assert!(said.contains("simulated GPU"), "{said}");
    let runs = answer["runs"].as_array().expect("runs");
    assert!((2..=3).contains(&runs.len()), "{answer}");
    let batch = answer["batch"].as_u64().expect("a batch");
    // At batch 108 the peak is 22.7 GiB of the 23.4 that there are: 112 does not fit.
    assert!((104..112).contains(&batch), "{answer}");
    let argv = answer["argv"].as_array().expect("words");
    assert!(argv.contains(&Value::from(batch.to_string())), "{answer}");
    assert!(
        runs.iter()
            .any(|run| run["fits"] == true && run["peak"].as_u64() > Some(0))
    );
}

#[test]
fn what_cannot_be_fitted_says_why_and_runs_nothing() {
    for (options, program, why) in [
        (
            &["--arg", "no_such_thing"][..],
            "from common import train\ntrain(4)\n",
            "no argument no_such_thing",
        ),
        (&[], "import common\n", "no batch size in the command"),
    ] {
        let done = fit_program(program, options);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(125), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(!said.contains("fit really runs"), "{said}");
        assert!(done.stdout.is_empty());
    }
}

#[test]
fn a_program_whose_memory_is_not_seen_is_no_proof_of_a_largest() {
    let state = directory();
    let program = state.path().join("train.py");
    std::fs::write(&program, "print('trained')\n").expect("a program");
    let command = ["python3", &program.to_string_lossy(), "--batch-size", "8"];
    let done = oomph_on(&state, &["fit"], &command);
    let answer = text(&done.stdout);
    assert_eq!(done.status.code(), Some(1), "{answer}");
    assert!(
        answer.starts_with("no answer: run 1 (--batch-size 2) ended with"),
        "{answer}"
    );
    assert!(answer.contains("without an optimizer step"), "{answer}");
    assert!(!answer.contains(" fits\n"), "{answer}");
}

/// A training that refuses batches of more than 100, in front of the demo.
fn refuses_above_100(state: &TempDir, status: u8) -> String {
    let program = state.path().join("refuses.py");
    let text = format!(
        "import os, sys\n\
         batch = int(sys.argv[sys.argv.index('--batch-size') + 1])\n\
         if batch > 100:\n    sys.exit({status})\n\
         os.execv(sys.executable, [sys.executable, {DEMO:?}, *sys.argv[1:]])\n"
    );
    std::fs::write(&program, text).expect("a program");
    program.display().to_string()
}

#[test]
fn a_program_that_refuses_a_batch_leaves_the_answer_of_the_runs_before() {
    for status in [0, 2] {
        let state = directory();
        let program = refuses_above_100(&state, status);
        let command = [
            "python3",
            &program,
            "--simulated",
            "--batch-size",
            "64",
            "--scenario",
            "none",
            "--steps",
            "50",
            "--model",
            "cnn",
        ];
        let done = oomph_on(&state, &["fit"], &command);
        let (answer, said) = (text(&done.stdout), text(&done.stderr));
        assert!(done.status.success(), "{answer}{said}");
        assert!(
            answer.starts_with("--batch-size 16 fits (it ran for "),
            "{answer}{said}"
        );
        assert!(
            answer.contains("whether more would is not known"),
            "{answer}"
        );
        assert!(answer.contains("no answer: ended by itself"), "{answer}");
        assert!(!answer.contains("largest --batch-size"), "{answer}");
        assert!(!answer.contains("no --batch-size that fits"), "{answer}");
        let done = oomph_on(&state, &["fit", "--json"], &command);
        let answer: Value = serde_json::from_slice(&done.stdout).expect("one JSON object");
        assert_eq!(answer["batch"], 16, "{answer}");
        assert!(answer["ended_early"].is_string(), "{answer}");
        let runs = answer["runs"].as_array().expect("runs");
        assert_eq!(runs.last().expect("a run")["fits"], Value::Null, "{answer}");
    }
}

/// A pipe, and what is left of it afterwards.
fn fit_behind_a_pipe(state: &TempDir, writer: &str, command: &str) -> String {
    let oomph = env!("CARGO_BIN_EXE_oomph");
    let line =
        format!("{writer} | {{ {oomph} fit --no-nvml -- {command}; echo \"left: $(cat)\"; }}");
    let done = Command::new("sh")
        .args(["-c", &line])
        .env("XDG_STATE_HOME", state.path())
        .env("OOMPH_SIMULATED_SPEED", "4")
        .env_remove("PYTORCH_CUDA_ALLOC_CONF")
        .env_remove("PYTORCH_ALLOC_CONF")
        .output()
        .expect("a shell");
    text(&done.stdout) + &text(&done.stderr)
}

#[test]
fn each_run_gets_the_program_that_comes_through_a_pipe() {
    let state = directory();
    let program = state.path().join("program.py");
    let code = format!(
        "import os, sys\nos.execv(sys.executable, [sys.executable, {DEMO:?}, *sys.argv[1:]])\n"
    );
    std::fs::write(&program, code).expect("a program");
    let said = fit_behind_a_pipe(
        &state,
        &format!("cat {}", program.display()),
        "python3 - --simulated --batch-size 16 --scenario none --steps 50 --model cnn",
    );
    assert!(
        said.starts_with("largest --batch-size that fits: "),
        "{said}"
    );
    assert!(!said.contains("no optimizer step"), "{said}");
    assert!(said.contains("standard input is a pipe"), "{said}");
    assert!(said.contains("left: \n"), "{said}");
}

/// The program reads while oomph looks how much it has read.
#[test]
fn a_pipe_that_is_read_piece_by_piece_comes_once() {
    let state = directory();
    let program = state.path().join("reader.py");
    let code = "import os\ngot = b''.join(iter(lambda: os.read(0, 3), b''))\nprint('read %d of %d' % (len(got), 2000 * 6), got == b''.join(b'%05d\\n' % n for n in range(2000)))\n";
    std::fs::write(&program, code).expect("a program");
    let writer = "python3 -c 'import os, time\nfor n in range(2000):\n  os.write(1, b\"%05d\\n\" % n)\n  n % 3 or time.sleep(0.0002)'";
    let said = fit_behind_a_pipe(
        &state,
        writer,
        &format!("python3 {} --batch-size 4", program.display()),
    );
    assert!(said.contains("read 12000 of 12000 True"), "{said}");
}

#[test]
fn a_pipe_that_the_program_does_not_read_is_left_to_whoever_does() {
    let said = fit_behind_a_pipe(
        &directory(),
        "printf 'one\\ntwo\\n'",
        &format!(
            "python3 {DEMO} --simulated --batch-size 16 --scenario none --steps 50 --model cnn"
        ),
    );
    assert!(
        said.starts_with("largest --batch-size that fits: "),
        "{said}"
    );
    assert!(said.contains("left: one\ntwo\n"), "{said}");
}

#[test]
fn a_program_that_fails_by_itself_ends_the_search() {
    let done = fit(&[], &["--batch-size", "16", "--model", "none-of-these"]);
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("ended by itself"), "{said}");
}

#[test]
fn an_earlier_session_that_ran_out_is_remembered() {
    let (fresh, used) = (directory(), directory());
    let failed_before = |state: &TempDir| {
        let answer = oomph(
            state,
            &["fit", "--json"],
            &["--batch-size", "8", "--steps", "6"],
        );
        let answer: Value = serde_json::from_slice(&answer.stdout).expect("one JSON object");
        answer["failed_before"].clone()
    };
    assert_eq!(failed_before(&fresh), Value::Null);
    let failed = oomph(
        &used,
        &["--headless"],
        &["--batch-size", "64", "--steps", "6"],
    );
    assert!(!failed.status.success());
    assert_eq!(failed_before(&used), Value::from(64));
}

#[test]
fn the_demos_main_scenario_has_its_need_from_the_first_step_on() {
    let done = fit(&["--json"], &["--batch-size", "64"]);
    let answer: Value = serde_json::from_slice(&done.stdout).expect("one JSON object");
    // 53 would peak at the 23.4 GiB that there are.
    let batch = answer["batch"].as_u64().expect("a batch");
    assert!((44..=52).contains(&batch), "{answer}");
    assert_eq!(
        answer["runs"][0]["largest_input"],
        serde_json::json!([16, 768]),
        "{answer}"
    );
}

#[test]
fn an_earlier_oom_bounds_the_answer_and_is_run_past() {
    let (state, growing) = (
        directory(),
        [
            "--scenario",
            "growth",
            "--batch-size",
            "64",
            "--steps",
            "40",
        ],
    );
    let short = oomph(&directory(), &["fit"], &growing);
    let short = text(&short.stdout);
    assert!(
        short.starts_with("largest --batch-size that fits: "),
        "{short}"
    );
    let failed = oomph(&state, &["--headless"], &growing);
    assert!(!failed.status.success());
    let done = oomph(&state, &["fit"], &growing);
    let (answer, said) = (text(&done.stdout), text(&done.stderr));
    let headline = "--batch-size 64 ran out of memory in an earlier session, in step 21; the largest below it that fits: ";
    assert!(answer.starts_with(headline), "{answer}\n{said}");
    let batch: u64 = answer[headline.len()..]
        .split(' ')
        .next()
        .and_then(|batch| batch.parse().ok())
        .expect("a batch");
    assert!((44..=52).contains(&batch), "{answer}");
    assert!(answer.contains("(it ran for 2"), "past step 21: {answer}");
    assert!(said.contains("for 22 optimizer steps each"), "{said}");
}

/// What ran to its end here is an answer; only what lies above it is tried, with the inputs known.
#[test]
fn a_batch_that_ran_to_its_end_here_is_where_the_search_begins() {
    let state = directory();
    let of = |batch: &'static str| {
        let scenario = ["--scenario", "growth", "--steps", "40", "--batch-size"];
        [&scenario[..], &[batch]].concat()
    };
    assert!(!oomph(&state, &["--headless"], &of("64")).status.success());
    assert!(oomph(&state, &["--headless"], &of("48")).status.success());
    let done = oomph(&state, &["fit", "--json"], &of("64"));
    let answer: Value = serde_json::from_slice(&done.stdout).expect("one JSON object");
    let batch = answer["batch"].as_u64().expect("a batch");
    assert!((48..=52).contains(&batch), "{answer}");
    let first = &answer["runs"][0];
    assert_eq!(
        (&first["batch"], &first["ran_to_its_end"]),
        (&Value::from(48), &Value::from(true)),
        "{answer}"
    );
    assert!(
        answer["margin"]
            .as_f64()
            .is_some_and(|margin| margin < 0.03),
        "{answer}"
    );
    let tried = answer["runs"].as_array().expect("runs");
    let below = |run: &&Value| run["batch"].as_u64().is_some_and(|batch| batch < 48);
    assert_eq!(tried.iter().filter(below).count(), 0, "{answer}");
    let said = text(&done.stderr);
    assert!(
        said.contains("--batch-size 48 ran to its end here at "),
        "{said}"
    );
}

#[test]
fn what_runs_out_by_fragmentation_is_offered_expandable_segments_and_no_larger_batch() {
    let done = fit(&[], &["--scenario", "fragmentation", "--batch-size", "64"]);
    let answer = text(&done.stdout);
    assert!(answer.contains(" ran out by fragmentation; "), "{answer}");
    let with = "\nwith expandable segments more may fit:\n  oomph fit -- PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True ";
    assert!(answer.contains(with), "{answer}");
    assert!(!answer.contains("a leak"), "{answer}");
}

#[test]
fn inputs_that_vary_widen_the_margin() {
    let program = "\
from common import Net
import torch
batch_size = 16
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    length = 1024 - 64 * (step % 4)
    model(torch.randn(batch_size, length, 256, device='cuda')).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
";
    let done = fit_program(program, &[]);
    let (answer, said) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{answer}\n{said}");
    assert!(answer.contains("the largest input was "), "{answer}");
    assert!(answer.contains("×1024×256 (the smallest was "), "{answer}");
    assert!(answer.contains("so the margin is "), "{answer}");
    assert!(answer.contains(" % instead of 2 %"), "{answer}");
}

#[test]
fn no_answer_for_other_gpus_is_a_sentence_and_no_success() {
    let demo = ["--batch-size", "16", "--scenario", "none", "--steps", "50"];
    for (options, said) in [
        (
            &["--room", "24GiB,80GiB"][..],
            "no answer for 24.0 GiB, 80.0 GiB: the step of this run could not be rehearsed",
        ),
        (
            &["--room", "24GiB", "--json"],
            "\"ended_early\": \"the step of this run could not be rehearsed",
        ),
    ] {
        let done = fit(options, &demo);
        let answer = text(&done.stdout);
        assert_eq!(done.status.code(), Some(1), "{answer}");
        assert!(answer.contains(said), "{answer}");
    }
}

#[test]
fn a_program_that_others_end_is_no_answer_for_other_gpus() {
    for (room, said) in [
        (
            Some("--room"),
            "no answer for 24.0 GiB: run 1 (--batch-size 2)",
        ),
        (None, "no answer: run 1 (--batch-size 2)"),
    ] {
        let state = directory();
        let program = state.path().join("ended.py");
        let text = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nsignal.pause()\n";
        std::fs::write(&program, text).expect("a program");
        let command = ["python3", &program.to_string_lossy(), "--batch-size", "8"];
        let options: Vec<&str> = ["fit"]
            .into_iter()
            .chain(room)
            .chain(room.map(|_| "24GiB"))
            .collect();
        let done = oomph_on(&state, &options, &command);
        let answer = self::text(&done.stdout);
        assert_eq!(done.status.code(), Some(1), "{answer}");
        let whole = format!("{said} was ended by SIGTERM, which oomph did not send");
        assert!(answer.starts_with(&whole), "{answer}");
    }
}

/// A model whose memory grows with its batch, and the loop that trains it.
const TRAINS: &str = "\
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
    def forward(self, x):
        return self.layers(x)
def train(rows, length=1024):
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(12):
        model(torch.randn(rows, length, 256, device='cuda')).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
";

/// `oomph fit` of this program on a simulated card of 1 GiB.
fn fit_program(program: &str, options: &[&str]) -> Output {
    fit_files(&[("train.py", program)], options, &["train.py"])
}

/// The same of a program of several files, with these words behind `python3`.
fn fit_files(files: &[(&str, &str)], options: &[&str], words: &[&str]) -> Output {
    let state = directory();
    for (name, text) in [&[("common.py", TRAINS)], files].concat() {
        std::fs::write(state.path().join(name), text).expect("a file");
    }
    Command::new(env!("CARGO_BIN_EXE_oomph"))
        .arg("fit")
        .args(options)
        .args(["--no-nvml", "--", "python3"])
        .args(words)
        .current_dir(state.path())
        .env("XDG_STATE_HOME", state.path())
        .env("TMPDIR", state.path())
        .env(
            "PYTHONPATH",
            concat!(env!("CARGO_MANIFEST_DIR"), "/demo/simulated"),
        )
        .env("OOMPH_SIMULATED_SPEED", "100")
        .env("OOMPH_SIMULATED_CARD_GIB", "1")
        .stdin(Stdio::null())
        .output()
        .expect("oomph runs")
}

#[test]
fn a_batch_that_is_not_typed_is_fitted_where_it_stands() {
    let parser = "import argparse\nfrom common import train\nparser = argparse.ArgumentParser()\n";
    for (program, options, name, typed) in [
        (
            format!(
                "{parser}parser.add_argument('--batch-size', type=int, default=16)\n\
                 train(parser.parse_args().batch_size)\n"
            ),
            &[][..],
            "--batch-size",
            "python3 train.py --batch-size ",
        ),
        (
            "from common import train\nbatch_size = 16\ntrain(batch_size)\n".into(),
            &[],
            "batch_size",
            "oomph --edit train.py:2:",
        ),
        // The first run tells which of two it is.
        (
            "from common import train\nbatch_size = 12\ntrain_bs = 16\ntrain(train_bs)\n".into(),
            &[],
            "train_bs",
            "train.py:3:12:16=",
        ),
        (
            format!(
                "{parser}parser.add_argument('--seq-len', type=int, default=512)\n\
                 train(4, parser.parse_args().seq_len)\n"
            ),
            &["--arg", "seq_len"],
            "--seq-len",
            "python3 train.py --seq-len ",
        ),
    ] {
        let done = fit_program(&program, options);
        let (answer, said) = (text(&done.stdout), text(&done.stderr));
        assert!(done.status.success(), "{program}\n{answer}\n{said}");
        let found = format!("largest {name} that fits: ");
        assert!(answer.starts_with(&found), "{program}\n{answer}");
        assert!(answer.contains(typed), "{program}\n{answer}");
    }
}

#[test]
fn a_number_without_effect_ends_the_search() {
    let program = "from common import train\nbatch_size = 16\ntrain(8)\n";
    let done = fit_program(program, &[]);
    let said = text(&done.stderr);
    let why = "has no effect: the model was given the same as with 4";
    assert!(said.contains(why), "{said}");
    assert!(!text(&done.stdout).contains("largest batch_size"), "{said}");
}

#[test]
fn a_program_that_updates_by_hand_is_fitted_by_its_backward_calls() {
    let program = "\
from common import Net
import torch
batch_size = 16
model = Net().cuda()
for _ in range(12):
    model(torch.randn(batch_size, 1024, 256, device='cuda')).mean().backward()
    for parameter in model.parameters():
        parameter.grad = None
";
    let done = fit_program(program, &[]);
    let (answer, said) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{answer}\n{said}");
    assert!(
        answer.starts_with("largest batch_size that fits: "),
        "{answer}"
    );
}

#[test]
fn a_batch_in_a_config_file_is_fitted_in_a_copy_of_it() {
    let settings = "{ // of the run\n  \"data\": {\"length\": 512},\n  \"batch_size\": 16 }\n";
    let program = "import json, re, sys\nfrom common import train\n\
                   settings = json.loads(re.sub('//.*', '', open(sys.argv[2]).read()))\n\
                   train(settings['batch_size'], settings['data']['length'])\n";
    let files = [("train.py", program), ("run.json", settings)];
    let words = ["train.py", "-t", "run.json"];
    for (options, name, line) in [
        (&[][..], "batch_size", 3),
        (&["--arg", "length"], "data.length", 2),
    ] {
        let done = fit_files(&files, options, &words);
        let (answer, said) = (text(&done.stdout), text(&done.stderr));
        assert!(done.status.success(), "{answer}\n{said}");
        let found = format!("largest {name} that fits: ");
        let value = answer.strip_prefix(&found).and_then(|rest| {
            let value = rest.split(' ').next()?;
            value.parse::<u64>().ok()
        });
        let value = value.unwrap_or_else(|| panic!("{answer}\n{said}"));
        assert!(value > 16, "{answer}");
        let place = format!(
            "  oomph python3 train.py -t run.json\n  with {name} {value} in run.json:{line}\n"
        );
        assert!(answer.contains(&place), "{answer}");
    }
}

/// The text has no better candidate than another file's loader of one sample.
#[test]
fn a_number_that_the_first_run_contradicts_is_not_searched_for() {
    let loader = "class DataLoader:\n    def __init__(self, data, batch_size):\n        self.batch_size = batch_size\n\
                  checks = DataLoader([], batch_size=1)\n";
    let program = "import data\nfrom common import train\nsizes = [4, 8]\ntrain(sizes[1])\n";
    let done = fit_files(
        &[("train.py", program), ("data.py", loader)],
        &[],
        &["train.py"],
    );
    let (answer, said) = (text(&done.stdout), text(&done.stderr));
    let why = "batch_size 1 is all that the program's text has, and it is not the batch: the model was given 8×1024×256";
    assert!(said.contains(why), "{answer}\n{said}");
    assert!(!answer.contains("largest"), "{answer}");
    assert_eq!(done.status.code(), Some(1), "{said}");
}

/// What nothing predicts is measured: a run with each patch beside one of the command as it is.
#[test]
fn patches_are_measured_at_the_batch_of_the_command() {
    let demo = ["--batch-size", "96", "--scenario", "none", "--steps", "50"];
    let done = fit(
        &["--patch", "budget=50,recompute", "--steps", "3", "--json"],
        &demo,
    );
    let said = text(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(
        said.contains("as it is, with budget=50, with recompute"),
        "{said}"
    );
    let answer: Value = serde_json::from_slice(&done.stdout).expect("one JSON object");
    let runs = answer["patches"].as_array().expect("runs");
    let of = |place: usize, field: &str| runs[place][field].clone();
    assert_eq!(runs.len(), 3, "{answer}");
    let peak = |place| of(place, "peak").as_u64().expect("a peak");
    // There is no compiler in the simulated torch.
    let words = of(1, "not_applied");
    assert!(
        words.as_str().is_some_and(|why| !why.is_empty()),
        "{answer}"
    );
    assert_eq!(of(2, "patch"), "recompute", "{answer}");
    assert_eq!(
        (of(2, "fits"), of(2, "not_applied")),
        (Value::from(true), Value::Null)
    );
    assert!(peak(2) * 2 < peak(0), "{answer}");
    assert!(of(2, "seconds_per_step").as_f64() > Some(0.0), "{answer}");
    // Nothing that was measured helps: no success.
    let none = fit(&["--patch", "budget=25", "--steps", "2"], &demo);
    let said = text(&none.stdout);
    assert_eq!(none.status.code(), Some(1), "{said}");
    assert!(said.contains("not applied:"), "{said}");
}

#[test]
fn what_is_no_patch_is_refused() {
    let done = fit(&["--patch", "budget"], &["--batch-size", "8"]);
    let said = text(&done.stderr);
    assert!(said.contains("budget=50"), "{said}");
    assert_eq!(done.status.code(), Some(125), "{said}");
}
