"""What a compiled backward will allocate, before it is compiled: torch.compile does that when the first backward
comes, and an out-of-memory in the first forward is earlier. The graph that it will be compiled from is there, with
the size of each result (torch/_functorch/_aot_autograd, `AutogradLazyBackwardCompileInfo`).

Inductor fuses: what is computed point by point lies in memory only where something reads it that cannot compute it by
itself (a product, a convolution, attention), or where it is returned; where its input ends with it and is as large,
it takes its place. Reductions and everything else make a tensor. So this is an estimate, which the text of a compiled
backward is not.
"""

from __future__ import annotations

import ast

from .wrappers import INPUT_LEFT, LEFT, TAKEN, Formula, Graph, Unknown, elements_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..common.protocols import Torch

PLACEHOLDER, OUTPUT, CALL = "placeholder", "output", "call_function"
# What is computed into a kernel that needs it, beside what torch calls pointwise itself.
CREATED = frozenset(
    "full iota scalar_tensor arange zeros ones full_like zeros_like ones_like empty new_zeros new_full".split()
)
# What inductor computes point by point though torch does not call it so: of each point it takes one of two values.
CHOOSES = frozenset("slice_scatter select_scatter constant_pad_nd".split())
# What makes a tensor, but computes its own inputs.
REDUCES = frozenset(
    "sum mean amax amin max min prod any all var var_mean argmax argmin logsumexp cumsum cat _softmax "
    "_log_softmax".split()
)
# What is written into the first of its inputs, and computes the rest: added by atomic operations, where the type has
# them.
SCATTERS = frozenset("index_put _unsafe_index_put scatter scatter_add scatter_reduce index_add".split())
ADDED_AT_ONCE = ("float32", "float16", "int32")
# So many pieces of memory are read at the most to compute something anew, by one and by each of several (inductor's
# `realize_acc_reads_threshold` and `realize_reads_threshold`).
MOST_READS, READS_OF_SEVERAL = 8, 4


def read(torch: Torch, graph: Any, donated: Sequence[int] = ()) -> Graph:
    """`donated` are the places of what nobody else has, and backward may write into. Raises `Unknown`."""
    try:
        return Reader(torch, graph, donated).graph
    except (AttributeError, TypeError) as error:
        raise Unknown("its graph is not what was expected (%s)" % error) from error


class Reader:
    def __init__(self, torch: Torch, graph: Any, donated: Sequence[int]) -> None:
        self.torch = torch
        self.nodes = list(graph.nodes)
        given = [node for node in self.nodes if node.op == PLACEHOLDER]
        self.donated = {given[at] for at in donated if at < len(given)}
        self.graph = Graph()
        self.roots: dict[Any, Any] = {}
        self.kinds = {node: self.kind_of(node) for node in self.nodes}
        self.is_there: dict[Any, bool] = {}
        # What each reads of memory, through all that is computed into it.
        self.reads: dict[Any, set[Any]] = {}
        for node in self.nodes:
            self.reads[node] = self.read_by(node)
            self.is_there[node] = self.lies_in_memory(node)
        self.play()

    def kind_of(self, node: Any) -> str:
        """`view`, `pointwise`, `reduction`, `scatter`, `part` of several results, or `other`."""
        if node.op != CALL:
            return node.op
        target = node.target
        if getattr(target, "__name__", "") == "getitem":
            return "part"
        schema = getattr(target, "_schema", None)
        if schema is None:
            return "other"
        name = schema.name.split("::")[-1]
        if any(each.alias_info is not None for each in schema.returns) or name == "_unsafe_view":
            return "view"
        if self.torch.Tag.pointwise in target.tags or name in CREATED | CHOOSES or schema.name.startswith("prims::"):
            return "pointwise"
        if name in SCATTERS and str(node.meta["val"].dtype).rpartition(".")[2] in ADDED_AT_ONCE:
            return "scatter"
        return "reduction" if name in REDUCES else "other"

    def root(self, node: Any) -> Any:
        """What a view is of."""
        if node not in self.roots:
            is_view = self.kinds[node] == "view"
            self.roots[node] = self.root(next(iter(node.all_input_nodes))) if is_view else node
        return self.roots[node]

    def users(self, node: Any) -> list[Any]:
        """Of it and of its views."""
        found: list[Any] = []
        for user in node.users:
            found += self.users(user) if self.kinds[user] == "view" else [user]
        return found

    def lies_in_memory(self, node: Any) -> bool:
        if any(self.kinds[user] == "part" for user in node.users):
            # It is several tensors, and these are there in its place.
            return False
        kind = self.kinds[node]
        if kind in (PLACEHOLDER, "reduction", "scatter", "part"):
            return True
        if kind == "pointwise":
            users, reads = self.users(node), len(self.reads[node])
            is_needed = any(self.kinds[user] in ("other", OUTPUT) or self.is_written(node, user) for user in users)
            return is_needed or reads > MOST_READS or len(users) > 1 and reads > READS_OF_SEVERAL
        return kind == "other"

    def is_written(self, node: Any, user: Any) -> bool:
        """Whether it is what another is written into."""
        return self.kinds[user] == "scatter" and self.root(user.args[0]) is node

    def read_by(self, node: Any) -> set[Any]:
        found: set[Any] = set()
        open_ = [self.root(each) for each in node.all_input_nodes]
        seen: set[Any] = set()
        while open_:
            each = open_.pop()
            if each in seen:
                continue
            seen.add(each)
            if self.is_there[each]:
                found.add(each)
            else:
                open_ += [self.root(inner) for inner in each.all_input_nodes]
        return found

    def play(self) -> None:
        graph = self.graph
        returned = next(node for node in self.nodes if node.op == OUTPUT)
        for node in self.nodes:
            if node.op == PLACEHOLDER:
                graph.inputs.append(node.name)
                value = node.meta.get("val")
                if hasattr(value, "shape"):
                    graph.shapes[node.name] = tuple(size_in(each) for each in value.shape)
                elif isinstance(size_in(value), Formula):
                    graph.variables[str(value.node.expr)] = node.name, None
        stays = {self.root(node) for node in returned.all_input_nodes}
        made = [node for node in self.nodes if self.is_there[node] and node.op != PLACEHOLDER]
        schedule = Schedule(self, made, stays)
        graph.events = schedule.events
        (values,) = returned.args
        for value in values:
            held = None if value is None else self.root(value)
            graph.returned.append(None if held is None else schedule.numbers.get(held, held.name))


class Schedule:
    """What lies in memory, made in the graph's own order. Inductor may find one with a lower peak
    (`reorder_for_peak_memory`), and sometimes does: of a model with dropout this is up to 8 % too much."""

    def __init__(self, reader: Reader, made: list[Any], stays: set[Any]) -> None:
        self.reader = reader
        self.stays = stays
        self.events: list[tuple[Any, ...]] = []
        self.numbers: dict[Any, int] = {}
        # How many still read each.
        self.readers: dict[Any, int] = {}
        for node in made:
            for each in reader.reads[node]:
                self.readers[each] = self.readers.get(each, 0) + 1
        for node in made:
            self.make(node)

    def ending(self, node: Any) -> list[Any]:
        reads = self.reader.reads[node]
        return [each for each in reads if self.readers[each] == 1 and each not in self.stays]

    def make(self, node: Any) -> None:
        ending, size, taken_over = self.ending(node), size_of(node), None
        for each in self.reader.reads[node]:
            self.readers[each] -= 1
        kind = self.reader.kinds[node]
        if kind in ("pointwise", "scatter"):
            mine = [each for each in ending if each in self.numbers or each in self.reader.donated]
            if kind == "scatter":
                mine = [each for each in mine if self.reader.is_written(each, node)]
            taken_over = next((each for each in mine if size_of(each) == size), None)
        if taken_over is not None and taken_over in self.numbers:
            self.numbers[node] = self.numbers[taken_over]
            ending.remove(taken_over)
        else:
            if taken_over is not None:
                # In the place of an input, which is as if it had gone before.
                ending.remove(taken_over)
                self.events.append((INPUT_LEFT, taken_over.name))
            self.numbers[node] = len(self.numbers)
            self.events.append((TAKEN, self.numbers[node], *size))
        for each in ending:
            is_input = each.op == PLACEHOLDER
            self.events.append((INPUT_LEFT, each.name) if is_input else (LEFT, self.numbers[each]))
        if not self.readers.get(node) and node not in self.stays:
            self.events.append((LEFT, self.numbers[node]))


def size_of(node: Any) -> tuple[Any, int]:
    value = node.meta["val"]
    sizes, strides = tuple(map(size_in, value.shape)), tuple(map(size_in, value.stride()))
    return elements_of(sizes, strides), int(value.dtype.itemsize)


def size_in(value: Any) -> Any:
    """A number, or the formula of one that follows from variables."""
    if type(value) is int or not hasattr(value, "node"):
        return value
    try:
        return Formula(ast.parse(str(value.node.expr), mode="eval").body)
    except SyntaxError as error:
        raise Unknown("a size that is not known (%s)" % value) from error
