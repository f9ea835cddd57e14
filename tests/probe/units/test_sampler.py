"""Who reads the allocator and who sends, by how often steps end: a training told moment by moment."""
import collections
import contextlib
import json
import os
import socket
import tempfile
import types
import unittest
from unittest import mock

import support  # noqa: F401
from _oomph_probe.common import wire
from _oomph_probe.live import readings, sampler

INTERVAL = 0.1


class Allocator:
    """A device that holds one more byte at each reading."""

    def __init__(self):
        self.count = 0

    def read(self, device):
        self.count += 1
        return types.SimpleNamespace(allocated=self.count, reserved=9, peak=9)

    def devices(self):
        return [{"total": 100}]

    def limit(self, device):
        return None

    def usage(self, device, reading, limit):
        return None

    def sample(self, pid, device, reading, limit):
        return {"event": "sample", "allocated": reading.allocated}


class Ways:
    """The wire: what was queued, and by whom it was sent."""

    reads_devices = False
    is_urgent = True
    connections = 1

    def __init__(self, sends_at_steps):
        self.sends_at_steps = sends_at_steps
        self.lines = []
        self.by_steps = self.by_thread = 0

    def is_connected(self):
        return True

    def receive(self):
        return b""

    def put(self, line, ns=None):
        self.lines.append((line["event"], ns))

    def pause(self, interval):
        return interval

    def flush(self, timeout, although_stalled=False):
        self.by_thread += 1

    def flush_at_once(self):
        self.by_steps += 1


class Training:
    """Steps that end `step` seconds apart while the thread wakes up every INTERVAL."""

    def __init__(self, sends_at_steps=True, interval=INTERVAL):
        self.now = 1000.0
        self.wire = Ways(sends_at_steps)
        self.allocator = Allocator()
        self.ended = collections.deque()
        nothing = types.SimpleNamespace(take=lambda *_: [])
        self.steps = types.SimpleNamespace(count=0, report=self.report)
        sources = sampler.Sources(
            7, readings.Readings(None, 7, self.allocator), self.steps, structure=nothing,
            tracing=types.SimpleNamespace(take=lambda: None),
            requests=types.SimpleNamespace(take=lambda received: None), recording=None, patches=None, reads=True, called=lambda: None,
        )
        self.sampler = sampler.Sampler(None, self.wire, sampler.Alarm(), sources, interval)

    def report(self, wire, at_end):
        while self.ended:
            wire.put({"event": "step"}, self.ended.popleft())

    def go_on(self, seconds, step=None):
        """So many seconds with a step every `step` seconds; without one where it is None."""
        next_tick, until = self.now + self.sampler.pause_now(), self.now + seconds
        next_step = self.now + step if step else until + 1
        with mock.patch.object(sampler, "time") as clock, mock.patch.object(readings, "time", clock):
            while self.now < until:
                self.now = min(next_tick, next_step)
                clock.monotonic.return_value = self.now
                clock.monotonic_ns.return_value = int(self.now * 1e9)
                if self.now == next_step:
                    self.steps.count += 1
                    self.ended.append(int(self.now * 1e9))
                    if self.now >= self.sampler.due_at:
                        self.sampler.step_ended(self.now)
                    next_step += step
                else:
                    self.sampler.tick()
                    next_tick += self.sampler.pause_now()
        sent = self.wire.by_thread, self.wire.by_steps
        self.wire.by_thread = self.wire.by_steps = 0
        return sent


class WhereStepsComeOften(unittest.TestCase):
    def test_they_send_and_the_thread_looks(self):
        training = Training()
        training.go_on(2.0, 0.005)
        read = training.allocator.count
        by_thread, by_steps = training.go_on(10.0, 0.005)
        # As often as the screen is drawn.
        self.assertGreaterEqual(by_steps, 38)
        self.assertLessEqual(by_thread, 11)
        # Each reading within a step is told, at its own time.
        self.assertGreaterEqual(training.allocator.count - read, 38)
        told = [ns for event, ns in training.wire.lines if event == "sample" and ns is not None]
        self.assertGreaterEqual(len(told), 28)
        self.assertEqual(told, sorted(told))

    def test_a_step_that_grows_is_noticed_at_the_next_look(self):
        training = Training()
        seen = []
        training.allocator.usage = lambda device, reading, limit: reading.allocated
        training.sampler.sources.recording = types.SimpleNamespace(
            update=lambda steps, usages, after, may_end: seen.append((training.now, usages[0])))
        training.steps.after = {}
        training.go_on(2.0, 0.005)
        del seen[:]
        training.go_on(10.0, 0.005)
        apart = [later - now for (now, _), (later, _) in zip(seen, seen[1:])]
        # Not only with the rest, every 0.9 s.
        self.assertLess(max(apart), 0.5)
        allocated = [bytes for _, bytes in seen]
        self.assertEqual(allocated, sorted(set(allocated)), "each with a new reading")

    def test_a_long_interval_is_not_made_longer(self):
        training = Training(interval=10.0)
        training.go_on(100.0, 0.1)
        _, by_steps = training.go_on(100.0, 0.1)
        self.assertGreaterEqual(by_steps, 9)

    def test_looks_fall_on_all_parts_of_a_step(self):
        training, step = Training(), 0.125
        training.go_on(2.0, step)
        began = training.now
        training.wire.lines.clear()
        _, by_steps = training.go_on(20.0, step)
        self.assertLessEqual(by_steps, 81)
        looks = [ns / 1e9 for event, ns in training.wire.lines if event == "sample" and ns is not None]
        # Of this length they are cheap enough to come at the interval.
        self.assertGreaterEqual(len(looks), 150)
        for at in range(10):
            # Within any two seconds, every fifth of a step.
            within = [look for look in looks if 0 <= look - began - 2 * at < 2]
            parts = {int((look - began) / step % 1 * 5) for look in within}
            self.assertEqual(parts, {0, 1, 2, 3, 4}, at)

    def test_they_go_on_to_be_told_once_no_step_ends(self):
        training = Training()
        training.go_on(3.0, 0.005)
        by_thread, by_steps = training.go_on(3.0)
        self.assertGreaterEqual(by_thread, 23)
        self.assertEqual(by_steps, 0)
        self.assertFalse(training.ended)

    def test_a_file_system_is_left_to_the_thread(self):
        training = Training(sends_at_steps=False)
        by_thread, by_steps = training.go_on(3.0, 0.005)
        self.assertGreaterEqual(by_thread, 27)
        self.assertEqual(by_steps, 0)


class WhatIsQueued(unittest.TestCase):
    def test_is_urgent_unless_it_is_a_reading(self):
        with listening() as (path, _):
            sender = wire.Wire(path, lambda: {"event": "hello"})
            for line, keep, is_urgent in (
                ({"event": "sample"}, False, False), ({"event": "step"}, False, False),
                ({"event": "oom"}, True, True), ({"event": "trace"}, False, True), ({"event": "sample"}, True, True),
            ):
                self.assertTrue(sender.flush(5.0))
                self.assertFalse(sender.is_urgent)
                sender.put(line, keep=keep)
                self.assertEqual(sender.is_urgent, is_urgent, line)
            sender.lose()


class WhereStepsAreLong(unittest.TestCase):
    def test_looks_do_not_keep_pace_with_them(self):
        training, step = Training(), 0.4
        began, looks = training.now, []
        read = training.allocator.read

        def look(device):
            looks.append((training.now - began) / step)
            return read(device)

        training.allocator.read = look
        training.go_on(20.0, step)
        for first in range(0, 48, 8):
            # Within any eight steps, most tenths of a step; four of them alone at even intervals.
            parts = {int(at % 1 * 10) for at in looks if first <= at < first + 8}
            self.assertGreaterEqual(len(parts), 7, first)

    def test_the_thread_does_it_all(self):
        by_thread, by_steps = Training().go_on(10.0, 0.35)
        self.assertGreaterEqual(by_thread, 99)
        self.assertEqual(by_steps, 0)

    def test_readings_wait_for_each_other_and_nothing_else_does(self):
        training = Training()
        training.wire.is_urgent = False
        read = training.allocator.count
        by_thread, _ = training.go_on(10.0, 0.35)
        self.assertGreaterEqual(training.allocator.count - read, 99, "looked at as often")
        self.assertLessEqual(by_thread, 56)
        self.assertGreaterEqual(by_thread, 40)
        training.wire.is_urgent = True
        self.assertGreaterEqual(training.go_on(10.0, 0.35)[0], 99)


@contextlib.contextmanager
def listening():
    """A socket's path, and the socket, which takes two at the most before somebody accepts them."""
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(2)
            yield path, listener


class ASocketThatIsFull(unittest.TestCase):
    def test_makes_no_step_wait_and_loses_nothing(self):
        with listening() as (path, listener):
            self.fill_and_empty(wire.Wire(path, lambda: {"event": "hello"}), listener)

    def fill_and_empty(self, sender, listener):
        sender.flush_at_once()
        self.assertFalse(sender.is_connected(), "only the thread connects")
        self.assertTrue(sender.flush(5.0))
        reader, _ = listener.accept()
        with reader:
            most, numbers = wire.MAX_WAITING // 2, iter(range(10**9))
            while len(sender.waiting) < most:
                sender.put({"event": "step", "count": next(numbers), "of": "x" * 4000})
                sender.flush_at_once()
                self.assertTrue(sender.is_connected())
            put = next(numbers)
            self.assertFalse(sender.stalled)
            received = b""
            while received.count(b"\n") < put + 1:
                received += reader.recv(1 << 20)
                sender.flush_at_once()
            told = [json.loads(line) for line in received.splitlines()]
            self.assertEqual([line["count"] for line in told if line["event"] == "step"], list(range(put)))
            sender.lose()


class ANumberThatTheProgramHasTaken(unittest.TestCase):
    """It has closed every descriptor that it does not know, and has opened a file of its own."""

    def taken(self, act):
        with tempfile.TemporaryDirectory() as place:
            path, own = os.path.join(place, "socket"), os.path.join(place, "own")
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            listener.listen(2)
            with listener:
                sender = wire.Wire(path, lambda: {"event": "hello"})
                self.assertTrue(sender.flush(5.0))
                descriptor = os.open(own, os.O_RDWR | os.O_CREAT)
                os.dup2(descriptor, sender.socket.fileno())
                number = sender.socket.fileno()
                os.close(descriptor)
                sender.put({"event": "note"})
                act(sender)
                # The next connection has another number.
                self.assertTrue(sender.flush(5.0))
                self.assertNotEqual(sender.socket.fileno(), number)
                os.write(number, b"the program's")
                self.assertTrue(os.get_blocking(number))
                os.close(number)
                sender.lose()
                with open(own, "rb") as file:
                    self.assertEqual(file.read(), b"the program's")

    def test_is_left_alone_whatever_the_probe_was_about_to_do(self):
        for act in (
            lambda sender: sender.flush(5.0),
            lambda sender: sender.flush_at_once(),
            lambda sender: sender.receive(),
            lambda sender: sender.lose(),
            lambda sender: sender.abandon(),
        ):
            self.taken(act)

    def test_is_noticed_where_nothing_has_it_yet(self):
        with listening() as (path, listener):
            sender = wire.Wire(path, lambda: {"event": "hello"})
            self.assertTrue(sender.flush(5.0))
            os.close(sender.socket.fileno())
            sender.flush_at_once()
            self.assertFalse(sender.is_connected())
            self.assertTrue(sender.flush(5.0))
            sender.lose()


if __name__ == "__main__":
    unittest.main()
