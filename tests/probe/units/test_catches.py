"""Whether an error that leaves a call may be caught by those outside of it."""
import os
import subprocess
import sys
import tempfile
import unittest

import support

# A program of its own: where this runs there is always somebody who catches everything.
BEFORE = """
import contextlib, functools, importlib, sys, threading
sys.path.insert(0, %r)
import support
catches = importlib.import_module("_oomph_probe.rehearse.catches")
class OutOfMemoryError(RuntimeError): pass
class Own(OutOfMemoryError): pass
class Unlike(ValueError): pass
ANY, UNLIKE = (OutOfMemoryError, KeyboardInterrupt), (Unlike, KeyError)
def runs_out():
    sys.stderr.write(str(catches.may_be_caught(sys._getframe(1), OutOfMemoryError, "/torch/")))
class Manager:
    def __enter__(self): return self
    def __exit__(self, *error): return None
""" % os.path.dirname(os.path.abspath(support.__file__))

PASSES = (
    "runs_out()",
    "def main():\n  runs_out()\nmain()",
    "try:\n  runs_out()\nfinally:\n  print()",
    "with Manager() as it, contextlib.nullcontext():\n  runs_out()",
    "try:\n  runs_out()\nexcept KeyboardInterrupt:\n  pass",
    "try:\n  runs_out()\nexcept (SystemExit, Unlike) as error:\n  pass",
    "try:\n  runs_out()\nexcept UNLIKE:\n  pass",
    "try:\n  runs_out()\nexcept Own:\n  pass",
    "try:\n  runs_out()\nexcept contextlib.ExitStack:\n  pass",
    "try:\n  runs_out()\nexcept Exception as error:\n  print(error)\n  raise",
    "try:\n  runs_out()\nexcept Exception as error:\n  raise error",
    "try:\n  1 / 0\nexcept Exception:\n  runs_out()",
    "try:\n  pass\nexcept Exception:\n  pass\nelse:\n  runs_out()",
    "try:\n  pass\nexcept Exception:\n  pass\nruns_out()",
    "for _ in range(1):\n  list(map(lambda _: runs_out(), [1]))",
)
MAY_BE_CAUGHT = (
    "try:\n  runs_out()\nexcept:\n  pass",
    "try:\n  runs_out()\nexcept Exception:\n  pass",
    "try:\n  runs_out()\nexcept BaseException as error:\n  print(error)",
    "try:\n  runs_out()\nexcept RuntimeError as error:\n  if 'memory' not in str(error):\n    raise",
    "try:\n  runs_out()\nexcept (KeyError, OutOfMemoryError):\n  pass",
    "try:\n  runs_out()\nexcept ANY:\n  pass",
    "try:\n  runs_out()\nexcept KeyError:\n  pass\nexcept OutOfMemoryError:\n  pass",
    "try:\n  try:\n    runs_out()\n  except KeyError:\n    pass\nexcept Exception:\n  pass",
    "def of(kind):\n  try:\n    runs_out()\n  except kind:\n    pass\nof(KeyError)",
    "def kinds():\n  return KeyError\ntry:\n  runs_out()\nexcept kinds():\n  pass",
    "try:\n  runs_out()\nexcept Exception as error:\n  raise ValueError from error",
    "def main():\n  for _ in range(1):\n    try:\n      runs_out()\n    finally:\n      continue\nmain()",
    "with contextlib.suppress(Exception):\n  runs_out()",
    "def inner():\n  runs_out()\ntry:\n  inner()\nexcept Exception:\n  pass",
    "thread = threading.Thread(target=runs_out)\nthread.start()\nthread.join()",
    "exec('try:\\n  runs_out()\\nexcept KeyError:\\n  pass')",
    "import code\ncode.InteractiveInterpreter(globals()).runsource('runs_out()')",
)


def said(program, as_module=False):
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "train.py"), "w") as file:
            file.write(BEFORE + program + "\n")
        command = [sys.executable, "-W", "ignore"] + (["-m", "train"] if as_module else ["train.py"])
        return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60).stderr


class Catches(unittest.TestCase):
    def test_what_lets_it_pass(self):
        for program in PASSES:
            with self.subTest(program):
                self.assertEqual(said(program), "False")

    def test_what_may_catch_it(self):
        for program in MAY_BE_CAUGHT:
            with self.subTest(program):
                self.assertEqual(said(program), "True")

    def test_as_a_module(self):
        self.assertEqual(said(PASSES[0], as_module=True), "False")


if __name__ == "__main__":
    unittest.main()
