"""Detects calls of models, and wraps calls of single modules.

Only the `__call__` of classes is wrapped. No hooks: torch.compile warns about global ones, and module
hooks are pickled with the module. Not `forward` either: a deep copy would keep calling the original's,
and scripting would read our wrapper. A class keeps its one wrapper for good; the modules it applies to
carry a mark themselves, so a copy of a marked module is treated like the original.
"""

from __future__ import annotations

import sys
import threading

from . import errors, frames, members, tracebacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any, Callable, Iterable

    from .protocols import Module, Torch

# Stop looking after so many calls: this program trains no model.
ENOUGH = 100000
# Stop looking for further models after so many calls of known ones.
SETTLED = 8


class Calls:
    """Finds the models of a program: the outermost modules called with gradients enabled."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        self.module: Any = None
        self.original: Any = None
        self.notify: Any = None
        self.inside = threading.local()
        self.roots = members.Known()
        self.known = members.Known()
        self.calls = 0
        self.again = 0

    def watch(self, notify: Callable[[Module], Any]) -> None:
        """Calls `notify` with each model before its first call. A function that `notify` returns makes
        that first call; it is given torch's own `__call__`, the model and the arguments."""
        if self.notify is not None:
            return
        self.module = self.torch.nn.Module
        self.original = original = self.module.__call__
        self.notify = notify
        is_compiling = is_compiling_of(self.torch)
        look, calls = self.look, self

        def __call__(self: Module, *args: Any, **kwargs: Any) -> Any:
            # A wrapper put on the class by this call takes effect from the next call on.
            if is_compiling() or calls.notify is None:
                return original(self, *args, **kwargs)
            call = look(self)
            try:
                return original(self, *args, **kwargs) if call is None else call(original, self, args, kwargs)
            except BaseException as failure:
                tracebacks.without_this_frame(failure)
                raise

        self.ours = as_if_torchs_own(__call__, original)
        self.module.__call__ = self.ours
        is_torchs_own(self.ours, original)

    def stop_looking(self) -> None:
        """Stops looking; the wrapper stays, since torch.compile may have traced through it."""
        self.notify = None
        if "torch._dynamo" not in sys.modules and self.module.__call__ is self.ours:
            self.module.__call__ = self.original

    def look(self, module: Module) -> Any:
        try:
            notify = self.notify
            if notify is None or is_inside(self.inside) or not self.torch.is_grad_enabled():
                return None
            if module in self.known:
                if module in self.roots:
                    self.again += 1
                    if self.again >= SETTLED:
                        self.stop_looking()
                return None
            self.calls += 1
            if self.calls > ENOUGH:
                self.stop_looking()
                return None
            self.known.add(module)
            if not any(parameter.requires_grad for parameter in members.parameters(module)):
                return None
            # Submodules are called inside the model, and outside it by checkpoint recomputation.
            for part in members.modules(module):
                self.known.add(part)
            self.roots.add(module)
            return notify(module)
        except BaseException:
            errors.refused("look at a call of a model")
            self.stop_looking()
        return None


def is_tracing(torch: Torch) -> bool:
    """Whether torch.jit, where there is one, writes down what runs."""
    jit: Any = getattr(torch, "jit", None)
    return jit is not None and bool(jit.is_tracing())


def is_inside(local: Any) -> bool:
    return getattr(local, "depth", 0) > 0


class Inside:
    """Marks the thread as inside a model's call; recomputation calls submodules outside of one."""

    def __init__(self, local: Any) -> None:
        self.local = local

    def __enter__(self) -> None:
        self.local.depth = getattr(self.local, "depth", 0) + 1

    def __exit__(self, *error: Any) -> None:
        self.local.depth -= 1


def is_compiling_of(torch: Torch) -> Callable[[], bool]:
    """The function that returns True while torch.compile is tracing. It is looked for among what was imported: torch
    imports its compiler when somebody asks for that, which takes seconds and reads what its variables say by then."""
    function: Callable[[], bool] | None = getattr(vars(torch).get("compiler"), "is_compiling", None)
    if function is not None:
        return function

    def is_compiling() -> bool:
        # torch 2.0
        return bool(getattr(sys.modules.get("torch._dynamo"), "is_compiling", bool)())

    return is_compiling


def pause_of(torch: Torch) -> Callable[[Any], Any]:
    """A function that says what becomes of the frames that this thread begins from now on, and returns what became of
    them before: None leaves them to Python. A compiled model's wrapper runs where torch.compile takes up each frame,
    those of ours that keep_from_compiling does not name too."""
    function = getattr(getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None), "set_eval_frame", None)
    return function if function is not None else lambda _: None


def wrap_marked(cls: type, mark: str, is_compiling: Callable[[], bool], call: Callable[..., Any]) -> None:
    """Has the calls of a class's modules that carry a mark go through `call(original, module, args, kwargs)`."""
    # May wrap the wrapper that looks for models: another model may be of this class.
    original: Callable[..., Any] = cls.__call__

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(self, mark) or is_compiling():
            return original(self, *args, **kwargs)
        return call(original, self, args, kwargs)

    setattr(cls, mark, 0)
    setattr(cls, "__call__", __call__)


def as_if_torchs_own(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile skips frames of torch's own `Module.__call__`, by file name, and starts at `forward`.
    This makes it skip our wrapper in the same way. Of a function that is to be compiled it asks for the name: one of
    torch's own that it does not know is compiled itself, with all that it calls, and ours would be a part of that
    graph and never be called again (torch/_dynamo/eval_frame.py)."""
    try:
        code, theirs = function.__code__, original.__code__
        function.__code__ = code.replace(
            co_filename=theirs.co_filename, co_firstlineno=theirs.co_firstlineno, co_name=theirs.co_name
        )
        function.__name__, function.__qualname__ = original.__name__, original.__qualname__
        function.__module__, function.__doc__ = original.__module__, original.__doc__
        # Those of ours name types that only a checker has.
        function.__annotations__ = dict(original.__annotations__)
    except BaseException:
        errors.refused("make a wrapper look like torch's own")
    return function


# Where torch.compile keeps what `Module.__call__` is where nobody has wrapped it: there it goes to `forward` at once.
NOTED = ("torch._dynamo.utils", "torch._dynamo.variables.nn_module")


def is_torchs_own(function: Callable[..., Any], before: Callable[..., Any]) -> None:
    """`function` is in the place of `before`: torch.compile, where it is there already, takes the one as the other."""
    for name in NOTED:
        module = sys.modules.get(name)
        if getattr(module, "unpatched_nn_module_call", None) is before:
            setattr(module, "unpatched_nn_module_call", function)


# torch.compile skips frames whose file name starts like this (SKIP_DIRS in trace_rules.py, all versions); what tells of
# the program's files passes over a name in angle brackets.
PASSED_OVER = "<frozen importlib oomph-probe/%s>"


def keep_from_compiling(modules: Iterable[ModuleType]) -> None:
    """Tells torch.compile to leave the functions of these modules to Python: it would otherwise compile
    every frame that runs between a model's graphs, ours included. It still sees what they call. A
    `__call__` among them is one that it should trace."""
    for module in modules:
        path = "/".join(module.__name__.split(".")[1:]) + ".py"
        own = module.__file__, frames.NAMED + path + ">"
        for value in list(vars(module).values()):
            inside = list(vars(value).values()) if isinstance(value, type) else []
            for function in [value] + inside:
                code = getattr(function, "__code__", None)
                if code is not None and code.co_filename in own:
                    function.__code__ = passed_over(code, PASSED_OVER % path)


def passed_over(code: CodeType, name: str) -> CodeType:
    inner = tuple(
        passed_over(each, name)
        if isinstance(each, type(code)) and each.co_name != "__call__"
        else each
        for each in code.co_consts
    )
    return code.replace(co_filename=name, co_consts=inner)
