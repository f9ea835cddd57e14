"""Errors of the probe's own: counted for the UI, and written where OOMPH_PROBE_DEBUG says."""
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import support  # noqa: F401
from _oomph_probe.common import errors
from _oomph_probe.live import sampler


def caught(write, where="somewhere", error=KeyError("torch")):
    try:
        raise error
    except Exception:
        write(where)


class TestErrors(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "errors")
        with mock.patch.dict(os.environ, {errors.VARIABLE: self.path}):
            self.errors = errors.Errors()

    def written(self):
        return pathlib.Path("%s.%d" % (self.path, os.getpid())).read_text()

    def test_an_error_of_ours_is_counted_and_written(self):
        caught(self.errors.ours, "take a reading")
        self.assertIn("take a reading, process %d:\nTraceback" % os.getpid(), self.written())
        self.assertIn("KeyError: 'torch'", self.written())
        line = self.errors.take(7, False)
        self.assertRegex(line.pop("latest"), r"^take a reading: KeyError \(test_errors\.py:\d+\)$")
        self.assertEqual(line, {"event": "probe_errors", "pid": 7, "count": 1})

    def test_one_that_has_an_answer_is_written_and_does_not_count(self):
        caught(self.errors.foreseen, "cap of a device")
        self.assertIn("foreseen, cap of a device", self.written())
        self.assertIsNone(self.errors.take(7, True))

    def test_only_the_user_may_read_it(self):
        caught(self.errors.ours)
        self.assertEqual(os.stat("%s.%d" % (self.path, os.getpid())).st_mode & 0o777, 0o600)

    def test_without_the_variable_nothing_is_written(self):
        with mock.patch.dict(os.environ, clear=True), mock.patch("os.open") as opened:
            quiet = errors.Errors()
            caught(quiet.ours)
            caught(quiet.foreseen)
        self.assertEqual((quiet.count, opened.called), (1, False))

    def test_a_loop_of_errors_fills_no_disk_and_tells_ever_more_rarely(self):
        told = []
        for _ in range(1000):
            caught(self.errors.ours)
            line = self.errors.take(7, False)
            told += [] if line is None else [line["count"]]
        self.assertEqual(told, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
        self.assertEqual(self.errors.take(7, True)["count"], 1000)
        self.assertEqual(self.written().count("Traceback"), errors.MOST_OURS)
        self.assertIn("more of these are not written", self.written())

    def test_what_cannot_be_written_raises_nothing(self):
        self.errors.path = "/nonexistent/directory/errors"
        caught(self.errors.ours)
        caught(self.errors.foreseen)
        self.assertEqual(self.errors.count, 1)

    def test_no_code_of_the_errors_own_class_runs(self):
        class Theirs(Exception):
            def __str__(self):
                raise AssertionError("run")

            __repr__ = __str__

        self.errors.path = None
        caught(self.errors.ours, "call", Theirs())
        self.assertIn("call: Theirs", self.errors.latest)

    def test_the_sampler_counts_its_own(self):
        class Wire:
            connections = 1

            def is_connected(self):
                raise KeyError("wire")

        before = errors.here.count
        sampler.Sampler(None, Wire(), sampler.Alarm(), None, 0.1).tick()
        self.assertEqual(errors.here.count, before + 1)
        self.assertIn("take a reading: KeyError", errors.here.latest)

    def test_the_hook_writes_before_there_is_a_package(self):
        program = (
            "import sys, types\n"
            "hook = types.ModuleType('_oomph_hook')\n"
            "hook.__file__ = sys.argv[1]\n"
            "exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'), hook.__dict__)\n"
            "hook.__file__ = sys.argv[1]\n"
            "try:\n"
            "    raise ValueError('of the hook')\n"
            "except Exception:\n"
            "    hook.swallowed('load the probe')\n"
        )
        env = {"OOMPH_PROBE_DEBUG": self.path, "PYTHONDONTWRITEBYTECODE": "1"}
        hook = str(support.SOURCES / "hook.py")
        subprocess.run([sys.executable, "-c", program, hook], env=env, check=True)
        (found,) = pathlib.Path(self.path).parent.glob("errors.*")
        self.assertIn("ValueError: of the hook", found.read_text())


if __name__ == "__main__":
    unittest.main()
