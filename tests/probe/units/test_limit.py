"""The line of the program that limits its memory."""
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

import support  # noqa: F401
from _oomph_probe.common.frames import LIBRARY, OWN
from _oomph_probe.oom import limit


class Owners:
    def __init__(self, place):
        self.place = place

    def of(self, path):
        return OWN if path.startswith(self.place) else LIBRARY


class TheLine(unittest.TestCase):
    def found(self, *texts):
        with tempfile.TemporaryDirectory() as place:
            for at, text in enumerate(texts):
                name = "limited_%d" % at
                module = types.ModuleType(name)
                module.__file__ = os.path.join(place, name + ".py")
                with open(module.__file__, "w") as file:
                    file.write(text)
                sys.modules[name] = module
                self.addCleanup(sys.modules.pop, name, None)
            return limit.line(Owners(place))

    def test_is_the_only_one_that_calls_it(self):
        line = self.found("import torch\n\ntorch.cuda.set_per_process_memory_fraction(0.5)\n", "import torch\n")
        self.assertEqual((os.path.basename(line["file"]), line["line"]), ("limited_0.py", 3))

    def test_is_not_known_where_there_are_several_or_none(self):
        call = "torch.cuda.set_per_process_memory_fraction(0.5)\n"
        self.assertIsNone(self.found(call, call))
        self.assertIsNone(self.found("# " + call, "def set_per_process_memory_fraction(share):\n    pass\n"))

    def test_is_not_known_where_the_files_were_not_read_in_a_moment(self):
        call = "torch.cuda.set_per_process_memory_fraction(0.5)\n"
        with unittest.mock.patch.object(limit, "MOMENT", -1.0):
            self.assertIsNone(self.found(call, "import torch\n"))


if __name__ == "__main__":
    unittest.main()
