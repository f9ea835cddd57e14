"""What a rehearsed step changes outside of its model: a list in which its modules put losses, a dict in which a hook
keeps features, an object that counts. Rehearsed again, the step has copies of these, and the program's own stay as they
are.

Who has such an object is searched for among plain objects and containers, a few levels deep: from what the model and
the caller's variables have (fakes.py asks), and from the globals of the program's modules. Functions that find it by a
global are copied, with globals of their own. Where something else leads to it, the step is stopped before the change,
as before.
"""

from __future__ import annotations

import collections
import sys
import types

from ..common import errors, frames, objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FunctionType
    from typing import Any, Callable, Iterator

    from ..common.frames import Owners

# Objects of one step that get copies: more are no notes beside it.
MOST = 8
# How far from a variable or an attribute one is searched for, among how many, and how long a container may be.
DEEPEST, MOST_SEEN, LONGEST = 3, 20000, 4096
CONTAINERS = (
    list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter,
)
HEAP_TYPE = 1 << 9


class Plain:
    """What an object with attributes and nothing else is like."""


PLAIN_SIZE = Plain.__basicsize__


def is_plain(value: object) -> bool:
    """Whether an object's state is its attributes, as where a class of the program's derives from nothing."""
    kind: Any = type(value)
    if kind.__flags__ & HEAP_TYPE == 0 or isinstance(value, type) or objects.namespace_of(value) is None:
        return False
    if hasattr(kind, "__del__"):
        return False
    return bool(kind.__basicsize__ == PLAIN_SIZE and kind.__reduce_ex__ is object.__reduce_ex__)


def is_short(value: Any) -> bool:
    """Whether it is a container that can be copied in no time."""
    return type(value) in CONTAINERS and len(value) <= LONGEST


def parts_of(value: Any) -> list[Any]:
    """What a container or a plain object has."""
    if is_short(value) or type(value) is tuple and len(value) <= LONGEST:
        return list(value.values()) if isinstance(value, dict) else list(value)
    return list(vars(value).values()) if is_plain(value) else []


class Outside:
    """The objects of the program that a step changes, those that lead to them, and the modules' globals from where."""

    def __init__(self, owners: Owners) -> None:
        self.owners = owners
        # By address; they are the program's, and held no longer than its step is rehearsed.
        self.objects: dict[int, Any] = {}
        self.namespaces: dict[int, dict[str, Any]] = {}
        self.taken: set[int] = set()
        # Whether a module inside of the model changes one: recomputed, it would again.
        self.is_changed_inside = False
        self.seen: set[int] = set()

    def takes(self, value: Any) -> bool:
        """Whether the step is worth another attempt, with a copy of what it was stopped before changing."""
        if value is None or id(value) in self.taken or len(self.taken) >= MOST:
            return False
        is_of_globals = type(value) is dict and any(value is each for each in self.all_globals())
        if not is_of_globals and not (is_short(value) or is_plain(value)):
            return False
        self.taken.add(id(value))
        if is_of_globals:
            self.namespaces[id(value)] = value
        else:
            self.objects[id(value)] = value
        self.seen.clear()
        self.search()
        return True

    def forget(self) -> None:
        self.objects.clear()
        self.namespaces.clear()
        self.taken.clear()
        self.seen.clear()

    def is_own(self, path: str) -> bool:
        """Whether a file is the program's."""
        return self.owners.of(path) == frames.OWN

    def all_globals(self) -> Iterator[dict[str, Any]]:
        """Those of the program's own modules."""
        for module in list(sys.modules.values()):
            if type(module) is types.ModuleType:
                own = vars(module)
                path = own.get("__file__")
                is_script = own.get("__name__") == "__main__"
                if is_script or type(path) is str and self.is_own(path):
                    yield own

    def search(self) -> None:
        everywhere = list(self.all_globals())
        for each in everywhere:
            leading = [self.leads(value) for value in list(each.values())]
            if any(leading):
                self.namespaces[id(each)] = each
        # Those that have functions of these, or call them by their module.
        count = 0
        while count != len(self.namespaces):
            count = len(self.namespaces)
            for each in everywhere:
                if id(each) not in self.namespaces and any(map(self.is_reached, list(each.values()))):
                    self.namespaces[id(each)] = each

    def is_reached(self, value: Any) -> bool:
        if type(value) is types.FunctionType:
            return id(value.__globals__) in self.namespaces
        return type(value) is types.ModuleType and id(vars(value)) in self.namespaces

    def leads(self, value: Any, deep: int = DEEPEST) -> bool:
        """Whether this is an object that the step changes, or leads to one."""
        if not self.objects:
            return False
        key = id(value)
        if key in self.objects:
            return True
        if deep == 0 or key in self.seen or len(self.seen) > MOST_SEEN:
            return False
        parts = parts_of(value)
        if not parts:
            return False
        self.seen.add(key)
        if any([self.leads(each, deep - 1) for each in parts]):
            self.objects[key] = value
            return True
        return False

    def has(self, value: Any) -> bool:
        return id(value) in self.objects


class Views:
    """One rehearsal's copies of functions, and of the globals that these look in."""

    def __init__(self, outside: Outside, copy: Callable[[Any], Any]) -> None:
        self.outside = outside
        # The copy of an object that the step changes.
        self.copy = copy
        self.namespaces: dict[int, dict[str, Any]] = {}
        self.functions: dict[int, tuple[FunctionType, FunctionType]] = {}
        self.methods: dict[type, list[tuple[str, Any]]] = {}
        # The copied objects that have methods of their own.
        self.owners: list[tuple[Any, list[str]]] = []

    def forget(self) -> None:
        """The program's variables are in these globals, and functions in them refer to them: left to the collector,
        they would keep tensors on the GPU."""
        for owner, names in self.owners:
            for name in names:
                owner.__dict__.pop(name, None)
        for made in self.namespaces.values():
            made.clear()
        for kept in (self.owners, self.namespaces, self.functions, self.methods):
            kept.clear()

    def globals_of(self, namespace: dict[str, Any]) -> dict[str, Any]:
        """A module's globals as the rehearsal has them: the module's own where nothing in them leads outside."""
        if id(namespace) not in self.outside.namespaces:
            return namespace
        made = self.namespaces.get(id(namespace))
        if made is None:
            # Its functions look in here.
            made = self.namespaces[id(namespace)] = dict(namespace)
            for name, value in list(made.items()):
                made[name] = self.of(value)
        return made

    def of(self, value: Any) -> Any:
        if self.outside.has(value):
            return self.copy(value)
        if type(value) is types.FunctionType:
            return self.function(value)
        if type(value) is types.ModuleType and id(vars(value)) in self.outside.namespaces:
            made = types.ModuleType(vars(value)["__name__"])
            vars(made).update(self.globals_of(vars(value)))
            return made
        return value

    def function(self, function: FunctionType) -> FunctionType:
        """A function that looks in these globals, and at copies of what it has from the function around it."""
        known = self.functions.get(id(function))
        if known is not None:
            return known[1]
        cells = self.cells(function)
        is_same = all(new is old for new, old in zip(cells, function.__closure__ or ()))
        if is_same and id(function.__globals__) not in self.outside.namespaces:
            return function
        made = types.FunctionType(
            function.__code__, self.globals_of(function.__globals__), function.__name__, function.__defaults__,
            tuple(cells) if cells else None,
        )
        made.__kwdefaults__ = function.__kwdefaults__
        made.__dict__.update(function.__dict__)
        self.functions[id(function)] = function, made
        return made

    def cells(self, function: FunctionType) -> list[Any]:
        made = []
        for cell in function.__closure__ or ():
            try:
                held = cell.cell_contents
            except ValueError:
                made.append(cell)
                continue
            is_reached = self.outside.leads(held) or self.outside.is_reached(held)
            made.append(types.CellType(self.of(held)) if is_reached else cell)
        return made

    def give_methods(self, owner: Any) -> None:
        """Where methods of a copied object find by a global what the step changes, it has its own of them."""
        kind = type(owner)
        if kind not in self.methods:
            self.methods[kind] = list(self.methods_of(kind)) if self.outside.namespaces else []
        given = [(name, function) for name, function in self.methods[kind] if name not in owner.__dict__]
        for name, function in given:
            is_static = type(function) is staticmethod
            own = self.function(function.__func__ if is_static else function)
            owner.__dict__[name] = own if is_static else types.MethodType(own, owner)
        if given:
            self.owners.append((owner, [name for name, _ in given]))

    def methods_of(self, kind: type) -> Iterator[tuple[str, Any]]:
        known: set[str] = set()
        for base in kind.__mro__:
            for name, value in list(vars(base).items()):
                function = value.__func__ if type(value) is staticmethod else value
                # Python looks for those with underscores in the class alone.
                if name not in known and type(function) is types.FunctionType and name[:2] != "__":
                    if id(function.__globals__) in self.outside.namespaces:
                        yield name, value
                known.add(name)


def without_left_over(torch: Any, value: Any) -> Any:
    """The items of a container, without tensors that the step that did not end has made."""
    try:
        if isinstance(value, dict):
            return {key: each for key, each in value.items() if not is_left_over(torch, each)}
        return [each for each in value if not is_left_over(torch, each)]
    except RuntimeError:
        # Another thread changes it meanwhile.
        errors.foreseen("copy what a step changes")
        return {} if isinstance(value, dict) else []


def is_left_over(torch: Any, value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.grad_fn is not None
