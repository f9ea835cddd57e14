//! The probe beside others that want the same places: other sitecustomize files, other import
//! hooks, code that looks for torch without importing it, and a torch that fails.

use crate::probe::front::{Front, Place};
use crate::probe::program::{Program, TRAINING};
use std::path::PathBuf;

/// Writes another tool's sitecustomize, in a directory of its own.
fn foreign(place: &Place, text: &str) -> PathBuf {
    let directory = place.path().join("foreign");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("sitecustomize.py"), text).unwrap();
    directory
}

/// How others pass the word on (ddtrace, debugpy): out of the way, import, back again.
const CHAINING: &str = "\
import os, sys
print('foreign')
here = os.path.dirname(os.path.abspath(__file__))
if here in sys.path:
    place = sys.path.index(here)
    ours = sys.modules.pop('sitecustomize')
    del sys.path[place]
    try:
        import sitecustomize
    except ImportError:
        sys.modules['sitecustomize'] = ours
    finally:
        sys.path.insert(place, here)
";

#[test]
fn another_sitecustomize_behind_ours_runs_once() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let directory = foreign(&place, "print('foreign')");
    let text = format!("{TRAINING}import sitecustomize\nprint(sitecustomize.__file__)");
    let program = Program::new(["-c", &text]).with_path(&directory);
    let ended = program.run(&place);
    assert_eq!(ended, program.run_bare());
    ended.expect(&format!(
        "foreign\ndone\n{}",
        directory.join("sitecustomize.py").display()
    ));
    front.wait_for_end_of(1);
}

/// What a program has beside its script is not Python's to run at its start.
#[test]
fn one_beside_the_script_is_what_the_program_imports() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let beside = foreign(&place, "print('beside')");
    let script = beside.join("train.py");
    let text = "import sys\nprint('sitecustomize' in sys.modules)\nimport sitecustomize\nprint(sitecustomize.__file__)\n";
    std::fs::write(&script, format!("{text}{TRAINING}")).unwrap();
    let program = Program::new([&script]);
    let ended = program.run(&place);
    assert_eq!(ended, program.run_bare());
    let file = beside.join("sitecustomize.py");
    ended.expect(&format!("False\nbeside\n{}\ndone", file.display()));
    front.wait_for_end_of(1);
}

/// Python ends over it and prints where it came from; no frame of ours is there.
#[test]
fn one_that_exits_ends_python_as_without_us() {
    let place = Place::new();
    let directory = foreign(&place, "raise SystemExit(3)");
    let program = Program::new(["-c", TRAINING]).with_path(&directory);
    assert_eq!(program.run(&place), program.run_bare());
}

#[test]
fn one_in_front_of_ours_that_passes_the_word_on_does_so_once() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let directory = foreign(&place, CHAINING);
    let program = Program::new(["-c", TRAINING]);
    let ended = program.run_behind(&directory, &place);
    ended.expect("foreign\ndone");
    front.wait_for_end_of(1);
    // In the other order as well, and nobody twice.
    let ended = program.with_path(&directory).run(&place);
    ended.expect("foreign\ndone");
    front.wait_for_end_of(2);
}

/// How others do it (agents that watch web services): a search of their own for the next one, with
/// themselves still on sys.path.
const SEARCHING: &str = "\
import os, sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
print('foreign')
here = os.path.dirname(os.path.abspath(__file__))
spec = PathFinder.find_spec('sitecustomize', [entry for entry in sys.path if entry != here])
if spec is not None:
    spec.loader.exec_module(module_from_spec(spec))
    print('to its end')
";

#[test]
fn one_in_front_of_ours_that_stays_on_the_path_runs_once() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let directory = foreign(&place, SEARCHING);
    let third = place.path().join("third");
    std::fs::create_dir_all(&third).unwrap();
    std::fs::write(third.join("sitecustomize.py"), "print('third')").unwrap();
    let program = Program::new(["-c", TRAINING]);
    program
        .run_behind(&directory, &place)
        .expect("foreign\nto its end\ndone");
    front.wait_for_end_of(1);
    // And the one behind ours has its turn, in both orders.
    let program = program.with_path(&third);
    let ended = program.run_behind(&directory, &place);
    ended.expect("foreign\nthird\nto its end\ndone");
    front.wait_for_end_of(2);
    let ended = program.with_path(&directory).run(&place);
    ended.expect("foreign\nthird\nto its end\ndone");
    front.wait_for_end_of(3);
}

#[test]
fn one_in_front_of_ours_that_keeps_the_word_costs_the_probe_alone() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let directory = foreign(&place, "print('foreign')");
    let ended = Program::new(["-c", TRAINING]).run_behind(&directory, &place);
    ended.expect("foreign\ndone");
    front.expect_silence(&place);
}

#[test]
fn one_that_fails_fails_as_it_would_without_ours() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    for text in [
        "raise RuntimeError('of the other tool')",
        "import a_module_that_is_not_there",
        "this is no Python",
    ] {
        let directory = foreign(&place, text);
        let program = Program::new(["-c", "print('done')"]).with_path(&directory);
        assert_eq!(program.run(&place), program.run_bare(), "{text}");
    }
    // This one Python tells with a traceback, in which our loader is one of the lines.
    let directory = foreign(&place, "raise SystemExit(7)");
    let program = Program::new(["-c", "print('done')"]).with_path(&directory);
    let (ended, bare) = (program.run(&place), program.run_bare());
    assert_eq!((ended.code, &ended.stdout), (bare.code, &bare.stdout));
    assert_eq!(ended.stderr.lines().last(), bare.stderr.lines().last());
    front.expect_silence(&place);
}

#[test]
fn an_oomph_inside_an_oomph_reports_to_the_inner_one() {
    let outer = Place::new();
    let inner = Place::new();
    let mut front = Front::listen(&inner);
    let program = Program::new(["-c", TRAINING]).with_path(outer.loader());
    program.run(&inner).expect("done");
    front.wait_for_end_of(1);
}

#[test]
fn torch_that_was_imported_before_us_is_found() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let directory = foreign(&place, &format!("import torch\n{CHAINING}"));
    let ended = Program::new(["-c", TRAINING]).run_behind(&directory, &place);
    ended.expect("foreign\ndone");
    front.wait_for_end_of(1);
}

#[test]
fn looking_for_torch_does_not_use_up_the_hook() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = format!(
        "\
import importlib.util, sys
for _ in range(3):
    assert importlib.util.find_spec('torch') is not None
assert 'torch' not in sys.modules
{TRAINING}"
    );
    Program::new(["-c", &text]).run(&place).expect("done");
    front.wait_for_end_of(1);
}

#[test]
fn a_hook_of_the_same_kind_works_beside_ours() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    // Asks the whole of sys.meta_path again, as wrapt's and others' do.
    let text = format!(
        "\
import importlib.util, sys
class Finder:
    asking = False
    def find_spec(self, name, path=None, target=None):
        if name != 'torch' or self.asking:
            return None
        self.asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking = False
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            print('theirs')
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Finder())
{TRAINING}"
    );
    Program::new(["-c", &text])
        .run(&place)
        .expect("theirs\ndone");
    front.wait_for_end_of(1);
}

/// A program that ends over what it does not know: there would have been nothing to refuse without us.
#[test]
fn a_hook_that_refuses_what_is_ours_ends_nothing() {
    let place = Place::new();
    let finder = "\
class Refuses:
    def find_spec(self, name, path=None, target=None):
        if 'oomph' in name:
            raise SystemExit('no ' + name)
sys.meta_path.insert(0, Refuses())";
    let audits = "\
def refuses(event, about):
    if event in ('import', 'open') and 'oomph' in str(about[0]):
        raise SystemExit('no %s' % (about[0],))
sys.addaudithook(refuses)";
    for hook in [finder, audits] {
        let text = format!("import sys\n{hook}\n{TRAINING}");
        let program = Program::script(&place, "train.py", &text);
        let ended = program.run(&place);
        assert_eq!(ended, program.run_bare());
        ended.expect("done");
    }
}

/// Every event of audits that lines of ours cause, from some moment on, and by an exit or an error.
#[test]
fn a_hook_that_refuses_all_that_we_do_ends_nothing_at_any_moment() {
    let place = Place::new();
    let hook = |refusal: &str| {
        format!(
            "\
import sys, threading
state = threading.local()
def refuses(event, about, frame=sys._getframe):
    if getattr(state, 'is_looking', False):
        return
    state.is_looking = True
    try:
        look(event, frame(0))
    finally:
        state.is_looking = False
def look(event, each):
    # What others do that we pass on to is theirs.
    while each is not None and each.f_code.co_name not in ('ask_others', 'exec_module'):
        if each.f_code.co_filename.startswith('<oomph-probe/'):
            refused.add(event)
            raise {refusal}('no ' + event)
        each = each.f_back
refused = set()
def begin():
    sys.addaudithook(refuses)
"
        )
    };
    let training = "\
import os, torch, time
if AT == 'cuda': begin()
parameters = [torch.empty(1 << 20)]
optimizer = torch.optim.Adam(parameters)
for step in range(6):
    if AT == 'step' and step == 3: begin()
    optimizer.step()
    time.sleep(0.02)
print('done')
if 'OOMPH_PROBE_SOCKET' in os.environ: open(os.environ['REFUSED'], 'w').write(' '.join(refused))
";
    for refusal in ["SystemExit", "PermissionError", "KeyError"] {
        for moment in ["import", "cuda", "step"] {
            let text = format!(
                "{}AT = {moment:?}\nif AT == 'import': begin()\n{training}",
                hook(refusal)
            );
            let told = place.path().join("refused");
            let program =
                Program::script(&place, "train.py", &text).env("REFUSED", told.to_str().unwrap());
            let ended = program.run(&place);
            assert_eq!(ended, program.run_bare(), "{refusal} from {moment} on");
            ended.expect("done");
            let refused = std::fs::read_to_string(told).unwrap();
            assert!(!refused.is_empty(), "{refusal} from {moment} on");
        }
    }
}

/// As reloaders, picklers and test runners do: they read what each module has, load it again, or take it out.
#[test]
fn a_program_that_goes_through_all_modules_is_not_hurt_by_ours() {
    let place = Place::new();
    let walks = "\
def read():
    import inspect, os
    for name, module in list(sys.modules.items()):
        if name != '__main__' and type(module) is type(sys):
            spec = module.__spec__
            assert spec.name and spec.loader is not spec and module.__name__
            place = getattr(module, '__file__', None)
            assert place is None or os.stat(place), place
            repr(module), vars(module), dir(module), list(getattr(module, '__path__', []))
            getattr(module, 'no_such_name', None), getattr(module, '__version__', None)
            inspect.getdoc(module)
def reload():
    import importlib
    for name, module in list(sys.modules.items()):
        if 'oomph' in name:
            try:
                importlib.reload(module)
            except ImportError:
                pass
def purge():
    for name in list(sys.modules):
        if name.partition('.')[0] not in sys.modules_before:
            del sys.modules[name]
";
    for walk in ["read", "reload", "purge"] {
        let text = format!(
            "\
import sys, torch, time
sys.modules_before = {{name for name in sys.modules if 'oomph' not in name}} | {{'sitecustomize'}}
{walks}
parameters = [torch.empty(1 << 20)]
optimizer = torch.optim.Adam(parameters)
for step in range(6):
    if step == 3: {walk}()
    optimizer.step()
    time.sleep(0.02)
{walk}()
print('done')"
        );
        let program = Program::script(&place, "train.py", &text);
        let ended = program.run(&place);
        assert_eq!(ended, program.run_bare(), "{walk}");
        ended.expect("done");
    }
}

#[test]
fn a_failing_import_comes_through_unchanged() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    for how in ["import", "crash"] {
        let program = Program::script(&place, "train.py", TRAINING).env("STUB_TORCH_FAILS", how);
        let ended = program.run(&place);
        assert_eq!(ended.code, Some(1));
        assert!(!ended.stderr.contains("oomph"), "{}", ended.stderr);
        assert_eq!(ended, program.run_bare(), "{how}");
    }
    let missing = Program::new([
        "-c",
        "import sys; sys.path.remove(__import__('os').environ['STUB_HOME']); import torch",
    ]);
    let ended = missing.run(&place);
    assert!(ended.stderr.contains("No module named 'torch'"));
    assert_eq!(ended, missing.run_bare());
    front.expect_silence(&place);
}

#[test]
fn an_import_that_fails_first_and_then_works_is_noticed() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = format!(
        "\
import os
try:
    import torch
except ImportError as error:
    print(error)
del os.environ['STUB_TORCH_FAILS']
{TRAINING}"
    );
    Program::new(["-c", &text])
        .env("STUB_TORCH_FAILS", "import")
        .run(&place)
        .expect("libcudart.so.12: cannot open shared object file\ndone");
    front.wait_for_end_of(1);
}

#[test]
fn a_package_that_only_bears_the_name_is_left_alone() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let directory = place.path().join("other");
    std::fs::create_dir_all(directory.join("torch")).unwrap();
    // A directory without a file is a package as well, then a module that has no `cuda`.
    let alone = "import os, sys; sys.path.remove(os.environ['STUB_HOME']); import torch; print(torch.__spec__.name)";
    let program = Program::new(["-c", alone]).with_path(&directory);
    program.run(&place).expect("torch");
    std::fs::write(directory.join("torch/__init__.py"), "name = 'other'").unwrap();
    Program::new(["-c", "import torch; print(torch.name)"])
        .with_path(&directory)
        .run(&place)
        .expect("other");
    front.expect_silence(&place);
}
