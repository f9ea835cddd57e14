"""Where a number stands in a program that has run out of memory: in the variables of its running functions and in what
these hold (namespaces, dataclasses, dicts of settings, configurations), and in the text of its own files.

Only looks: no property, no `__getattr__` and no lazy configuration of the program's runs.
"""

from __future__ import annotations

import ast
import os
import sys
import types
from binascii import crc32

from ..common import errors, frames, objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import Any

    from ..common.frames import Owners
    from ..common.protocols import Line

MOST_NAMES = 200
MOST_LITERALS = 200
MOST_FILES = 60
LONGEST_FILE = 400_000
MOST_ATTRIBUTES = 400
LARGEST = 10**9


def is_size(value: object) -> bool:
    return type(value) is int and 1 < value <= LARGEST


class Names:
    """The whole numbers that the program has names for, innermost function first."""

    def __init__(self, owners: Owners) -> None:
        self.owners = owners
        self.found: dict[tuple[str, str], Line] = {}

    def of_frames(self, stack: Iterable[FrameType]) -> list[Line]:
        for frame in stack:
            code = frame.f_code
            if self.owners.of(code.co_filename) == frames.LIBRARY:
                continue
            if code.co_name != "<module>":
                self.add(frame, frames.read_locals(frame, lambda values: dict(values)))
            self.add(frame, frame.f_globals, "<module>")
        return list(self.found.values())[:MOST_NAMES]

    def add(self, frame: FrameType, values: dict[str, Any], function: str | None = None) -> None:
        code = frame.f_code
        for name, value in list(values.items()):
            if type(name) is not str or name.startswith("__"):
                continue
            if is_size(value):
                self.put(name, value, code.co_filename, function or code.co_name)
                continue
            for key, inner in settings_in(value):
                if type(key) is str and is_size(inner):
                    self.put("%s.%s" % (name, key), inner, code.co_filename, function or code.co_name)

    def put(self, name: str, value: int, file: str, function: str) -> None:
        line: Line = {"name": name, "value": value, "file": file, "function": function}
        self.found.setdefault((name, function), line)


def settings_in(value: Any) -> list[tuple[Any, Any]]:
    """The names and values inside a namespace, a dataclass, a dict, a configuration or an object of the program's."""
    if objects.is_a(value, (types.ModuleType, type, types.FunctionType)):
        return []
    if objects.is_a(value, dict):
        return objects.entries(value) if dict.__len__(value) <= MOST_ATTRIBUTES else []
    own = objects.namespace_of(value)
    if own is None or len(own) > MOST_ATTRIBUTES:
        return []
    # omegaconf's and ml_collections' own places; a node of omegaconf's has its value in a place, too.
    for place in ("_content", "_fields"):
        inner = own.get(place)
        if type(inner) is dict:
            return [(key, plain(each)) for key, each in inner.items()]
    return list(own.items())


def plain(node: object) -> object:
    own = objects.namespace_of(node)
    return node if own is None else own.get("_val", node)


def own_files(owners: Owners) -> list[str]:
    """The program's own sources: the script first."""
    files: list[str] = []
    main = sys.modules.get("__main__")
    for module in [main] + list(sys.modules.values()):
        if not objects.is_a(module, types.ModuleType):
            continue
        path = types.ModuleType.__getattribute__(module, "__dict__").get("__file__")
        if type(path) is str and path.endswith(".py") and path not in files:
            if owners.of(os.path.abspath(path)) == frames.OWN:
                files.append(path)
    return files[:MOST_FILES]


def changed_in_this_run(path: str) -> Any:
    """The file as this run changes its numbers (patch/source.py), if it does."""
    edits = getattr(sys.modules.get("_oomph_source"), "edits", None)
    file = edits.file(path) if edits is not None else None
    return None if file is None or file.text is None else file


def literals(files: Iterable[str], values: set[int]) -> list[Line]:
    """The places of the program's text where one of `values` is written down and has a name: assigned to it, passed
    as it, its default, or in a dict under it."""
    found: list[Line] = []
    for path in files:
        edited = changed_in_this_run(path)
        try:
            if os.path.getsize(path) > LONGEST_FILE:
                continue
            with open(path, "rb") as file:
                text = file.read()
            crc = crc32(text)
            # What runs is the changed text; its places are told as they are in the file.
            source = text if edited is None else edited.text.encode()
            if not any(b"%d" % value in source.replace(b"_", b"") for value in values):
                continue
            tree = ast.parse(text if source is text else source.decode())
        except (OSError, SyntaxError, ValueError):
            errors.foreseen("read a source")
            continue
        for name, kind, node in named_numbers(tree):
            is_wanted = node.value in values or (node.value == 1 and "accum" in name.lower())
            if is_wanted and len(found) < MOST_LITERALS:
                column = node.col_offset if edited is None else edited.column_in_file(node.lineno, node.col_offset)
                found.append(
                    {
                        "file": os.path.realpath(path),
                        "crc": crc,
                        "line": node.lineno,
                        "column": column,
                        "name": name,
                        "kind": kind,
                        "value": node.value,
                    }
                )
    return found


def named_numbers(tree: ast.AST) -> Iterator[tuple[str, str, Any]]:
    """Each whole number that the text gives a name, with how."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from assigned(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from assigned(node.target, node.value)
        elif isinstance(node, ast.NamedExpr):
            yield from assigned(node.target, node.value)
        elif isinstance(node, ast.Call):
            option = option_of(node)
            for keyword in node.keywords:
                number = number_in(keyword.value)
                if keyword.arg and number is not None:
                    is_declared = option is not None and keyword.arg == "default"
                    yield (option or "", "declared", number) if is_declared else (keyword.arg, "keyword", number)
        elif isinstance(node, ast.arguments):
            positional = node.posonlyargs + node.args
            for argument, default in zip(positional[len(positional) - len(node.defaults) :], node.defaults):
                if is_number(default):
                    yield argument.arg, "default", default
            for argument, given in zip(node.kwonlyargs, node.kw_defaults):
                if given is not None and is_number(given):
                    yield argument.arg, "default", given
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):
                number = number_in(value)
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and number is not None:
                    yield key.value, "entry", number


def option_of(call: ast.Call) -> str | None:
    """The option that a call declares (`add_argument("-b", "--batch", …)`, `@click.option(…)`); or None."""
    words = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    options = [word for word in words if word.startswith("-")]
    return max(options, key=len) if options else None


def assigned(target: ast.AST, value: ast.AST) -> Iterator[tuple[str, str, Any]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, its in zip(target.elts, value.elts):
            yield from assigned(one, its)
    elif number_in(value) is not None:
        name = getattr(target, "id", None) or getattr(target, "attr", None)
        if name is not None:
            yield name, "assignment", number_in(value)


def number_in(node: ast.AST | None) -> Any:
    """The whole number that a value is, that is divided to become it (`128 // n_gpu`), or that it is where a look-up
    finds nothing (`int(os.environ.get("BATCH", "128"))`); None where there is none."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "int" and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords:
        called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        node = digits(node.args[1]) if called in ("get", "getenv") else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        node = node.left
    return node if node is not None and is_number(node) else None


def digits(node: ast.AST) -> ast.AST:
    """The number inside the quotes of `"128"`, at its place; the node itself where it is something else."""
    if not (isinstance(node, ast.Constant) and type(node.value) is str):
        return node
    text = node.value
    is_plain = text.isdigit() and text.isascii() and text[0] != "0" and len(text) < 10
    if not is_plain or (node.end_col_offset or 0) - node.col_offset != len(text) + 2:
        return node
    number = ast.Constant(value=int(text))
    number.lineno, number.col_offset = node.lineno, node.col_offset + 1
    return number


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and 0 < node.value <= LARGEST
