"""What a rehearsal is stopped before, and what it is not: judged by what a function is, not by its name."""
import collections
import gc
import heapq
import io
import itertools
import os
import queue
import random
import socket
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock

import support  # noqa: F401
from _oomph_probe.common import frames
from _oomph_probe.rehearse import before, effects

# Of the test's module, as a program has them.
STATE, CALLS, COUNT, SEEN = {"calls": 0}, [], 0, collections.deque()
QUEUE, SIMPLE, OWN_RANDOM = queue.Queue(), queue.SimpleQueue(), random.Random(7)


class Holder:
    shared = []

    def __init__(self):
        self.value, self.inner, self.names = 0, {"n": 0}, []

    def remove(self, other):
        return other

    def write(self, words):
        return words

    def send(self, words):
        return self.write(words)

    def counts(self):
        self.value += 1


HELD = Holder()


class Handle:
    """As a hook's."""

    def remove(self):
        return None


def counts_in_a_global():
    global COUNT
    COUNT += 1


def counts_outside():
    def inner():
        nonlocal outer
        outer += 1

    outer = 0
    return inner


def shares(holder):
    # It came from outside under another name.
    mine = holder.inner
    mine["n"] = 1


def grows(lists):
    lists += [1]


def of_its_class(holder):
    type(holder).shared.append(1)


def by_its_class(holder):
    holder.__class__.newly = 1


def several(holder):
    first, holder.value = 1, 2
    return first


def opens(path):
    with open(path, "w") as file:
        return file.fileno()


def writes_by_another_name(path):
    return os.open(path, os.O_WRONLY | os.O_CREAT)


def wants(name):
    return lambda: __import__(name)


OUTER = counts_outside()


class Harmless(unittest.TestCase):
    def guard(self):
        # The test's own files are a program's; unittest is Python's.
        owners = frames.Owners(types.SimpleNamespace(__file__="/torch/__init__.py"))
        return effects.Guard(owners, before.Before())

    def is_stopped(self, function, *arguments):
        try:
            with self.guard():
                function(*arguments)
        except effects.Stopped as stopped:
            return str(stopped)
        return None

    def test_effects(self):
        directory = tempfile.mkdtemp()
        path = os.path.join(directory, "file")
        reader, writer = os.pipe()
        file = open(path, "w+")
        here, there = socket.socketpair()
        self.addCleanup(lambda: [file.close(), here.close(), there.close(), os.close(reader), os.close(writer)])
        cases = {
            "print": lambda: print("x"),
            "print to a file": lambda: print("x", file=file),
            "write": lambda: file.write("x"),
            "read": lambda: file.read(),
            "seek": lambda: file.seek(1),
            "flush": lambda: file.flush(),
            "stdout": lambda: sys.__stdout__.write("x"),
            "os.write": lambda: os.write(writer, b"x"),
            "os.remove": lambda: os.remove(path),
            "os.mkdir": lambda: os.mkdir(path + "d"),
            "os.open": lambda: writes_by_another_name(path + "o"),
            "open": lambda: opens(path + "w"),
            "os.environ": lambda: os.environ.__setitem__("OOMPH_TEST", "1"),
            "socket": lambda: here.send(b"x"),
            "a new socket": lambda: socket.socket(),
            "queue": lambda: QUEUE.put(1),
            "simple queue": lambda: SIMPLE.put(1),
            "thread": lambda: threading.Thread(target=print).start(),
            "event": lambda: threading.Event().set(),
            "child": lambda: os.fork(),
            "command": lambda: os.system("true"),
            "a process": lambda: __import__("subprocess").Popen(["true"]),
            "its own random numbers": lambda: OWN_RANDOM.random(),
            "sleep": lambda: __import__("time").sleep(60),
            "signal": lambda: __import__("signal").signal(10, print),
        }
        if not hasattr(sys, "monitoring"):
            # Making an object is no call to a profile function, and nothing of it is to be seen.
            del cases["a new socket"]
        for name, act in cases.items():
            with self.subTest(name):
                self.assertIsNotNone(self.is_stopped(act))
        file.flush()
        self.assertEqual((os.listdir(directory), os.path.getsize(path), file.tell()), (["file"], 0, 0))
        self.assertEqual((QUEUE.qsize(), SIMPLE.qsize()), (0, 0))
        self.assertEqual(OWN_RANDOM.getstate(), random.Random(7).getstate())
        os.remove(path), os.rmdir(directory)

    def test_caches_of_packages_that_only_compute(self):
        # einops notes the kinds of tensors that it has met, in a dict of its module; so it does where `pip install --target` has
        # put it. The same in any other package, or in a file of the program's own, counts as a change.
        text = "known = {}\ndef rearrange(kind):\n    known[kind] = kind\n    known.update({1: next(iter([1]))})\n    return kind\n"
        for name, is_harmless in {
            "lib/python3.12/site-packages/einops/_backends.py": True,
            "target/einops/_backends.py": True,
            "lib/python3.12/site-packages/tracker/einops.py": False,
            "home/einops.py": False,
            "home/einops/_backends.py": False,
        }.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, name)
                os.makedirs(os.path.dirname(path))
                with open(path, "w") as file:
                    file.write(text)
                einops = types.ModuleType("einops")
                einops.__path__ = [
                    os.path.join(directory, place) for place in ("lib/python3.12/site-packages/einops", "target/einops")
                ]
                module = {"__name__": "einops._backends"}
                exec(compile(text, path, "exec"), module)
                with unittest.mock.patch.dict(sys.modules, einops=einops):
                    stopped = self.is_stopped(module["rearrange"], "a")
                self.assertEqual(stopped is None, is_harmless, stopped)
                self.assertEqual(bool(module["known"]), is_harmless)

    def test_changes_of_what_was_there_before(self):
        mine = Holder()
        cases = {
            "a global": counts_in_a_global,
            "an outer variable": OUTER,
            "an item of a global": counts_in_a_dict,
            "a global list": lambda: CALLS.append(1),
            "a global deque": lambda: SEEN.append(1),
            "a global's attribute": HELD.counts,
            "a dict of another": lambda: shares(HELD),
            "a list in place": lambda: grows(CALLS),
            "setattr": lambda: setattr(HELD, "value", 3),
            "a list of a class": lambda: of_its_class(HELD),
            "a class": lambda: by_its_class(HELD),
            "one of several": lambda: several(HELD),
            "an iterator": lambda: next(NUMBERS),
            "an iterator in a loop": loops,
            "an iterator in a list": lambda: list(NUMBERS),
            "an iterator by its method": lambda: NUMBERS.__next__(),
            "a counter": lambda: COUNTED.update("a"),
            "a heap": lambda: heapq.heappush(CALLS, 1),
            "a shuffle": lambda: random.shuffle(CALLS),
            "a missing entry": lambda: MISSING["a"],
            "numbers of its own": lambda: OWN_RANDOM.shuffle([1, 2]),
            "a queue": lambda: FULL.get_nowait(),
            "of a local variable": lambda: several(mine),
        }
        for name, act in cases.items():
            with self.subTest(name):
                self.assertIsNotNone(self.is_stopped(act))
        self.assertEqual((COUNT, STATE, CALLS, list(SEEN)), (0, {"calls": 0}, [], []))
        self.assertEqual((HELD.value, HELD.inner, mine.value, Holder.shared), (0, {"n": 0}, 0, []))
        self.assertFalse(hasattr(Holder, "newly"))
        self.assertEqual((next(NUMBERS), dict(COUNTED), dict(MISSING), FULL.qsize()), (0, {}, {}, 1))
        self.assertEqual(OWN_RANDOM.getstate(), random.Random(7).getstate())

    def test_a_group_of_processes_may_be_asked_but_not_used(self):
        guard = effects.Guard()
        for name, is_asked in (("size", True), ("rank", True), ("allreduce", False), ("barrier", False)):
            self.assertEqual(guard.of_function(effects.GROUPS, name, None, False) is None, is_asked, name)
            group = type("ProcessGroup", (), {"__module__": effects.GROUPS})
            self.assertEqual(guard.of_method(group, name, group(), True) is None, is_asked, name)

    def test_what_only_sounds_like_one(self):
        def its_own():
            made, names, numbers = Holder(), [1, 2], set()
            made.counts(), shares(made), several(made), grows(names)
            names.remove(1), numbers.add(3), names.sort()
            made.names.append(4)
            made.inner["n"] += 1
            return made.remove(made.send("x")), Handle().remove()

        def in_memory():
            file = io.StringIO()
            file.write("x")
            return file.getvalue()

        cases = {
            "of its own": its_own,
            "a file in memory": in_memory,
            "a method named so": lambda: HELD.write(HELD.remove(1)),
            "a look at the disk": lambda: os.path.exists("/"),
            "shared random numbers": random.random,
            "an iterator of its own": lambda: next(iter([1, 2])),
            "several of its own": takes_its_own,
            "an attribute by its name": lambda: setattr(Holder(), "value", 1) or names_one(Holder()),
            "a logger that is silent": lambda: __import__("logging").getLogger("x").debug("y"),
            "numbers": lambda: [each + 1 for each in range(3)],
            "an import": wants("colorsys"),
        }
        for name, act in cases.items():
            with self.subTest(name):
                self.assertIsNone(self.is_stopped(act))

    def test_a_call_site_is_judged_every_time(self):
        def calls(function):
            return function("x")

        def several_times():
            for each in (len, str, CALLS.append):
                calls(each)

        self.assertIn("list outside", self.is_stopped(several_times) or "")
        self.assertEqual(CALLS, [])

    def test_other_threads_go_on(self):
        """Also where they come first to a place that the rehearsal comes to later."""
        file = tempfile.TemporaryFile("w+")
        self.addCleanup(file.close)
        has_ended, rounds = [], itertools.count()
        seen = [0]

        def put(value):
            QUEUE.put(value)

        def busy():
            while not has_ended:
                put(1), QUEUE.get(), file.write("x"), counts_in_a_global()
                seen[0] = next(rounds)

        thread = threading.Thread(target=busy)
        thread.start()
        try:
            with self.assertRaises(effects.Stopped), self.guard():
                first = seen[0]
                while seen[0] < first + 3:
                    pass
                put(2)
        finally:
            has_ended.append(True)
            thread.join()
        self.assertEqual(QUEUE.qsize(), 0)
        file.seek(0)
        self.assertIn("xxx", file.read())
        globals()["COUNT"] = 0

    def test_every_look_comes_to_the_deadline(self):
        looked = []
        owners = frames.Owners(types.SimpleNamespace(__file__="/torch/__init__.py"))
        with effects.Guard(owners, before.Before(), lambda frame: looked.append(frame.f_code.co_name)):
            HELD.send("x")
        self.assertIn("send", looked)


NUMBERS, COUNTED, MISSING, FULL = itertools.count(), collections.Counter(), collections.defaultdict(list), queue.SimpleQueue()
FULL.put(1)


def loops():
    for _ in NUMBERS:
        break


def takes_its_own():
    numbers, heap = iter([1, 2, 3]), []
    first, second = next(numbers), list(numbers)
    heapq.heappush(heap, first)
    for each in (one for one in second):
        heap.append(each)
    return collections.Counter(heap).update(heap)


def names_one(holder):
    setattr(holder, "value", 2)


def counts_in_a_dict():
    STATE["calls"] += 1


class WhatWasThere(unittest.TestCase):
    def test_what_is_made_lies_nowhere_where_something_was(self):
        """What was there is kept: the address of what is gone would be that of something new."""
        gone = [{"at": [at]} for at in range(1000)]
        was_there = before.Before()
        there = {id(each) for each in gone}
        self.assertTrue(there <= was_there.addresses)
        del gone
        made = [{"at": [at]} for at in range(1000)]
        self.assertEqual([each for each in made if id(each) in there or was_there.has(each)], [])
        was_there.forget()
        self.assertEqual(was_there.kept, [])

    def test_who_holds_a_dict_tells_whether_it_was_there(self):
        """A dict of plain values is not known to the collector."""
        was_there = before.Before()
        keywords = {"mask": None}
        holder = [keywords]
        self.assertFalse(was_there.has(keywords))
        del holder
        old = {"mask": None}
        owner = [old]
        gc.collect()
        was_there = before.Before()
        self.assertTrue(was_there.has(old))
        del owner

    def test_what_a_loop_makes_is_told_from_what_was_there_however_many_there_are(self):
        """The collector does not know arrays either; they are not searched for one by one."""

        class Holder:
            pass

        in_a_list, holder = [bytearray(1)], Holder()
        holder.kept, holder.other = bytearray(2), []
        gc.collect()
        was_there = before.Before()
        in_a_dict = vars(holder)
        made = [bytearray(3) for _ in range(200)]
        self.assertFalse(any(map(was_there.has, made)))
        self.assertTrue(was_there.has(in_a_list[0]))
        self.assertTrue(was_there.has(in_a_dict["kept"]))
        self.assertLess(was_there.searches, 10)


if __name__ == "__main__":
    unittest.main()
