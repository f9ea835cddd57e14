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

/// Workers, launchers and compilers import torch as well, and each waits for what is read then.
#[test]
fn a_program_without_cuda_reads_little_of_the_probe() {
    let place = Place::new();
    let text = "\
import sys, torch
ours = [name for name in sys.modules if name.startswith('_oomph')]
print(len(ours) < 30, '_oomph_probe.process' in ours, '_oomph_probe.attached' in ours)
torch.cuda.init()
print('_oomph_probe.attached' in sys.modules)
";
    let program = Program::script(&place, "train.py", text);
    program.run(&place).expect("True True False\nTrue");
}

/// Where Python may write no bytecode, ours is compiled once a session; beside the program's files nothing is written.
#[test]
fn what_is_compiled_of_the_probe_is_kept_in_its_own_directory() {
    let place = Place::new();
    std::fs::write(place.path().join("mine.py"), "").unwrap();
    let text = "\
import argparse, os, sys
import mine, torch
torch.cuda.init()
argparse.ArgumentParser().parse_args([])
here = os.path.dirname(sys.modules['_oomph_hook'].__file__)
print('done')
for folder in ('', 'knobs'):
    kept = os.path.join(here, folder, '__pycache__')
    for name in sorted(os.listdir(kept)):
        print(name.split('.')[0], os.stat(os.path.join(kept, name)).st_ino)
";
    let program = Program::script(&place, "train.py", text);
    let [first, second] = [(), ()].map(|()| program.run(&place));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let names: Vec<&str> = first.stdout.lines().skip(1).collect();
    let names: Vec<&str> = names
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    for name in ["hook", "process", "attached", "parsers", "watch"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!(first.stdout, second.stdout, "read, not written again");
    assert!(!place.path().join("__pycache__").exists());
}

/// A directory of the user's for bytecode, and a session's directory that is gone with the session: nothing of it stays.
#[test]
fn nothing_of_the_probe_is_kept_in_the_users_directory_for_bytecode() {
    let place = Place::new();
    std::fs::write(place.path().join("mine.py"), "").unwrap();
    let kept = place.path().join("kept");
    let text = format!("import mine\n{TRAINING}");
    let by_option = format!("pycache_prefix={}", kept.display());
    for by_variable in [true, false] {
        let program = match by_variable {
            true => Program::script(&place, "train.py", &text).env("PYTHONPYCACHEPREFIX", &kept),
            false => Program::new(["-X", &by_option, "-c", &text]).with_path(place.path()),
        };
        let program = program.env("PYTHONDONTWRITEBYTECODE", "");
        let mut front = Front::listen(&place);
        program.run(&place).expect("done");
        front.wait_for_end_of(1);
        front.expect_nothing_lost();
        let mut files = Vec::new();
        collect(&kept, &mut files);
        let ours = place.loader().strip_prefix("/").unwrap();
        assert!(!kept.join(ours).exists(), "{files:?}");
        assert!(files.iter().any(|file| file.contains("mine")), "{files:?}");
        assert!(
            !files.iter().any(|file| file.contains("oomph")),
            "{files:?}"
        );
        // It was compiled all the same, where it is.
        let compiled = place.loader().join("oomph-probe/common/__pycache__");
        assert!(std::fs::read_dir(compiled).unwrap().count() > 3);
        std::fs::remove_dir_all(&kept).unwrap();
    }
}

/// All files below a directory, by their paths.
fn collect(directory: &std::path::Path, files: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => collect(&entry.path(), files),
            false => files.push(entry.file_name().to_string_lossy().into_owned()),
        }
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

/// A signal that comes while a file of the probe's is opened: what its handler raises is an OSError, which Python's import
/// takes for one of its own.
#[test]
fn what_a_handler_raises_while_the_probe_is_loaded_reaches_the_program() {
    let place = Place::new();
    let text = "\
import os, signal, sys
def stop(*_):
    raise TimeoutError('stopped')
signal.signal(signal.SIGALRM, stop)
sent = []
def ring(event, arguments):
    if event == 'open' and not sent and 'oomph' in str(arguments[0]):
        sent.append(arguments[0])
        os.kill(os.getpid(), signal.SIGALRM)
sys.addaudithook(ring)
try:
    import torch
    print('lost', sent)
except TimeoutError as error:
    print(error, len(sent))
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
";
    for bytecode in ["", "1"] {
        let program = Program::script(&place, "look.py", text);
        let program = program.env("PYTHONDONTWRITEBYTECODE", bytecode);
        program.run(&place).expect("stopped 1\nset()");
    }
}

/// Notes each file whose code runs.
const TRACED: &str = "\
import sys
seen = set()
def note(frame, event, argument):
    seen.add(frame.f_code.co_filename)
sys.settrace(note)
import argparse, torch
torch.cuda.init()
argparse.ArgumentParser().parse_args([])
keep = torch.empty(1)
sys.settrace(None)
print([name for name in seen if 'oomph' in name and not (name[0] == '<' and name[-1] == '>')])
print(any('oomph-probe' in name for name in seen))
";

#[test]
fn what_tells_of_the_programs_files_passes_over_the_probes() {
    let place = Place::new();
    let program = Program::script(&place, "look.py", TRACED);
    program.run(&place).expect("[]\nTrue");
    for more in [
        [("PYTHONDONTWRITEBYTECODE", "1")],
        [("PYTHONPYCACHEPREFIX", "/nowhere/x")],
    ] {
        let mut program = Program::script(&place, "look.py", TRACED);
        for (name, value) in more {
            program = program.env(name, value);
        }
        program.run(&place).expect("[]\nTrue");
    }
    // The library's own reports which lines ran, and reads each file for that.
    let script = place.path().join("train.py");
    std::fs::write(&script, TRAINING).unwrap();
    let covered = place.path().join("cov");
    let words = ["-m", "trace", "--count", "--missing", "-C"];
    let words = words.map(std::ffi::OsString::from).into_iter();
    let words = words.chain([covered.clone().into(), script.into()]);
    Program::new(words).run(&place).expect("done");
    let mut files = Vec::new();
    collect(&covered, &mut files);
    assert!(files.iter().any(|name| name.contains("train")), "{files:?}");
    assert!(
        !files.iter().any(|name| name.contains("oomph")),
        "{files:?}"
    );
}

/// An error that leaves a parser.
const REFUSED: &str = "\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument('--x', type=lambda word: {}[word])
parser.parse_args(['--x', '1'])
";

#[test]
fn an_error_that_leaves_a_parser_has_the_traceback_that_it_would_have() {
    // Before, `raise` puts back the frame that it was caught in.
    if version() < (3, 11) {
        return;
    }
    let place = Place::new();
    let program = Program::script(&place, "train.py", REFUSED);
    assert_eq!(program.run(&place), program.run_bare());
}

/// A warning of an option that is no more, which counts the frames between its action and the program.
const DEPRECATED: &str = "\
import argparse, warnings
class Old(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        for level in range(1, 9):
            warnings.warn('level %d' % level, DeprecationWarning, stacklevel=level)
parser = argparse.ArgumentParser()
parser.add_argument('--old', nargs=0, action=Old)
parser.parse_args(['--old'])
";

#[test]
fn a_warning_out_of_a_parser_is_told_of_the_line_that_it_would_be() {
    let place = Place::new();
    let program = Program::script(&place, "train.py", DEPRECATED);
    let (with, bare) = (program.run(&place), program.run_bare());
    assert!(
        bare.stderr
            .contains("train.py:8: DeprecationWarning: level 7"),
        "{}",
        bare.stderr
    );
    assert_eq!(with, bare);
}

/// Where it crashes, faulthandler names each extension module that is no part of Python.
#[test]
fn a_program_has_the_modules_that_it_would_have() {
    let place = Place::new();
    let text = "\
import sys, torch
torch.cuda.init()
print([name for name in sys.modules if name.endswith('interpreters')], '_oomph_probe' in sys.modules)
";
    let program = Program::script(&place, "train.py", text);
    program.run(&place).expect("[] True");
}

/// What a session of the real oomph recorded and said, of a command below the simulated card's torch.
fn recorded(place: &Place, command: &[&str]) -> (usize, String) {
    let recording = place.path().join("events.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_oomph"))
        .args(["--headless", "--no-nvml", "--record"])
        .arg(&recording)
        .args(command)
        .current_dir(place.path())
        .env("XDG_STATE_HOME", place.path())
        .env("OOMPH_SIMULATED_SPEED", "100")
        .output()
        .expect("oomph runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    let events = oomph::recording::read(&recording).expect("a recording");
    let hellos = events.filter(|event| {
        let event = event.as_ref().expect("an event");
        matches!(event.what, oomph::event::EventKind::Hello(_))
    });
    (hellos.count(), said)
}

/// A step on the card, and the search path as a program sees it.
const STEPS: &str = "import torch, sys\n\
    model = torch.nn.Linear(8, 8).cuda()\n\
    model(torch.randn(4, 8, device='cuda')).mean().backward()\n\
    assert not any('oomph' in entry for entry in sys.path), sys.path\n";

#[test]
fn it_is_there_where_the_command_sets_the_search_path_itself() {
    let simulated = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/simulated");
    let set = format!("PYTHONPATH={simulated}");
    for command in [
        vec!["env", &set, "python3", "train.py"],
        vec!["env", "A=b", &set, "python3", "train.py"],
        vec![&set, "python3", "train.py"],
        vec!["bash", "keeps.sh"],
    ] {
        let place = Place::new();
        std::fs::write(place.path().join("train.py"), STEPS).unwrap();
        let keeps = format!("export PYTHONPATH={simulated}:$PYTHONPATH\npython3 train.py\n");
        std::fs::write(place.path().join("keeps.sh"), keeps).unwrap();
        let (hellos, said) = recorded(&place, &command);
        assert_eq!(hellos, 1, "{command:?}: {said}");
        assert!(!said.contains("was replaced"), "{command:?}: {said}");
    }
}

#[test]
fn a_script_that_replaces_the_search_path_is_told_what_to_write() {
    let place = Place::new();
    let simulated = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/simulated");
    std::fs::write(place.path().join("train.py"), STEPS).unwrap();
    let replaces = format!("export PYTHONPATH={simulated}\npython3 train.py\n");
    std::fs::write(place.path().join("run.sh"), &replaces).unwrap();
    let (hellos, said) = recorded(&place, &["bash", "run.sh"]);
    assert_eq!(hellos, 0, "{said}");
    let wanted =
        format!("PYTHONPATH was replaced by the command: write PYTHONPATH={simulated}:$PYTHONPATH");
    assert!(said.contains(&wanted), "{said}");
}
