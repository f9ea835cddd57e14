"""The probe's folders import one way, as its docstring has them: a folder only those named before it."""
import ast
import os
import pathlib
import re
import subprocess
import sys
import unittest

import support

# Python's start runs these by themselves, before there is a package.
ALONE = {"hook.py", "behind.py", "compiled.py", "ending.py"}

# Whether the probe has started, and the folders that are packages without a file.
STARTED = """
import sys
sys.path[:0] = [%r]
import support
sys.path[:0] = [str(support.SOURCES.parents[3] / "tests/probe/torch_stub")]
import torch, _oomph_probe
_oomph_probe.start()
made = [name for name, module in sys.modules.items() if not hasattr(module, "__file__")]
print(_oomph_probe.here is not None, *sorted(name[13:] for name in made if name.startswith("_oomph_probe.")))
"""


def folders():
    """In the order in which the package's docstring names them."""
    package = ast.parse((support.SOURCES / "__init__.py").read_text())
    return re.findall(r"^(\w+)/ ", ast.get_docstring(package), re.MULTILINE)


def imported(path):
    """The folders that a file imports from; "" for the package's own files."""
    own = path.relative_to(support.SOURCES).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = own[: len(own) - node.level + 1]
            names = [node.module] if node.module else [each.name for each in node.names]
            for name in names:
                yield (list(above) + name.split("."))[0]


def without_types(module):
    """What runs: not what is imported for the type checker."""
    for_types = [each for each in module.body if isinstance(each, ast.If) and "TYPE_CHECKING" in ast.dump(each.test)]
    module.body = [each for each in module.body if each not in for_types]
    return module


class TestLayers(unittest.TestCase):
    def test_every_folder_is_in_the_docstring(self):
        there = {path.parent.name for path in support.SOURCES.glob("*/__init__.py")}
        self.assertEqual(there, set(folders()))

    def test_the_folders_files_hold_nothing_since_they_are_not_read(self):
        for name in folders():
            (only,) = ast.parse((support.SOURCES / name / "__init__.py").read_text()).body
            self.assertIsInstance(only, ast.Expr)

    def test_a_start_reads_no_folders_file(self):
        said = subprocess.run(
            [sys.executable, "-c", STARTED % os.path.dirname(support.__file__)],
            stdout=subprocess.PIPE, universal_newlines=True, env=dict(os.environ, OOMPH_PROBE_SOCKET="/nonexistent"),
        ).stdout
        self.assertEqual(said.split(), ["True"] + sorted(folders()))

    def test_every_file_is_in_the_docstring(self):
        text = ast.get_docstring(ast.parse((support.SOURCES / "__init__.py").read_text()))
        for path in support.SOURCES.rglob("*.py"):
            if path.name != "__init__.py":
                self.assertRegex(text, r"(?m)^ *%s  +\w" % path.stem)

    def test_folders_import_only_what_stands_above_them(self):
        order = folders()
        seen = 0
        for path in support.SOURCES.glob("*/*.py"):
            own = order.index(path.parent.name)
            for folder in imported(path):
                seen += 1
                self.assertIn(folder, order[: own + 1], path)
        self.assertGreater(seen, 50)

    def test_no_two_files_import_each_other(self):
        """Not even by way of others, and not at first use either; types may refer to each other within a folder."""
        edges = {}
        for path in support.SOURCES.rglob("*.py"):
            if path.name == "__init__.py":
                continue
            of = edges.setdefault(path.stem, set())
            for node in ast.walk(without_types(ast.parse(path.read_text()))):
                if isinstance(node, ast.ImportFrom) and node.level:
                    of.update([node.module.split(".")[-1]] if node.module else [])
                    of.update(each.name for each in node.names)
        done = set()
        while True:
            free = {name for name, of in edges.items() if not (of & edges.keys()) - done} - done
            if not free:
                break
            done |= free
        self.assertEqual(edges.keys() - done, set())

    def test_what_pythons_start_runs_imports_nothing_of_the_package(self):
        for name in ALONE:
            for node in ast.walk(ast.parse((support.SOURCES / name).read_text())):
                if isinstance(node, ast.ImportFrom):
                    self.assertEqual(node.level, 0, name)

    def test_every_broad_except_says_where_it_is(self):
        """Through common/errors.py; or the error goes on."""
        seen = 0
        for path in support.SOURCES.rglob("*.py"):
            if path.name == "errors.py":
                continue
            text = path.read_text()
            for node in ast.walk(ast.parse(text)):
                if not isinstance(node, ast.ExceptHandler):
                    continue
                caught = [each.id for each in ast.walk(node.type) if isinstance(each, ast.Name)]
                if not {"Exception", "BaseException"} & set(caught):
                    continue
                seen += 1
                body = "\n".join(text.splitlines()[node.lineno : node.end_lineno]).strip()
                says = re.search(r"errors\.(ours|refused|foreseen)\(|\b(swallowed|refused)\(|\braise\b", body)
                self.assertTrue(says or (path.name, body) == ("hook.py", "pass"), (path, node.lineno))
        self.assertGreater(seen, 50)


if __name__ == "__main__":
    unittest.main()
