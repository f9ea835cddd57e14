"""What torch.compile has made of a function, as it has kept it itself: for each compilation the code that runs in the
function's place, and the graphs that this calls (wrappers.py; partitioned.py for a backward that was not compiled
yet). Only read; nothing is compiled and no graph is run.

Where a graph has to end (a print, a call that cannot be traced, a hook of FSDP's) the code goes on as Python, and calls
a function that is the rest of the program's own, which has compilations again. Under DistributedDataParallel the graph
of one function is split where a bucket of gradients is full: a small graph of torch.fx's calls the parts.
"""

from __future__ import annotations

import sys
import types

from ..common import errors
from . import partitioned, wrappers
from .compiling import PLACE
from .wrappers import Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Union

    from ..common.protocols import Torch

    Made = Union["Plan", "Split"]

GRAPHS, RESUMED = "__compiled_fn_", "__resume_at"
# From what dynamo calls to what runs the graph there are some functions in between.
DEEPEST = 10
# Compilations of one function that are looked at.
MOST = 16


class Plan:
    """One graph, forward and backward."""

    def __init__(self, torch: Torch, value: Any) -> None:
        function = autograd_function(torch, value, DEEPEST)
        self.has_private_pool = False
        self.backward: wrappers.Graph | None = None
        if function is None:
            self.without_gradients(value)
            return
        facts = function.metadata
        self.forward = self.read(function.compiled_fw)
        # What is drawn again in backward has a state of its own, which torch gives the graph behind the rest.
        states = getattr(facts, "num_graphsafe_rng_states", 0)
        self.forward.inputs = self.forward.inputs[: len(self.forward.inputs) - states]
        if function.compiled_bw is not None:
            self.backward = self.read(function.compiled_bw)
        else:
            donated = getattr(facts, "bw_donated_idxs", None) or ()
            self.backward = partitioned.read(torch, function._lazy_backward_info.bw_module.graph, donated)
        first, numbers = facts.num_mutated_inp_runtime_indices, facts.num_symints_saved_for_bw or 0
        self.takes(first, facts.num_outputs)
        end = len(self.forward.returned) - numbers
        self.saved = self.forward.returned[facts.num_forward : end]
        # Sizes that backward is given, first of all.
        self.saved_sizes = self.forward.forms[end:]

    def without_gradients(self, value: Any) -> None:
        """Of a graph that nothing is trained in."""
        facts = next((each for each in inside(value, DEEPEST) if type(each).__name__ == "ViewAndMutationMeta"), None)
        if facts is None:
            raise Unknown("it is not inductor's")
        self.forward = self.read(value)
        self.takes(facts.num_mutated_inp_runtime_indices, facts.num_outputs)
        self.saved, self.saved_sizes = [], []

    def takes(self, first: int, count: int) -> None:
        self.outputs = self.forward.returned[first : first + count]
        self.forms = self.forward.forms[first : first + count]
        if len(self.outputs) != count:
            raise Unknown("it returns less than it should")

    def read(self, value: Any) -> wrappers.Graph:
        graph = inductors(value)
        if (getattr(graph, "fx_kwargs", None) or {}).get("cudagraphs"):
            self.has_private_pool = True
        return wrappers.read(graph.source_code)


class Split:
    """A graph whose parts are compiled one by one."""

    def __init__(self, torch: Torch, module: Any) -> None:
        self.nodes = list(module.graph.nodes)
        self.parts: dict[str, tuple[Plan, bool]] = {}
        for node in self.nodes:
            if node.op == "call_module":
                part = module.get_submodule(node.target)
                is_one = bool(getattr(part, "unwrap_singleton_tuple", False))
                self.parts[node.target] = Plan(torch, getattr(part, "submod", None)), is_one
            elif node.op not in ("placeholder", "call_function", "output"):
                raise Unknown("a part of a graph that is not known (%s)" % node.op)

    @property
    def has_private_pool(self) -> bool:
        return any(plan.has_private_pool for plan, _ in self.parts.values())


class Compiled:
    """One compilation of a function."""

    def __init__(self, code: Any, graphs: dict[str, Made], resumed: dict[str, Any]) -> None:
        self.code = code
        # By the names of the globals that it calls them by.
        self.graphs = graphs
        self.resumed = resumed


class Known:
    """The compilations of the functions that were asked for, by the address of their code."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        self.found: dict[int, tuple[Any, list[Compiled]]] = {}

    def of(self, function: Any) -> list[Compiled]:
        """The latest first; nothing where it was not compiled, or where that is not known."""
        if type(function) is not types.FunctionType:
            return []
        code = function.__code__
        known = self.found.get(id(code))
        if known is None:
            known = self.found[id(code)] = code, compiled_of(self.torch, function)
        return known[1]


def compiled_of(torch: Torch, function: Any) -> list[Compiled]:
    found: list[Compiled] = []
    try:
        place: Any = sys.modules.get(PLACE)
        entries_of = getattr(place, "_debug_get_cache_entry_list", None)
        for entry in entries_of(function.__code__)[:MOST] if entries_of is not None else ():
            names = entry.code.co_names
            named = {name: function.__globals__.get(name) for name in names}
            graphs = {name: value for name, value in named.items() if name.startswith(GRAPHS)}
            resumed = {name: value for name, value in named.items() if name.startswith(RESUMED)}
            try:
                made = {name: plan_of(torch, value) for name, value in graphs.items()}
                found.append(Compiled(entry.code, made, resumed))
            except (Unknown, AttributeError, TypeError):
                errors.foreseen("what a compiled graph does")
    except Exception:
        errors.foreseen("what was compiled of a function")
    return found


def plan_of(torch: Torch, value: Any) -> Made:
    inner = getattr(value, "__dict__", {}).get("_modules", {}).get("_orig_mod")
    if inner is not None and hasattr(inner, "graph"):
        return Split(torch, inner)
    return Plan(torch, value)


def within(value: Any) -> list[Any]:
    """What a function calls, by what it has in its cells."""
    if type(value) is types.MethodType:
        return [value.__self__, value.__func__]
    if type(value) is types.FunctionType:
        return cells_of(value)
    # What torch puts around a graph that its cache had.
    inner = getattr(value, "compiled_fn", None)
    return [] if inner is None else [inner]


def inside(value: Any, deep: int, seen: set[int] | None = None) -> Iterator[Any]:
    """It and all that it calls."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    yield value
    if deep and not isinstance(value, type):
        for each in within(value):
            yield from inside(each, deep - 1, seen)


def autograd_function(torch: Torch, value: Any, deep: int) -> Any:
    """The class whose forward and backward are the compiled graphs."""
    for each in inside(value, deep):
        if isinstance(each, type) and issubclass(each, torch.autograd.Function) and hasattr(each, "compiled_fw"):
            return each
    return None


def inductors(value: Any) -> Any:
    """Inductor's own object, of what calls it. Raises `Unknown`."""
    for each in inside(value, DEEPEST):
        if isinstance(getattr(each, "source_code", None), str):
            return each
    raise Unknown("it is not inductor's")


def cells_of(function: Any) -> list[Any]:
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue
    return found
