//! Remedies beyond a flag of the program, end to end: the real binary in a real terminal. Programs
//! here are a few lines of Python that print what PyTorch prints when memory has run out.

use crate::harness::{Key, Terminal, processes, wait_until};
use oomph::event::{EventKind, Exit};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");
const PATIENCE: Duration = Duration::from_secs(90);
/// A key is an answer to a dialog that has just opened if it comes so long after the last one.
const ANSWERS_AFTER: Duration = Duration::from_secs(1);
/// The dialog's footer: nothing else on the screen says this.
const DIALOG: &str = "Space combine";

/// The same where nothing can be combined.
const UNCHANGED: &str = "U unchanged";

const RUN_OUT: &str = "\
def run_out():
    sys.stderr.write('Traceback (most recent call last):\\n  File \"a.py\", line 3, in <module>\\n'
        'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total '
        'capacity of 23.60 GiB of which 1.20 GiB is free. Including non-PyTorch memory, this process '
        'has 22.30 GiB memory in use. Of the allocated memory 20.10 GiB is allocated by PyTorch, and '
        '1.40 GiB is reserved by PyTorch but unallocated.\\n')
    sys.exit(1)
";

/// A project with one program, and oomph in it.
struct Project {
    directory: TempDir,
}

impl Project {
    fn of(name: &str, program: &str) -> Project {
        let directory = TempDir::new().expect("a directory");
        let text = format!("import json, os, sys\n{RUN_OUT}{program}");
        fs::write(directory.path().join(name), text).expect("a program");
        Project { directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn start(&self, words: &[&str]) -> Terminal {
        self.start_with(&["--no-probe"], words)
    }

    fn start_with(&self, options: &[&str], words: &[&str]) -> Terminal {
        let line = "cd \"$0\" && exec \"$@\"";
        let directory = self.path().display().to_string();
        let mut argv = vec!["sh", "-c", line, &directory, OOMPH, "--no-nvml"];
        argv.extend_from_slice(options);
        argv.extend_from_slice(words);
        let set = [
            ("XDG_STATE_HOME", directory.as_str()),
            ("OOMPH_SIMULATED_CARD_GIB", "0.9"),
        ];
        Terminal::spawn(&argv, &set, 40, 140)
    }

    /// The commands of the runs so far, from the recording in the state directory.
    fn commands(&self) -> Vec<String> {
        let sessions = self.path().join("oomph/sessions");
        let session = fs::read_dir(sessions)
            .expect("sessions")
            .next()
            .expect("a session")
            .expect("its directory")
            .path();
        oomph::recording::read(&session)
            .expect("a recording")
            .flatten()
            .filter_map(|event| match event.what {
                EventKind::Started(started) => Some(started.command.shown()),
                _ => None,
            })
            .collect()
    }
}

/// A program of transformers' Trainer, with its batch typed.
const OF_TRAINER: [&str; 6] = [
    "python3",
    "run_clm.py",
    "--output_dir",
    "o",
    "--per_device_train_batch_size",
    "8",
];

/// The run that went well was stopped for it: the session is not over, and what was typed can be mended.
#[test]
fn a_command_with_a_slip_of_the_keyboard_comes_back_to_the_editor() {
    let project = Project::of(
        "train.py",
        "
if '--stepz' in sys.argv:
    sys.stderr.write('usage: train.py [-h]\\ntrain.py: error: unrecognized arguments: --stepz\\n')
    sys.exit(2)
print('training', sys.argv[1:], flush=True)
import time
while not os.path.exists('end'):
    time.sleep(0.02)
",
    );
    let mut terminal = project.start(&["python3", "train.py", "--steps"]);
    terminal.wait_for("training ['--steps']", PATIENCE);
    terminal.press("v");
    terminal.wait_for("Relaunch with this command", PATIENCE);
    terminal.press(Key::Ctrl('w'));
    terminal.press("--stepz");
    terminal.press(Key::Ctrl('x'));
    let editor = terminal.wait_for("run 2 ended with exit 2", PATIENCE);
    assert!(
        editor.contains("unrecognized arguments: --stepz"),
        "{editor}"
    );
    assert!(editor.contains("Relaunch with this command"), "{editor}");
    // Keys that come too early for an answer are not taken.
    answer(&mut terminal, "x", |terminal| {
        terminal.screen().contains("changes  ")
    });
    // A program that is not there is no end either.
    terminal.press(Key::Ctrl('u'));
    terminal.press("pyhton3 train.py --steps");
    terminal.press(Key::Enter);
    let editor = terminal.wait_for("pyhton3: not found in PATH", PATIENCE);
    assert!(editor.contains("Relaunch with this command"), "{editor}");
    answer(&mut terminal, "x", |terminal| {
        terminal.screen().contains("changes  ")
    });
    terminal.press(Key::Ctrl('u'));
    terminal.press("python3 train.py --steps again");
    terminal.press(Key::Enter);
    terminal.wait_for("training ['--steps', 'again']", PATIENCE);
    fs::write(project.path().join("end"), "").expect("a file");
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
    let end = terminal.screen();
    assert!(end.contains("run 2 ended with exit 2"), "{end}");
}

/// What was typed beside a remedy's change is what the program refuses: the remedy stays, and no run says that it had it.
#[test]
fn a_slip_beside_a_remedy_is_not_the_remedys() {
    let project = Project::of(
        "run_clm.py",
        "
if '--modle' in sys.argv:
    sys.stderr.write('usage: run_clm.py [-h]\\nrun_clm.py: error: unrecognized arguments: --modle\\n')
    sys.exit(2)
run_out()
",
    );
    let mut terminal = project.start(&OF_TRAINER);
    terminal.wait_for(DIALOG, PATIENCE);
    terminal.press("v");
    terminal.wait_for("Relaunch with this command", PATIENCE);
    terminal.press(" --modle");
    terminal.press(Key::Enter);
    let editor = terminal.wait_for("run 2 ended with exit 2", PATIENCE);
    assert!(editor.contains("Relaunch with this command"), "{editor}");
    answer(&mut terminal, "x", |terminal| {
        terminal.screen().contains("changes  ")
    });
    terminal.press(Key::Ctrl('u'));
    terminal.press("python3 run_clm.py --output_dir o --per_device_train_batch_size 8");
    terminal.press(Key::Enter);
    terminal.wait_for("run 3", PATIENCE);
    let dialog = terminal.wait_for(DIALOG, PATIENCE);
    assert!(dialog.contains("b smaller batch"), "{dialog}");
    answer(&mut terminal, "q", |terminal| {
        !processes::is_alive(terminal.pid())
    });
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(1));
    let commands = project.commands();
    assert!(commands[1].ends_with("--modle"), "{commands:?}");
    let end = terminal.screen();
    assert!(!end.contains("undone"), "{end}");
}

#[test]
fn an_edit_that_the_program_refuses_is_taken_back() {
    let project = Project::of(
        "run_clm.py",
        "
if '--gradient_accumulation_steps' in sys.argv:
    sys.stderr.write('usage: run_clm.py [-h]\\nrun_clm.py: error: unrecognized arguments: '
        '--gradient_accumulation_steps 2\\n')
    sys.exit(2)
run_out()
",
    );
    let mut terminal = project.start(&OF_TRAINER);
    terminal.wait_for(DIALOG, PATIENCE);
    terminal.press("b");
    let dialog = terminal.wait_for("rejected the change", PATIENCE);
    assert!(dialog.contains("undo the change"), "{dialog}");
    // What was rejected is not offered again, and says why in the details.
    terminal.press("d");
    terminal.wait_for("undone", PATIENCE);
    terminal.press("d");
    terminal.wait_for("undo the change", PATIENCE);
    terminal.press("u");
    // The third run is the first again, and ends as it did.
    terminal.wait_for("run 3", PATIENCE);
    terminal.wait_for(DIALOG, PATIENCE);
    // Nothing was waited for: a key right behind the last one is no answer yet.
    answer(&mut terminal, "q", |terminal| {
        !processes::is_alive(terminal.pid())
    });
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(1));
    let commands = project.commands();
    assert_eq!(commands.len(), 3, "{commands:?}");
    assert!(
        commands[1].contains("--per_device_train_batch_size 4 --gradient_accumulation_steps 2")
    );
    assert_eq!(commands[0], commands[2]);
}

/// Ends as `docker run` does whose container had too little memory for a worker, until it is given more.
const DOCKER: &str = "\
#!/bin/sh
case \"$*\" in *--memory=128m*) exit 0 ;; esac
echo 'RuntimeError: DataLoader worker (pid 44) is killed by signal: Killed.' >&2
exit 1
";

#[test]
fn the_commands_own_limit_of_memory_is_raised_on_a_key() {
    let project = Project::of("t.py", "");
    let docker = project.path().join("docker");
    fs::write(&docker, DOCKER).expect("a launcher");
    fs::set_permissions(&docker, fs::Permissions::from_mode(0o755)).expect("its mode");
    let words = ["./docker", "run", "--memory=64m", "img", "python3", "t.py"];
    let mut terminal = project.start(&words);
    let dialog = terminal.wait_for(DIALOG, PATIENCE);
    assert!(dialog.contains("higher memory limit"), "{dialog}");
    assert!(dialog.contains("--memory=64m→128m"), "{dialog}");
    answer(&mut terminal, "M", |terminal| {
        !terminal.screen().contains(DIALOG)
    });
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
    let commands = project.commands();
    assert_eq!(commands.len(), 2, "{commands:?}");
    assert_eq!(commands[1], "./docker run --memory=128m img python3 t.py");
}

/// Loads a checkpoint beside its model, on the simulated GPU, and then calculates with what it has loaded.
const USES_WHAT_IT_LOADS: &str = "
sys.path.insert(0, SIMULATED)
import torch

def resume(model, path):
    state = torch.load(path)
    model.load_state_dict(state['model'])
    return state

model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(4))).to('cuda')
if not os.path.exists('state.pt'):
    torch.save({'model': model.state_dict()}, 'state.pt')
if resume(model, 'state.pt')['model']['0.weight'].device.type != 'cuda':
    raise RuntimeError('Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!')
";

/// Presses a key until it has done what it is for: one so soon after another key is the rest of a word that was typed before
/// the dialog opened.
fn answer(terminal: &mut Terminal, key: &str, has_happened: impl Fn(&Terminal) -> bool) {
    let mut pressed = Instant::now();
    wait_until(&format!("what {key} is for"), PATIENCE, || {
        let is_due = pressed.elapsed() > ANSWERS_AFTER && !has_happened(terminal);
        if is_due {
            terminal.press(key);
            pressed = Instant::now();
        }
        has_happened(terminal)
    });
}

#[test]
fn a_device_error_behind_a_checkpoint_on_the_cpu_leads_back_to_the_command_as_it_was() {
    let simulated = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/simulated");
    let text = USES_WHAT_IT_LOADS.replace("SIMULATED", &format!("{simulated:?}"));
    let project = Project::of("resume.py", &text);
    let mut terminal = project.start_with(&[], &["python3", "resume.py"]);
    let dialog = terminal.wait_for(DIALOG, PATIENCE);
    assert!(dialog.contains("torch.load to the CPU"), "{dialog}");
    terminal.press("i");
    let dialog = terminal.wait_for("rejected the change", PATIENCE);
    assert!(dialog.contains("undo the change"), "{dialog}");
    answer(&mut terminal, "u", |terminal| {
        terminal.screen().contains("run 3")
    });
    // What helps is in the code, which is combined with nothing.
    terminal.wait_for(UNCHANGED, PATIENCE);
    answer(&mut terminal, "q", |terminal| {
        !terminal.screen().contains(UNCHANGED)
    });
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(1));
    let commands = project.commands();
    assert_eq!(commands.len(), 3, "{commands:?}");
    assert!(commands[1].starts_with("OOMPH_PATCHES=load=cpu "));
    assert_eq!(commands[0], commands[2]);
}

#[test]
fn a_run_goes_on_from_the_checkpoint_that_it_left() {
    let project = Project::of(
        "run_clm.py",
        "
if '--resume_from_checkpoint' in sys.argv:
    print('going on')
    sys.exit(0)
os.makedirs('o/checkpoint-7')
os.makedirs('o/checkpoint-9')
open('o/checkpoint-7/trainer_state.json', 'w').write('{}')
run_out()
",
    );
    let mut terminal = project.start(&["python3", "run_clm.py", "--output_dir", "o"]);
    let dialog = terminal.wait_for(DIALOG, PATIENCE);
    assert!(dialog.contains("resume"), "{dialog}");
    terminal.press("c");
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
    let commands = project.commands();
    assert!(
        commands[1].ends_with("--resume_from_checkpoint o/checkpoint-7"),
        "the newest complete one: {commands:?}"
    );
}

const OWN_ENTRY: &str = "\
[[program]]
name = \"our trainer\"
scripts = [\"fit.py\"]
[program.accumulation]
rule = \"flag\"
names = [\"--times\"]
[program.file]
named = [\"--settings\"]
batch = [\"loader.batch\"]
accumulation = [\"loader.times\"]
";

const SETTINGS: &str = "# ours\nloader:\n  batch: 8   # each\n  times: 3\n";

#[test]
fn a_file_that_says_the_batch_is_edited_in_a_copy() {
    let project = Project::of(
        "fit.py",
        "
text = open(sys.argv[sys.argv.index('--settings') + 1]).read()
if 'batch: 8' in text:
    run_out()
",
    );
    fs::write(project.path().join("oomph.toml"), OWN_ENTRY).expect("an entry");
    fs::write(project.path().join("mine.yaml"), SETTINGS).expect("settings");
    let mut terminal = project.start(&["python3", "fit.py", "--settings", "mine.yaml"]);
    terminal.wait_for(DIALOG, PATIENCE);
    terminal.press("b");
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
    let commands = project.commands();
    let copy = commands[1].rsplit(' ').next().expect("the last word");
    assert!(copy.ends_with("/run2-mine.yaml"), "{commands:?}");
    let text = fs::read_to_string(copy).expect("the copy");
    assert_eq!(text, "# ours\nloader:\n  batch: 4   # each\n  times: 6\n");
    let original = fs::read_to_string(project.path().join("mine.yaml")).expect("the file");
    assert_eq!(original, SETTINGS);
}

#[test]
fn plan_says_which_entry_matched_and_what_is_wrong_with_one() {
    let project = Project::of("fit.py", "");
    let plan = || {
        Command::new(OOMPH)
            .args(["plan", "--json", "--", "python3", "fit.py", "--times", "2"])
            .current_dir(project.path())
            .env("XDG_CONFIG_HOME", project.path().join("none"))
            .output()
            .expect("oomph runs")
    };
    let own = project.path().join("oomph.toml");
    fs::write(&own, OWN_ENTRY).expect("an entry");
    let outline: serde_json::Value = serde_json::from_slice(&plan().stdout).expect("JSON");
    assert_eq!(outline["program"]["known"], "our trainer");
    let from = outline["program"]["entry_from"].as_str().expect("a file");
    assert!(from.ends_with("oomph.toml"), "{from}");
    let ids: Vec<&str> = outline["remedies"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|remedy| remedy["id"].as_str())
        .collect();
    for id in [
        "batch",
        "expandable-segments",
        "amp",
        "recompute",
        "device",
        "resume",
        "dataloader-workers",
    ] {
        assert!(ids.contains(&id), "{id} is not in {ids:?}");
    }
    fs::write(&own, OWN_ENTRY.replace("scripts", "script")).expect("an entry");
    let wrong = plan();
    assert!(wrong.status.success());
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        said.contains("oomph.toml:3") && said.contains("script"),
        "{said}"
    );
}
