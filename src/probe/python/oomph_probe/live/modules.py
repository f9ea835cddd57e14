"""Which module of the model an allocation belongs to. While a step is traced, and only then, it is noted when
each module's forward begins and ends, and when backward comes to it; the allocator's history has a time for each
of its events, by which the two are joined.

Forward is seen by the wrapper that roots.py puts on `Module.__call__` in the first steps, and by torch's global
module hooks in later traced steps; never by these where something was compiled, since torch.compile guards on
them and would compile again. Backward is seen by a pre-hook on the autograd node of each module's output, and on
that of its input: the engine comes to the first when it enters the module, to the second when it has left it. No
module, tensor or node is kept: a node would keep its graph alive.
"""

from __future__ import annotations

import sys
import time
import weakref
from _thread import get_ident

from ..common import errors, frames, members, objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Module, Tensor, Torch

# Marks of one step; above this the step's modules are not known.
MOST_MARKS = 60000
# Modules of a model above which naming them takes too long.
MOST_MODULES = 20000
# Modules inside one another from which on a model may be one that calls itself, down to Python's limit of recursion:
# each frame of ours between two of its calls is one call less.
DEEPEST = 40
# Tensors of one output that are looked at.
MOST_TENSORS = 16
# Wrappers that call one module of theirs, which is the model.
WRAPPED = ("module", "_orig_mod")


class Modules:
    """The marks of one traced step, in the order in which they were made."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        # (microseconds, id of a module or None); None while no step is traced.
        self.marks: Any = None
        self.stack: list[Any] = []
        self.label: int | None = None
        self.thread: int | None = None
        self.seen: set[tuple[int, int, str]] = set()
        self.roots: dict[Any, Any] = {}
        self.classes: dict[Any, Any] = {}
        self.handles: list[Any] = []
        # The hooks of this step's nodes.
        self.nodes: list[Any] = []
        # Whether its modules go deeper than is looked at.
        self.is_too_deep = False
        # The module that is given a tensor first in the step, by its id, and the largest that it is given.
        self.first: int | None = None
        self.inputs: tuple[int, ...] = ()

    def begin(self, by_hooks: bool) -> None:
        """A traced step begins; `by_hooks` where nothing else sees the modules."""
        self.end()
        self.nodes = []
        self.marks, self.stack, self.label, self.thread = [], [], None, None
        self.seen, self.roots, self.classes = set(), {}, {}
        self.first, self.inputs = None, ()
        if by_hooks and not self.is_too_deep and not has_compiled():
            self.register()

    def end(self) -> None:
        self.marks = None
        while self.handles:
            self.handles.pop().remove()

    def register(self) -> None:
        try:
            module = self.torch.nn.modules.module
            before = module.register_module_forward_pre_hook(lambda of, inputs: self.enter(of, inputs))
            self.handles.append(before)

            def after(of: Module, inputs: Any, output: Any) -> None:
                self.leave(of, output)

            try:
                self.handles.append(module.register_module_forward_hook(after, always_call=True))
            except TypeError:
                self.handles.append(module.register_module_forward_hook(after))
        except Exception:
            errors.foreseen("hook all modules")
            self.end()

    def enter(self, module: Module, inputs: Any) -> None:
        """A module's forward begins. Must not raise, nor return anything."""
        try:
            if self.marks is None or not self.is_of_the_step():
                return
            if len(self.stack) >= DEEPEST:
                # torch itself calls one more function for each module that has a hook.
                self.is_too_deep = True
                return self.end()
            outer = self.label
            if not self.stack and self.thread == get_ident():
                outer = None
                self.roots[id(module)] = weakref.ref(module)
            if self.first is None or self.first == id(module):
                self.see_inputs(module, inputs)
            self.mark_nodes(inputs, outer)
            self.stack.append((id(module), outer))
            self.classes.setdefault(id(module), type(module).__name__)
            self.note(id(module))
        except BaseException:
            errors.refused("enter a module")

    def see_inputs(self, module: Module, inputs: Any) -> None:
        """What the step's first module is given says how large the step is."""
        for tensor in tensors_in(self.torch, inputs):
            self.first = id(module)
            if tensor.numel() > product(self.inputs):
                self.inputs = tuple(tensor.shape)

    def leave(self, module: Module, output: Any) -> None:
        """It has ended; by an exception, where there is no output."""
        try:
            if self.marks is None or not self.is_of_the_step():
                return
            for at in range(len(self.stack) - 1, -1, -1):
                if self.stack[at][0] == id(module):
                    outer = self.stack[at][1]
                    del self.stack[at:]
                    self.mark_nodes(output, id(module))
                    self.note(outer)
                    return
        except BaseException:
            errors.refused("leave a module")

    def is_of_the_step(self) -> bool:
        """The training's thread, or one of the engine's that computes an activation again; not a replica's."""
        thread = get_ident()
        if thread == self.thread:
            return True
        if not frames.is_python_thread():
            return True
        if not self.stack:
            self.thread = thread
            return True
        return False

    def note(self, label: int | None) -> None:
        self.label = label
        self.marks.append((time.time_ns() // 1000, label))
        if len(self.marks) > MOST_MARKS:
            self.end()

    def mark_nodes(self, value: Any, label: int | None) -> None:
        """Notes when backward comes to these tensors' nodes. The first to name a node is the innermost."""
        try:
            if compiles_backward():
                return
            for tensor in tensors_in(self.torch, value):
                node = tensor.grad_fn
                if node is None or type(node).__name__.startswith("Compiled"):
                    continue
                number = get_ident(), node._sequence_nr(), type(node).__name__
                if number not in self.seen:
                    self.seen.add(number)
                    self.nodes.append(node.register_prehook(self.noting(label)))
        except Exception:
            # Then backward's allocations are of no module.
            errors.foreseen("mark nodes of a graph")

    def before_backward(self) -> None:
        """What compiles a backward would compile our hooks with it, or refuse them."""
        if self.nodes and compiles_backward():
            for each in self.nodes:
                each.remove()
            self.nodes = []

    def noting(self, label: int | None) -> Callable[[Any], None]:
        marks = self.marks

        def note(gradients: Any) -> None:
            # Of this step's marks; a graph may live longer.
            if self.marks is marks and marks is not None:
                try:
                    self.note(label)
                except BaseException:
                    errors.refused("mark backward")

        return note

    def take(self) -> tuple[list[Any], dict[int, str], dict[int, Any]] | None:
        """The marks so far, and the names of modules and of the parameters' modules by their ids; None where
        no module was seen."""
        marks = self.marks
        roots = [root for root in (reference() for reference in self.roots.values()) if root is not None]
        if not marks or not roots:
            return None
        try:
            names, of_parameters = named(roots, self.classes)
        except Exception:
            errors.ours("name the modules")
            return None
        return list(marks), names, of_parameters


    def frozen(self) -> list[Tensor]:
        """The parameters of the models seen that are not trained."""
        found: list[Any] = []
        for reference in self.roots.values():
            root = reference()
            for module in () if root is None else members.modules(root):
                own = module._parameters.values()
                found += [each for each in own if each is not None and not each.requires_grad]
        return found


def named(roots: list[Module], classes: dict[int, str]) -> tuple[dict[int, str], dict[int, Any]]:
    """The largest root's modules have the names that the program knows them by; those of the others stand
    behind the name of their class."""
    trees = []
    for root in roots:
        model = root
        for name in WRAPPED:
            inner = getattr(model, "_modules", {}).get(name)
            if inner is not None and len(model._modules) == 1:
                model = inner
        tree = list(members.named_modules(model))
        if len(tree) <= MOST_MODULES:
            trees.append((root, model, tree))
    trees.sort(key=lambda each: -len(each[2]))
    names: dict[int, str] = {}
    of_parameters: dict[int, Any] = {}
    for place, (root, model, tree) in enumerate(trees):
        kind = type(model).__name__
        for name, module in tree:
            if place:
                name = "%s.%s" % (kind, name) if name else kind
            names.setdefault(id(module), name or kind)
            for parameter in module._parameters.values():
                if parameter is not None:
                    of_parameters.setdefault(id(parameter), names[id(module)])
        names.setdefault(id(root), kind)
    for identity, kind in classes.items():
        names.setdefault(identity, kind)
    return names, of_parameters


def product(sizes: tuple[int, ...]) -> int:
    """The elements of a tensor of these sizes; none of none."""
    elements = 1 if sizes else 0
    for size in sizes:
        elements *= size
    return elements


def tensors_in(torch: Torch, value: Any, depth: int = 2) -> list[Tensor]:
    """The tensors of an output, as far as they are plain ones; of a model's output, its values."""
    if type(value) is torch.Tensor:
        return [value]
    if depth and objects.is_a(value, dict):
        value = [each for _, each in objects.entries(value)]
    if depth and objects.is_a(value, (list, tuple)):
        found: list[Any] = []
        for each in objects.elements(value)[:MOST_TENSORS]:
            found += tensors_in(torch, each, depth - 1)
        return found[:MOST_TENSORS]
    return []


def compiles_backward() -> bool:
    """Whether compiled autograd is on, or was in this process: it may be turned on for the backward alone."""
    found: Any = sys.modules.get("torch._dynamo.compiled_autograd")
    if found is None:
        return False
    if any(getattr(found, "compiled_autograd_enabled" + each, False) for each in ("", "_force_eager")):
        return True
    # How many graphs it has compiled.
    return repr(getattr(found, "COMPILE_COUNTER", "count(0)")) not in ("count(0)", "'count(0)'")


def has_compiled() -> bool:
    """Whether torch.compile has compiled anything; True where that cannot be told."""
    if "torch._dynamo" not in sys.modules:
        return False
    try:
        return bool(sys.modules["torch._dynamo.utils"].counters.get("frames"))
    except Exception:
        errors.foreseen("whether anything was compiled")
        return True
