"""What the parsers of command lines made of a program's words, noted while it starts. With the real packages, those that
are installed; argparse always is."""
import importlib.util
import json
import os
import subprocess
import sys
import unittest

PROBE = os.path.join(os.path.dirname(__file__), "../../../src/probe/python/oomph_probe")
# Python's start under oomph, and at the end what was noted.
START = """
import atexit, json, sys
from _frozen_importlib_external import SourceFileLoader
hook = type(sys)("_oomph_hook")
hook.__file__ = %r
SourceFileLoader("_oomph_hook", hook.__file__).exec_module(hook)
sys.modules["_oomph_hook"] = hook
hook.install()
def tell():
    parsers = sys.modules.get("_oomph_parsers")
    print("\\nnoted", json.dumps(list(parsers.noted.values()) if parsers else []))
atexit.register(tell)
""" % os.path.abspath(os.path.join(PROBE, "hook.py"))


def run(program, *words):
    """What a program printed, and what was noted of its words, by name."""
    ran = subprocess.run(
        [sys.executable, "-c", START + program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60
    )
    said, _, noted = ran.stdout.decode().rpartition("\nnoted ")
    return said, ran.stderr.decode(), {each["name"]: each for each in json.loads(noted)}


def needs(package):
    return unittest.skipUnless(importlib.util.find_spec(package), package + " is not installed")


class Argparse(unittest.TestCase):
    def test_what_it_makes_of_a_word_is_not_compared(self):
        said, errors, noted = run(
            """
import argparse
class Size:
    def __init__(self, word): pass
    def __ne__(self, other): print("compared"); return True
    __eq__ = __ne__
    __hash__ = None
parser = argparse.ArgumentParser()
parser.add_argument("sizes", type=Size, nargs="*", default=Size(""))
parser.add_argument("batch", type=int, nargs="?", default=3)
parser.parse_args(["a"])
""",
        )
        self.assertEqual((said, errors), ("", ""))
        self.assertEqual((noted["batch"]["value"], noted["batch"]["typed"]), (3, False))

    PROGRAM = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=64)
parser.add_argument("--seq", type=int, default=128, choices=[64, 128, 256])
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--steps", default="100", type=int)
parser.add_argument("--api-key", type=int, default=12345)
parser.add_argument("--amp", action="store_true")
parser.add_argument("width", type=int)
"""

    def test_each_whole_number_is_noted_with_how_it_is_typed(self):
        _, _, noted = run(self.PROGRAM + "parser.parse_args()", "-b", "32", "512")
        self.assertEqual(
            noted["batch_size"],
            {"name": "batch_size", "options": ["-b", "--batch-size"], "value": 32, "default": 64, "typed": True,
             "reads_command": True, "by": "argparse"},
        )
        self.assertEqual((noted["seq"]["value"], noted["seq"]["typed"], noted["seq"]["choices"]), (128, False, [64, 128, 256]))
        self.assertEqual((noted["width"]["value"], noted["width"]["options"]), (512, []))
        self.assertEqual(noted["steps"]["value"], 100)
        self.assertEqual(set(noted), {"batch_size", "seq", "width", "steps"})

    def test_typed_however_it_is_written(self):
        for words in (["--batch-size=32"], ["--batch", "32"], ["-b32"], ["--batch-size", "32"]):
            _, _, noted = run(self.PROGRAM + "parser.parse_args()", *words, "512")
            self.assertEqual((noted["batch_size"]["value"], noted["batch_size"]["typed"]), (32, True), words)
        _, _, noted = run(self.PROGRAM + "parser.parse_known_args()", "512", "--", "-b", "3")
        self.assertFalse(noted["batch_size"]["typed"])

    def test_words_that_are_not_the_commands_are_said_to_be(self):
        _, _, noted = run(self.PROGRAM + "parser.parse_args(['512'])", "--other")
        self.assertFalse(noted["batch_size"]["reads_command"])

    def test_what_a_second_parser_of_the_same_words_refuses_cannot_be_typed(self):
        first = self.PROGRAM.replace('parser.add_argument("width", type=int)\n', "")
        second = """
import sys
other = argparse.ArgumentParser()
other.add_argument("--seq", type=int, default=256)
other.add_argument("--width", type=int, default=8)
"""
        for more, expected in (
            ("parser.parse_args()\nother.parse_args()", [False, True, False]),
            ("parser.parse_args()", [True, True, None]),
            ("parser.parse_args()\nother.parse_known_args()", [True, True, True]),
            ("_, rest = parser.parse_known_args()\nsys.argv = sys.argv[:1] + rest\nother.parse_args()", [True, True, True]),
            ("parser.parse_args()\nother.parse_args([])", [True, True, True]),
        ):
            _, _, noted = run(first + second + more)
            said = [noted.get(name, {}).get("reads_command") for name in ("batch_size", "seq", "width")]
            self.assertEqual(said, expected, more)

    def test_a_parser_for_a_subcommand(self):
        program = """
import argparse
parser = argparse.ArgumentParser()
train = parser.add_subparsers().add_parser("train")
train.add_argument("--batch", type=int, default=16)
train.add_argument("--seed", type=int, default=7)
parser.parse_args()
"""
        _, _, noted = run(program, "train", "--seed", "8")
        self.assertEqual((noted["batch"]["typed"], noted["batch"]["reads_command"]), (False, True))
        self.assertTrue(noted["seed"]["typed"])

    def test_what_goes_wrong_goes_wrong_as_without_it(self):
        said, wrong, noted = run(self.PROGRAM + "parser.parse_args()", "--seq", "65", "512")
        self.assertIn("invalid choice: 65", wrong)
        self.assertEqual(noted, {})
        program = "import argparse\nprint(argparse.ArgumentParser._parse_known_args.__name__)\n" + self.PROGRAM + """
def refuse(text):
    raise RuntimeError("no such thing: " + text)
parser.add_argument("--odd", type=refuse)
parser.parse_args()
"""
        said, wrong, _ = run(program, "512", "--odd", "x")
        self.assertEqual(said, "_parse_known_args\n")
        self.assertTrue(wrong.endswith("RuntimeError: no such thing: x\n"), wrong)
        self.assertNotIn("hook.py", wrong)

    def test_nothing_is_kept_of_what_was_parsed(self):
        program = self.PROGRAM + """
import gc, weakref
class Model: pass
space = argparse.Namespace(model=Model())
seen = weakref.ref(space.model)
parser.parse_args(["512"], space)
del space, parser
gc.collect()
print(seen())
"""
        self.assertEqual(run(program)[0], "None\n")

    def test_no_parser_no_file_is_read_for_it(self):
        said, wrong, noted = run("import sys; import textwrap; print('_oomph_parsers' in sys.modules)")
        self.assertEqual((said, wrong, noted), ("False\n", "", {}))


class Packages(unittest.TestCase):
    """Other parsers."""

    @needs("click")
    def test_click(self):
        program = """
import click
@click.command()
@click.option("--batch", "-b", default=64)
@click.option("--workers", default=4, type=int)
def train(batch, workers):
    import sys; print(any("hook.py" in frame for frame in frames(sys._getframe())))
def frames(frame):
    while frame: yield frame.f_code.co_filename; frame = frame.f_back
train()
"""
        said, wrong, noted = run(program, "--workers", "8")
        self.assertEqual(said, "False\n", wrong)
        self.assertEqual(
            (noted["batch"]["value"], noted["batch"]["typed"], noted["batch"]["options"]), (64, False, ["--batch", "-b"])
        )
        self.assertEqual((noted["workers"]["value"], noted["workers"]["typed"]), (8, True))

    @needs("typer")
    def test_typer(self):
        program = """
import typer
def train(batch_size: int = 64, workers: int = 4): pass
typer.run(train)
"""
        _, wrong, noted = run(program, "--workers", "8")
        self.assertEqual((noted["batch_size"]["options"], noted["batch_size"]["typed"]), (["--batch-size"], False), wrong)

    @needs("absl")
    def test_absl(self):
        program = """
from absl import app, flags
flags.DEFINE_integer("batch_size", 128, "")
flags.DEFINE_integer("ch", 64, "")
app.run(lambda argv: None)
"""
        _, wrong, noted = run(program, "--ch=32")
        self.assertEqual((noted["batch_size"]["value"], noted["batch_size"]["typed"]), (128, False), wrong)
        self.assertEqual((noted["ch"]["value"], noted["ch"]["typed"], noted["ch"]["default"]), (32, True, 64))

    @needs("fire")
    def test_fire(self):
        program = """
import fire
def train(data, batch_size=64, lr=0.1, steps=10):
    return None
fire.Fire(train)
"""
        _, wrong, noted = run(program, "here", "--steps", "20")
        self.assertEqual((noted["batch_size"]["value"], noted["batch_size"]["options"]), (64, ["--batch_size", "-b"]), wrong)
        self.assertEqual((noted["steps"]["value"], noted["steps"]["typed"]), (20, True))

    @needs("typer")
    def test_a_command_of_several_in_typer(self):
        program = """
import typer
from typing import Annotated
app = typer.Typer()
@app.command()
def train(data: str, batch_size: Annotated[int, typer.Option("--bs", "-b", min=1)] = 64): pass
@app.command()
def evaluate(batch_size: int = 8): pass
app()
"""
        _, wrong, noted = run(program, "train", "here", "-b", "32")
        self.assertEqual(
            (noted["batch_size"]["value"], noted["batch_size"]["typed"], noted["batch_size"]["options"]),
            (32, True, ["--bs", "-b"]), wrong,
        )

    @needs("absl")
    def test_short_names_and_choices_in_absl(self):
        program = """
from absl import app, flags
flags.DEFINE_integer("batch_size", 128, "", short_name="b")
flags.DEFINE_enum("width", "64", ["32", "64"], "")
app.run(lambda argv: None)
"""
        _, wrong, noted = run(program, "-b", "32")
        self.assertEqual((noted["batch_size"]["options"], noted["batch_size"]["typed"]), (["--batch_size", "-b"], True), wrong)
        self.assertEqual(noted["width"]["choices"], [32, 64])

    @needs("fire")
    def test_one_letter_in_fire(self):
        program = """
import fire
def train(batch_size=64, steps=10, seed=3): pass
fire.Fire(train)
"""
        _, wrong, noted = run(program, "-b", "32")
        self.assertEqual(
            (noted["batch_size"]["value"], noted["batch_size"]["typed"], noted["batch_size"]["options"]),
            (32, True, ["--batch_size", "-b"]), wrong,
        )
        # Two names begin with this one.
        self.assertEqual(noted["steps"]["options"], ["--steps"])
        open_program = program.replace("seed=3", "**rest")
        _, wrong, noted = run(open_program, "--batch_size=32")
        self.assertEqual(noted["batch_size"]["options"], ["--batch_size"], wrong)

    @needs("tyro")
    def test_tyro(self):
        program = """
import dataclasses, tyro
from typing import Literal
@dataclasses.dataclass
class Optimizer:
    warmup: int = 50
@dataclasses.dataclass
class Config:
    optimizer: Optimizer = dataclasses.field(default_factory=Optimizer)
    batch_size: int = 64
    steps: int = 10
    width: Literal[64, 128] = 64
    api_key: int = 12345
print(tyro.cli(Config))
"""
        said, wrong, noted = run(program, "--steps", "20", "--optimizer.warmup", "7")
        self.assertIn("steps=20", said, wrong)
        self.assertEqual(
            noted["batch_size"],
            {"name": "batch_size", "options": ["--batch-size"], "value": 64, "default": 64, "typed": False,
             "reads_command": True, "by": "tyro"},
        )
        self.assertEqual((noted["steps"]["value"], noted["steps"]["typed"]), (20, True))
        self.assertEqual((noted["optimizer.warmup"]["value"], noted["optimizer.warmup"]["default"]), (7, 50))
        self.assertEqual(noted["width"]["choices"], [64, 128])
        self.assertNotIn("api_key", noted)

    @needs("tyro")
    def test_a_function_in_tyro(self):
        program = """
import tyro
def main(batch_size: int = 64, /, *, steps: int = 10): return batch_size, steps
print(tyro.cli(main))
"""
        said, wrong, noted = run(program, "32", "--steps", "20")
        self.assertEqual(said, "(32, 20)\n", wrong)
        self.assertEqual((noted["batch_size"]["value"], noted["batch_size"]["options"]), (32, []))
        self.assertEqual(noted["steps"]["value"], 20)

    @needs("jsonargparse")
    def test_jsonargparse(self):
        program = """
import jsonargparse
parser = jsonargparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--steps", type=int, default=10)
parser.parse_args()
"""
        _, wrong, noted = run(program, "--steps", "20")
        self.assertEqual((noted["batch_size"]["value"], noted["batch_size"]["typed"]), (64, False), wrong)
        self.assertTrue(noted["steps"]["typed"])

    @needs("configargparse")
    def test_configargparse(self):
        program = """
import configargparse, tempfile, os
file = tempfile.NamedTemporaryFile("w", suffix=".yml", delete=False)
file.write("batch-size: 48\\n"); file.close()
parser = configargparse.ArgParser(default_config_files=[file.name])
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--steps", type=int, default=10)
parser.parse_args()
os.unlink(file.name)
"""
        _, wrong, noted = run(program, "--steps", "20")
        self.assertEqual(noted["batch_size"]["value"], 48, wrong)
        self.assertTrue(noted["batch_size"]["reads_command"])

    @needs("simple_parsing")
    def test_simple_parsing(self):
        program = """
import dataclasses, simple_parsing
@dataclasses.dataclass
class Config:
    batch_size: int = 64
    steps: int = 10
simple_parsing.parse(Config)
"""
        _, wrong, noted = run(program, "--steps", "20")
        sizes = {name.rpartition(".")[2]: each for name, each in noted.items()}
        self.assertEqual((sizes["batch_size"]["value"], sizes["batch_size"]["typed"]), (64, False), (wrong, noted))


if __name__ == "__main__":
    unittest.main()
