//! F, at the gate: whose memory it is that does not come back.

use crate::fake_nvml::Fake;
use crate::faults::relaunch::{DIALOG, answer, quit};
use crate::faults::staging::{Scene, Training};
use crate::harness::{PATIENCE, Stranger, wait_until};
use oomph::event::{Event, EventKind, Exit};

const TORCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/probe/torch_stub");
/// The stand-in's first device, as NVML names it.
const DEVICE: &str = "uuid 0 GPU-00000000-1111-2222-3333-444444444444\n";

/// Fills the device in proportion to its batch: 64 does not fit, 32 does.
const PROGRAM: &str = "\
import sys, time, torch, os
batch = int(sys.argv[sys.argv.index('--batch-size') + 1])
torch.cuda.init()
print('train' + 'ing', flush=True)
while not os.path.exists('filled'): time.sleep(0.01)
kept = [torch.empty(20 << 20) for _ in range(batch)]
";

/// A training at its dialog, whose device has what it had at first, and what is said next.
fn at_dialog(nvml: &Fake, scaled: u32, then: &str) -> Training {
    nvml.say(&format!("{DEVICE}used 0 100000000\n"));
    let scene = Scene::new()
        .scaled(scaled)
        .without("--no-nvml")
        .env("PYTHONPATH", TORCH)
        .env("OOMPH_NVML_LIBRARY", nvml.library().display().to_string())
        .size(40, 120);
    std::fs::write(scene.path("train.py"), PROGRAM).expect("a program");
    let mut training = scene.run_at_terminal(&["python3", "train.py", "--batch-size", "64"]);
    // What the device has in use before a rank is known is taken for what it had at first.
    wait_until("the rank is known", PATIENCE, || {
        let known = |event: &Event| matches!(event.what, EventKind::Hello(_));
        training.events().iter().any(known)
    });
    nvml.say(&format!("{DEVICE}{then}"));
    training.make("filled");
    training.terminal().wait_for(DIALOG, PATIENCE);
    training
}

#[test]
fn fault_76_memory_that_comes_back_late_is_waited_for() {
    let nvml = Fake::new();
    // A deadline of 60 s / 5; the memory comes back when it is seen that it is waited for.
    let mut training = at_dialog(&nvml, 5, "used 0 9000000000\n");
    answer(&mut training, 'b', |training| {
        training.terminal().screen().contains("8.38 GiB in use")
    });
    assert_eq!(training.runs(), 1, "nothing is started meanwhile");
    nvml.say(&format!("{DEVICE}used 0 110000000\n"));
    training.finish(Exit::Code(0));
    assert_eq!(training.runs(), 2);
}

#[test]
fn fault_76_memory_that_somebody_else_took_is_not_taken_back() {
    let nvml = Fake::new();
    let mut stranger = Stranger::start();
    let pid = stranger.0.id();
    let held = format!("holds 0 {pid} 25600000000\nused 0 100000000\n");
    // All of the device: what the next run needs is not free. A deadline of 60 s / 60.
    let mut training = at_dialog(&nvml, 60, &held);
    answer(&mut training, 'b', |training| {
        training.notes().contains("did not come back within 1 s")
    });
    assert!(
        training.notes().contains(&format!("sleep {pid} uses")),
        "{}",
        training.notes()
    );
    assert_eq!(training.runs(), 1, "not relaunched");
    quit(&mut training);
    training.finish(Exit::Code(1));
    assert_eq!(stranger.0.try_wait().expect("asked"), None, "still alive");
}
