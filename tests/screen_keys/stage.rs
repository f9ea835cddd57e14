//! The sessions in which keys are pressed: a program that writes and listens, one that runs out of
//! memory, a recording.

use crate::fake_nvml::Fake;
use crate::harness::{PATIENCE, Terminal};
use crate::screen_keys::recordings::{self, RECORDING};
use oomph::ui::keymap::Key;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use std::fs;
use tempfile::TempDir;

pub const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");

/// Writes 120 rows, then says what it is told, and catches one SIGINT.
const LISTENS: &str = "trap ': > \"$0.interrupted\"' INT\n\
    n=1; while [ $n -le 120 ]; do echo row-$n; n=$((n+1)); done\n\
    while :; do read line && echo \"told $line\"; done\n";

/// Runs out of memory above a batch of 32.
const RUNS_OUT: &str = "import sys\n\
    def end(words):\n    if '--hang' not in sys.argv: sys.exit(words)\n    print(words)\n    sys.stdin.read()\n\
    batch = int(sys.argv[sys.argv.index('--batch-size') + 1])\n\
    if batch <= 32:\n    print('this fits')\n    sys.stdin.read()\n\
    end('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a '\n\
    'total capacity of 23.60 GiB of which 1.20 GiB is free. Including non-PyTorch memory, this '\n\
    'process has 22.40 GiB memory in use. Of the allocated memory 21.50 GiB is allocated by '\n\
    'PyTorch, and 310.00 MiB is reserved by PyTorch but unallocated.')\n";

/// A leak of which steps were traced.
const LEAK: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/replay/leak-traced.jsonl"
);

/// Steps that keep more and more, for as long as it is looked at.
const LEAKS: &str = "import time, torch\n\
    optimizer = torch.optim.Adam([torch.empty(1 << 20)])\n\
    kept = []\n\
    while True:\n\
    \x20   kept.append(torch.empty(1 << 20))\n\
    \x20   del kept[:-500]\n\
    \x20   optimizer.step()\n\
    \x20   time.sleep(0.03)\n";

/// Which session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A program that goes on, on a machine with two devices.
    Live,
    /// A dialog about a run that has ended.
    Oom,
    /// A program that has run out of memory and hangs.
    Hanging,
    /// A recording being played.
    Replay,
    /// A recording of two runs, played to its end.
    TwoRuns,
    /// A recording of a training of which three steps were traced, on one of two devices.
    Traced,
    /// The same with a fourth, which ran out of memory.
    TracedToTheEnd,
    /// The same, with the dialog of that.
    RanOut,
    /// A recording of a leak that ran out of memory, with the dialog of that.
    Leaked,
    /// A recording of a training on two nodes, of whose four ranks the third has reserved most.
    Nodes,
    /// A training that goes on, with a stand-in for torch, and keeps a little of each step.
    Leaking,
}

/// A session on the screen, and what it lives from.
pub struct Session {
    pub terminal: Terminal,
    directory: TempDir,
    _fake: Option<Fake>,
}

/// The footer of the dialog: nothing else says this.
pub const DIALOG: &str = "Space combine";

impl Session {
    /// The session, once it shows what it is for.
    pub fn begin(stage: Stage, rows: u16, cols: u16) -> Session {
        Session::started_by(&[], stage, rows, cols)
    }

    /// The same, started by a shell with job control: who is suspended goes back to it.
    pub fn begin_under_a_shell(stage: Stage, rows: u16, cols: u16) -> Session {
        let shell = ["sh", "-mc", "\"$@\"; read enter; fg", "sh"];
        Session::started_by(&shell, stage, rows, cols)
    }

    fn started_by(shell: &[&str], stage: Stage, rows: u16, cols: u16) -> Session {
        let directory = TempDir::new().expect("a directory");
        let path = |name: &str| directory.path().join(name).display().to_string();
        let home = directory.path().display().to_string();
        let mut env = vec![("HOME".to_string(), home)];
        let mut fake = None;
        let (argv, shows) = match stage {
            Stage::Live => {
                let nvml = Fake::new();
                nvml.say("devices 2\nused 0 4294967296\nused 1 1073741824");
                let library = nvml.library().display().to_string();
                env.push(("OOMPH_NVML_LIBRARY".into(), library));
                fake = Some(nvml);
                fs::write(path("listens.sh"), LISTENS).expect("a program");
                let argv = vec!["--no-record".into(), "sh".into(), path("listens.sh")];
                (argv, ["row-120", "GPU 0"])
            }
            Stage::Oom | Stage::Hanging => {
                fs::write(path("train.py"), RUNS_OUT).expect("a program");
                let argv = ["--no-record", "--no-nvml", "python3"].map(String::from);
                let train = [path("train.py"), "--batch-size".into(), "64".into()];
                let argv = argv.into_iter().chain(train);
                match stage {
                    Stage::Hanging => {
                        let argv = argv.chain(["--hang".into()]);
                        (argv.collect(), ["o why and what to do", "q quit"])
                    }
                    _ => (argv.collect(), [DIALOG, "q quit"]),
                }
            }
            Stage::TwoRuns => replayed(&path("two.jsonl"), &recordings::two_runs()),
            Stage::Nodes => replayed(&path("nodes.jsonl"), &recordings::on_two_nodes()),
            Stage::Leaking => {
                fs::write(path("train.py"), LEAKS).expect("a program");
                let stub = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/probe/torch_stub");
                env.push(("PYTHONPATH".into(), stub.into()));
                let argv = ["--no-record", "--no-nvml", "--snapshot"].map(String::from);
                let train = [path("snapshots"), "python3".into(), path("train.py")];
                let argv = argv.into_iter().chain(train);
                (argv.collect(), ["● probe", "steps"])
            }
            Stage::Traced => replayed(&path("traced.jsonl"), &recordings::traced(false)),
            Stage::RanOut => {
                let (argv, _) = replayed(&path("ran-out.jsonl"), &recordings::ran_out());
                (argv, ["╭─ CUDA out of memory", "q quit"])
            }
            Stage::TracedToTheEnd => replayed(&path("traced.jsonl"), &recordings::traced(true)),
            Stage::Leaked => {
                let argv = ["replay", "--at", "end", LEAK].map(String::from);
                (argv.into(), ["d details", "w what leaks"])
            }
            Stage::Replay => (
                vec!["replay".into(), RECORDING.into()],
                ["replay x1", "run 1"],
            ),
        };
        // What a key writes where it is started belongs to the test.
        let home = directory.path().display().to_string();
        let shell = shell.iter().copied().chain(["env", "-C", &home, OOMPH]);
        let argv: Vec<String> = shell.map(String::from).chain(argv).collect();
        let env: Vec<(&str, &str)> = env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let mut terminal = Terminal::spawn(&argv, &env, rows, cols);
        for words in shows {
            terminal.wait_for(words, PATIENCE);
        }
        Session {
            terminal,
            directory,
            _fake: fake,
        }
    }

    /// Whether the program of [`Stage::Live`] was interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.directory
            .path()
            .join("listens.sh.interrupted")
            .exists()
    }

    /// Presses a key of the table.
    pub fn press(&mut self, key: Key) {
        let text = String::from_utf8(bytes(key)).expect("keys of ASCII");
        self.terminal.press(text.as_str());
    }
}

/// The command that replays this recording, and what its screen begins with.
fn replayed(path: &str, recording: &str) -> (Vec<String>, [&'static str; 2]) {
    fs::write(path, recording).expect("a recording");
    (vec!["replay".into(), path.into()], ["replay x1", "run 1"])
}

/// What an xterm sends for a key of the table.
fn bytes(key: Key) -> Vec<u8> {
    let event = key.event();
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    match event.code {
        KeyCode::Char(c) if control => vec![c as u8 & 0x1f],
        KeyCode::Char(c) => c.to_string().into_bytes(),
        KeyCode::Enter => b"\r".into(),
        KeyCode::Esc => b"\x1b".into(),
        KeyCode::Backspace => b"\x7f".into(),
        KeyCode::Tab => b"\t".into(),
        KeyCode::BackTab => b"\x1b[Z".into(),
        KeyCode::Up => b"\x1b[A".into(),
        KeyCode::Down => b"\x1b[B".into(),
        KeyCode::Right => b"\x1b[C".into(),
        KeyCode::Left => b"\x1b[D".into(),
        KeyCode::Home => b"\x1b[H".into(),
        KeyCode::End => b"\x1b[F".into(),
        KeyCode::PageUp => b"\x1b[5~".into(),
        KeyCode::PageDown => b"\x1b[6~".into(),
        KeyCode::F(1) => b"\x1bOP".into(),
        code => panic!("how does a terminal send {code:?}?"),
    }
}
