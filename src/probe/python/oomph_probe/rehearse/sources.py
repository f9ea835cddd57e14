"""What functions say in their files: parsed one by one, because a file of thousands of lines takes tenths of a second,
and most that a training's call goes through are of that kind."""

from __future__ import annotations

import ast
import os
import re
from types import CodeType
from typing import Any

# A file that is longer is not read.
LONGEST_FILE = 400_000
CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=]", re.MULTILINE)
# What a line may begin with, no further to the right than a function's first, and still be part of it: its other
# decorators, its own first line, the end of what is in parentheses.
HEAD = (b"@", b"def ", b"def\t", b"async ", b"async\t", b")")


class NotFound(Exception):
    """A function's lines are not there to be read, or not as they are expected."""


class Sources:
    """What was parsed, until it is forgotten."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.trees: dict[str, Any] = {}
        self.functions: dict[CodeType, Any] = {}

    def forget(self) -> None:
        self.files.clear()
        self.trees.clear()
        self.functions.clear()

    def file_of(self, path: str) -> bytes:
        try:
            if path not in self.files:
                if os.path.getsize(path) > LONGEST_FILE:
                    raise NotFound("its file is too long")
                with open(path, "rb") as file:
                    self.files[path] = file.read()
            return self.files[path]
        except (OSError, ValueError):
            raise NotFound("its source cannot be read") from None

    def tree_of(self, path: str) -> Any:
        """A whole file."""
        try:
            if path not in self.trees:
                self.trees[path] = ast.parse(self.file_of(path))
            return self.trees[path]
        except (SyntaxError, ValueError, RecursionError):
            raise NotFound("its source cannot be read") from None

    def function_of(self, code: CodeType) -> Any:
        """The `def` that a code object is of; a lambda and a module have none."""
        if code not in self.functions:
            node = cut_out(self.file_of(code.co_filename), code)
            if node is None:
                every = ast.walk(self.tree_of(code.co_filename))
                node = next((each for each in every if is_of(each, code)), None)
            if node is None:
                raise NotFound("its source is not the one that runs")
            self.functions[code] = node
        return self.functions[code]

    def functions_of(self, code: CodeType) -> list[Any]:
        """The function; of several lambdas that begin in one line, all that it may be."""
        if code.co_name != "<lambda>":
            return [self.function_of(code)]
        every = ast.walk(self.tree_of(code.co_filename))
        return [each for each in every if isinstance(each, ast.Lambda) and each.lineno == code.co_firstlineno]

    def body_of(self, code: CodeType) -> list[Any]:
        """The statements of a function or a module."""
        found = self.tree_of(code.co_filename) if code.co_name == "<module>" else self.function_of(code)
        return list(found.body)


# Those whose statements are cut into parts, which changes them: they are forgotten before and after.
CUT = Sources()


def is_of(node: Any, code: CodeType) -> bool:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name != code.co_name:
        return False
    return min([node.lineno] + [each.lineno for each in node.decorator_list]) == code.co_firstlineno


def cut_out(source: bytes, code: CodeType) -> Any:
    """The function by its indentation, with its places in the file; None where it cannot be told so. A cut within a
    string, parentheses or a continued line is no Python, so what is parsed is whole."""
    if source[:3] == b"\xef\xbb\xbf" or CODING.search(b"\n".join(source.split(b"\n", 2)[:2])):
        return None
    lines = source.split(b"\n")
    begin = code.co_firstlineno - 1
    if not 0 <= begin < len(lines):
        return None
    indent = indent_of(lines[begin])
    if indent and not begin:
        return None
    end, is_in_head = begin + 1, not lines[begin].lstrip().startswith(HEAD[1:5])
    for line in lines[begin + 1 :]:
        text = line.strip()
        if text and not text.startswith(b"#") and indent_of(line) <= indent:
            if not (is_in_head and text.startswith(HEAD)) and not text.startswith((b")", b"]", b"}")):
                break
            is_in_head = is_in_head and not text.startswith(HEAD[1:5])
        end += 1
    before = b"\n" * (begin - 1) + b"if 1:\n" if indent else b"\n" * begin
    try:
        body = ast.parse(before + b"\n".join(lines[begin:end]) + b"\n").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    found = getattr(body[0], "body", body) if indent and body else body
    return found[0] if len(found) == 1 and is_of(found[0], code) else None


def indent_of(line: bytes) -> int:
    return len(line) - len(line.lstrip())
