"""Notices that the program has imported torch, and then loads the probe; or a parser of command lines, whose numbers
it then has noted. Imports nothing of torch itself and does not depend on what the probe does.

A finder at the front of sys.meta_path answers for these names alone: it lets the other finders build the
spec and overrides `exec_module` of that one loader. It waits for a module until that was really executed,
since `importlib.util.find_spec("torch")` discards the spec, and an import may fail and be retried. A
failing import is the program's own: it is neither caught nor wrapped.
"""
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import FileFinder, SourceFileLoader
from _thread import get_ident

# Annotations are strings here: `from __future__ import annotations` would read one more file at every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Set


# Modules that have parsers of command lines; knobs/watch.py knows what of them.
PARSERS = ("argparse", "click.core", "typer._click.core", "absl.flags._flagvalues", "fire.core", "tyro._calling")
# What calls a function that torch.compile has made.
COMPILER = "torch._dynamo.eval_frame"


class Loader(SourceFileLoader):
    """Loads a file of ours."""

    def get_code(self, name: "Any") -> "Any":
        code: Any = super().get_code(name)
        if sys.dont_write_bytecode:
            keep_compiled(code, self.path)
        return named(code, self.path)


def named(code: "Any", path: str) -> "Any":
    """What tools that tell of the program's files (coverage, trace, profilers) pass over: code without a file."""
    try:
        import _imp

        place = os.path.relpath(path, os.path.dirname(__file__))
        # What `importlib` calls for bytecode that was moved.
        getattr(_imp, "_fix_co_filename")(code, "<oomph-probe/%s>" % place.replace(os.sep, "/"))
    except Exception:
        swallowed("name what was loaded")
    return code


def watch_folder(directory: str) -> None:
    """Modules that are found there later are loaded so, too."""
    sys.path_importer_cache[directory] = FileFinder(directory, (loader_of_ours(), [".py"]))


def loader_of_ours() -> "Any":
    beside: Any = sys.modules.get("_oomph_beside")
    return Loader if beside is None else beside.Beside


def install() -> None:
    """Starts watching for torch; loads the probe at once if torch is imported already."""
    wanted: Dict[str, Callable[[Any], None]] = {"torch": lambda module: load_probe()}
    wanted.update((name, watch_parser) for name in PARSERS)
    wanted[COMPILER] = watch_compiler
    if os.environ.get("OOMPH_EDITS"):
        watch_sources(wanted)
    patches = os.environ.get("OOMPH_PATCHES", "")
    if "eval_outputs=" in patches:
        wanted["transformers.trainer"] = patch_library
    if "cross_entropy=" in patches:
        wanted["trl.trainer.utils"] = patch_library
    if "reshard=" in patches or "shards=" in patches:
        wanted["torch.distributed.fsdp"] = patch_library
    for name in list(wanted):
        if name in sys.modules:
            wanted.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, Finder(wanted))
    if sys.dont_write_bytecode:
        # Who loads this file writes nothing.
        keep_compiled(None, __file__)


def keep_compiled(code: "Any", path: str) -> None:
    """Python itself keeps nothing that it compiles: the first one of a session does so for our own files."""
    try:
        from _frozen_importlib_external import cache_from_source

        if not os.path.exists(cache_from_source(path)):
            found: Any = sys.modules.get("_oomph_compiled")
            if found is None:
                found = new_module("_oomph_compiled", os.path.join(os.path.dirname(__file__), "compiled.py"))
                # Not by a loader of ours, which would ask for this.
                own: Any = SourceFileLoader("_oomph_compiled", found.__file__).get_code("_oomph_compiled")
                exec(named(own, found.__file__), found.__dict__)
                sys.modules["_oomph_compiled"] = found
            found.keep(code, path)
    except Exception:
        swallowed("keep what was compiled")


def watcher() -> "Any":
    """What most Pythons do not need is in a file of its own: where no bytecode is written, all of this one is compiled
    at every start."""
    found: Any = sys.modules.get("_oomph_watch")
    if found is None:
        found = sys.modules["_oomph_watch"] = run_by_itself("_oomph_watch", "knobs", "watch.py")
    return found


def watch_sources(wanted: "Dict[str, Callable[[Any], None]]") -> None:
    """Has the sources compiled as the user changed them."""
    try:
        watcher().watch_sources(wanted)
    except Exception:
        swallowed("edit sources")


def patch_library(module: "Any") -> None:
    """A patch that the user chose is of this library."""
    try:
        probe: Any = sys.modules.get("_oomph_probe")
        if probe is not None and probe.here is not None and probe.here.patches is not None:
            probe.here.patches.imported(module)
    except Exception:
        swallowed("patch " + module.__name__)


def watch_compiler(module: "Any") -> None:
    """A program that compiles its step has no call of a model that is seen: those of compiled functions are."""
    try:
        probe: Any = sys.modules.get("_oomph_probe")
        if probe is not None and probe.here is not None:
            probe.here.compiler_imported()
    except Exception:
        swallowed("watch compiled functions")


def watch_parser(module: "Any") -> None:
    """Has the numbers noted that a parser makes of its words."""
    try:
        watcher().watch_parser(module)
    except Exception:
        swallowed("watch a parser")


def load_probe() -> None:
    """Loads the package beside this file by path, since it is not on sys.path."""
    try:
        if "_oomph_probe" in sys.modules:
            return
        import importlib.util

        here = os.path.dirname(__file__)
        spec: Any = importlib.util.spec_from_file_location(
            "_oomph_probe",
            os.path.join(here, "__init__.py"),
            submodule_search_locations=[here],
        )
        spec.loader = loader_of_ours()(spec.name, spec.origin)
        watch_folder(here)
        probe: Any = importlib.util.module_from_spec(spec)
        sys.modules["_oomph_probe"] = probe
        spec.loader.exec_module(probe)
        probe.start()
    except Exception:
        swallowed("load the probe")


def swallowed(where: str) -> None:
    """An error of ours was caught; nothing of the package may be loaded yet. What a handler of the program's has raised
    goes on to the program."""
    error = sys.exc_info()[1]
    if error is not None and is_a_handlers(error):
        raise error
    try:
        errors: Any = sys.modules.get("_oomph_probe.common.errors")
        if errors is None:
            errors = run_by_itself("_oomph_errors", "common", "errors.py")
        errors.ours(where)
    except Exception:
        pass
    except BaseException as refusal:
        if not is_refusal(refusal):
            raise


def refused(where: str) -> None:
    """As `swallowed`, for an error of any kind, where the program's thread comes from its own lines into ours."""
    error = sys.exc_info()[1]
    if error is not None and not isinstance(error, Exception) and not is_refusal(error):
        raise error
    swallowed(where)


def is_a_handlers(error: BaseException) -> bool:
    try:
        signals: Any = sys.modules.get("_oomph_signals")
        if signals is None:
            signals = sys.modules["_oomph_signals"] = run_by_itself("_oomph_signals", "common", "signals.py")
        return bool(signals.is_a_handlers(error))
    except BaseException as refusal:
        if not isinstance(refusal, Exception) and not is_refusal(refusal):
            raise
    return False


def is_refusal(error: BaseException) -> bool:
    """Whether code of the program's has raised it that Python runs for what we do: a hook of imports or audits that
    ends the program (SystemExit) over what it does not know. Without us there would have been nothing to refuse. What
    is thrown into a thread from outside comes in our own lines, or in a library's, and is the program's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    theirs = ""
    # Who refuses may refuse that it is looked at, too.
    try:
        theirs = trace.tb_frame.f_code.co_filename
    except KeyboardInterrupt:
        raise
    except BaseException:
        pass
    torch = getattr(sys.modules.get("torch"), "__file__", None) or os.__file__
    return not theirs.startswith(("<oomph-probe/", "<frozen ", os.path.dirname(os.__file__), os.path.dirname(torch)))


def run_by_itself(name: str, *path: str) -> "Any":
    """A file of the package, without the package. importlib.util would take longer than everything else here; this is
    what it would return."""
    module = new_module(name, os.path.join(os.path.dirname(__file__), *path))
    loader_of_ours()(name, module.__file__).exec_module(module)
    return module


def new_module(name: str, path: str) -> "Any":
    """Programs that go through sys.modules (reloaders, inspectors) take it that each module has a spec."""
    module: Any = type(sys)(name)
    module.__file__, module.__spec__ = path, ModuleSpec(name, None, origin=path)
    return module


class Finder:
    """Answers for what is wanted until it was imported, and for nothing else.

    Never removed from sys.meta_path: another thread may be iterating over that list, and would skip a
    finder if one before it vanished.
    """

    def __init__(self, wanted: "Dict[str, Callable[[Any], None]]") -> None:
        self.wanted = wanted
        self.asking: Set[Any] = set()

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in self.wanted:
            return None
        # Other hooks of this kind search all of sys.meta_path again, including this finder.
        asking = get_ident(), name
        if asking in self.asking:
            return None
        self.asking.add(asking)
        try:
            spec = self.ask_others(name, path, target)
        finally:
            self.asking.discard(asking)
        if spec is not None:
            self.watch(spec.loader, name)
        return spec

    def ask_others(self, name: str, path: "Any", target: "Any") -> "Any":
        finders = list(sys.meta_path)
        behind = finders[finders.index(self) + 1 :] if self in finders else finders
        for finder in behind:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec is not None else None
            if spec is not None:
                return spec
        return None

    def watch(self, loader: "Any", name: str) -> None:
        """Makes `loader` call back, once, after it executed the module."""
        try:
            if isinstance(loader, type):
                # One for all modules of its kind: frozen ones.
                return
            original = loader.exec_module

            def exec_module(module: "Any") -> None:
                original(module)
                # An archive has one loader for all that is in it.
                if module.__name__ == name:
                    self.imported(loader, module)

            loader.exec_module = without_traceback(exec_module)
        except BaseException:
            refused("watch for " + name)

    def imported(self, loader: "Any", module: "Any") -> None:
        try:
            del loader.exec_module
        except BaseException:
            refused("stop watching for " + module.__name__)
        act = self.wanted.pop(module.__name__, None)
        if act is not None:
            before = hold_handlers()
            try:
                act(module)
            except BaseException as error:
                if is_a_handlers(error) or not is_refusal(error):
                    raise
            finally:
                let_handlers_go(before)


def hold_handlers() -> "Any":
    """Signals that the program has a handler in Python for come when we are done: Python's import takes an OSError that
    a handler raises meanwhile (TimeoutError is one) for a file's that is not there. Returns what was blocked before."""
    try:
        _signal: Any = sys.modules["_signal"]
        own = [number for number in _signal.valid_signals() if callable(_signal.getsignal(number))]
        return _signal.pthread_sigmask(_signal.SIG_BLOCK, own)
    except Exception:
        swallowed("hold signals")
    return None


def let_handlers_go(before: "Any") -> None:
    """Calls the handlers of what has come, in the main thread; what they raise is the program's."""
    if before is not None:
        _signal: Any = sys.modules["_signal"]
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def without_traceback(function: "Any") -> "Any":
    """The function, with its frame removed from tracebacks that pass through it.

    CPython removes the frames of its import machinery by file name (remove_importlib_frames in
    Python/import.c), so a failing `import torch` prints exactly what it would without the probe.
    """
    try:
        code = function.__code__.replace(co_filename="<frozen importlib._bootstrap>")
        function.__code__ = code
    except BaseException:
        refused("hide a frame")
    return function
