//! What a front may ask of a running training: who keeps its memory alive, and PyTorch's own snapshot.

use crate::probe::front::{Front, Place};
use crate::probe::program::Program;
use oomph::collect::probe_socket::ProbeRequest;
use oomph::event::{EventKind, NoteSubject};
use oomph::units::{Bytes, Pid};
use std::os::unix::fs::PermissionsExt;

/// Keeps 1 MiB of each step, at line 7, until a line is typed.
const LEAKING: &str = "\
import select, sys, time, torch
parameters = [torch.empty(4 << 20)]
optimizer = torch.optim.Adam(parameters)
def train():
    kept = []
    while not select.select([sys.stdin], [], [], 0.025)[0]:
        kept.append(torch.empty(1 << 20))
        optimizer.step()
        del kept[:-600]
train()
print('done')
";

/// The process, once it has done so many steps.
fn after(front: &mut Front, steps: u64) -> Pid {
    front.wait_until(|seen| {
        let of_step =
            |what: &EventKind| matches!(what, EventKind::Step(step) if step.count >= steps);
        seen.iter().any(of_step)
    });
    front.hellos()[0].pid
}

#[test]
fn a_running_training_says_who_keeps_its_memory() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let mut running = Program::script(&place, "train.py", LEAKING).start(&place);
    let pid = after(&mut front, 12);
    assert!(front.retainers().is_empty(), "nobody has asked");
    front.requests.ask(pid, ProbeRequest::Retainers);
    front.wait_until(|seen| {
        seen.iter()
            .any(|what| matches!(what, EventKind::Retainers(_)))
    });
    let found = front.retainers()[0];
    let kept = found.main().expect("a name");
    let length = kept.length.expect("a list");
    assert_eq!(kept.words(), format!("train.py:7 kept: list of {length}"));
    assert_eq!(kept.bytes, Bytes::mib(length));
    // After a step: what is alive is what stays.
    assert_eq!(length, found.step);
    assert_eq!(found.unexplained, Bytes::ZERO);
    let grew = found.growing.first().expect("a line that grew");
    assert_eq!((grew.line.line, grew.per_step), (7, Bytes::mib(1)));
    running.tell("enough");
    running.end().expect("done");
    front.wait_for_end_of(1);
    front.expect_nothing_lost();
}

#[test]
fn where_no_step_ends_it_is_said_all_the_same() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = LEAKING.replace("        optimizer.step()\n", "");
    let mut running = Program::script(&place, "train.py", &text).start(&place);
    front.wait_until(|seen| seen.iter().any(|what| matches!(what, EventKind::Sample(_))));
    let pid = front.hellos()[0].pid;
    front.requests.ask(pid, ProbeRequest::Retainers);
    front.wait_until(|seen| {
        seen.iter()
            .any(|what| matches!(what, EventKind::Retainers(_)))
    });
    let kept = front.retainers()[0].main().expect("a name").words();
    assert!(kept.starts_with("train.py:7 kept: list of "), "{kept}");
    running.tell("enough");
    running.end().expect("done");
}

#[test]
fn a_snapshot_of_now_is_saved_where_it_is_said() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let mut running = Program::script(&place, "train.py", LEAKING).start(&place);
    let pid = after(&mut front, 2);
    let directory = place.path().join("snaps");
    for _ in 0..2 {
        let directory = directory.clone();
        front
            .requests
            .ask(pid, ProbeRequest::Snapshot { directory });
    }
    let path = |n: u32| directory.join(format!("snapshot-{pid}-{n}.pickle"));
    let said = |n: u32| format!("snapshot saved: {}", path(n).display());
    front.wait_until(|seen| {
        let of = |what: &EventKind| matches!(what, EventKind::Note(note) if note.text.starts_with(&said(2)));
        seen.iter().any(of)
    });
    let notes = front.notes();
    let note = notes.iter().find(|note| note.starts_with(&said(1)));
    let note = note.expect("the first one");
    assert!(note.contains("opens in pytorch.org/memory_viz"), "{note}");
    let mode = std::fs::metadata(path(1)).expect("a file").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    // What cannot be saved is said as well.
    let directory = "/dev/null/below".into();
    front
        .requests
        .ask(pid, ProbeRequest::Snapshot { directory });
    front.wait_until(|seen| {
        let of = |what: &EventKind| matches!(what, EventKind::Note(note) if note.about == Some(NoteSubject::Snapshot) && note.text.starts_with("no snapshot in /dev/null"));
        seen.iter().any(of)
    });
    running.tell("enough");
    running.end().expect("done");
}

#[test]
fn a_step_is_traced_at_once_where_memory_was_seen_to_grow() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let mut running = Program::script(&place, "train.py", LEAKING).start(&place);
    let pid = after(&mut front, 12);
    let traced = |seen: &[EventKind]| {
        let traces = seen.iter().filter_map(|what| match what {
            EventKind::StepTrace(trace) => Some(trace.step),
            _ => None,
        });
        traces.max().unwrap_or(0)
    };
    let before = traced(&front.seen);
    assert!(before < 12, "the next one is a minute away: step {before}");
    front.requests.ask(pid, ProbeRequest::Trace);
    front.wait_until(|seen| traced(seen) >= 12);
    running.tell("enough");
    running.end().expect("done");
    front.expect_nothing_lost();
}
