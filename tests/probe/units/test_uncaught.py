"""Which error ends a process."""
import os
import subprocess
import sys
import unittest

import support

PROGRAM = """
import atexit, importlib, sys
sys.path.insert(0, %r)
import support
uncaught = importlib.import_module("_oomph_probe.oom.uncaught")
atexit.register(lambda: print(uncaught.ends_by_oom(), flush=True))
class OutOfMemoryError(RuntimeError): pass
%s
"""


HERE = os.path.dirname(support.__file__)


def says(program):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % (HERE, program)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60
    )
    return done.stdout.decode().strip()


class TestUncaught(unittest.TestCase):
    def test_an_oom_that_nobody_caught(self):
        for program in [
            "raise OutOfMemoryError('CUDA out of memory')",
            "raise RuntimeError('CUDA error: out of memory')",
            "try:\n    raise OutOfMemoryError()\nexcept OutOfMemoryError as error:\n    raise ValueError('step') from error",
            "try:\n    raise OutOfMemoryError()\nexcept OutOfMemoryError:\n    1 / 0",
        ]:
            self.assertEqual(says(program), "True", program)

    def test_everything_else(self):
        for program in [
            "pass",
            "1 / 0",
            "raise ValueError('out of memory')",
            "raise RuntimeError(7)",
            "try:\n    raise OutOfMemoryError()\nexcept OutOfMemoryError:\n    pass",
            "try:\n    raise OutOfMemoryError()\nexcept OutOfMemoryError:\n    pass\nraise ValueError()",
            "try:\n    raise OutOfMemoryError()\nexcept OutOfMemoryError:\n    sys.exit(0)",
            "try:\n    raise OutOfMemoryError()\nexcept OutOfMemoryError:\n    raise ValueError() from None",
        ]:
            self.assertEqual(says(program), "False", program)

    def test_a_child_of_multiprocessing(self):
        program = """
import multiprocessing, multiprocessing.util
def child():
    multiprocessing.util.Finalize(None, lambda: print(uncaught.ends_by_oom(), flush=True), exitpriority=0)
    raise OutOfMemoryError()
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
"""
        self.assertEqual(says(program).split(), ["True", "False"])
