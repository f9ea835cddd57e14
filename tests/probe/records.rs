//! What the probe says: samples, steps, structure and the record of an out-of-memory, against
//! what the program knows itself; and that the wire's structs lose nothing of it.

use crate::probe::front::{Front, Place};
use crate::probe::program::Program;
use oomph::event::{Event, OomRecord, Phase, Pool};
use oomph::units::{Bytes, Rank};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;

/// A training that runs out of memory in every phase there is, and catches it. The numbers of the
/// lines are compared below.
const EVERY_PHASE: &str = "\
import sys, time, torch
TOO_MUCH = 1 << 31

def attempt(do):
    try:
        do()
    except torch.OutOfMemoryError:
        pass

class Net(torch.nn.Module):
    def __init__(self):
        self.weights = [torch.empty(1 << 20) for _ in range(4)]
    def forward(self, size):
        return torch.empty(size)

net = Net()
attempt(lambda: torch.empty(TOO_MUCH))
optimizer = torch.optim.Adam(net.weights)
activations = [net(10 << 20), net(20 << 20)]
for weight in net.weights:
    weight.grad = torch.empty(1 << 20)
optimizer.step()
attempt(lambda: net(TOO_MUCH))
attempt(lambda: torch.autograd.backward(TOO_MUCH))
optimizer.param_groups[0]['params'].append(torch._C.Tensor(TOO_MUCH, is_cuda=False))
attempt(optimizer.step)
del optimizer.param_groups[0]['params'][-1]
with torch.no_grad():
    attempt(lambda: torch.empty(TOO_MUCH))
net.eval()
attempt(lambda: net(TOO_MUCH))
del activations[0]
torch.cuda.set_per_process_memory_fraction(0.5)
attempt(lambda: torch.empty(600 << 20))
optimizer.step()
print('done')
";

fn every_phase(place: &Place) -> Program {
    Program::script(place, "train.py", EVERY_PHASE)
}

#[test]
fn an_out_of_memory_is_told_with_its_phase_in_its_order() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    every_phase(&place).run(&place).expect("done");
    front.wait_for_end_of(1);
    front.expect_nothing_lost();
    let told: Vec<(Phase, u64, u32)> = front
        .ooms()
        .iter()
        .map(|record| (record.phase, record.step, own_line(record)))
        .collect();
    assert_eq!(
        told,
        [
            (Phase::Load, 0, 17),
            (Phase::Forward, 1, 14),
            (Phase::Backward, 1, 24),
            (Phase::Optimizer, 1, 6),
            (Phase::Evaluation, 1, 29),
            (Phase::Evaluation, 1, 14),
            (Phase::Forward, 1, 34),
        ]
    );
    // A step that ran out of memory was none; the one after it is the second.
    assert_eq!(front.steps().last().unwrap().count, 2);
}

/// The innermost line of the program itself in a record's stack.
fn own_line(record: &OomRecord) -> u32 {
    let own = record
        .stack
        .iter()
        .find(|line| line.file.ends_with("/train.py"));
    own.expect("the program's own line").line
}

#[test]
fn an_out_of_memory_is_told_with_what_holds_the_memory() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    every_phase(&place).run(&place).expect("done");
    front.wait_for_end_of(1);
    let ooms = front.ooms();
    let forward = ooms[1];
    assert_eq!(forward.requested, Bytes::gib(2));
    assert_eq!(forward.total, Bytes::gib(1));
    assert_eq!(forward.limit, None);
    // Weights, gradients and state of 4 MiB, 4 MiB and 8 MiB, activations of 30 MiB.
    assert_eq!(forward.sample.allocated, Bytes::mib(46));
    assert_eq!(forward.sample.ooms, 2);
    let holdings: Vec<(u32, &str, Bytes, u64)> = forward
        .lines
        .iter()
        .map(|held| {
            let inside = held.inside.as_ref().expect("a library's line below it");
            (
                held.line.line,
                inside.function.as_str(),
                held.bytes,
                held.blocks,
            )
        })
        .collect();
    assert_eq!(
        holdings,
        [
            (14, "empty", Bytes::mib(30), 2),
            (22, "update", Bytes::mib(8), 8),
            (12, "empty", Bytes::mib(4), 4),
            (21, "empty", Bytes::mib(4), 4),
        ]
    );
    let structure = forward.structure.as_ref().expect("an optimizer was seen");
    assert_eq!(
        (
            structure.parameters,
            structure.gradients,
            structure.optimizer_state
        ),
        (Bytes::mib(4), Bytes::mib(4), Bytes::mib(8))
    );
    let capped = ooms[6];
    assert_eq!(capped.limit, Some(Bytes::mib(512)));
    assert_eq!(capped.total, Bytes::mib(512));
    // What was given back lies in one piece of 10 MiB, in the class that ends at 16 MiB.
    assert_eq!(capped.largest_free, Some(Bytes::mib(10)));
    let free: Vec<_> = capped
        .free_blocks
        .iter()
        .map(|class| (class.up_to, class.count, class.bytes))
        .collect();
    assert_eq!(free, [(Bytes::mib(16), 1, Bytes::mib(10))]);
}

#[test]
fn out_in_an_optimizers_step_its_class_and_its_bytes_are_told() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    every_phase(&place).run(&place).expect("done");
    front.wait_for_end_of(1);
    front.expect_nothing_lost();
    let ooms = front.ooms();
    let told: Vec<bool> = ooms.iter().map(|oom| oom.optimizer.is_some()).collect();
    // In its step, and in the phases before the first one once it is there: here there is none of those.
    assert_eq!(told, [false, false, false, true, false, false, false]);
    let optimizer = ooms[3].optimizer.as_ref().unwrap();
    assert_eq!(
        (optimizer.class.as_str(), optimizer.base.as_deref()),
        ("Adam", Some("Adam"))
    );
    assert_eq!(
        [
            optimizer.parameters(),
            optimizer.gradients(),
            optimizer.states(),
            optimizer.trained,
            optimizer.stated,
            optimizer.largest,
        ],
        [4, 4, 8, 4, 4, 1].map(Bytes::mib)
    );
    // Of steps in quick succession the beginning is not always read.
    assert!(
        optimizer
            .before
            .is_none_or(|before| before == Bytes::mib(46))
    );
}

#[test]
fn in_a_forward_it_is_told_how_far_it_had_come() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
import torch
class Layer(torch.nn.Module):
    def __init__(self, out_features=8):
        self.in_features, self.out_features, self.size = 8, out_features, 1
        self.weight = torch.empty(1 << 20)
        self.weight.requires_grad = True
        self._parameters = {'weight': self.weight}
    def forward(self):
        torch.empty(self.size)
class Net(torch.nn.Module):
    def __init__(self):
        self.layers = [Layer() for _ in range(9)] + [Layer(16)]
        self._modules = {str(at): layer for at, layer in enumerate(self.layers)}
    def forward(self):
        for layer in self.layers:
            layer()
net = Net()
for fails in [5, 0] + [9] * 12:
    net.layers[fails].size = 1 << 40
    try:
        net()
    except torch.OutOfMemoryError:
        net.layers[fails].size = 1
print('done')
";
    Program::new(["-c", text]).run(&place).expect("done");
    front.wait_for_end_of(1);
    // The input and nine layers of 8 features each, 16 of the last, twice as much of the loss.
    let told: Vec<Option<f64>> = front.ooms().iter().map(|oom| oom.progress).collect();
    let share = |of: f64| Some((of / 128.0 * 1e4).round() / 1e4);
    assert_eq!(told[..3], [share(56.0), share(16.0), share(112.0)]);
    // One that fails again and again at the same place is as well known as at first.
    assert_eq!(told[3..], [share(112.0); 11]);
    for oom in front.ooms() {
        let model = oom.model.as_ref().expect("a model ran");
        let bytes = (model.parameters, model.trained);
        assert_eq!(bytes, (Bytes::mib(10), Bytes::mib(10)));
        assert!(!oom.lines.is_empty());
    }
}

#[test]
fn without_lines_the_rest_is_told() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let program = every_phase(&place).without_lines();
    program.run(&place).expect("done");
    front.wait_for_end_of(1);
    let ooms = front.ooms();
    assert_eq!(ooms.len(), 7);
    assert!(ooms.iter().all(|record| record.lines.is_empty()));
    assert_eq!(ooms[6].largest_free, Some(Bytes::mib(10)));
}

#[test]
fn a_recording_of_the_programs_own_is_left_alone() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
import torch
torch._C.recording[0] = 'all'
keep = torch.empty(1)
print(torch._C.recording[0])
";
    Program::new(["-c", text]).run(&place).expect("all");
    front.wait_for_end_of(1);
    assert_eq!(front.notes().len(), 1, "{:?}", front.notes());
}

#[test]
fn who_it_is_comes_from_the_launcher() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    Program::new(["-c", "import torch; keep = torch.empty(1); print('done')"])
        .env("RANK", "5")
        .env("LOCAL_RANK", "1")
        .env("WORLD_SIZE", "no number")
        .env("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
        .run(&place)
        .expect("done");
    front.wait_for_end_of(1);
    let hello = front.hellos()[0];
    assert_eq!(hello.rank, Some(Rank(5)));
    assert_eq!(hello.local_rank, Some(Rank(1)));
    assert_eq!(hello.world_size, None);
    assert_eq!(hello.torch, "2.11.0+cu130");
    assert_eq!(hello.backend.as_deref(), Some("native"));
    assert_eq!(
        hello.alloc_conf.as_deref(),
        Some("expandable_segments:True")
    );
    assert_eq!(hello.expandable_segments, Some(true));
    assert_eq!(hello.resting, None);
    let names: Vec<_> = hello
        .devices
        .iter()
        .map(|device| (device.ordinal, device.name.as_str(), device.total))
        .collect();
    let expected = [
        (0, "Stand-in 0", Bytes::gib(1)),
        (1, "Stand-in 1", Bytes::gib(1)),
    ];
    assert_eq!(names, expected);
}

#[test]
fn peaks_outlive_a_reset_of_torchs_own() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
import time, torch
optimizer = torch.optim.Adam([torch.empty(1 << 20)])
big = torch.empty(100 << 20)
optimizer.step()
del big
torch._C.devices[0].free.clear()
torch.cuda.reset_peak_memory_stats()
keep = torch.empty(1 << 20)
time.sleep(0.1)
print(torch._C.devices[0].peak >> 20)
";
    Program::new(["-c", text]).run(&place).expect("4");
    front.wait_for_end_of(1);
    let samples = front.samples();
    let last = samples.last().unwrap();
    assert_eq!(last.allocated, Bytes::mib(4));
    assert_eq!(last.allocated_peak, Bytes::mib(103));
    // All of it in large blocks, in segments of which the small pool has none.
    assert_eq!(last.small_pool, Some(Pool::default()));
    // The other device is not used, so nothing is said of it.
    assert!(samples.iter().all(|sample| sample.device == 0));
}

#[test]
fn fast_steps_are_thinned_and_counted_to_the_last() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
import time, torch
optimizer = torch.optim.Adam([torch.empty(1 << 20)])
began = time.monotonic()
while time.monotonic() - began < 0.5:
    optimizer.step()
    time.sleep(0.001)
    steps = globals().get('steps', 0) + 1
print(steps)
";
    let ended = Program::new(["-c", text]).run(&place);
    let steps: u64 = ended.stdout.trim().parse().unwrap();
    front.wait_for_end_of(1);
    assert_eq!(front.steps().last().unwrap().count, steps);
    let lines = front.steps().len();
    // 50 a second, one for the rest after them, and the last one.
    assert!((2..=30).contains(&lines), "{lines} lines of {steps} steps");
    // On a busy machine the one before may have the figures of an earlier one as well.
    let steps = front.steps();
    let before = steps[..lines - 1].iter();
    let own = before.filter(|step| step.figures_of.is_none());
    let read: Vec<u64> = own.map(|step| step.count).collect();
    if let Some(of) = front.steps()[lines - 1].figures_of {
        assert_eq!(
            read.last(),
            Some(&of),
            "the last step has no figures of its own"
        );
    }
    assert!(
        front.steps()[..lines - 1]
            .iter()
            .all(|s| s.figures_of.is_none())
    );
}

#[test]
fn a_wrapped_optimizers_step_is_one_step() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
import torch
class Wrapper(torch.optim.Optimizer):
    def __init__(self, inner):
        super().__init__(inner.param_groups[0]['params'])
        self.inner = inner
    def update(self):
        self.inner.step()
optimizer = Wrapper(torch.optim.Adam([torch.empty(1 << 20)]))
for _ in range(5):
    optimizer.step()
print('done')
";
    Program::new(["-c", text]).run(&place).expect("done");
    front.wait_for_end_of(1);
    assert_eq!(front.steps().last().unwrap().count, 5);
}

#[test]
fn two_optimizers_make_one_structure() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
import time, torch
shared = torch.empty(1 << 20)
first = torch.optim.Adam([shared, torch.empty(2 << 20), torch._C.Tensor(99, is_cuda=False)])
second = torch.optim.Adam([shared, torch._C.Tensor(4 << 20, 1)])
for optimizer in (first, second):
    optimizer.step()
    time.sleep(0.03)
print('done')
";
    Program::new(["-c", text]).run(&place).expect("done");
    front.wait_for_end_of(1);
    let structures = front.structures();
    let of = |device: u32| {
        let latest = structures.iter().rfind(|found| found.device == device);
        latest.unwrap().parameters
    };
    assert_eq!((of(0), of(1)), (Bytes::mib(3), Bytes::mib(4)));
}

#[test]
fn an_allocator_of_the_programs_own_is_not_read() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    every_phase(&place)
        .env("STUB_BACKEND", "pluggable")
        .run(&place)
        .expect("done");
    front.wait_for_end_of(1);
    let resting = front.hellos()[0].resting.as_deref().unwrap();
    assert!(resting.contains("pluggable"), "{resting}");
    assert!(front.samples().is_empty() && front.steps().is_empty() && front.ooms().is_empty());
}

#[test]
fn an_older_torch_is_told_of_as_far_as_it_goes() {
    let place = Place::new();
    for (version, has_steps, has_ooms) in [
        ("2.11.0+cu130", true, true),
        ("2.1.0", true, true),
        ("2.0.1", true, false),
        ("1.13.1+cu117", false, false),
        ("unheard of", false, false),
    ] {
        let mut front = Front::listen(&place);
        every_phase(&place)
            .env("STUB_TORCH_VERSION", version)
            .run(&place)
            .expect("done");
        front.wait_for_end_of(1);
        assert_eq!(front.hellos()[0].torch, version);
        assert!(!front.samples().is_empty(), "{version}");
        assert_eq!(!front.steps().is_empty(), has_steps, "{version}");
        assert_eq!(!front.ooms().is_empty(), has_ooms, "{version}");
    }
}

#[test]
fn an_observer_that_fails_leaves_the_error_as_it_is() {
    let place = Place::new();
    let sabotages = [
        "torch._C._cuda_memoryStats = fail",
        "torch.cuda.memory._snapshot = fail",
        "torch.is_grad_enabled = fail",
        "import sys; sys._current_frames = fail",
        "import json; json.dumps = fail",
        "import time; time.monotonic_ns = fail",
    ];
    for sabotage in sabotages {
        // Of the kind that an `except Exception` lets pass.
        let text = format!(
            "\
import torch
def fail(*arguments, **named):
    raise SystemExit(99)
{sabotage}
keep = torch.empty(1)
optimizer = torch.optim.Adam([keep])
torch.empty(1 << 40)
"
        );
        let program = Program::script(&place, "train.py", &text);
        let ended = program.run(&place);
        assert_eq!(ended.code, Some(1), "{sabotage}: {}", ended.stderr);
        assert_eq!(ended, program.run_bare(), "{sabotage}");
    }
}

#[test]
fn a_path_that_is_no_text_spoils_nothing() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
import torch
code = compile('torch.empty(1 << 40)', b'/tmp/caf\\xe9.py'.decode('utf-8', 'surrogateescape'), 'exec')
try:
    exec(code)
except torch.OutOfMemoryError:
    print('done')
";
    Program::new(["-c", text]).run(&place).expect("done");
    front.wait_for_end_of(1);
    front.expect_nothing_lost();
    let stack = &front.ooms()[0].stack;
    assert!(
        stack.iter().any(|line| line.file == "/tmp/caf?.py"),
        "{stack:?}"
    );
}

/// Every line that the probe printed becomes an event and, printed again as a recording prints it,
/// says the same: no field has a name or a shape that the wire's structs do not know.
#[test]
fn the_structs_of_the_wire_lose_nothing() {
    let place = Place::new();
    let listener = UnixListener::bind(place.socket()).unwrap();
    let program = every_phase(&place).env("RANK", "0").start(&place);
    let (stream, _) = listener.accept().unwrap();
    let mut kinds = BTreeSet::new();
    for line in BufReader::new(stream).lines() {
        let mut said: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let fields = said.as_object_mut().unwrap();
        let at = fields.remove("ns").expect("a stamp").as_u64().unwrap() / 1000;
        fields.insert("at".into(), at.into());
        let event: Event = serde_json::from_value(said.clone()).unwrap();
        let again = serde_json::to_value(&event).unwrap();
        assert_eq!(without_nulls(again), without_nulls(said.clone()));
        kinds.insert(said["event"].as_str().unwrap().to_string());
    }
    program.end().expect("done");
    let expected = "hello note oom patchable retainers sample step step_trace structure";
    let kinds: Vec<String> = kinds.into_iter().collect();
    assert_eq!(kinds.join(" "), expected);
}

/// Absent on the wire and null in a recording are the same.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}
