"""Where a number stands in a program that has run out of memory: in the variables of its running functions and in what
these hold (namespaces, dataclasses, dicts of settings, configurations), and in the text of its own files.

Only looks: no property, no `__getattr__` and no lazy configuration of the program's runs.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import types
from binascii import crc32

from ..common import errors, frames, objects
from .names import OTHER

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
LARGEST_POWER = 64
ARITHMETIC = re.compile(rb"[0-9][ \t]*(?:[*+-]|//)[ \t]*[0-9*]")


WORD = re.compile("[A-Z]?[a-z0-9]+|[A-Z]+")


def words(name: str) -> set[str]:
    """The words of a name in lower case: of `trainBatchSize`, `TEST.BATCH`."""
    return {word.lower() for word in WORD.findall(name)}


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
            plain = source.replace(b"_", b"")
            if not any(b"%d" % value in plain for value in values) and ARITHMETIC.search(plain) is None:
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
    elsewhere = dict(of_other_classes(tree, ""))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from assigned(target, node.value, elsewhere.get(node, ""))
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from assigned(node.target, node.value, elsewhere.get(node, ""))
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
            defaults = list(zip(positional[len(positional) - len(node.defaults) :], node.defaults))
            defaults += [(one, given) for one, given in zip(node.kwonlyargs, node.kw_defaults) if given is not None]
            for argument, given in defaults:
                number = folded(given)
                if is_number(number):
                    yield argument.arg, "default", number
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


def of_other_classes(node: ast.AST, front: str) -> Iterator[tuple[ast.AST, str]]:
    """The statements of classes that are about something else than training by their names, with what precedes theirs:
    `class TEST: BATCH = 100`."""
    for each in getattr(node, "body", ()):
        if isinstance(each, ast.ClassDef):
            name = "%s%s." % (front, each.name)
            if is_other(name):
                yield from ((inner, name) for inner in each.body)
            yield from of_other_classes(each, name)


def is_other(name: str) -> bool:
    return bool(words(name) & OTHER)


def assigned(target: ast.AST, value: ast.AST, front: str = "") -> Iterator[tuple[str, str, Any]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, its in zip(target.elts, value.elts):
            yield from assigned(one, its, front)
    elif number_in(value) is not None:
        name = getattr(target, "id", None) or getattr(target, "attr", None)
        of = getattr(target, "value", None)
        # `config.TEST.BATCH = 100`
        if isinstance(of, ast.Attribute) and is_other(of.attr):
            front = "%s." % of.attr
        if name is not None:
            yield front + name, "assignment", number_in(value)


def number_in(node: ast.AST | None) -> Any:
    """The whole number that a value is, that is divided to become it (`128 // n_gpu`), or that it is where a look-up
    finds nothing (`int(os.environ.get("BATCH", "128"))`); None where there is none."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "int" and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords:
        called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        node = digits(node.args[1]) if called in ("get", "getenv") else None
    if node is not None:
        node = folded(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        node = folded(node.left)
    return node if node is not None and is_number(node) else None


def folded(node: ast.AST) -> ast.AST:
    """The number that is computed of written ones alone, at its place (`2 ** 7`, `4 * 32`); else the node itself. One
    with brackets is left: it is replaced as it is written."""
    value = computed(node) if isinstance(node, ast.BinOp) and node.lineno == node.end_lineno else None
    if value is None:
        return node
    number = ast.Constant(value=value)
    return ast.copy_location(number, node)


def computed(node: ast.AST) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int and 0 <= node.value <= LARGEST else None
    if not isinstance(node, ast.BinOp):
        return None
    left, right = computed(node.left), computed(node.right)
    begins, ends = node.left.col_offset, node.right.end_col_offset
    if left is None or right is None or (begins, ends) != (node.col_offset, node.end_col_offset):
        return None
    if isinstance(node.op, ast.Mult):
        value = left * right
    elif isinstance(node.op, ast.Add):
        value = left + right
    elif isinstance(node.op, ast.Sub):
        value = left - right
    elif isinstance(node.op, ast.Pow) and right <= LARGEST_POWER:
        value = int(left**right)
    elif isinstance(node.op, ast.FloorDiv) and right:
        value = left // right
    else:
        return None
    return value if value <= LARGEST else None


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
