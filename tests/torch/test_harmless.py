"""Whatever happens in a rehearsal, the program ends or goes on as it would without one.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import ast
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = pathlib.Path(__file__).with_name("unlucky.py")


def run(*words):
    with tempfile.TemporaryDirectory() as directory:
        lines = os.path.join(directory, "lines")
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, str(PROGRAM), *words], capture_output=True, text=True, timeout=300,
            env=dict(os.environ, LINES=lines),
            # A shell's job in the background ignores it, and so would its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        done.took = time.monotonic() - began
        text = pathlib.Path(lines).read_text() if os.path.exists(lines) else "[]"
    try:
        done.lines = ast.literal_eval(text)
    except ValueError:
        done.lines = text
    return done


def status_of_ctrl_c():
    """What Ctrl-C ends a program with that has torch's compiler imported, as every one has that is rehearsed: some versions of
    torch have a function at exit in whose course Python forgets what has ended it."""
    program = "import os, signal, time, torch._dynamo\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=300,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    return done.returncode


class Harmless(unittest.TestCase):
    def ends_as_bare(self, mode):
        bare, rehearsed = run("bare", mode), run("rehearsed", mode)
        self.assertEqual(without_torchs(rehearsed.stderr), without_torchs(bare.stderr))
        self.assertEqual((rehearsed.returncode, rehearsed.stdout), (bare.returncode, bare.stdout))
        return rehearsed

    def test_ends_by_it(self):
        done = self.ends_as_bare("ends")
        self.assertEqual(done.returncode, 1)
        # It was rehearsed at all.
        self.assertIn("trace", done.lines[0][0][0])

    def test_what_goes_on_has_the_same_numbers(self):
        done = self.ends_as_bare("goes_on")
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 4))
        self.assertIn("trace", done.lines[0][0][0])

    def test_an_error_of_its_own(self):
        for mode in ("recurses", "memory", "exits", "cpp", "warns"):
            with self.subTest(mode):
                self.assertEqual(self.ends_as_bare(mode).returncode, 1)

    def test_an_operator_that_hangs(self):
        self.assertEqual(self.ends_as_bare("hangs").returncode, 1)
        self.ends_as_bare("hangs_goes_on")

    def test_a_loop_without_an_end(self):
        self.assertEqual(self.ends_as_bare("loops").returncode, 1)
        self.ends_as_bare("loops_goes_on")

    def test_the_main_thread_is_gone(self):
        self.ends_as_bare("in_a_thread")

    def test_a_signal_meanwhile(self):
        for mode, status in (
            ("hangs_sigint", status_of_ctrl_c()), ("hangs_sigterm", -signal.SIGTERM), ("hangs_handler", 7), ("hangs_exit", 5),
        ):
            with self.subTest(mode):
                done = run("rehearsed", mode)
                self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
                self.assertNotIn("oomph_probe", done.stderr)
        self.assertEqual(run("rehearsed", "hangs_sigint").stderr.splitlines()[-1], "KeyboardInterrupt")


def without_torchs(stderr):
    """Without the lines of frames that torch's own files have, of which the wrapper is one."""
    lines, is_torchs = [], False
    for line in stderr.splitlines():
        if line.lstrip().startswith("File "):
            is_torchs = "/torch/nn/modules/module.py" in line
        if not is_torchs or not line.startswith(" "):
            lines.append(line)
    return lines


if __name__ == "__main__":
    unittest.main()
