"""How far a model's forward had got when memory ran out: judged by the modules on the Python stack,
each weighted by roughly how much of its output is saved for backward. A share of the whole, or None
where it would be a poor guess. Pure except that frames' locals are read (never stored); it creates no
tensor and runs none of the program's code.
"""

from __future__ import annotations

import dis
import operator

from ..common import frames
from . import outputs, tree
from .tree import Tree, children_of, is_loss, shuffled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, List, Tuple

    from ..common.protocols import Line, Module, Torch

    # The frames of modules' methods, each with its module.
    Path = List[Tuple[FrameType, Module]]

# A model with fewer leaf modules is too coarse for an estimate.
FEWEST_LEAVES = 8
# Too early in a forward there are too few activations to extrapolate from.
LEAST = 0.1
# The loss saves about twice the last layer's output: its softmax, and then the gradient.
LOSS = 2.0

# Code run by torch.compile has no modules of its own on the stack.
COMPILED = ("/torch/_dynamo/", "/torch/_inductor/", "/torch/_functorch/", "torchinductor")
RECOMPUTED = "/torch/utils/checkpoint.py"
LOSSES = (
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
)


def of(path: Path, stack: list[FrameType], torch: Torch | None = None) -> float | None:
    """The share of a forward that is done at these frames (innermost first), of which `path` are those of
    modules; None where unknown. With torch, as the autograd graph tells of the layers that have run."""
    if any(is_opaque(frame.f_code.co_filename) for frame in stack):
        return None
    if not path or is_loss(path[-1][1]):
        return 1.0 if is_in_loss(stack, path) else None
    root = path[-1][1]
    ran = outputs.of(torch, path, stack) if torch is not None else outputs.Walk()
    tree = Tree(root, calls_of(path), ran.made, ran.batch)
    if tree.leaves < FEWEST_LEAVES:
        return None
    # A module called inside the model that is not part of it (a loss, a module created on the fly) is
    # ignored: the innermost part of the model counts.
    parts: list[Any] = []
    for _, each in reversed(path):
        if id(each) in tree.spans and not any(each is part for part in parts):
            parts.append(each)
    if is_called_again(path, parts) or will_be_called_again(path):
        return None
    whole = tree.weight + LOSS * tree.last
    if is_loss(parts[-1]):
        done = tree.weight
    else:
        done = done_of(path, parts, tree)
    if whole <= 0:
        return None
    if done >= tree.weight:
        # In the loss, at the first of its allocations.
        done = (tree.weight + whole) / 2
    share = done / whole
    return round(share, 4) if share >= LEAST else None


def is_opaque(path: str) -> bool:
    return path.endswith(RECOMPUTED) or any(part in path for part in COMPILED)


def path_of(torch: Torch, stack: list[FrameType]) -> Path:
    """The frames of modules' methods, each with its module."""
    path = []
    length = 0
    for frame in stack:
        code = frame.f_code
        if code.co_argcount == 0:
            continue
        name = code.co_varnames[0]
        each = frames.read_locals(frame, operator.methodcaller("get", name))
        if is_a(each, torch.nn.Module):
            path.append((frame, each))
            # Outside a method, it is a function that was given a model.
            if name == "self":
                length = len(path)
    return path[:length]


def model_bytes(path: Path, device: int) -> Line | None:
    """Bytes of the parameters of the running model on a device; None where no model runs."""
    if not path or is_loss(path[-1][1]):
        return None
    seen, total, trained = set(), 0, 0
    todo = [path[-1][1]]
    while todo:
        module = todo.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        if len(seen) > tree.MAX_MODULES:
            return None
        todo.extend(each for _, each in children_of(module))
        for parameter in list(module.__dict__.get("_parameters", {}).values()):
            if parameter is None or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            # Of a sharded parameter (DTensor), this rank's shard.
            part = getattr(parameter, "_local_tensor", parameter)
            if part.is_cuda and part.device.index == device:
                size = part.numel() * part.element_size()
                total += size
                trained += size if parameter.requires_grad else 0
    return {"parameters": total, "trained": trained} if total else None


def is_a(each: object, kind: type) -> bool:
    # `isinstance` reads the object's `__class__`, which may run the program's code.
    return kind in type(each).__mro__


def is_in_loss(stack: list[FrameType], path: Path) -> bool:
    """Whether a loss outside of any model was running: then the whole forward is done."""
    if path:
        return True
    return any(
        frame.f_code.co_name in LOSSES and frame.f_code.co_filename.endswith("nn/functional.py")
        for frame in stack
    )


def frame_of(path: Path, module: Module) -> FrameType | None:
    """The outermost frame of a module's own code (not torch's call machinery), or None."""
    of = [
        frame
        for frame, each in path
        if each is module and frame.f_code.co_name not in ("_call_impl", "_wrapped_call_impl")
    ]
    return of[-1] if of else None


def done_of(path: Path, parts: list[Module], tree: Tree) -> float:
    """The weight that a module's call has completed; `parts` are the calls inside it, the module itself
    first."""
    module, inner = parts[0], parts[1:]
    children = children_of(module)
    if not children:
        # It was allocating its output, or the last of what it saves.
        return tree.weight_of(module)
    frame = frame_of(path, module)
    named, before = names_in(frame) if frame is not None else (set(), set())
    current = next((at for at, (_, each) in enumerate(children) if inner and tree.has(each, inner[0])), None)
    # Submodules that its own code does not name run in registration order.
    last = current
    if last is None:
        last = max((at for at, (name, _) in enumerate(children) if name in before), default=-1)
    held = held_by(frame) if frame is not None and not inner else set()
    done = 0.0
    for at, (name, child) in enumerate(children):
        if at == current:
            done += done_inside(path, child, inner, tree)
        # While one runs, a submodule registered after it but named before it is waiting for its result:
        # `self.head(self.norm(x))`.
        elif name in before and (current is None or at < current):
            # In a loop over its submodules, or after one, the locals hold the latest of them.
            ends = [tree.spans[id(each)][1] for _, each in children_of(child) if id(each) in held]
            done += max(ends) - tree.spans[id(child)][0] if ends else tree.weight_of(child)
        elif name not in named and at < last:
            done += tree.weight_of(child)
    return done


def done_inside(path: Path, child: Module, inner: list[Module], tree: Tree) -> float:
    """The same for a running child, or one that contains it and is not called itself (a ModuleList)."""
    if child is inner[0]:
        return done_of(path, inner, tree)
    return tree.spans[id(inner[0])][0] - tree.spans[id(child)][0] + done_of(path, inner, tree)


def names_in(frame: FrameType) -> tuple[set[str], set[str]]:
    """The attributes that a frame's code names: all of them, and those before the current instruction."""
    named, before = set(), set()
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(instruction.argval, str):
            named.add(instruction.argval)
            if instruction.offset <= frame.f_lasti:
                before.add(instruction.argval)
    return named, before


def calls_of(path: Path) -> dict[int, int]:
    """By id: how often the code that runs names a submodule, where it does so more than once."""
    counts: dict[int, int] = {}
    for frame, module in path:
        children = {name: each for name, each in children_of(module) if shuffled(each.__dict__) is not None}
        if not children or frame.f_code.co_name in ("_call_impl", "_wrapped_call_impl"):
            continue
        for instruction in dis.get_instructions(frame.f_code):
            if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and instruction.argval in children:
                each = id(children[instruction.argval])
                counts[each] = counts.get(each, 0) + 1
    return counts


def held_by(frame: FrameType) -> set[int]:
    """The ids of a frame's locals: ids only, so nothing is kept alive."""
    return frames.read_locals(frame, lambda values: {id(value) for value in values.values()})


def is_called_again(path: Path, parts: list[Module]) -> bool:
    """Whether a submodule called by name is called in a loop: how often is unknown."""
    for parent, child in zip(parts, parts[1:]):
        frame = frame_of(path, parent)
        name = next((name for name, each in children_of(parent) if each is child), None)
        if frame is not None and name in names_in(frame)[0] and is_in_loop(frame):
            return True
    return False


def will_be_called_again(path: Path) -> bool:
    """Whether a loop that is still to come, or runs, calls a part by its name: how often is unknown."""
    for frame, module in path:
        parts = {name for name, each in children_of(module) if is_a_block(each)}
        if not parts or frame.f_code.co_name in ("_call_impl", "_wrapped_call_impl"):
            continue
        instructions = list(dis.get_instructions(frame.f_code))
        jumps = set(dis.hasjrel) | set(dis.hasjabs)
        for jump in instructions:
            if jump.opcode not in jumps or jump.argval > jump.offset or jump.offset < frame.f_lasti:
                continue
            if any(
                jump.argval <= each.offset <= jump.offset and each.argval in parts
                for each in instructions
                if each.opname in ("LOAD_ATTR", "LOAD_METHOD")
            ):
                return True
    return False


def is_a_block(module: Module) -> bool:
    """Whether it has parts and is called itself."""
    return bool(children_of(module)) and type(module).__name__ not in tree.LISTS


def is_in_loop(frame: FrameType) -> bool:
    """Whether the code jumps back from after the current instruction to before it."""
    jumps = set(dis.hasjrel) | set(dis.hasjabs)
    return any(
        instruction.opcode in jumps and instruction.argval <= frame.f_lasti <= instruction.offset
        for instruction in dis.get_instructions(frame.f_code)
    )
