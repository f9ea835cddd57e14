"""A model's modules in registration order, and how much of what a forward keeps each is likely to make.

The weight of a layer is the size of its output: features times positions (pixels, tokens). Of layers that have run the
autograd graph tells it (outputs.py). Of the others it is told by what was seen of a block like theirs, and else by the
widths: features of a width that was seen have the positions that they had then. Pure.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Module

# Walking over more modules would take too long.
MAX_MODULES = 20000

# Attributes that give the number of output features, as torch and transformers name them.
WIDTHS = ("out_features", "out_channels", "embedding_dim", "num_features", "num_channels", "nf")
ENTRIES = ("in_features", "in_channels", "nx")
# Leaf modules that save nothing new.
NOTHING_KEPT = ("Identity", "Flatten", "Unflatten")
# Activations whose backward needs their result: what they were given is let go of, so that they keep no more than the
# layer before them. Others keep what they were given as well, in place or not.
RESULT_KEPT = (
    "ReLU", "ReLU6", "LeakyReLU", "RReLU", "ELU", "CELU", "SELU", "Hardtanh", "Threshold", "Sigmoid", "Tanh",
)
# Beside its output a maximum keeps where it was, in eight bytes.
WITH_INDICES = 3.0
# Gates and cell states that a recurrent layer saves, in multiples of its hidden size.
RECURRENT = 5
# Functions that leave one position of all, and in a small module are a gate's (squeeze and excitation).
POOL = ("mean", "adaptive_avg_pool2d", "avg_pool2d")
MOST_IN_A_GATE = 8
# Functions that lay features out in more positions, in the code of a module around them.
ENLARGE = ("interpolate", "upsample", "grid_sample", "pixel_shuffle")
# Containers that call nothing: one behind the other mostly.
LISTS = ("ModuleList", "ModuleDict")
# Two blocks alike that differ by more than this share are not alike in that.
ALIKE = 0.2
# What has fewer than this share of the positions before it, without a stride, was pooled to weigh features (a gate).
POOLED = 9.0
# A linear layer that takes so many times the features before it takes those of several positions; fewer may have been
# concatenated.
MANY = 4


class Open:
    """A module around the one that is walked over."""

    def __init__(self, module: Module, name: str, kind: Any, at: float, enlarges: bool) -> None:
        self.module = module
        self.name = name
        self.kind = kind
        # Positions of what it was given; `is_sure`: as its first layer's output tells.
        self.at = at
        self.is_sure = False
        self.enlarges = enlarges
        # The features that its first layer is given.
        self.width: int | None = None
        # By how much a part changes positions: those that the first such part was given, and their features.
        self.changes: dict[float, tuple[float, int]] = {}


class Tree:
    """Every module's place in the order and its weight; `made`: by the id of a parameter, the elements of outputs."""

    def __init__(
        self,
        root: Module,
        calls: dict[int, int] | None = None,
        made: dict[int, list[int]] | None = None,
        batch: int | None = None,
    ) -> None:
        # By id: how often the code of the module around it names it.
        self.calls = calls or {}
        self.made = made or {}
        # The samples, where outputs tell: what has as many positions has one of each.
        self.batch = batch
        # By id: the weight of all modules before this one, and the weight up to its end.
        self.spans: dict[Any, Any] = {}
        # By id: its position in the order, and the first position after its submodules.
        self.order: dict[Any, Any] = {}
        self.leaves = 0
        self.weight = 0.0
        self.last = 0.0
        # Positions of features of a given width; `old`: in another part of a chain.
        self.places: dict[Any, Any] = {}
        self.old: dict[Any, Any] = {}
        # Positions in a block of a kind, as a share of what it was given; None where such blocks differ.
        self.learned: dict[Any, float | None] = {}
        self.kinds: dict[int, Any] = {}
        self.changed: dict[int, float] = {}
        self.entries: dict[int, int | None] = {}
        self.around: list[Open] = []
        # Blocks that have ended since the last layer that was seen.
        self.ended: list[Open] = []
        self.has_enlarged = False
        # The positions of a sample were laid together just before.
        self.is_flat = False
        # The most positions that a layer was seen to have.
        self.most = 0.0
        self.width, self.at = 1, 1.0
        # The layers of a classifier, which is given one position of each sample.
        self.tail: set[int] = tail_of(root) if batch else set()
        self.walk(root)

    def walk(self, root: Module) -> None:
        todo: list[Any] = [(root, "", 1.0, False)]
        while todo:
            module, name, share, places = todo.pop()
            if share is None:
                self.end(module, places)
                continue
            # A module registered twice counts at its first position.
            if id(module) in self.spans:
                continue
            if len(self.spans) >= MAX_MODULES:
                raise OverflowError
            self.order[id(module)] = len(self.order), len(self.order)
            self.spans[id(module)] = self.weight, self.weight
            children = children_of(module)
            if places:
                # In a chain it is given the last output alone.
                self.old.update(self.places)
                self.places = {self.width: self.at}
            if self.around:
                self.begin(module)
            if children and self.is_gate(module):
                self.pass_by(module)
                continue
            if children:
                enlarges = any(each in ENLARGE for each in names_of(module))
                entry = self.entry_of(module)
                at = self.place_of(entry) if entry is not None else None
                self.around.append(Open(module, name, self.kind_of(module), at or self.at, enlarges))
                if module.__dict__.get("_parameters", {}).get("weight") is not None:
                    # A norm with its activation as a part.
                    self.weight += share * self.weigh(module, "")
                chains = is_chain(module)
                todo.append((module, name, None, dict(self.places) if chains else None))
                first = children[0][1]
                todo.extend(
                    (each, part, share * share_of(part, each, children), chains and each is not first)
                    for part, each in reversed(children)
                )
            else:
                self.leaves += 1
                self.weight += share * self.weigh(module, name)
                self.spans[id(module)] = self.spans[id(module)][0], self.weight

    def begin(self, module: Module) -> None:
        """A part of one that is open. Two parts that are given the same features and divide their positions by the same
        stand beside each other."""
        parent = self.around[-1]
        entry = self.entry_of(module)
        parent.width = parent.width or entry
        change = self.change_of(module)
        if is_chain(parent.module) or type(parent.module).__name__ in LISTS or change == 1.0:
            return
        at = self.place_of(entry) if entry is not None else None
        is_first = change not in parent.changes
        began = parent.changes.setdefault(change, (at or self.at, entry or self.width))
        if is_first:
            return
        if entry is not None and entry == parent.width:
            began = parent.at, entry
        if began[1] == (entry or self.width):
            self.at, self.width = began
            self.places[self.width] = self.at

    def pass_by(self, module: Module) -> None:
        """A gate: what it makes is of one position."""
        todo = [module]
        while todo:
            each = todo.pop()
            if id(each) in self.spans and each is not module:
                continue
            self.spans[id(each)] = self.weight, self.weight
            parts = children_of(each)
            self.order[id(each)] = self.order.get(id(each), (len(self.order), 0))[0], len(self.order)
            self.leaves += 0 if parts else 1
            todo.extend(part for _, part in reversed(parts))
        self.order[id(module)] = self.order[id(module)][0], len(self.order)

    def is_gate(self, module: Module) -> bool:
        """Whether it is small and pools what it is given to one position, of as many features or some times as many."""
        if not self.around:
            return False
        leaves = self.leaves_of(module)
        if leaves is None or self.entry_of(module) is None or self.change_of(module) != 1.0:
            return False
        layers = [each for each in leaves if entry_of(each.__dict__) is not None]
        if len(layers) < 2 or (width_of(layers[-1].__dict__) or 1) % (entry_of(layers[0].__dict__) or 1):
            return False
        if any(set(sizes_of(each.__dict__)) - {1} or self.has_positions(each) for each in layers):
            return False
        is_pooled = any(type(each).__name__.startswith("AdaptiveAvgPool") for each in leaves)
        return is_pooled or any(each in POOL for each in names_of(module))

    def has_positions(self, leaf: Module) -> bool:
        """Whether it was seen to have more than one position of each sample."""
        counts, width = self.counts_of(leaf.__dict__), width_of(leaf.__dict__)
        return bool(counts) and counts[-1] > (width or 1) * (self.batch or 1)

    def leaves_of(self, module: Module) -> list[Module] | None:
        """The leaves of a small module, in order; None of a larger one."""
        todo, leaves = [module], []
        while todo:
            parts = children_of(todo[-1])
            each = todo.pop()
            if not parts:
                leaves.append(each)
            todo.extend(part for _, part in reversed(parts))
            if len(leaves) + len(todo) > MOST_IN_A_GATE:
                return None
        return leaves

    def change_of(self, module: Module) -> float:
        """By what its layers change positions, all one behind the other."""
        known = self.changed.get(id(module))
        if known is None:
            known = resized(module.__dict__)
            for _, each in children_of(module):
                known *= self.change_of(each)
            self.changed[id(module)] = known
        return known

    def entry_of(self, module: Module) -> int | None:
        """The features that its first layer takes."""
        if id(module) not in self.entries:
            of = module.__dict__
            found = entry_of(of) or (width_of(of) if not children_of(module) else None)
            for _, each in children_of(module):
                found = found or self.entry_of(each)
            self.entries[id(module)] = found
        return self.entries[id(module)]

    def end(self, module: Module, places: dict[Any, Any] | None) -> None:
        """All parts of a module are past."""
        self.spans[id(module)] = self.spans[id(module)][0], self.weight
        self.order[id(module)] = self.order[id(module)][0], len(self.order)
        ended = self.around.pop()
        ended.is_sure = ended.is_sure or not self.made
        self.ended.append(ended)
        self.has_enlarged = self.has_enlarged or ended.enlarges
        after = self.learned.get((ended.kind, None))
        if after is not None and after <= 1.0 + ALIKE:
            self.at = ended.at * after
        if places is not None:
            # Of what is in a chain its output alone is seen outside.
            self.old.update(self.places)
            self.places = places
            self.places[self.width] = self.at

    def weight_of(self, module: Module) -> float:
        begin, end = self.spans[id(module)]
        return float(end - begin)

    def has(self, module: Module, inner: Any) -> bool:
        """Whether `inner` is `module` or part of it."""
        if module is inner:
            return True
        begin, end = self.order[id(module)]
        return bool(begin < self.order[id(inner)][0] < end)

    def kind_of(self, module: Module) -> Any:
        """What blocks that are alike have in common: their parts' names and types, and how these change positions."""
        known = self.kinds.get(id(module))
        if known is None:
            children = children_of(module)
            if children:
                parts: Any = tuple((name, self.kind_of(each)) for name, each in children)
            else:
                parts = resized(module.__dict__), shuffled(module.__dict__)
            known = self.kinds[id(module)] = hash((type(module).__name__, parts))
        return known

    def ways(self, name: str) -> list[tuple[Open, Any]]:
        """The modules around a leaf but for the whole, the outermost first, each with where the leaf is in it."""
        way: tuple[str, ...] = (name,)
        ways = []
        for each in reversed(self.around[1:]):
            ways.append((each, (each.kind, way)))
            way = (each.name, *way)
        return ways[::-1]

    def weigh(self, leaf: Module, name: str) -> float:
        """Roughly the size of its output: features times positions."""
        of, kind = leaf.__dict__, type(leaf).__name__
        counts = self.counts_of(of)
        self.is_flat = kind == "Flatten" or (self.is_flat and kind.startswith("Drop"))
        if kind in NOTHING_KEPT or kind in RESULT_KEPT or is_loss(leaf):
            return 0.0
        if kind.startswith("Drop") and (of.get("inplace") is True or not of.get("p")):
            return 0.0
        entry, width, together = entry_of(of), width_of(of), 0.0
        before = self.at, self.width
        rearranged = shuffled(of)
        if rearranged is not None:
            # As many elements, in more positions of fewer features, or the other way round. One that is called several
            # times stands between layers that give it its features again.
            self.at *= rearranged ** self.calls.get(id(leaf), 1)
            self.width = max(1, round(self.width / rearranged))
            self.has_enlarged = self.has_enlarged or rearranged > 1.0
        elif "Pool" in kind or "scale_factor" in of or (entry is None and width is None and "stride" in of):
            given = self.entry_of(self.around[-1].module) if self.is_first(leaf) else None
            if given is not None:
                # It takes what the layer behind it in its branch takes.
                self.at, self.width = self.around[-1].at, given
            self.at *= resized(of)
            self.has_enlarged = self.has_enlarged or resized(of) > 1.0
            if self.batch and "Adaptive" in kind and of.get("output_size") in (1, (1, 1)):
                self.at = float(self.batch)
        elif entry is not None:
            # Features of this input width have been seen, so the number of positions is known. (A shortcut
            # beside other layers starts from the same input as they do.)
            at = float(self.batch) if self.batch and id(leaf) in self.tail else self.place_of(entry)
            times = entry / self.width
            if at is None and kind == "Linear" and times.is_integer() and (self.is_flat or times >= MANY):
                # Features of several positions laid together.
                at = self.at / times
            if at is None:
                # An unseen width was concatenated from others (`torch.cat`), and is saved as well.
                at = self.at
                together = entry
            self.at = at * resized(of)
            self.has_enlarged = self.has_enlarged or resized(of) > 1.0
            self.width = self.width if width is None else width
        elif width is not None:
            if width != self.width:
                at = self.place_of(width)
                times = width / self.width
                if at is None and kind == "LayerNorm" and times.is_integer() and times >= MANY:
                    self.at /= times
                elif at is None:
                    together = width if width > self.width else 0.0
                else:
                    self.at = at
            self.width = width
        by_width = self.at
        self.at = self.corrected(name, of, counts)
        if self.batch and self.at < 2.0 * self.batch and self.at * POOLED < by_width and id(leaf) not in self.tail:
            # A gate's: what follows begins where it did.
            weight = self.width * self.at * max(1, len(counts))
            self.at, self.width = before
            return weight
        if entry is not None and together:
            self.places[entry] = self.at / resized(of)
        self.places[self.width] = self.at
        together *= self.at / resized(of)
        weight = self.width * self.at * max(1, len(counts))
        if kind.startswith("MaxPool"):
            weight *= WITH_INDICES
        if "hidden_size" in of and "num_layers" in of:
            weight = RECURRENT * self.width * of["num_layers"] * self.at
        if entry is not None:
            self.last = weight
        return weight + together

    def is_first(self, leaf: Module) -> bool:
        """Whether it is the first of a chain that is a part of another module."""
        if len(self.around) < 2 or not is_chain(self.around[-1].module):
            return False
        return children_of(self.around[-1].module)[0][1] is leaf

    def place_of(self, width: int) -> float | None:
        """The positions that features of this width have; None where no such are known."""
        if width == self.width:
            return self.at
        found = self.places.get(width)
        if found is None and (self.has_enlarged or any(each.enlarges for each in self.around)):
            found = self.old.get(width)
        return found

    def corrected(self, name: str, of: dict[str, Any], counts: list[int]) -> float:
        """The positions of a leaf's output: as it was seen, or as in a block like its own, or what widths say."""
        ways = self.ways(name)
        if not counts:
            for around, way in ways:
                share = self.learned.get(way)
                if share is not None:
                    return self.capped(around.at * share)
            self.at = self.capped(self.at)
            return self.at
        at = counts[-1] / self.width
        if not self.most:
            # Before the first that was seen, positions have no scale.
            scale = at / self.at
            self.weight *= scale
            self.spans = {key: (begin * scale, end * scale) for key, (begin, end) in self.spans.items()}
            self.places = {width: place * scale for width, place in self.places.items()}
            for each in self.around:
                each.at *= scale
        self.most = max(self.most, at, at / resized(of))
        given = at / resized(of)
        for each in self.ended:
            # A gate's first layer follows what it is no part of.
            if given * POOLED > each.at:
                self.learn((each.kind, None), given / each.at)
        self.ended.clear()
        for around, way in ways:
            if not around.is_sure:
                around.is_sure = True
                if given * POOLED > around.at:
                    around.at = given
            self.learn(way, at / around.at)
        return at

    def capped(self, at: float) -> float:
        """No more positions than the modules around it were given, where nothing makes more of them."""
        if not self.most or self.has_enlarged or any(each.enlarges for each in self.around):
            return at
        return min(at, self.most, max((each.at for each in self.around[1:]), default=self.most))

    def learn(self, what: Any, share: float) -> None:
        before = self.learned.get(what, share)
        is_alike = before is not None and abs(share - before) <= ALIKE * max(share, before)
        self.learned[what] = share if is_alike else None

    def counts_of(self, of: dict[str, Any]) -> list[int]:
        """The elements of each output of a leaf, as far as the graph tells."""
        if not self.made:
            return []
        for parameter in of.get("_parameters", {}).values():
            found = self.made.get(id(parameter))
            if found:
                return found
        return []


def tail_of(root: Module) -> set[int]:
    """The linear layers that end a model of images: the last of its parts, as long as these are small."""
    tail: set[int] = set()
    is_ended = False
    for _, part in reversed(children_of(root)):
        todo, leaves = [part], []
        while todo and not is_ended:
            each = todo.pop()
            parts = [inner for _, inner in children_of(each)]
            todo.extend(parts)
            if not parts:
                leaves.append(each)
            is_ended = len(leaves) > MOST_IN_A_GATE or type(each).__name__.startswith(("Conv", "Embedding"))
        if is_ended:
            break
        tail.update(id(each) for each in leaves if type(each).__name__ == "Linear")
    return tail if is_ended and has_images(root) else set()


def has_images(root: Module) -> bool:
    """Whether it takes images, and no words."""
    todo, seen, images = [root], 0, False
    while todo and seen < MAX_MODULES:
        each, seen = todo.pop(), seen + 1
        if type(each).__name__ == "Embedding":
            return False
        images = images or type(each).__name__.startswith("Conv2d")
        todo.extend(inner for _, inner in children_of(each))
    return images


def forward_of(kind: type) -> Any:
    """What a class's instances run; None where that is no plain function. Looked up without running code of theirs."""
    found = next((base.__dict__["forward"] for base in kind.__mro__ if "forward" in base.__dict__), None)
    return found if hasattr(type(found), "__code__") else None


def names_of(module: Module) -> tuple[str, ...]:
    """What the code of a module's forward names."""
    forward = forward_of(type(module))
    return forward.__code__.co_names if forward is not None else ()


def is_chain(module: Module) -> bool:
    """Whether its parts are called one behind the other, each with the last one's output."""
    chains = [base for base in type(module).__mro__ if base.__name__ == "Sequential"]
    return bool(chains) and forward_of(type(module)) is chains[0].__dict__.get("forward")


def is_loss(module: Module) -> bool:
    return any(
        base.__module__ == "torch.nn.modules.loss" and base.__name__ == "_Loss"
        for base in type(module).__mro__
    )


def children_of(module: Module) -> list[tuple[str, Module]]:
    return [(name, each) for name, each in module.__dict__.get("_modules", {}).items() if each is not None]


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


def sizes_of(of: dict[str, Any]) -> tuple[int, ...]:
    """The sizes of a convolution's kernel; none of another leaf."""
    size = of.get("kernel_size")
    return size if isinstance(size, tuple) else (size,) if isinstance(size, int) else ()


def shuffled(of: dict[str, Any]) -> float | None:
    """The factor by which PixelShuffle and its inverse change the number of positions; None for other leaves."""
    up, down = number(of.get("upscale_factor")), number(of.get("downscale_factor"))
    return float(up) ** 2 if up else 1.0 / down**2 if down else None
