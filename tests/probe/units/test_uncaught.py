"""Which error ends a process."""
import os
import subprocess
import sys
import tempfile
import unittest

import support

PROGRAM = """
import atexit, importlib, sys
sys.path.insert(0, %r)
import support
uncaught = importlib.import_module("_oomph_probe.oom.uncaught")
ending = uncaught.Uncaught()
atexit.register(lambda: print(ending.is_oom(), flush=True))
class OutOfMemoryError(RuntimeError): pass
%s
"""

# A script, since spawn runs it again in the child.
CHILD = """
import importlib, multiprocessing, multiprocessing.util, sys
sys.path.insert(0, %r)
import support
uncaught = importlib.import_module("_oomph_probe.oom.uncaught")
ending = uncaught.Uncaught()
%s
class OutOfMemoryError(RuntimeError): pass
def child():
    multiprocessing.util.Finalize(None, lambda: print(ending.is_oom(), flush=True), exitpriority=0)
    %s
if __name__ == "__main__":
    process = multiprocessing.get_context(%r).Process(target=child)
    process.start()
    process.join()
    print(ending.is_oom(), flush=True)
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
        for body, ends_by_oom in [
            ("raise OutOfMemoryError('CUDA out of memory')", True),
            # As torch.multiprocessing.spawn ends a child.
            ("try:\n        raise OutOfMemoryError()\n    except OutOfMemoryError:\n        sys.exit(1)", True),
            ("try:\n        raise OutOfMemoryError()\n    except OutOfMemoryError:\n        pass\n    1 / 0", False),
            ("try:\n        raise OutOfMemoryError()\n    except OutOfMemoryError:\n        sys.exit(0)", False),
            ("pass", False),
        ]:
            for method in ("fork", "spawn", "forkserver"):
                with self.subTest(body=body, method=method):
                    self.assertEqual(self.child(body, method, True)[0], [str(ends_by_oom), "False"])

    def test_a_child_prints_what_it_would_without_us(self):
        for body in ("raise OutOfMemoryError('CUDA out of memory')", "sys.exit('gone')", "1 / 0"):
            for method in ("fork", "spawn"):
                with self.subTest(body=body, method=method):
                    self.assertEqual(self.child(body, method, True)[1], self.child(body, method, False)[1])

    def child(self, body, method, watched):
        """The answers of a child and of its parent, and what the child prints of its error."""
        with tempfile.TemporaryDirectory() as directory:
            script = os.path.join(directory, "script.py")
            with open(script, "w") as file:
                file.write(CHILD % (HERE, "ending.watch_children()" if watched else "", body, method))
            done = subprocess.run(
                [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60
            )
            return done.stdout.decode().split(), done.stderr.decode().replace(directory, "")


if __name__ == "__main__":
    unittest.main()
