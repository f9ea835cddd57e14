//! The recording of lines as it comes and goes with the need for it, and beside a recording of the
//! program's own.

use crate::probe::front::{Front, Place};
use crate::probe::program::Program;
use oomph::anatomy::{StepAnatomy, by_line};
use oomph::units::Bytes;
use std::process::Command;

/// A training of many allocations; `rounds(until)` goes on with it until that is so.
const BUSY: &str = "\
import inspect, sys, time, torch
from torch import _C
parameters = [torch.empty(1 << 20)]
optimizer = torch.optim.Adam(parameters)

def rounds(until):
    deadline = time.monotonic() + 60
    while not until():
        assert time.monotonic() < deadline, (_C.recording, _C.context)
        for _ in range(100):
            torch.empty(1 << 10)
        optimizer.step()
";

fn busy(place: &Place, text: &str) -> Program {
    Program::script(place, "train.py", &format!("{BUSY}{text}")).env("OOMPH_PROBE_SETTLE_MS", "100")
}

#[test]
fn the_need_for_it_is_judged_well() {
    let done = Command::new(crate::probe::program::python())
        .args(["-m", "unittest", "discover", "-s", "tests/probe/units"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(!said.contains("Ran 0 tests"), "{said}");
}

#[test]
fn lines_are_given_up_and_recorded_again_before_memory_runs_out() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
rounds(lambda: _C.context[0] is None)
rounds(lambda: _C.recording[0] is None)
unseen = torch.empty(600 << 20)
rounds(lambda: _C.context[0] == 'state')
seen = torch.empty(200 << 20)
try:
    torch.empty(1 << 30)
except torch.OutOfMemoryError:
    print('done')
";
    busy(&place, text).run(&place).expect("done");
    front.wait_for_end_of(1);
    front.expect_nothing_lost();
    let lines: Vec<(u32, Bytes)> = front.ooms()[0]
        .lines
        .iter()
        .map(|held| (held.line.line, held.bytes))
        .collect();
    // Line 15 allocated while nothing was recorded; what was allocated before keeps its line.
    let expected = [
        (17, Bytes::mib(200)),
        (12, Bytes::mib(2)),
        (3, Bytes::mib(1)),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn once_memory_ran_out_lines_are_recorded_for_good() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
rounds(lambda: _C.context[0] is None)
try:
    torch.empty(1 << 30)
except torch.OutOfMemoryError:
    pass
rounds(lambda: _C.context[0] == 'state')
again = time.monotonic() + 0.5
rounds(lambda: time.monotonic() > again or _C.context[0] is None)
print(_C.context[0])
";
    busy(&place, text).run(&place).expect("state");
    front.wait_for_end_of(1);
}

#[test]
fn a_recording_that_the_program_begins_is_its_own_from_then_on() {
    let place = Place::new();
    for entry in [
        "torch.cuda.memory._record_memory_history",
        "_C._cuda_record_memory_history",
    ] {
        for before in ["", "rounds(lambda: _C.context[0] is None)\n"] {
            let mut front = Front::listen(&place);
            let text = format!(
                "\
{before}{entry}('all', 'all', 'all', 1000)
again = time.monotonic() + 0.5
rounds(lambda: time.monotonic() > again or _C.context[0] != 'all')
print(_C.recording[0], _C.context[0])
"
            );
            busy(&place, &text).run(&place).expect("all all");
            front.wait_for_end_of(1);
        }
    }
}

/// The call initialises CUDA, so that ours would come in the middle of it.
#[test]
fn a_recording_that_the_program_begins_first_of_all_is_its_own() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = format!(
        "\
import torch
torch.cuda.memory._record_memory_history('all', 'all', 'all', 1000)
{BUSY}
again = time.monotonic() + 0.5
rounds(lambda: time.monotonic() > again or _C.context[0] != 'all')
print(_C.recording[0], _C.context[0])
"
    );
    Program::script(&place, "train.py", &text)
        .env("OOMPH_PROBE_SETTLE_MS", "100")
        .run(&place)
        .expect("all all");
    front.wait_for_end_of(1);
    assert_eq!(front.notes().len(), 1, "{:?}", front.notes());
}

#[test]
fn the_entry_looks_and_fails_as_without_us() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
import inspect, torch
keep = torch.empty(1)
entry = torch._C._cuda_record_memory_history
print(entry.__name__, entry.__qualname__, entry.__module__, entry.__doc__)
print(inspect.signature(entry))
try:
    entry('all')
except TypeError as error:
    print(error)
";
    let program = Program::script(&place, "look.py", text);
    assert_eq!(program.run(&place), program.run_bare());
    front.wait_for_end_of(1);
}

#[test]
fn where_the_programs_calls_cannot_be_noticed_lines_are_never_given_up() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    // No such entry in this torch: the recording goes another way.
    let text = "\
again = time.monotonic() + 0.5
rounds(lambda: time.monotonic() > again or _C.context[0] != 'state')
print(_C.context[0])
";
    busy(&place, text)
        .env("STUB_ENTRY", "_cuda_record_another_way")
        .run(&place)
        .expect("state");
    front.wait_for_end_of(1);
}

#[test]
fn a_switch_that_fails_takes_nothing_else_with_it() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
tried = []
def fail(**how):
    tried.append(how)
    raise SystemExit(99)
torch.cuda.memory._record_memory_history = fail
rounds(lambda: tried)
keep = torch.empty(100 << 20)
again = time.monotonic() + 0.3
rounds(lambda: time.monotonic() > again)
print(len(tried), _C.context[0])
";
    busy(&place, text).run(&place).expect("1 alloc");
    front.wait_for_end_of(1);
    let last = front.samples().last().unwrap().allocated;
    assert!(last >= Bytes::mib(103), "{last:?}");
}

/// A step that makes an activation at line 5, and what the third one is told as.
const TRACED: &str = "\
import torch
parameters = [torch.empty(1 << 20)]
optimizer = torch.optim.Adam(parameters)
def forward():
    return torch.empty(3 << 20)
";

#[test]
fn the_third_step_is_traced_allocation_by_allocation() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text =
        format!("{TRACED}for _ in range(6):\n    forward()\n    optimizer.step()\nprint('done')\n");
    Program::script(&place, "train.py", &text)
        .run(&place)
        .expect("done");
    front.wait_for_end_of(1);
    let [traced] = &front.step_traces()[..] else {
        panic!("{:?}", front.step_traces());
    };
    assert_eq!((traced.step, traced.failed), (3, false));
    let step = StepAnatomy::new(traced).expect("a step");
    assert_eq!(step.allocated[step.peak()], Bytes::mib(6));
    let held = by_line(&step, step.peak());
    let lines: Vec<_> = held
        .iter()
        .map(|of| (of.line.as_ref().map(|line| line.line), of.bytes))
        .collect();
    let expected = [
        (Some(5), Bytes::mib(3)),
        (Some(8), Bytes::mib(2)),
        (Some(2), Bytes::mib(1)),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_first_step_that_runs_out_of_memory_is_traced_to_its_end() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = format!("{TRACED}kept = forward()\ntorch.empty(1 << 31)\n");
    Program::script(&place, "train.py", &text).run(&place);
    front.wait_for_end_of(1);
    let [traced] = &front.step_traces()[..] else {
        panic!("{:?}", front.step_traces());
    };
    assert_eq!((traced.step, traced.failed), (1, true));
    let step = StepAnatomy::new(traced).expect("a step");
    assert_eq!(step.allocated[step.end()], Bytes::mib(4));
}

/// torch's ring, made smaller after it has wrapped, writes behind its end.
#[test]
fn a_step_of_more_events_than_are_kept_harms_nothing() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = format!(
        "{TRACED}\
for _ in range(6):
    for _ in range(11000):
        torch.empty(512)
    optimizer.step()
for _ in range(30000):
    torch.empty(512)
print('done')
"
    );
    Program::script(&place, "train.py", &text)
        .run(&place)
        .expect("done");
    front.wait_for_end_of(1);
    assert_eq!(front.step_traces().len(), 0, "its beginning is not kept");
}

#[test]
fn a_program_that_asks_for_a_smaller_history_gets_an_empty_one() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = format!(
        "{TRACED}\
for _ in range(35000):
    torch.empty(512)
torch.cuda.memory._record_memory_history('all', 'all', 'all', 1000)
for _ in range(20000):
    torch.empty(512)
print('done', len(_C.devices[0].history))
"
    )
    .replace("import torch\n", "import torch\nfrom torch import _C\n");
    Program::script(&place, "train.py", &text)
        .run(&place)
        .expect("done 1000");
    front.wait_for_end_of(1);
}
