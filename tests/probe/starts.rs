//! Each way of starting Python: where the environment reaches it the probe is there, where it does
//! not the program is as it was.

use crate::probe::front::{Front, Place, RUN};
use crate::probe::program::{Program, TRAINING, python, version};
use std::process::Command;

#[test]
fn it_is_there_wherever_the_environment_reaches() {
    let place = Place::new();
    let script = place.path().join("train.py");
    std::fs::write(&script, TRAINING).unwrap();
    let script = script.to_str().unwrap();
    let mut ways = vec![
        vec![script],
        vec!["-c", TRAINING],
        vec!["-m", "train"],
        vec!["-s", script],
        vec!["-u", script],
        vec!["-O", script],
        vec!["-W", "error", script],
        vec!["-X", "dev", script],
    ];
    if version() >= (3, 11) {
        ways.push(vec!["-P", script]);
        ways.push(vec!["-X", "frozen_modules=off", script]);
        ways.push(vec!["-X", "frozen_modules=on", script]);
    }
    for way in ways {
        let mut front = Front::listen(&place);
        let program = Program::new(&way).with_path(place.path());
        program.run(&place).expect("done");
        front.wait_for_end_of(1);
        let hello = front.hellos()[0];
        assert_eq!(hello.run, RUN, "{way:?}");
        assert_eq!(hello.devices.len(), 2, "{way:?}");
        front.expect_nothing_lost();
    }
}

#[test]
fn it_is_there_in_a_virtual_environment() {
    let place = Place::new();
    let home = place.path().join("venv");
    let made = Command::new(python())
        .args(["-m", "venv", "--without-pip"])
        .arg(&home)
        .status()
        .unwrap();
    assert!(made.success());
    let mut front = Front::listen(&place);
    Program::script(&place, "train.py", TRAINING)
        .interpreter(&home.join("bin/python"))
        .run(&place)
        .expect("done");
    front.wait_for_end_of(1);
}

#[test]
fn it_is_not_there_where_the_environment_is_shut_out() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = format!("import os, sys\nsys.path.insert(0, os.environ['STUB_HOME'])\n{TRAINING}");
    for way in ["-I", "-E", "-S"] {
        Program::new([way, "-c", &text]).run(&place).expect("done");
        front.expect_silence(&place);
    }
}

#[test]
fn a_program_without_cuda_or_without_torch_is_no_rank() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    for text in ["print('done')", "import torch; print('done')"] {
        Program::new(["-c", text]).run(&place).expect("done");
        front.expect_silence(&place);
    }
}

/// The child of multiprocessing initialises CUDA, its parent does not.
const ONE_CHILD: &str = "\
import multiprocessing, os, sys
import torch

def work():
    optimizer = torch.optim.Adam([torch.empty(1 << 20)])
    for _ in range(7):
        optimizer.step()

if __name__ == '__main__':
    context = multiprocessing.get_context(sys.argv[1])
    child = context.Process(target=work)
    child.start()
    child.join()
    print('done', child.exitcode)
";

#[test]
fn it_is_there_in_children_of_multiprocessing() {
    let place = Place::new();
    let script = place.path().join("train.py");
    std::fs::write(&script, ONE_CHILD).unwrap();
    for method in ["spawn", "fork", "forkserver"] {
        let mut front = Front::listen(&place);
        let ended = Program::new([script.to_str().unwrap(), method]).run(&place);
        ended.expect("done 0");
        front.wait_for_end_of(1);
        // Such a child ends by os._exit: its last steps are out all the same.
        let last = front.steps().last().map(|step| step.count);
        assert_eq!(last, Some(7), "{method}");
    }
}

#[test]
fn a_subinterpreter_is_left_alone() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
try:
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        interpreters = None
inside = '''
import torch
torch.cuda.init()
assert torch.cuda.is_initialized()
'''
failed = None
if interpreters is not None:
    interpreter = interpreters.create()
    failed = interpreters.run_string(interpreter, inside)
    interpreters.destroy(interpreter)
print('done', failed)
";
    Program::new(["-c", text]).run(&place).expect("done None");
    front.expect_silence(&place);
}

#[test]
fn the_program_sees_what_it_would_see_without_it() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "\
import sys, threading, warnings, logging
import torch
torch.cuda.init()
keep = torch.empty(1)
print(sys.path)
print([thread.name for thread in threading.enumerate()])
print(type(torch.__loader__).__name__, sorted(vars(torch.__loader__)))
print(type(torch.__spec__).__name__, torch.__spec__.name, torch.__file__)
print(warnings.filters, logging.getLogger().handlers, sys.excepthook is sys.__excepthook__)
print(torch._C.contexts)
";
    let program = Program::script(&place, "look.py", text);
    assert_eq!(program.run(&place), program.run_bare());
    front.wait_for_end_of(1);
}
