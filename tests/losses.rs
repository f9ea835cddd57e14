//! The losses of a relaunched run against those of the run before, end to end: the real binary and its keeper, the real probe in a
//! real python3, and a stand-in for torch whose losses lie on the device and are copied while the program goes on.

use crate::harness::at_home;
use oomph::event::{Event, EventKind};
use std::fs;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const TORCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/probe/torch_stub");

/// Five steps, then its memory is in pieces, unless segments expand; or it needs more than there is, unless the batch is smaller.
/// What the losses of a second run are is the first word.
const TRAINING: &str = "\
import os, sys
import torch
kind, batch = sys.argv[1], int(sys.argv[sys.argv.index('--batch-size') + 1])
is_second = 'expandable_segments' in os.environ.get('PYTORCH_CUDA_ALLOC_CONF', '')
torch.manual_seed(os.getpid() if kind == 'no_seed' else 7)
optimizer = torch.optim.Adam([torch.empty(1 << 20)])
for step in range(1, 9):
    loss = 2.0 / step
    if is_second and step > 2:
        loss *= {'rounding': 1 + 1e-7, 'far': 1.5}.get(kind, 1)
    torch.autograd.backward(torch.loss(loss))
    optimizer.step()
    if step == 5 and kind == 'batch':
        torch.empty(batch * (20 << 20))
    elif step == 5 and not is_second:
        pieces = [torch.empty(20 << 20) for _ in range(50)]
        del pieces[::2]
        torch._C.out_of_memory(0, 300 << 20, torch._C.CAPACITY)
print('done')
";

/// How a session of it ended, and what it recorded.
struct Session {
    output: Output,
    events: Vec<Event>,
    /// What `oomph explain` says of its recording.
    explained: String,
}

impl Session {
    fn of(kind: &str) -> Session {
        let place = TempDir::new().expect("a directory");
        let (program, recording) = (place.path().join("train.py"), place.path().join("it.jsonl"));
        fs::write(&program, TRAINING).expect("a program");
        let mut oomph = Command::new(env!("CARGO_BIN_EXE_oomph"));
        oomph
            .args([
                "--headless",
                "--no-nvml",
                "--on-oom",
                "auto",
                "--allow",
                "effective-batch",
                "--record",
            ])
            .arg(&recording)
            .arg("python3")
            .arg(&program)
            .args([kind, "--batch-size", "64"])
            .env("PYTHONPATH", TORCH)
            .env("STUB_HOME", TORCH)
            .env("STUB_LOSSES", "1")
            .env_remove("PYTORCH_CUDA_ALLOC_CONF")
            // Its last lines are to be out on a machine of any load.
            .env("OOMPH_PROBE_FLUSH_MS", "60000")
            .stdin(Stdio::null());
        let output = at_home(&mut oomph, place.path()).output().expect("it runs");
        let mut explain = Command::new(env!("CARGO_BIN_EXE_oomph"));
        explain.arg("explain").arg(&recording);
        let explained = at_home(&mut explain, place.path())
            .output()
            .expect("it runs");
        Session {
            output,
            events: oomph::recording::read(&recording)
                .expect("a recording")
                .collect::<Result<_, _>>()
                .expect("only events"),
            explained: String::from_utf8_lossy(&explained.stdout).into_owned(),
        }
    }

    /// Asserts that it went on with its second run, and what is said of both runs' losses: at the end, and of the recording.
    #[track_caller]
    fn says(&self, words: &str) {
        let stderr = String::from_utf8_lossy(&self.output.stderr);
        assert!(self.output.status.success(), "{stderr}");
        assert_eq!(self.output.stdout, b"done\n", "{stderr}");
        assert!(stderr.contains(&format!("run 2: {words}")), "{stderr}");
        // A sentence of its own there.
        let sentence = format!("L{}", words.strip_prefix('l').expect("losses"));
        assert!(self.explained.contains(&sentence), "{}", self.explained);
        let trouble =
            (self.events.iter()).find(|event| matches!(event.what, EventKind::ProbeErrors(_)));
        assert!(trouble.is_none(), "{trouble:?}");
    }

    /// The losses that were told, of both runs.
    fn losses(&self) -> Vec<(u64, f64)> {
        let told = self.events.iter().filter_map(|event| match &event.what {
            EventKind::Losses(told) => Some(&told.losses),
            _ => None,
        });
        told.flatten()
            .map(|(step, loss)| (*step, loss.expect("a number")))
            .collect()
    }
}

#[test]
fn equal_losses_are_said_to_be() {
    let session = Session::of("same");
    session.says("losses of 4 steps are the same, bit for bit");
    // Each is read once its copy has arrived, which that of a run's last step never does.
    let of = |steps: u64| (1..=steps).map(|step| (step, 2.0 / step as f64));
    let expected: Vec<(u64, f64)> = of(4).chain(of(7)).collect();
    assert_eq!(session.losses(), expected);
}

#[test]
fn a_difference_of_rounding_is_told_from_another_one() {
    Session::of("rounding")
        .says("losses of 4 steps differ by at most 1e-7 from step 3 on, as rounding does");
    Session::of("far")
        .says("losses of 4 steps differ by at most 3e-1 from step 3 on, which is no rounding");
}

#[test]
fn nothing_is_compared_without_a_seed_or_with_another_batch() {
    Session::of("no_seed").says("losses not checked: no fixed seed");
    Session::of("batch").says("losses not checked: the batch changed");
}
