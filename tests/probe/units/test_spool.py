"""The file for a UI on another node: what is written there, how much, and what stops it."""
import errno
import json
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest
from _thread import get_ident, start_new_thread
from unittest import mock

import support  # noqa: F401
from _oomph_probe.common import pace, rotation, spool, wire


def sample(second, allocated=1 << 34):
    pool = {"allocated": allocated, "reserved": allocated, "inactive_split": allocated, "segments": 1000}
    line = {name: allocated for name in ("allocated", "reserved", "allocated_peak", "reserved_peak", "active",
                                         "inactive_split", "requested", "alloc_retries", "ooms", "segments")}
    return dict(line, ns=int(second * 1e9), event="sample", pid=4000000, device=7, small_pool=pool)


def step(second, count, peak):
    edge = {"allocated": peak, "reserved": peak, "peak": peak}
    return {"ns": int(second * 1e9), "event": "step", "pid": 4000000, "device": 7, "count": count, "micros": 12345,
            "before": edge, "after": edge}


class PaceIs(unittest.TestCase):
    def written(self, seconds, more=lambda lines, second: None):
        """Bytes of each second, of a rank that does all it can."""
        lines, bytes_of = pace.Lines(1), []
        for second in range(seconds):
            for part in range(10):
                count = second * 10 + part + 1
                lines.add(step(second + part / 10, count, 1 << 34), False)
            lines.add(sample(second), False)
            lines.add({"ns": int(second * 1e9), "event": "device_memory", "device": 7, "free": 1 << 33, "total": 1 << 34},
                      False)
            more(lines, second)
            bytes_of.append(sum(len(wire.encode(line)) + 12 for line in lines.take(float(second), False)))
        return bytes_of

    def most_in_a_minute(self, bytes_of):
        return max(sum(bytes_of[at : at + 60]) for at in range(len(bytes_of) - 59))

    def test_below_its_bound_in_every_minute(self):
        def ooms(lines, second):
            # A program that catches one out-of-memory after another.
            lines.add({"ns": 0, "event": "oom", "lines": "x" * 30000}, True)

        quiet, loud = self.written(600), self.written(600, ooms)
        self.assertLess(self.most_in_a_minute(quiet), 100000)
        self.assertLess(self.most_in_a_minute(loud), 200000)
        # Readings go on all the same.
        self.assertGreater(min(sum(quiet[at : at + 10]) for at in range(580)), 0)

    def test_such_that_the_record_of_an_oom_is_never_crowded_out(self):
        lines = pace.Lines(1)
        for second in range(300):
            for _ in range(50):
                lines.add(sample(second), False)
            lines.take(float(second), False)
        lines.add({"ns": 0, "event": "oom", "lines": "x" * 90000}, True)
        self.assertEqual([line["event"] for line in lines.take(300.0, False)][:1], ["oom"])

    def test_slow_for_steps_but_not_for_a_peak_nor_the_last(self):
        lines = pace.Lines(1)
        for count in range(1, 101):
            lines.add(step(count / 100, count, 5 << 30 if count == 50 else 4 << 30), False)
        told = [line["count"] for line in lines.take(1.0, True)]
        self.assertEqual(told[-1], 100)
        self.assertIn(50, told)
        self.assertLess(len(told), 6)

    def test_such_that_the_last_step_is_told_at_the_end(self):
        lines = pace.Lines(1)
        for second in range(300):
            for _ in range(5):
                lines.add(sample(second), False)
            lines.take(float(second), False)
        lines.add(step(300.0, 7, 4 << 30), False)
        self.assertEqual([line["count"] for line in lines.take(300.0, True) if line["event"] == "step"], [7])

    def test_slower_with_very_many_ranks(self):
        self.assertGreater(pace.Lines(512).interval, pace.Lines(16).interval)


class RotationKeeps(unittest.TestCase):
    def text(self, samples):
        lines = [{"seq": 1, "event": "hello"}]
        for number in range(samples):
            lines.append({"seq": number + 2, "ns": number, "event": "sample", "allocated": number})
            if number % 100 == 50:
                lines.append({"seq": number + 2, "ns": number, "event": "oom", "allocated": number})
        return b"".join(wire.encode(line) for line in lines)

    def test_the_last_part_whole_and_half_of_the_rest(self):
        text = self.text(2000)
        kept = [json.loads(line) for line in rotation.thinned(text, len(text)).splitlines()]
        self.assertEqual(kept[0]["event"], "hello")
        numbers = [line["seq"] for line in kept]
        self.assertEqual(numbers, sorted(numbers))
        self.assertEqual(sum(line["event"] == "oom" for line in kept), 20)
        samples = [line["allocated"] for line in kept if line["event"] == "sample"]
        self.assertEqual(samples[-400:], list(range(1600, 2000)))
        self.assertAlmostEqual(len(samples), 1250, delta=40)

    def test_no_more_than_it_may(self):
        text = self.text(3000)
        for _ in range(5):
            text = rotation.thinned(text + self.text(3000), 60000)
            self.assertLessEqual(len(text), 60000)
            self.assertIn(b'"hello"', text.splitlines()[0])

    def test_a_session_of_512_ranks_below_its_cap(self):
        self.assertLessEqual(512 * rotation.cap(512), rotation.SESSION)
        self.assertGreaterEqual(rotation.cap(100000), rotation.LEAST)
        self.assertLessEqual(rotation.cap(1), rotation.MOST)


class SpoolOf(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = temporary.name
        self.mark("s")
        environment = mock.patch.dict(os.environ, {"OOMPH_SESSION": "s", "SLURMD_NODENAME": "gpu/7"})
        environment.start()
        self.addCleanup(environment.stop)

    def mark(self, session):
        with open(os.path.join(self.directory, "session"), "w") as file:
            json.dump({"session": session}, file)

    def make(self):
        made = spool.Spool(self.directory, 42, lambda: None, lambda: {"event": "hello", "pid": 42, "run": 3})
        made.writer = get_ident()
        self.addCleanup(made.lose)
        return made

    def files(self):
        return sorted(name for name in os.listdir(self.directory) if name.endswith(".jsonl"))

    def lines(self, name=None):
        with open(os.path.join(self.directory, name or self.files()[-1])) as file:
            return [json.loads(line) for line in file]

    def test_a_number_that_the_program_has_taken_is_left_alone(self):
        """It has closed every descriptor that it does not know, and has opened a file of its own."""
        for act in (spool.Spool.write, spool.Spool.lose, spool.Spool.abandon):
            made = self.make()
            made.put({"event": "note", "text": "a"})
            self.assertTrue(made.flush(0))
            own, number = os.path.join(self.directory, "own"), made.file
            descriptor = os.open(own, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, number)
            os.close(descriptor)
            made.put({"event": "note", "text": "b"})
            act(made)
            self.assertTrue(made.write())
            self.assertNotEqual(made.file, number)
            os.write(number, b"the program's")
            os.close(number)
            with open(own, "rb") as file:
                self.assertEqual(file.read(), b"the program's")

    def test_a_process_is_one_private_file_with_its_hello_first(self):
        made = self.make()
        made.put({"event": "note", "text": "a"})
        self.assertTrue(made.flush(0))
        made.end()
        self.assertEqual(self.files(), ["3-gpu_7-42-1.jsonl"])
        self.assertEqual([line["event"] for line in self.lines()], ["hello", "note", "end"])
        self.assertEqual([line["seq"] for line in self.lines()], [1, 2, 3])
        about = os.stat(os.path.join(self.directory, self.files()[0]))
        self.assertEqual(about.st_mode & 0o777, 0o600)

    def test_an_earlier_process_of_the_same_number_keeps_its_file(self):
        self.make().flush(0)
        self.make().flush(0)
        self.assertEqual(self.files(), ["3-gpu_7-42-1.jsonl", "3-gpu_7-42-2.jsonl"])

    def test_another_sessions_directory_is_left_alone(self):
        self.mark("t")
        self.assertFalse(self.make().flush(0))
        os.unlink(os.path.join(self.directory, "session"))
        self.assertFalse(self.make().flush(0))
        self.mark("s")
        os.chmod(self.directory, 0o755)
        self.assertFalse(self.make().flush(0))
        os.chmod(self.directory, 0o700)
        os.rename(os.path.join(self.directory, "session"), os.path.join(self.directory, "elsewhere"))
        os.symlink("elsewhere", os.path.join(self.directory, "session"))
        self.assertFalse(self.make().flush(0))
        self.assertEqual(self.files(), [])

    def test_a_full_disk_is_left_alone_and_loses_no_half_line(self):
        made = self.make()
        made.flush(0)
        real, room = os.write, [7]

        def write(fd, text):
            if not room[0]:
                raise OSError(errno.ENOSPC, "full")
            took, room[0] = real(fd, text[: room[0]]), 0
            return took

        made.put({"event": "note", "text": "a"})
        with mock.patch("os.write", write):
            self.assertFalse(made.flush(0))
            self.assertFalse(made.flush(0))
        made.paused_until = 0
        made.put({"event": "note", "text": "b"})
        self.assertTrue(made.flush(0))
        self.assertEqual([line.get("text") for line in self.lines()], [None, "a", "b"])

    def test_what_is_written_is_sent_to_the_server_at_once(self):
        made = self.make()
        sent = []
        with mock.patch("os.fdatasync", lambda fd: sent.append(os.fstat(fd).st_size)):
            made.put({"event": "note", "text": "a"})
            made.flush(0)
            made.flush(0)
        size = os.path.getsize(os.path.join(self.directory, self.files()[0]))
        self.assertEqual(sent, [size], "whole lines, and once")

    def test_the_last_of_a_disk_is_the_trainings(self):
        made = self.make()
        made.flush(0)
        made.looked = -1000.0
        about = types.SimpleNamespace(f_blocks=1000, f_frsize=1 << 20, f_bavail=49)
        with mock.patch("os.statvfs", lambda fd: about):
            made.put({"event": "note", "text": "a"})
            self.assertFalse(made.flush(0))
        self.assertEqual(len(self.lines()), 1)
        self.assertTrue(made.is_connected())

    def test_a_file_that_was_removed_is_made_anew(self):
        made = self.make()
        made.flush(0)
        os.unlink(os.path.join(self.directory, self.files()[0]))
        made.looked = -1000.0
        made.flush(0)
        made.put({"event": "note", "text": "a"})
        self.assertTrue(made.flush(0))
        self.assertEqual([line["event"] for line in self.lines()], ["hello", "note"])
        self.assertEqual(made.connections, 2)

    def test_a_file_stays_below_its_cap(self):
        made = self.make()
        made.cap = 20000
        for second in range(400):
            made.lines.left = pace.AT_ONCE
            made.put(sample(second))
            made.flush(0)
            sizes = [os.path.getsize(os.path.join(self.directory, name)) for name in self.files()]
            self.assertEqual(len(sizes), 1)
            self.assertLess(sizes[0], made.cap + 1000)
        numbers = [line["seq"] for line in self.lines()]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(numbers[-1], 401)
        self.assertEqual(self.lines()[0]["event"], "hello")

    def test_a_thread_of_the_training_never_writes_and_hardly_waits(self):
        made = self.make()
        made.writer = None
        made.put({"event": "oom"}, keep=True)
        began = time.monotonic()
        self.assertFalse(made.flush(0.2))
        self.assertLess(time.monotonic() - began, 2.0)
        self.assertEqual(self.files(), [])

    def test_a_record_is_written_while_the_training_waits(self):
        made = self.make()
        made.writer = None

        def run():
            made.writer = get_ident()
            made.flush(0)

        made.wake_writer = lambda: start_new_thread(run, ())
        made.put({"event": "oom"}, keep=True)
        self.assertTrue(made.flush(20.0))


HANGING = """
import os, sys, time
sys.path[:0] = [%r, %r]
import support  # noqa: F401
from _oomph_probe.common import spool
wrote = os.write
def write(fd, text):
    if b'"hello"' in bytes(text):
        time.sleep(3600)
    return wrote(fd, text)
os.write = write
import _oomph_probe, torch
_oomph_probe.start()
torch.cuda.init()
parameters = [torch.empty(1 << 20)]
optimizer = torch.optim.Adam(parameters)
began = time.monotonic()
for _ in range(50):
    optimizer.step()
print("%%.3f" %% (time.monotonic() - began))
"""


class AMountThatHangs(unittest.TestCase):
    def test_stops_neither_step_nor_exit(self):
        here = os.path.dirname(os.path.abspath(__file__))
        stub = os.path.join(os.path.dirname(here), "torch_stub")
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "session"), "w") as file:
                json.dump({"session": "s"}, file)
            environment = dict(
                os.environ, OOMPH_SESSION="s", OOMPH_PROBE_SPOOL=directory,
                OOMPH_PROBE_SOCKET=os.path.join(directory, "none"), OOMPH_PROBE_RUN="1",
            )
            ended = subprocess.run(
                [sys.executable, "-c", HANGING % (here, stub)], env=environment, timeout=60,
                stdout=subprocess.PIPE, universal_newlines=True,
            )
            self.assertEqual(ended.returncode, 0)
            self.assertLess(float(ended.stdout), 10.0)
            sizes = [
                os.path.getsize(os.path.join(directory, name)) for name in os.listdir(directory) if "jsonl" in name
            ]
            self.assertEqual(sizes, [0])


if __name__ == "__main__":
    unittest.main()
