//! Which lines hold ever more, what they hold, and PyTorch's own snapshot where one is asked for.

use crate::probe::front::{Front, Place};
use crate::probe::program::Program;
use oomph::event::{MemoryKind, RetainerKind};
use oomph::units::Bytes;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A training that keeps 8 MiB of each step, at line 10, until memory runs out. (Steps that follow
/// each other faster than 20 ms are not all read.)
const LEAKING: &str = "\
import time, torch
parameters = [torch.empty(4 << 20)]
optimizer = torch.optim.Adam(parameters)
for parameter in parameters:
    parameter.grad = torch.empty(4 << 20)
kept = []
try:
    for step in range(1000):
        activations = torch.empty(100 << 20)
        kept.append(torch.empty(8 << 20))
        del activations
        time.sleep(0.025)
        optimizer.step()
except torch.OutOfMemoryError:
    print('done')
";

#[test]
fn a_leak_has_its_line() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let program = Program::script(&place, "train.py", LEAKING);
    program.run(&place).expect("done");
    front.wait_for_end_of(1);
    front.expect_nothing_lost();
    let oom = front.ooms()[0];
    let growing: Vec<_> = oom
        .growing
        .iter()
        .map(|line| (line.line.line, line.per_step))
        .collect();
    assert_eq!(growing, [(10, Bytes::mib(8))]);
    let line = &oom.growing[0];
    assert!(line.from_step >= 4 && line.to_step >= line.from_step + 4);
    let inside = oom.growing[0].inside.as_ref().expect("the library's line");
    assert_eq!(inside.function, "empty");
    let kinds: Vec<_> = oom
        .lines
        .iter()
        .map(|line| (line.line.line, line.kind))
        .collect();
    for expected in [
        (10, None),
        (13, Some(MemoryKind::OptimizerState)),
        (2, Some(MemoryKind::Parameters)),
        (5, Some(MemoryKind::Gradients)),
    ] {
        assert!(kinds.contains(&expected), "{expected:?} in {kinds:?}");
    }
}

#[test]
fn a_leak_has_the_name_of_who_keeps_it() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let program = Program::script(&place, "train.py", LEAKING);
    program.run(&place).expect("done");
    front.wait_for_end_of(1);
    front.expect_nothing_lost();
    let oom = front.ooms()[0];
    let found = front.retainers();
    let [found] = &found[..] else {
        panic!("{found:#?}");
    };
    assert_eq!((found.device, found.step), (0, oom.step));
    assert_eq!(found.left, None);
    let kept = found.main().expect("a name");
    assert_eq!(kept.kind, RetainerKind::Global);
    // One more than there were steps: memory ran out after it was kept, or before.
    let length = kept.length.expect("a list");
    assert!((oom.step..=oom.step + 1).contains(&length), "{kept:?}");
    assert_eq!(kept.words(), format!("train.py:10 kept: list of {length}"));
    assert_eq!(kept.bytes, Bytes::mib(8 * length));
    // Parameters, gradients and state are none of it.
    let others = found.looked_for - kept.bytes;
    assert!(others <= Bytes::mib(100), "{found:#?}");
}

#[test]
fn a_steady_training_has_none() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = LEAKING.replace("range(1000)", "range(20)").replace(
        "kept.append(torch.empty(8 << 20))",
        "kept = [torch.empty(8 << 20)]",
    ) + "try:\n    torch.empty(1 << 31)\nexcept torch.OutOfMemoryError:\n    print('done')\n";
    Program::script(&place, "train.py", &text)
        .run(&place)
        .expect("done");
    front.wait_for_end_of(1);
    assert_eq!(front.ooms()[0].growing, []);
}

#[test]
fn a_snapshot_is_saved_where_it_is_asked_for() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let directory = place.path().join("snaps");
    let program =
        Program::script(&place, "train.py", LEAKING).env("OOMPH_PROBE_SNAPSHOT", &directory);
    program.run(&place).expect("done");
    front.wait_for_end_of(1);
    front.expect_nothing_lost();
    let saved: Vec<_> = fs::read_dir(&directory)
        .expect("the directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    let [path] = &saved[..] else {
        panic!("{saved:?}");
    };
    let mode = fs::metadata(path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let note = format!("snapshot saved: {}", path.display());
    let notes = front.notes();
    assert!(
        notes.iter().any(|said| said.starts_with(&note)),
        "{notes:?}"
    );
    let read = "import pickle, sys; s = pickle.load(open(sys.argv[1], 'rb')); \
                print(sorted(s), len(s['segments']))";
    let done = std::process::Command::new(crate::probe::program::python())
        .args(["-c", read])
        .arg(path)
        .output()
        .expect("python");
    assert_eq!(
        String::from_utf8_lossy(&done.stdout),
        "['allocator_settings', 'device_traces', 'segments'] 2\n"
    );
}

#[test]
fn a_snapshot_that_cannot_be_saved_is_said_and_harms_nothing() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let blocked = place.path().join("a-file");
    fs::write(&blocked, "").expect("a file");
    let program = Program::script(&place, "train.py", LEAKING)
        .env("OOMPH_PROBE_SNAPSHOT", blocked.join("below"));
    program.run(&place).expect("done");
    front.wait_for_end_of(1);
    let notes = front.notes();
    assert!(
        notes.iter().any(|said| said.starts_with("no snapshot in")),
        "{notes:?}"
    );
}
