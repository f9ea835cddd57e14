"""The names by which the program knows its objects: variables of running functions and of generators, globals of
modules, attributes. And the line at which what has such a name grows.

Only looks: no property, `__getattr__`, `__len__` or `repr` of the program's is called.
"""

from __future__ import annotations

import collections
import functools
import os
import sys
import types
from _thread import get_ident

from ..common import frames, objects
from . import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Mapping

    from ..common.frames import Owners
    from ..common.protocols import Line

LOCAL, GLOBAL, ATTRIBUTE, OTHER = "local", "global", "attribute", "other"
# In this order: an OrderedDict is a dict.
PLAIN = (list, dict, tuple, set, frozenset, collections.deque)
# Functions of one module or class that are searched for the line.
MOST_FUNCTIONS = 300
LONGEST_KEY = 40
CACHE = type(functools.lru_cache(int))
SUSPENDED = {
    types.GeneratorType: "gi_frame",
    types.CoroutineType: "cr_frame",
    types.AsyncGeneratorType: "ag_frame",
}


class Binding:
    """A name, and whose it is: a function's, a module's or a class's."""

    __slots__ = ("kind", "name", "of", "codes", "place")

    def __init__(self, kind: str, name: str, of: str | None, codes: list[CodeType], place: Any) -> None:
        self.kind = kind
        self.name = name
        self.of = of
        # The code in which the name is used.
        self.codes = codes
        # Where to point if that doesn't say where it grows: (file, line, function), or None.
        self.place = place

    def line(self) -> Line | None:
        """Where what it names grows; else where it is made; else where its function is; or None."""
        first_made = None
        for code in self.codes:
            grows, made = self.uses(code)
            if grows is not None:
                return frames.line_of(*grows)
            first_made = first_made or made
        place = first_made or self.place
        return frames.line_of(*place) if place is not None else None

    def grows(self) -> bool:
        """Whether a line is known at which it grows."""
        return any(self.uses(code)[0] is not None for code in self.codes)

    def uses(self, code: CodeType) -> Any:
        return usage.of(code, self.name, self.kind == ATTRIBUTE)

    def words(self) -> str:
        """`scenario in train.py:88 train`."""
        if self.place is None:
            return "%s of %s" % (self.name, self.of)
        file, line, function = self.place
        return "%s in %s:%d %s" % (self.name, os.path.basename(file), line, function)


# What is kept by something in Python that has no name.
UNNAMED = Binding(OTHER, "", "", [], None)


class Variables:
    """The names of one moment, by the identity of what they name."""

    def __init__(self, owners: Owners) -> None:
        self.owners = owners
        self.locals: dict[Any, Any] = {}
        # By the identity of the dict of its globals.
        self.modules: dict[Any, Any] = {}
        # The code that runs, with the identity of its globals.
        self.running: list[Any] = []

    def collect(self) -> None:
        for name, module in list(sys.modules.items()):
            if issubclass(type(module), types.ModuleType):
                namespace = types.ModuleType.__getattribute__(module, "__dict__")
                self.modules.setdefault(id(namespace), name)
        stacks = sys._current_frames()
        # A frame of ours that is referred to by itself would stay, with all that it refers to.
        stacks.pop(get_ident(), None)
        for frame in stacks.values():
            for outer in frames.outwards(frame):
                self.add_frame(outer)
        for outer in frames.own_frames():
            self.add_frame(outer)

    def add_frame(self, frame: FrameType) -> None:
        """What the variables of a frame refer to."""
        code, namespace = frame.f_code, frame.f_globals
        self.running.append((code, id(namespace)))
        # Also of what was run by `exec`.
        self.modules.setdefault(id(namespace), dict.get(namespace, "__name__"))
        for name, identity in names_in(frame):
            self.locals.setdefault(identity, []).append(local(code, frame.f_lineno, name))

    def of(self, thing: object) -> Binding | None:
        """The variable of a running function that refers to it; the program's before a library's."""
        found = self.locals.get(id(thing))
        if not found:
            return None
        own = [each for each in found if self.is_own(each)]
        growing = [each for each in own or found if each.grows()]
        return (growing or own or found)[0]

    def is_own(self, binding: Any) -> bool:
        return self.owners.of(binding.codes[0].co_filename) == frames.OWN

    def is_librarys(self, binding: Any) -> bool:
        return self.owners.of(binding.codes[0].co_filename) == frames.LIBRARY

    def at_the_end(self, referrer: Any, link: Any) -> Binding | None:
        """The name by which `referrer` refers to what a link is for, where names end: a module's, a class's, a
        generator's, a frame's that is over, a function's. None elsewhere."""
        kind, thing = type(referrer), link.thing
        if kind is dict and id(referrer) in self.modules:
            return self.of_module(referrer, thing)
        if issubclass(kind, type):
            return self.of_class(referrer, content(referrer, link).thing)
        if kind in SUSPENDED:
            frame = getattr(referrer, SUSPENDED[kind])
            return self.of_frame(frame, thing) if frame is not None else None
        if kind is types.FrameType:
            return self.of_frame(referrer, thing)
        if kind is types.FunctionType:
            return of_function(referrer, link)
        if kind is CACHE:
            return of_cache(referrer)
        return None

    def of_module(self, namespace: dict[str, Any], thing: object) -> Any:
        module = self.modules[id(namespace)]
        for key, value in list(namespace.items()):
            if value is thing and type(key) is str:
                codes = [code for code, of in self.running if of == id(namespace)]
                return Binding(GLOBAL, key, module, codes + functions_in(namespace, module), None)
        return None

    def of_class(self, cls: type, thing: object) -> Any:
        for key, value in list(type.__getattribute__(cls, "__dict__").items()):
            if value is thing:
                return self.of_attribute(cls, key)
        return None

    def of_frame(self, frame: FrameType, thing: object) -> Any:
        for name, identity in names_in(frame):
            if identity == id(thing):
                return local(frame.f_code, frame.f_lineno, name)
        return None

    def attribute(self, owner: object, thing: object) -> Binding | None:
        """The attribute of an object that refers to it, or None."""
        for key, value in list((objects.namespace_of(owner) or {}).items()):
            if value is thing:
                return self.of_attribute(type(owner), key)
        for cls in type(owner).__mro__:
            for key, member in list(vars(cls).items()):
                if type(member) is types.MemberDescriptorType:
                    try:
                        if member.__get__(owner) is thing:
                            return self.of_attribute(type(owner), key)
                    except AttributeError:
                        continue
        return None

    def of_attribute(self, cls: type, name: str) -> Any:
        codes = [code for base in cls.__mro__ for code in functions_in(vars(base), None)]
        place = (codes[0].co_filename, codes[0].co_firstlineno, codes[0].co_name) if codes else None
        return Binding(ATTRIBUTE, name, cls.__name__, codes + [code for code, _ in self.running], place)


def names_in(frame: FrameType) -> Any:
    """The variables of a frame with the identities of their values. None of a function that calls `locals()`: it
    may have kept that dict, which Python before 3.13 brings up to date for everybody who looks."""
    code = frame.f_code
    is_shared = sys.version_info < (3, 13) and code.co_flags & 1
    if code.co_name == "<module>" or is_shared and "locals" in code.co_names:
        return []
    return frames.read_locals(
        frame, lambda values: [(name, id(value)) for name, value in dict(values).items()]
    )


def local(code: CodeType, line: Any, name: str) -> Any:
    return Binding(LOCAL, name, code.co_name, [code], (code.co_filename, line, code.co_name))


def of_function(function: Any, link: Any) -> Any:
    """A variable of its closure, or an argument's default."""
    code, thing = function.__code__, link.thing
    name = None
    if thing is function.__closure__ and link.below is not None:
        named = [name for name, cell in zip(code.co_freevars, thing) if cell is link.below.thing]
        name = named[0] if named else None
    elif thing is function.__defaults__ and link.below is not None:
        arguments = code.co_varnames[: code.co_argcount][-len(thing) :]
        named = [name for name, value in zip(arguments, thing) if value is link.below.thing]
        name = named[0] if named else None
    return None if name is None else local(code, code.co_firstlineno, name)


def content(referrer: Any, link: Any) -> Any:
    """The link for what a variable holds: of a function there was one for its closure or its defaults, of a class
    one for its dict."""
    if type(referrer) is types.FunctionType or issubclass(type(referrer), type) and type(link.thing) is dict:
        link = link.below or link
    return link.below if type(link.thing) is types.CellType and link.below else link


def of_cache(cache: Any) -> Any:
    """Results that `functools.lru_cache` keeps."""
    function = getattr(cache, "__wrapped__", None)
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    return Binding(GLOBAL, "lru_cache", code.co_name, [], (code.co_filename, code.co_firstlineno, code.co_name))


def functions_in(namespace: Mapping[str, Any], module: str | None) -> list[CodeType]:
    """The code of the functions in a namespace; of a module's, only those that it defines."""
    codes = []
    for value in list(namespace.values())[:MOST_FUNCTIONS]:
        value = getattr(value, "__func__", value) if type(value) in (staticmethod, classmethod) else value
        value = value.fget if type(value) is property else value
        if type(value) is types.FunctionType and module in (None, value.__module__):
            codes.append(value.__code__)
        elif module is not None and issubclass(type(value), type) and vars(value).get("__module__") == module:
            codes += functions_in(vars(value), None)
    return codes


def length_of(thing: object) -> int | None:
    """How many there are in a plain container, None for anything else."""
    for base in PLAIN:
        if issubclass(type(thing), base):
            count: Any = base.__len__
            return int(count(thing))
    return None


def place_in(container: Any, thing: object) -> str:
    """`["losses"]`: where in a plain container it is."""
    if issubclass(type(container), dict):
        for key, value in list(dict.items(container)):
            if value is thing:
                if type(key) is str:
                    return '["%s"]' % key[:LONGEST_KEY]
                return "[%d]" % key if type(key) is int else "[…]"
    for base in (list, tuple):
        if issubclass(type(container), base):
            for place, value in enumerate(base.__iter__(container)):
                if value is thing:
                    return "[%d]" % place
    return "[…]"


def describe(thing: object) -> str:
    """`list of 18`, `Leak object`."""
    length = length_of(thing)
    name = type(thing).__name__
    return "%s object" % name if length is None else "%s of %d" % (name, length)
