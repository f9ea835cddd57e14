//! Where programs have their batch, end to end: some thirty kinds of small programs on the simulated GPU, each of which runs
//! out of memory in its first step, under `--on-oom auto`. Each ends well with the right number changed, or is left as it is
//! with "not sure"; none has another number changed.

mod by_hand;
mod configs;
mod dialog;
mod edited;
mod evaluation;
mod learned;
mod resumed;
mod settings;

use crate::harness::at_home;
use oomph::event::{EventKind, SourceEdit};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use tempfile::TempDir;

/// A model whose memory grows with its batch, and the loop that trains it: 64 fit, 128 do not.
const COMMON: &str = "\
import torch
class Net(torch.nn.Module):
    def __init__(self, width, depth=6):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(depth)])
    def forward(self, x):
        return self.layers(x)
def train(rows, length=1024, width=256, accumulate=1, time_first=False):
    model = Net(width).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for _ in range(accumulate):
            shape = (length, rows, width) if time_first else (rows, length, width)
            model(torch.randn(*shape, device='cuda')).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print('trained with', rows, 'x', accumulate, flush=True)
    return model
def evaluate(model, rows, length=1024, width=256):
    model.eval()
    with torch.no_grad():
        model(torch.randn(rows, length, width, device='cuda')).mean()
    print('evaluated with', rows, flush=True)
";

/// What becomes of a program.
#[derive(Clone, Copy)]
enum Outcome {
    /// A word of its next command, and the last line that it prints.
    Changed(&'static str, &'static str),
    /// A place in its text and what stands there then, and the last line that it prints.
    Edited(&'static str, u64, &'static str),
    /// Nothing is changed, and this is said.
    Left(&'static str),
    /// The change had no effect: the relaunch is ended, and this is said.
    Stopped(&'static str),
}
use Outcome::{Changed, Edited, Left, Stopped};

struct Kind {
    name: &'static str,
    /// More files than `train.py`, by their names.
    files: &'static [(&'static str, &'static str)],
    program: &'static str,
    /// What is typed after `python3`.
    words: &'static [&'static str],
    /// A package that it needs.
    package: Option<&'static str>,
    outcome: Outcome,
}

const PLAIN: Kind = Kind {
    name: "",
    files: &[],
    program: "",
    words: &["train.py"],
    package: None,
    outcome: Left(""),
};

const ARGPARSE: &str = "import argparse\nparser = argparse.ArgumentParser()\n";

fn kinds() -> Vec<Kind> {
    vec![
        Kind {
            name: "a constant at the top",
            program: "from common import train\nBATCH = 128\ntrain(BATCH)\n",
            outcome: Edited("train.py:2", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "what is taken where a variable is not set",
            program: "import os\nfrom common import train\nbatch = int(os.environ.get('BATCH_SIZE', '128'))\ntrain(batch)\n",
            outcome: Edited("train.py:3", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a constant of which half is too much as well",
            program: "from common import train\nBATCH = 256\ntrain(BATCH)\n",
            // The second guess is bolder: a quarter of what failed.
            outcome: Edited("train.py:2", 32, "trained with 32 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a constant beside accumulation",
            program: "from common import train\nbatch_size = 128\ngrad_accum = 1\ntrain(batch_size, accumulate=grad_accum)\n",
            outcome: Edited("train.py:2", 64, "trained with 64 x 2"),
            ..PLAIN
        },
        Kind {
            name: "a constant, and another for evaluation",
            program: "from common import train\neval_batch_size = 128\nbatch_size = 128\nepochs = 128\ntrain(batch_size)\n",
            outcome: Edited("train.py:3", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a local of main",
            program: "from common import train\ndef main():\n    lr, bsz = 3, 128\n    train(bsz)\nmain()\n",
            outcome: Edited("train.py:3", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a parameter's default",
            program: "from common import train\ndef main(batch_size=128):\n    train(batch_size)\nmain()\n",
            outcome: Edited("train.py:2", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a keyword",
            program: "from common import train\ndef main(batch_size):\n    train(batch_size)\nmain(batch_size=128)\n",
            outcome: Edited("train.py:4", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "time first",
            program: "from common import train\nbatch_size = 128\ntrain(batch_size, time_first=True)\n",
            outcome: Edited("train.py:2", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a dataclass",
            program: "from dataclasses import dataclass\nfrom common import train\n@dataclass\nclass Config:\n    \
                      batch_size: int = 128\n    epochs: int = 3\nconfig = Config()\ntrain(config.batch_size)\n",
            outcome: Edited("train.py:5", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a class of settings",
            program: "from common import train\nclass Config:\n    batch_size = 128\ntrain(Config.batch_size)\n",
            outcome: Edited("train.py:3", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a dict of settings",
            program: "from common import train\nsettings = {'lr': 3, 'batch_size': 128}\ntrain(settings['batch_size'])\n",
            outcome: Edited("train.py:2", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a module of settings",
            files: &[("config.py", "batch_size = 128\nlr = 3\n")],
            program: "import config\nfrom common import train\ntrain(config.batch_size)\n",
            outcome: Edited("config.py:1", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a literal in an imported module",
            files: &[(
                "data.py",
                "def rows(batch_size=128):\n    return batch_size\n",
            )],
            program: "import data\nfrom common import train\ntrain(data.rows())\n",
            outcome: Edited("data.py:1", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a package started by -m",
            files: &[
                ("package/__init__.py", ""),
                (
                    "package/run.py",
                    "from common import train\nBATCH_SIZE = 128\ntrain(BATCH_SIZE)\n",
                ),
            ],
            words: &["-m", "package.run"],
            outcome: Edited("run.py:2", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a rank that is spawned",
            program: "import multiprocessing\nfrom common import train\nbatch_size = 128\ndef rank():\n    \
                      train(batch_size)\nif __name__ == '__main__':\n    \
                      started = multiprocessing.get_context('spawn').Process(target=rank)\n    started.start()\n    \
                      started.join()\n    raise SystemExit(started.exitcode)\n",
            outcome: Edited("train.py:3", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a launcher's script",
            files: &[(
                "launch.py",
                "import subprocess, sys\nraise SystemExit(subprocess.run([sys.executable, '-u', 'train.py']).returncode)\n",
            )],
            program: "from common import train\nbatch_size = 128\ntrain(batch_size)\n",
            words: &["launch.py"],
            outcome: Edited("train.py:2", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a total in tokens that must divide",
            program: "from common import train\ntotal_batch_size = 96 * 1024 * 4\nB, T = 96, 1024\nbatch = 96\n\
                      assert total_batch_size % (batch * T) == 0\n\
                      train(batch, T, accumulate=total_batch_size // (batch * T))\n",
            outcome: Edited("train.py:4", 48, "trained with 48 x 8"),
            ..PLAIN
        },
        Kind {
            name: "a total that is a literal and must divide",
            program: "from common import train\ntotal_batch_size = 288\nmicro_batch_size = 96\n\
                      assert total_batch_size % micro_batch_size == 0\n\
                      train(micro_batch_size, accumulate=total_batch_size // micro_batch_size)\n",
            outcome: Edited("train.py:3", 48, "trained with 48 x 6"),
            ..PLAIN
        },
        Kind {
            name: "a parser's default",
            program: "parser.add_argument('--batch-size', type=int, default=128)\ntrain(parser.parse_args().batch_size)\n",
            outcome: Changed("--batch-size 64", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a typed argument",
            program: "parser.add_argument('--batch-size', type=int, default=8)\ntrain(parser.parse_args().batch_size)\n",
            words: &["train.py", "--batch-size", "128"],
            outcome: Changed("--batch-size 64", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "an argument that is glued",
            program: "parser.add_argument('--bs', type=int, default=8)\ntrain(parser.parse_args().bs)\n",
            words: &["train.py", "--bs=128"],
            outcome: Changed("--bs=64", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "an argument of another name",
            program: "parser.add_argument('--n', type=int, default=128)\ntrain(parser.parse_args().n)\n",
            outcome: Changed("--n 64", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "workers of the same number",
            program: "parser.add_argument('--workers', type=int, default=1)\n\
                      parser.add_argument('--batch-size', type=int, default=128)\ntrain(parser.parse_args().batch_size)\n",
            words: &["train.py", "--workers", "128"],
            outcome: Changed("--workers 128 --batch-size 64", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "per GPU beside a total",
            program: "parser.add_argument('--batch-size', type=int, default=512)\n\
                      parser.add_argument('--batch-size-per-gpu', type=int, default=128)\nargs = parser.parse_args()\n\
                      assert args.batch_size % args.batch_size_per_gpu == 0\n\
                      train(args.batch_size_per_gpu, accumulate=args.batch_size // args.batch_size_per_gpu)\n",
            words: &["train.py", "--batch-size", "512"],
            outcome: Changed(
                "--batch-size 512 --batch-size-per-gpu 64",
                "trained with 64 x 8",
            ),
            ..PLAIN
        },
        Kind {
            name: "a total beside a size per GPU that is not set",
            program: "parser.add_argument('--batch', type=int, default=128)\n\
                      parser.add_argument('--batch-gpu', type=int)\nargs = parser.parse_args()\n\
                      of_gpu = args.batch_gpu or args.batch\nassert args.batch % of_gpu == 0\n\
                      train(of_gpu, accumulate=args.batch // of_gpu)\n",
            outcome: Changed("--batch-gpu 64", "trained with 64 x 2"),
            ..PLAIN
        },
        Kind {
            name: "a typed total beside a size per GPU that is 0",
            program: "parser.add_argument('--batch-size', type=int, default=8)\n\
                      parser.add_argument('--per-gpu', type=int, default=0)\nargs = parser.parse_args()\n\
                      of_gpu = args.per_gpu or args.batch_size\nassert args.batch_size % of_gpu == 0\n\
                      train(of_gpu, accumulate=args.batch_size // of_gpu)\n",
            words: &["train.py", "--batch-size", "192"],
            outcome: Changed("--batch-size 192 --per-gpu 24", "trained with 24 x 8"),
            ..PLAIN
        },
        Kind {
            name: "choices",
            program: "parser.add_argument('--batch-size', type=int, default=128, choices=[16, 48, 128])\n\
                      train(parser.parse_args().batch_size)\n",
            outcome: Changed("--batch-size 48", "trained with 48 x 1"),
            ..PLAIN
        },
        Kind {
            name: "accumulation as an argument",
            program: "parser.add_argument('--batch-size', type=int, default=128)\n\
                      parser.add_argument('--grad-accum-steps', type=int, default=1)\nargs = parser.parse_args()\n\
                      train(args.batch_size, accumulate=args.grad_accum_steps)\n",
            outcome: Changed(
                "--batch-size 64 --grad-accum-steps 2",
                "trained with 64 x 2",
            ),
            ..PLAIN
        },
        Kind {
            name: "a config file in JSON",
            files: &[("settings.json", "{\"batch_size\": 128, \"lr\": 3}\n")],
            program: "import json\nparser.add_argument('--config')\n\
                      train(json.load(open(parser.parse_args().config))['batch_size'])\n",
            words: &["train.py", "--config", "settings.json"],
            outcome: Changed("settings.json", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a config file in YAML",
            files: &[("settings.yaml", "# of the run\nbatch_size: 128\nlr: 3\n")],
            program: "parser.add_argument('--config')\nlines = open(parser.parse_args().config).read().split('\\n')\n\
                      train(int(dict(line.split(': ') for line in lines if ': ' in line)['batch_size']))\n",
            words: &["train.py", "--config", "settings.yaml"],
            outcome: Changed("settings.yaml", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "click",
            program: "import click\nfrom common import train\n@click.command()\n@click.option('--batch-size', default=128)\n\
                      def main(batch_size):\n    train(batch_size)\nmain()\n",
            package: Some("click"),
            outcome: Changed("--batch-size 64", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "typer",
            program: "import typer\nfrom common import train\ndef main(batch_size: int = 128):\n    train(batch_size)\n\
                      typer.run(main)\n",
            package: Some("typer"),
            outcome: Changed("--batch-size 64", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "absl",
            program: "from absl import app, flags\nfrom common import train\n\
                      FLAGS = flags.FLAGS\nflags.DEFINE_integer('batch_size', 128, '')\n\
                      app.run(lambda rest: train(FLAGS.batch_size))\n",
            package: Some("absl"),
            outcome: Changed("--batch_size=64", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "fire",
            program: "import fire\nfrom common import train\ndef main(batch_size=128):\n    train(batch_size)\nfire.Fire(main)\n",
            package: Some("fire"),
            outcome: Changed("--batch_size=64", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "tyro",
            program: "import tyro\nfrom common import train\ndef main(batch_size: int = 128):\n    train(batch_size)\ntyro.cli(main)\n",
            package: Some("tyro"),
            outcome: Changed("--batch-size 64", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "one literal for two things",
            program: "from common import train\nN = 256\ntrain(N, width=N)\n",
            outcome: Left("no smaller batch is proposed: the model was given 256×1024×256"),
            ..PLAIN
        },
        Kind {
            name: "a keyword that the program does not use",
            program: "from common import train\nbatch_size = 128\ndef rows(text='128'):\n    return int(text)\ntrain(rows())\n",
            outcome: Stopped(
                "train.py:2  batch_size = 128→64 had no effect: the model is still given 128×1024×256",
            ),
            ..PLAIN
        },
        Kind {
            name: "a number that is used beside one that is not",
            program: "from common import train\nbatch_size = 128\ndef rows(n=128):\n    return n\ntrain(rows())\n",
            outcome: Edited("train.py:3", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "an argument that the program does not use",
            program: "parser.add_argument('--batch-size', type=int, default=8)\nparser.parse_args()\nrows = 128\ntrain(rows)\n",
            words: &["train.py", "--batch-size", "128"],
            outcome: Edited("train.py:6", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "two numbers that may be it",
            program: "from common import train\nfoo = 128\nbar = 128\ntrain(min(foo, bar))\n",
            outcome: Left("not sure which sets the batch: train.py:2 foo, train.py:3 bar"),
            ..PLAIN
        },
        Kind {
            name: "two batches",
            program: "from common import train\nbatch_size_a = 128\nbatch_size_b = 128\ntrain(min(batch_size_a, batch_size_b))\n",
            outcome: Left(
                "not sure which sets the batch: train.py:2 batch_size_a, train.py:3 batch_size_b",
            ),
            ..PLAIN
        },
    ]
}

/// What is left of a session.
struct Session {
    exit: Option<i32>,
    commands: Vec<String>,
    edits: Vec<SourceEdit>,
    stdout: String,
    said: String,
    /// The files that changed on disk, which none should.
    touched: Vec<PathBuf>,
}

/// Without a screen, on a card of 1 GiB.
fn oomph(project: &Path, home: &Path) -> Command {
    let simulated = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/simulated");
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
    command
        .args(["--headless", "--no-nvml", "--on-oom", "auto"])
        .args(["--allow", "effective-batch", "--scaled=100"])
        .current_dir(project)
        .env("PYTHONPATH", simulated)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("OOMPH_SIMULATED_SPEED", "100")
        .env("OOMPH_SIMULATED_CARD_GIB", "1")
        .stdin(Stdio::null());
    at_home(&mut command, home);
    command
}

fn run(kind: &Kind) -> Session {
    let home = TempDir::new().expect("a directory");
    let project = TempDir::new().expect("a directory");
    run_in(project.path(), home.path(), kind)
}

/// A session of this home.
fn run_in(project: &Path, home: &Path, kind: &Kind) -> Session {
    let mut files = vec![("common.py", COMMON.to_string())];
    files.extend(
        kind.files
            .iter()
            .map(|(name, text)| (*name, text.to_string())),
    );
    let front = match kind.program.starts_with("parser") || kind.program.starts_with("import json")
    {
        true => format!("{ARGPARSE}from common import Net, evaluate, train\n"),
        false => String::new(),
    };
    files.push(("train.py", format!("{front}{}", kind.program)));
    for (name, text) in &files {
        let path = project.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    let recording = home.join("events.jsonl");
    let mut command = oomph(project, home);
    command
        .arg("--record")
        .arg(&recording)
        .arg("python3")
        .args(kind.words);
    let output = command.output().expect("oomph runs");
    let events: Vec<EventKind> = oomph::recording::read(&recording)
        .expect("a recording")
        .map(|event| event.expect("an event").what)
        .collect();
    let commands = events.iter().filter_map(|event| match event {
        EventKind::Started(started) => Some(started.command.clone()),
        _ => None,
    });
    let commands: Vec<_> = commands.collect();
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    for event in &events {
        if let EventKind::Note(note) = event {
            said.push_str(&format!("{}\n", note.text));
        }
    }
    let is_touched = |(name, text): &&(&str, String)| {
        fs::read_to_string(project.join(name)).expect("a file") != *text
    };
    Session {
        exit: output.status.code(),
        edits: commands.last().map(SourceEdit::of).unwrap_or_default(),
        commands: commands.iter().map(|command| command.shown()).collect(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        said,
        touched: files
            .iter()
            .filter(is_touched)
            .map(|(name, _)| name.into())
            .collect(),
    }
}

/// What is wrong with what became of a program; nothing if all is well.
fn complaint(kind: &Kind, session: &Session) -> Option<String> {
    let last = session.stdout.lines().last().unwrap_or_default();
    let ran_out = ["oomph: out of memory", "ran out of memory"]
        .iter()
        .any(|words| session.said.contains(words));
    let is_right = match kind.outcome {
        Changed(words, prints) => {
            let next = session
                .commands
                .last()
                .is_some_and(|next| next.ends_with(words) || next.contains(&format!("{words} ")));
            next && session.edits.is_empty() && last == prints && session.exit == Some(0)
        }
        Edited(at, to, prints) => {
            let is_it = session
                .edits
                .iter()
                .any(|edit| edit.place() == at && edit.to == to);
            is_it && last == prints && session.exit == Some(0)
        }
        Stopped(says) => {
            session.commands.len() == 2 && session.exit != Some(0) && session.said.contains(says)
        }
        Left(says) => {
            session.commands.len() == 1 && session.exit == Some(1) && session.said.contains(says)
        }
    };
    (!is_right || !ran_out || !session.touched.is_empty()).then(|| {
        format!(
            "{}: exit {:?}, commands {:#?}, edits {:?}, touched {:?}\nstdout: {}\n{}\n",
            kind.name,
            session.exit,
            session.commands,
            session.edits,
            session.touched,
            session.stdout,
            session.said
        )
    })
}

fn has_package(name: &str) -> bool {
    let asked = Command::new("python3")
        .args(["-c", &format!("import {name}")])
        .output();
    asked.is_ok_and(|said| said.status.success())
}

#[test]
fn each_kind_of_program_has_the_right_number_changed_or_none() {
    let only = std::env::var("OOMPH_TEST_KIND").ok();
    let waiting: Mutex<Vec<Kind>> = Mutex::new(
        kinds()
            .into_iter()
            .chain(evaluation::kinds())
            .chain(settings::kinds())
            .chain(by_hand::kinds())
            .filter(|kind| {
                only.as_ref()
                    .is_none_or(|only| kind.name.contains(only.as_str()))
            })
            .filter(|kind| kind.package.is_none_or(has_package))
            .collect(),
    );
    let complaints: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        // Each is a training and its front: more at once than there are cores keep each other from what they wait for.
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(kind) = waiting.lock().expect("programs").pop() else {
                        return;
                    };
                    let session = run(&kind);
                    complaints
                        .lock()
                        .expect("complaints")
                        .extend(complaint(&kind, &session));
                }
            });
        }
    });
    let complaints = complaints.into_inner().expect("complaints");
    assert!(
        complaints.is_empty(),
        "{} of the kinds:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

/// Its own sizes come before what says whether the change took.
#[test]
fn a_relaunch_that_runs_out_again_in_its_first_forward_is_not_one_without_effect() {
    let session = run(&Kind {
        program: "import torch\nfrom torch import nn\nBATCH = 128\n\
            model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to('cuda')\n\
            optimizer = torch.optim.AdamW(model.parameters())\n\
            for step in range(4):\n    model(torch.randn(BATCH, 256, 1024, device='cuda')).sum().backward()\n    \
            optimizer.step()\n    optimizer.zero_grad()\nprint('trained')\n",
        ..PLAIN
    });
    let said = &session.said;
    assert!(!said.contains("had no effect"), "{said}");
    assert_eq!(session.exit, Some(0), "{said}");
    // Half of it is too much as well.
    assert!(session.commands.len() > 2, "{said}");
    assert!(session.stdout.ends_with("trained\n"), "{said}");
}

/// The numbers that the program told of are in the recording: a default that nobody typed becomes an added argument.
#[test]
fn explain_with_a_command_uses_the_numbers_that_the_program_told() {
    let home = TempDir::new().expect("a directory");
    let project = TempDir::new().expect("a directory");
    let kind = Kind {
        program: "parser.add_argument('--frames', type=int, default=128)\ntrain(parser.parse_args().frames)\n",
        ..PLAIN
    };
    run_in(project.path(), home.path(), &kind);
    let explained = oomph_explains(&home.path().join("events.jsonl"));
    assert!(explained.contains("--frames 64"), "{explained}");
}

/// A number of which it is not sure is offered to whoever asks, and recommended to nobody.
#[test]
fn json_has_the_numbers_that_may_be_the_batch() {
    let home = TempDir::new().expect("a directory");
    let project = TempDir::new().expect("a directory");
    let kind = Kind {
        program: "from common import train\nfoo = 128\nbar = 128\ntrain(min(foo, bar))\n",
        ..PLAIN
    };
    run_in(project.path(), home.path(), &kind);
    let recording = home.path().join("events.jsonl");
    let done = Command::new(env!("CARGO_BIN_EXE_oomph"))
        .args(["explain", "--json"])
        .arg(recording)
        .args(["--", "python3", "train.py"])
        .stdin(Stdio::null())
        .output()
        .expect("oomph runs");
    let said: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let remedies = said["remedies"].as_array().expect("remedies");
    let titles: Vec<&str> = (remedies.iter())
        .filter(|remedy| {
            remedy["id"]
                .as_str()
                .is_some_and(|id| id.ends_with("-candidate"))
        })
        .filter_map(|remedy| remedy["title"].as_str())
        .collect();
    let wanted = ["smaller foo?", "smaller bar?"];
    assert_eq!(titles, wanted, "{said:#}");
    assert!(said["recommended"].is_null(), "{said:#}");
}

/// What `oomph explain` says of a recording, with the command whose remedies are asked for.
fn oomph_explains(recording: &Path) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_oomph"))
        .arg("explain")
        .arg(recording)
        .args(["--", "python3", "train.py"])
        .stdin(Stdio::null())
        .output()
        .expect("oomph runs");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Of an earlier session only the command is known: another number may have stood in the program.
#[test]
fn a_session_from_before_the_program_was_changed_says_nothing_of_it() {
    let home = TempDir::new().expect("a directory");
    let project = TempDir::new().expect("a directory");
    fs::write(project.path().join("common.py"), COMMON).expect("a file");
    for (batch, prints) in [
        (32, "trained with 32 x 1\n"),
        (128, "trained with 64 x 1\n"),
    ] {
        let program =
            format!("from common import train\nbatch_size = {batch}\ntrain(batch_size)\n");
        fs::write(project.path().join("train.py"), program).expect("a file");
        let done = oomph(project.path(), home.path())
            .args(["python3", "train.py"])
            .output()
            .expect("oomph runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.stdout.ends_with(prints.as_bytes()), "{said}");
        assert!(done.status.success(), "{said}");
    }
}
