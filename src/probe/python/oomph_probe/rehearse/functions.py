"""Functions that the program has compiled and that call its model: `step = torch.compile(train_step)`, a loss that
calls the model, a method. No module's call is seen there, since it is a part of a graph.

torch.compile's wrapper of a function says at each of its calls what becomes of the frames that begin from then on
(torch/_dynamo/eval_frame.py), by a function that is wrapped during the program's first steps: so the call is noted as a
model's is (roots.py), with what the function is given. Its lines are the first of those that are rehearsed
(callers.py), up to the backward or what it returns; where a graph makes all of that, the graph is (regions.py).
"""

from __future__ import annotations

import sys
import types

from ..common import calls, errors, frames, members, objects
from ..common.instead import Instead
from . import callers, compiling, noting, sources
from .callers import Scene
from .sources import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ..common.protocols import Module, Torch
    from .callers import Lines
    from .roots import Call, Roots

# By which a module is called.
CALLS = ("forward", "__call__", "_wrapped_call_impl", "_call_impl")
# The wrapper's function, and what it has of the call.
WRAPPER, PARTS = "compile_wrapper", ("fn", "args", "kwargs")
# Of globals, cells and arguments so many are looked at for modules.
MOST = 200


class Function:
    """A function, and what its call was given, without keeping a tensor or a module alive."""

    def __init__(self, torch: Torch, function: Any, args: Any, kwargs: Any) -> None:
        self.is_method = type(function) is types.MethodType
        self.function = function.__func__ if self.is_method else function
        given = ((function.__self__,) if self.is_method else ()) + tuple(args)
        self.args = [noting.note(torch, each) for each in given]
        self.kwargs = {name: noting.note(torch, each) for name, each in kwargs.items()}

    def values(self, torch: Torch) -> dict[str, Any]:
        """Its variables, as they are when it begins."""
        function = self.function
        code, defaults = function.__code__, function.__defaults__ or ()
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        found: dict[str, Any] = {name: noting.note(torch, value) for name, value in cells_of(function).items()}
        found.update(zip(names[code.co_argcount - len(defaults) : code.co_argcount], defaults))
        found.update(function.__kwdefaults__ or {})
        found.update(zip(names[: code.co_argcount], self.args))
        found.update(self.kwargs)
        if len(self.args) > code.co_argcount or not set(names) <= set(found):
            raise NotFound("what it was given has other names")
        return found


class Body(Scene):
    """All of a function's lines up to backward, or to what it returns."""

    called: Function

    def __init__(self, torch: Torch, called: Function) -> None:
        function = called.function
        self.is_whole = True
        self.is_inside_without = self.is_after_without = self.turns_off = False
        self.is_in_loop = self.evaluates_next = self.is_module = False
        self.carried: dict[str, Any] = {}
        self.bound_in_loop: set[str] = set()
        self.containers: dict[str, int] = {}
        self.rest: list[Any] = []
        self.further: list[Any] = []
        self.keeps_graph = self.ends = False
        self.result, self.goes_back_in = None, None
        self.inside, self.after = self.cut(sources.CUT.body_of(function.__code__)), []
        if self.result is None:
            raise NotFound("no backward and no return is in it")
        self.slice(lambda _: False)
        self.globals: dict[str, Any] = function.__globals__
        there = called.values(torch)
        names = self.wanted | self.extra
        self.values: dict[str, Any] = {name: value for name, value in there.items() if name in names}
        for name in names - self.values.keys():
            value = self.globals.get(name)
            if isinstance(value, (torch.Tensor, torch.nn.Module)):
                self.values[name] = noting.note(torch, value)
        self.called = called

    def is_a_part(self, statement: Any, binds: set[str], tied: set[str]) -> None:
        """Its first line is as good as any other."""


def lines_of(torch: Torch, call: Call, stack: list[FrameType]) -> Lines | None:
    """Those of a compiled function, and of its callers from there on."""
    assert call.function is not None
    sources.CUT.forget()
    try:
        return callers.Lines(torch, call.callers or callers.Callers("", None), stack, first=Body(torch, call.function))
    except NotFound:
        errors.foreseen("find a compiled function's lines")
    except Exception:
        errors.ours("find a compiled function's lines")
    finally:
        sources.CUT.forget()
    return None


class Watch:
    """Notes the calls of compiled functions while the model's calls are noted."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots
        self.put: Instead | None = None

    def install(self) -> None:
        """Where torch's compiler has been imported."""
        place = sys.modules.get(compiling.PLACE)
        if self.put is None and place is not None:
            calls.keep_from_compiling([sys.modules[__name__]])
            self.put = Instead(place, compiling.NAMES[0], self.watching)
            self.put.put()

    def remove(self) -> None:
        if self.put is not None:
            self.put.take_back()
            self.put = None

    def watching(self, original: Any) -> Any:
        called, inside = self.called, self.roots.inside

        def watched(callback: Any) -> Any:
            called(sys._getframe(1), inside)
            return original(callback)

        return watched

    def called(self, frame: FrameType, inside: Any) -> None:
        """Where such a call begins, and where it has ended, by an error or not."""
        roots = self.roots
        if frame.f_code.co_name != WRAPPER or roots.is_other(frame):
            return
        try:
            outermost = getattr(inside, "function", None)
            if outermost is None:
                inside.function, inside.may_train = id(frame), roots.torch.is_grad_enabled()
                found = frames.read_locals(frame, lambda values: [values.get(name) for name in PARTS])
                self.begins(frame, *found)
            elif outermost == id(frame):
                inside.function = None
                error = sys.exc_info()[1]
                # In an optimizer's step there are no gradients.
                if isinstance(error, roots.torch.cuda.OutOfMemoryError) and inside.may_train:
                    self.fails(frame)
        except BaseException:
            errors.refused("note a compiled function's call")

    def begins(self, frame: FrameType, function: Any, args: Any, kwargs: Any) -> None:
        roots = self.roots
        if getattr(roots.inside, "depth", 0) or roots.backwards or not roots.inside.may_train:
            return
        module = model_of(roots.torch, function, args or (), kwargs or {})
        if module is not None:
            roots.note_function(module, Function(roots.torch, function, args or (), kwargs or {}), frame)

    def fails(self, frame: FrameType) -> None:
        roots = self.roots
        if getattr(roots.inside, "depth", 0) or roots.backwards:
            # It leaves a model's call as well, or the engine.
            return
        interrupted = roots.left("forward")
        if interrupted is not None:
            raise interrupted


def model_of(torch: Torch, function: Any, args: Any, kwargs: Any) -> Module | None:
    """The largest module that is trained among what a function may call; none where it is a module's own call, which is
    noted by itself."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.optim.Optimizer):
        return None
    if isinstance(owner, torch.nn.Module) and getattr(function, "__name__", "") in CALLS:
        return None
    function = getattr(function, "__func__", function)
    if type(function) is not types.FunctionType:
        return None
    reached = [owner, *args, *kwargs.values(), *cells_of(function).values(), *globals_of(function)]
    # An object of the program's that has it (`self.model`).
    reached = [*reached, *(objects.namespace_of(owner) or {}).values()][:MOST]
    modules = [compiling.as_written(each) for each in reached]
    found = [each for each in modules if isinstance(each, torch.nn.Module)]
    sizes = [sum(each.numel() for each in members.parameters(module) if each.requires_grad) for module in found]
    return found[sizes.index(max(sizes))] if any(sizes) else None


def cells_of(function: Any) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def globals_of(function: Any) -> list[Any]:
    return [function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__]

