"""How far a model's forward had got when memory ran out: judged by the modules on the Python stack,
each weighted by roughly how much of its output is saved for backward. A share of the whole, or None
where it would be a poor guess. Pure except that frames' locals are read (never stored); it creates no
tensor and runs none of the program's code.
"""

from __future__ import annotations

import dis
import operator

from ..common import frames

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
# Walking over more modules would take too long.
MAX_MODULES = 20000
# The loss saves about twice the last layer's output: its softmax, and then the gradient.
LOSS = 2.0

# Attributes that give the number of output features, as torch and transformers name them.
WIDTHS = ("out_features", "out_channels", "embedding_dim", "num_features", "num_channels", "nf")
ENTRIES = ("in_features", "in_channels", "nx")
# Leaf modules that save nothing new.
NOTHING_KEPT = ("Identity", "Flatten", "Unflatten")
# Gates and cell states that a recurrent layer saves, in multiples of its hidden size.
RECURRENT = 5
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


def of(path: Path, stack: list[FrameType]) -> float | None:
    """The share of a forward that is done at these frames (innermost first), of which `path` are those of
    modules; None where unknown."""
    if any(is_opaque(frame.f_code.co_filename) for frame in stack):
        return None
    if not path or is_loss(path[-1][1]):
        return 1.0 if is_in_loss(stack, path) else None
    root = path[-1][1]
    tree = Tree(root, calls_of(path))
    if tree.leaves < FEWEST_LEAVES:
        return None
    # A module called inside the model that is not part of it (a loss, a module created on the fly) is
    # ignored: the innermost part of the model counts.
    parts: list[Any] = []
    for _, each in reversed(path):
        if id(each) in tree.spans and not any(each is part for part in parts):
            parts.append(each)
    if is_called_again(path, parts):
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
        if len(seen) > MAX_MODULES:
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


def is_loss(module: Module) -> bool:
    return any(
        base.__module__ == "torch.nn.modules.loss" and base.__name__ == "_Loss"
        for base in type(module).__mro__
    )


def is_in_loss(stack: list[FrameType], path: Path) -> bool:
    """Whether a loss outside of any model was running: then the whole forward is done."""
    if path:
        return True
    return any(
        frame.f_code.co_name in LOSSES and frame.f_code.co_filename.endswith("nn/functional.py")
        for frame in stack
    )


def children_of(module: Module) -> list[tuple[str, Module]]:
    return [(name, each) for name, each in module.__dict__.get("_modules", {}).items() if each is not None]


def is_leaf(module: Module) -> bool:
    return not children_of(module)


class Tree:
    """A model's modules in registration order, and the weight of each."""

    def __init__(self, root: Module, calls: dict[int, int] | None = None) -> None:
        # By id: how often the code of the module around it names it.
        self.calls = calls or {}
        # By id: the weight of all modules before this one, and the weight up to its end.
        self.spans: dict[Any, Any] = {}
        # By id: its position in the order, and the first position after its submodules.
        self.order: dict[Any, Any] = {}
        self.leaves = 0
        self.weight = 0.0
        self.last = 0.0
        # Positions (pixels, tokens) of features of a given width, as a share of the input's.
        self.places: dict[Any, Any] = {}
        self.width, self.at = 1, 1.0
        self.walk(root)

    def walk(self, root: Module) -> None:
        todo = [(root, False, 1.0)]
        while todo:
            module, is_done, share = todo.pop()
            if is_done:
                self.spans[id(module)] = self.spans[id(module)][0], self.weight
                self.order[id(module)] = self.order[id(module)][0], len(self.order)
                continue
            # A module registered twice counts at its first position.
            if id(module) in self.spans:
                continue
            if len(self.spans) >= MAX_MODULES:
                raise OverflowError
            self.order[id(module)] = len(self.order), len(self.order)
            self.spans[id(module)] = self.weight, self.weight
            todo.append((module, True, share))
            children = children_of(module)
            todo.extend(
                (each, False, share * share_of(name, each, children)) for name, each in reversed(children)
            )
            if not children:
                self.leaves += 1
                self.weight += share * self.weigh(module)

    def weight_of(self, module: Module) -> float:
        begin, end = self.spans[id(module)]
        return end - begin

    def has(self, module: Module, inner: Any) -> bool:
        """Whether `inner` is `module` or part of it."""
        if module is inner:
            return True
        begin, end = self.order[id(module)]
        return begin < self.order[id(inner)][0] < end

    def weigh(self, leaf: Module) -> float:
        """Roughly the size of its output: features times positions."""
        of, kind = leaf.__dict__, type(leaf).__name__
        if kind in NOTHING_KEPT or is_loss(leaf) or of.get("inplace") is True:
            return 0.0
        if kind.startswith("Dropout") and of.get("p") == 0:
            return 0.0
        entry, width, together = entry_of(of), width_of(of), 0.0
        rearranged = shuffled(of)
        if rearranged is not None:
            # As many elements, in more positions of fewer features, or the other way round. One that is called several
            # times stands between layers that give it its features again.
            self.at *= rearranged ** self.calls.get(id(leaf), 1)
            self.width = max(1, round(self.width / rearranged))
            self.places[self.width] = self.at
        elif "Pool" in kind or "scale_factor" in of:
            self.at = self.places[self.width] = self.at * resized(of)
        elif entry is not None:
            # Features of this input width have been seen, so the number of positions is known. (A shortcut
            # beside other layers starts from the same input as they do.)
            if entry in self.places:
                self.at = self.places[entry] * resized(of)
            else:
                # An unseen width was concatenated from others (`torch.cat`), and is saved as well.
                self.at = self.places.get(width, self.at * resized(of))
                self.places[entry] = self.at / resized(of)
                together = entry * self.places[entry]
            self.width = self.width if width is None else width
            self.places[self.width] = self.at
        elif width is not None:
            if width != self.width:
                self.at = self.places.setdefault(width, self.at)
            self.width = width
        weight = self.width * self.at + together
        if "hidden_size" in of and "num_layers" in of:
            weight = RECURRENT * self.width * of["num_layers"] * self.at
        if entry is not None:
            self.last = weight - together
        return weight


def share_of(name: str, module: Module, siblings: list[tuple[str, Module]]) -> float:
    """The share of the tokens that each expert of a mixture of experts sees."""
    parts = children_of(module)
    if "expert" not in name or len(parts) < 2:
        return 1.0
    is_chosen = any("rout" in other or "gat" in other for other, _ in siblings)
    return 1.0 / len(parts) if is_chosen else 1.0


def number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def entry_of(of: dict[str, Any]) -> int | None:
    """The number of input features, for a leaf that changes it."""
    return next((of[name] for name in ENTRIES if number(of.get(name))), None)


def width_of(of: dict[str, Any]) -> int | None:
    """The number of output features; None where it equals the input's."""
    for name in WIDTHS:
        if number(of.get(name)):
            return of[name]
    shape = of.get("normalized_shape")
    if shape:
        return number(shape[-1])
    if number(of.get("hidden_size")):
        return of["hidden_size"]
    weight = of.get("_parameters", {}).get("weight")
    shape = tuple(weight.shape) if weight is not None else ()
    return number(shape[0]) if shape else None


def resized(of: dict[str, Any]) -> float:
    """The factor by which a leaf changes the number of positions: strides divide each dimension."""
    factor = of.get("scale_factor")
    if isinstance(factor, (int, float)):
        return float(factor) ** 2
    stride = of.get("stride")
    if isinstance(stride, int):
        stride = (stride, stride)
    if not isinstance(stride, tuple):
        return 1.0
    product = 1.0
    for each in stride:
        product *= each if isinstance(each, int) and each > 0 else 1
    return product if of.get("transposed") is True else 1.0 / product


def shuffled(of: dict[str, Any]) -> float | None:
    """The factor by which PixelShuffle and its inverse change the number of positions; None for other leaves."""
    up, down = number(of.get("upscale_factor")), number(of.get("downscale_factor"))
    return float(up) ** 2 if up else 1.0 / down**2 if down else None


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


def is_in_loop(frame: FrameType) -> bool:
    """Whether the code jumps back from after the current instruction to before it."""
    jumps = set(dis.hasjrel) | set(dis.hasjabs)
    return any(
        instruction.opcode in jumps and instruction.argval <= frame.f_lasti <= instruction.offset
        for instruction in dis.get_instructions(frame.f_code)
    )
