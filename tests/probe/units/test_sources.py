"""Functions are found in their files as Python has compiled them, whatever their lines look like."""

import ast
import tempfile
import types
import unittest
from pathlib import Path

import support  # noqa: F401
from _oomph_probe.rehearse import sources

ODD = '''"""A module."""
import functools

def short(): return 1
def after(x): return x

def documented(x):
    """Words
at the margin, and
def as_if_it_ended(): pass
    """
    return x

@functools.wraps(
    short
)
@functools.lru_cache(
    maxsize=None,
)
def decorated(
    a,
    b=(
        1,
    ),
):
# A remark at the margin.
    if a:
        return b

    return a
value = 1

class Model:
    @property
    def size(self):
        def inner(
            x
        ):
            return x
        return inner(2)
    @size.setter
    def size(self, to):
        self.to = to

    async def fetch(self):
        text = \\
"continued at the margin"
        return text
    def last(self):
        return [
    1,
]

    square = lambda x: x * x; cube = lambda x: x * x * x

\tdef_by_tab = None
'''.replace("\n\tdef_by_tab = None\n", "\nif True:\n\tdef tabbed():\n\t\treturn 3\n")


def codes(code):
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes(each)


def told(text, written=None):
    """By name and line, what is found, and what the whole file has there."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "odd.py"
        path.write_bytes(written if written is not None else text.encode())
        found, read = {}, sources.Sources()
        for code in codes(compile(path.read_bytes(), str(path), "exec")):
            if not code.co_name.startswith("<") and code.co_name != "Model":
                node = read.function_of(code)
                found[code.co_name, code.co_firstlineno] = ast.dump(node, include_attributes=True), node.name
        trees = {}
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([node.lineno] + [each.lineno for each in node.decorator_list])
                trees[node.name, first] = ast.dump(node, include_attributes=True), node.name
        return found, trees, len(read.trees)


class Found(unittest.TestCase):
    def test_each_function_is_what_the_whole_file_has_in_its_place(self):
        found, trees, _ = told(ODD)
        self.assertEqual(found, trees)
        self.assertGreaterEqual(len(found), 10)

    def test_lines_that_end_as_on_windows_and_other_codings_are_read(self):
        self.assertEqual(*told(ODD, ODD.replace("\n", "\r\n").encode())[:2])
        latin = "# -*- coding: latin-1 -*-\n" + ODD.replace("Words", "W\xf6rter")
        self.assertEqual(*told(ODD, latin.encode("latin-1"))[:2])

    def test_a_long_file_is_not_parsed_for_one_function(self):
        text = "".join(f"def f{at}(x):\n    return x + {at}\n\n" for at in range(500))
        found, trees, whole = told(text)
        self.assertEqual((found, whole), (trees, 0))

    def test_lambdas_of_one_line_are_all_that_may_be_meant(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "two.py"
            path.write_text("both = lambda x: x, lambda x: -x\n")
            code = next(each for each in codes(compile(path.read_text(), str(path), "exec")) if each.co_name == "<lambda>")
            self.assertEqual(len(sources.Sources().functions_of(code)), 2)

    def test_a_file_that_has_changed_since_is_not_taken_for_the_one_that_runs(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "changed.py"
            path.write_text("def step():\n    return 1\n")
            code = next(each for each in codes(compile(path.read_text(), str(path), "exec")) if each.co_name == "step")
            path.write_text("import os\n\ndef step():\n    return 2\n")
            with self.assertRaises(sources.NotFound):
                sources.Sources().function_of(code)
            path.unlink()
            with self.assertRaises(sources.NotFound):
                sources.Sources().function_of(code)


if __name__ == "__main__":
    unittest.main()
