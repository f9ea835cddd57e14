"""Python stacks: which lines are the program's and which a library's, and what runs. Frames and their locals are
never stored: either would keep tensors alive.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import threading
from _thread import get_ident

from . import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable, Iterable, Iterator

    from .protocols import Line, Torch

MAX_FRAMES = 64
LIBRARIES = ("/site-packages/", "/dist-packages/")
HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
# What the files of the probe are called in their code (hook.py), and where they are without that.
NAMED = "<oomph-probe/"
OURS = (HOME, NAMED)
# Generated code: Python's frozen modules, torch.fx's graphs, numpy's dispatch; and ours.
GENERATED = ("<frozen", "<eval_with_key>", "<__array_function__", NAMED)

OWN, UNNAMED, LIBRARY = "own", "unnamed", "library"
# What inductor writes: a file named by its hash, in a folder of two of its letters. Above each kernel stands which of
# the program's variables it makes.
COMPILED_NAME, COMPILED_FOLDER = 40, 2
MADE_OF = re.compile(r"Source Nodes: \[([^\]]+)\]")
# And which of its graphs it is, forward or backward: at the beginning of the file.
GRAPH = re.compile(r"AOT ID: \['(\d+)_(?:forward|backward)'\]")
# So far below an allocation stands the kernel that fills it.
NEAR = 8
MOST_NAMES = 4
COMPILED = "compiled region"
# Torch's function that calls what was compiled.
COMPILED_FROM, COMPILED_CALL = "_dynamo/eval_frame.py", "compile_wrapper"


class Owners:
    """Decides by path whether a file is the program's or a library's, and caches the answers."""

    def __init__(self, torch: Torch) -> None:
        self.torch_home = home_of(torch)
        self.homes = (home_of(os), self.torch_home, HOME)
        self.known: dict[Any, Any] = {}

    def of(self, path: str) -> str:
        """OWN, LIBRARY or UNNAMED (`-c`, stdin, and generated methods)."""
        owner = self.known.get(path)
        if owner is None:
            if len(self.known) > 4096:
                self.known.clear()
            owner = self.known[path] = self.classify(path)
        return owner

    def classify(self, path: str) -> str:
        if path.startswith("<"):
            return LIBRARY if path.startswith(GENERATED) else UNNAMED
        if path.startswith(self.homes) or any(part in path for part in LIBRARIES) or is_compiled(path):
            return LIBRARY
        return OWN

    def innermost_own(self, paths: Iterable[str]) -> int | None:
        """The index of the program's own innermost line, given paths innermost first, or None."""
        unnamed = None
        for place, path in enumerate(paths):
            owner = self.of(path)
            if owner == OWN:
                return place
            if owner == UNNAMED and unnamed is None:
                unnamed = place
        return unnamed


def home_of(module: Any) -> str:
    try:
        return os.path.dirname(module.__file__) + os.sep
    except Exception:
        errors.foreseen("where a module lies")
        return HOME


def is_compiled(path: str) -> bool:
    """Whether inductor has written this file."""
    folder, name = os.path.split(path)
    is_hash = len(name) > COMPILED_NAME and name.startswith("c") and name.endswith(".py")
    return is_hash and os.path.basename(folder) == name[1 : 1 + COMPILED_FOLDER]


def made_by(path: str, number: int) -> str:
    """What the kernel at a line of such a file makes, by the names that the program has for it."""
    for at in range(max(number - 1, 1), number + NEAR):
        found = MADE_OF.search(linecache.getline(path, at))
        if found is not None:
            names = found.group(1).split(", ")
            # In the order in which they are computed: the last ones are what is made.
            return "[%s%s]" % ("…, " if len(names) > MOST_NAMES else "", ", ".join(names[-MOST_NAMES:]))
    return ""


def graph_in(path: str) -> str | None:
    """The compiler's number of the graph in a file that inductor has written, which its forward and backward share."""
    found = GRAPH.search(linecache.getline(path, 1))
    return None if found is None else found.group(1)


def line_of(path: str, number: int, function: str) -> Line:
    if is_compiled(path):
        return {"file": COMPILED, "line": 0, "function": made_by(path, number or 1)}
    return {"file": path, "line": max(number or 0, 0), "function": function}


class Stack:
    """The Python stack of the thread that ran out of memory, innermost first, without our frames.

    Backward runs on one of torch's own threads, which has no Python frames, or only those of a
    recomputation; the stack of the thread that called backward is appended there.
    """

    def __init__(self, torch: Torch, owners: Owners, training_thread: int | None) -> None:
        self.torch = torch
        self.owners = owners
        here = own_frames()
        self.is_in_backward = any(self.is_backward(frame) for frame in here)
        callers = []
        if not self.is_in_backward and not is_python_thread():
            callers = self.callers_of_backward(training_thread)
            self.is_in_backward = True
        self.is_in_module = False
        self.is_in_evaluation = False
        self.look_at_modules(here)
        # Where no module runs; None where no model is to be seen.
        self.has_trained_model: bool | None = None
        # Whether the innermost line works on what autograd recorded: a forward pass, though no module runs it.
        self.has_history = False
        self.is_in_functional = self.is_in(here, "nn/functional.py")
        # What calls a model there is a part of the graph, and so is a loss.
        self.is_in_compiled = any(self.is_compilers(frame) for frame in here)
        # A checkpoint's first pass and an autograd.Function's forward run with gradients disabled.
        self.hides_gradients = self.is_in(here, "utils/checkpoint.py") or self.is_in(
            here, "autograd/function.py"
        )
        self.lines = [
            line_of(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            for frame in (here + callers)[:MAX_FRAMES]
        ]

    def is_in(self, frames: list[FrameType], file: str) -> bool:
        path = self.owners.torch_home + file
        return any(frame.f_code.co_filename == path for frame in frames)

    def is_compilers(self, frame: FrameType) -> bool:
        """Whether a compiled function was called there, or is being compiled; or runs, by the code that inductor wrote:
        in earlier versions of torch the call has a name that they also have for functions which stay as they are."""
        code = frame.f_code
        is_call = code.co_name == COMPILED_CALL and code.co_filename == self.owners.torch_home + COMPILED_FROM
        return is_call or is_compiled(code.co_filename)

    def is_backward(self, frame: FrameType) -> bool:
        code = frame.f_code
        return code.co_name in (
            "backward",
            "_engine_run_backward",
            "grad",
        ) and code.co_filename.startswith(self.owners.torch_home)

    def callers_of_backward(self, training_thread: int | None) -> list[FrameType]:
        """The frames of the thread that waits in backward; else of the training thread, else the main one."""
        stacks = sys._current_frames()
        stacks.pop(get_ident(), None)
        for frame in stacks.values():
            frames = outwards(frame)
            if any(self.is_backward(inner) for inner in frames):
                return frames
        for thread in (training_thread, threading.main_thread().ident):
            if thread is not None and thread in stacks:
                return outwards(stacks[thread])
        return []

    def look_at_modules(self, frames: list[FrameType]) -> None:
        """Whether a module's forward is running, and whether the outermost one is in eval mode."""
        outermost = None
        for frame in frames:
            code = frame.f_code
            if code.co_name in ("_call_impl", "_wrapped_call_impl"):
                if code.co_filename.startswith(self.owners.torch_home):
                    self.is_in_module = True
                    outermost = frame
        if outermost is not None:
            module = local_self(outermost)
            self.is_in_evaluation = getattr(module, "training", None) is False


def own_frames() -> list[FrameType]:
    """The current thread's frames, innermost first, without ours; none on torch's own threads."""
    try:
        frame = sys._getframe(1)
    except ValueError:
        return []
    return [inner for inner in outwards(frame) if not inner.f_code.co_filename.startswith(OURS)]


def of_training(training_thread: int | None) -> Iterator[FrameType]:
    """The frames of this thread, and of the one that trains where this is one of torch's own."""
    here = own_frames()
    yield from here
    if not any(frame.f_back is None and frame.f_code.co_name == "<module>" for frame in here[-1:]):
        threads = sys._current_frames()
        yield from outwards(threads.get(training_thread) if training_thread is not None else None)


def outwards(frame: FrameType | None) -> list[FrameType]:
    frames: list[FrameType] = []
    while frame is not None and len(frames) < 4 * MAX_FRAMES:
        frames.append(frame)
        frame = frame.f_back
    return frames


def is_python_thread() -> bool:
    """Whether the current thread was started by Python code (or is the main thread)."""
    thread = getattr(threading, "_active").get(get_ident())
    # threading registers a dummy for a foreign thread that asked for its own name.
    return thread is not None and not isinstance(thread, threading._DummyThread)


def local_self(frame: FrameType) -> Any:
    """`self` of a running method."""
    return read_locals(frame, lambda values: values.get("self"))


def read_locals(frame: FrameType, read: Callable[[dict[str, Any]], Any]) -> Any:
    """Returns `read(locals)` of a frame. Before 3.13, reading `f_locals` leaves a dict in the frame that
    keeps every local alive as long as the frame runs, so it is emptied at once, unless somebody else has it:
    who calls `locals()` gets the same dict."""
    values = frame.f_locals
    found = read(values)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & 1:  # CO_OPTIMIZED: a copy
        # The frame's, this function's, and the argument of the call.
        if sys.getrefcount(values) <= 3:
            values.clear()
    return found
