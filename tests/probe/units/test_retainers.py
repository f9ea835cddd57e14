"""Who keeps memory alive: variables, attributes and graphs, with tensors that are only an address."""
import collections
import functools
import gc
import itertools
import sys
import time
import types
import unittest
from unittest import mock

import support  # noqa: F401
from _oomph_probe.common import frames
from _oomph_probe.oom import retainers

MIB = 1 << 20
addresses = itertools.count(4096, 512)


class Tensor:
    is_cuda = True

    def __init__(self, grad_fn=None, address=None):
        self.grad_fn, self.address = grad_fn, address or next(addresses)

    def data_ptr(self):
        return self.address

    @property
    def grad(self):
        raise AssertionError("asked for its gradient")


class SavedTensor:
    """What a graph keeps: no object of Python's refers to it."""

    def __init__(self, address):
        self.address = address

    @property
    def data(self):
        return Tensor(address=self.address)

    def unpack(self):
        raise AssertionError("unpacked")


class Node:
    """An operation that saved something, and was made of these."""

    def __init__(self, *behind):
        self.address = next(addresses)
        self.next_functions = tuple((node, 0) for node in behind)

    @property
    def _raw_saved_self(self):
        return SavedTensor(self.address)

    @property
    def _saved_self(self):
        raise AssertionError("unpacked")

    def _sequence_nr(self):
        return self.address


class Owners:
    def of(self, path):
        return frames.LIBRARY if path.startswith("/library/") else frames.OWN


def fake_torch():
    autograd = types.SimpleNamespace(SavedTensor=SavedTensor)
    return types.SimpleNamespace(Tensor=Tensor, _C=types.SimpleNamespace(_autograd=autograd))


class Who(unittest.TestCase):
    def setUp(self):
        gc.collect()
        self.blocks = {}

    def tensor(self, *behind):
        """One of a MiB; `behind` are the nodes of its graph, each with another MiB."""
        node = Node(*behind) if behind else None
        tensor = Tensor(node)
        self.blocks[tensor.address] = MIB
        for each in (node, *behind):
            if each is not None:
                self.blocks[each.address] = MIB
        return tensor

    def search(self, seconds=60.0):
        until = time.monotonic() + seconds
        looked = retainers.Search(fake_torch(), self.blocks, Owners(), until, lambda tensor: True)
        return looked.run()

    def the_one(self):
        """The only name, and how many MiB it keeps."""
        found, ended = self.search()
        self.assertTrue(ended)
        self.assertEqual(len(found), 1, found)
        return found[0]

    def check(self, found, name, what, mib, grows_at=None):
        said = "%s: %s" % (found["name"], found["type"])
        if "length" in found:
            said += " of %d" % found["length"]
        self.assertEqual((said, found["bytes"]), ("%s: %s" % (name, what), mib * MIB))
        if grows_at is not None:
            self.assertEqual(found["line"]["line"], grows_at)


class Variables(Who):
    def test_of_a_running_function(self):
        losses = []
        for _ in range(18):
            losses.append(self.tensor())
        here = sys._getframe().f_lineno - 1
        found = self.the_one()
        self.check(found, "losses", "list of 18", 18, here)
        self.assertEqual((found["kind"], found["of"]), ("local", "test_of_a_running_function"))
        self.assertEqual((found.get("above"), found["below"]), (None, ["Tensor object"]))

    def test_of_a_caller_that_waits(self):
        outputs = {"loss": [self.tensor() for _ in range(5)], "steps": 5}

        def inner():
            return self.the_one()

        self.check(inner(), 'outputs["loss"]', "list of 5", 5)

    def test_of_a_generator_that_is_suspended(self):
        def batches():
            cache = collections.deque()
            for _ in range(4):
                cache.append(self.tensor())
            yield 1

        loader = batches()
        next(loader)
        found = self.the_one()
        self.check(found, "cache", "deque of 4", 4)
        self.assertEqual(found["of"], "batches")
        del loader

    def test_of_a_closure(self):
        def install():
            kept = []

            def hook():
                kept.append(self.tensor())

            return hook

        hook = install()
        for _ in range(3):
            hook()
        found = self.the_one()
        self.check(found, "kept", "list of 3", 3)
        self.assertEqual(found["of"], "hook")

    def test_of_an_arguments_default(self):
        def remember(x, seen=[]):
            seen.append(x)

        for _ in range(6):
            remember(self.tensor())
        self.check(self.the_one(), "seen", "list of 6", 6)

    def test_of_a_module(self):
        module = types.ModuleType("made_up")
        sys.modules["made_up"] = module
        self.addCleanup(sys.modules.pop, "made_up")
        exec("CACHE = {}\ndef keep(key, x):\n    CACHE[key] = x\n", vars(module))
        for step in range(7):
            module.keep(step, self.tensor())
        found = self.the_one()
        self.check(found, "CACHE", "dict of 7", 7, 3)
        self.assertEqual((found["kind"], found["of"]), ("global", "made_up"))

    def test_of_a_frame_that_an_error_keeps(self):
        def fails():
            states = [self.tensor() for _ in range(4)]
            raise ValueError(len(states))

        try:
            fails()
        except ValueError as error:
            kept = error
        found = self.the_one()
        self.check(found, "states", "list of 4", 4)
        self.assertEqual(found["of"], "fails")
        del kept

    def test_that_is_a_tensor_itself(self):
        total = self.tensor(Node(), Node())
        found = self.the_one()
        self.check(found, "total", "Tensor", 4)
        self.assertEqual(found["graph"], 3 * MIB)
        del total

    def test_of_results_that_are_cached(self):
        @functools.lru_cache(None)
        def mask(size):
            return self.tensor()

        for size in range(4):
            mask(size)
        found = {(each["name"], each["of"]) for each in self.search()[0]}
        self.assertEqual(found, {("lru_cache", "mask")})


class Meter:
    def __init__(self):
        self.history = []

    def add(self, states):
        self.history.append(states)


class Slotted:
    __slots__ = ("states",)


class Shared:
    kept = []


class Attributes(Who):
    def test_of_an_object_with_the_way_up_to_it(self):
        meter = Meter()
        for _ in range(9):
            meter.add([self.tensor() for _ in range(12)])
        found = self.the_one()
        # At the ninth step the list of each step is longer: it is not the one that grows.
        self.check(found, "history", "list of 9", 9 * 12, Meter.add.__code__.co_firstlineno + 1)
        self.assertEqual((found["kind"], found["of"]), ("attribute", "Meter"))
        self.assertEqual(found["above"][0], "Meter object")
        self.assertRegex(found["above"][1], r"^meter in test_retainers.py:\d+ test_of_an_object")
        self.assertEqual(found["below"], ["list of 12", "Tensor object"])

    def test_of_many_objects_in_a_list(self):
        records = []
        for _ in range(5):
            record = Slotted()
            record.states = self.tensor()
            records.append(record)
        del record
        found = self.the_one()
        self.check(found, "records", "list of 5", 5)
        self.assertEqual(found["below"], ["Slotted object", "Tensor object"])

    def test_of_a_class(self):
        self.addCleanup(Shared.kept.clear)
        for _ in range(3):
            Shared.kept.append(self.tensor())
        found = self.the_one()
        self.check(found, "kept", "list of 3", 3)
        self.assertEqual(found["of"], "Shared")

    def test_of_an_object_that_only_a_cycle_keeps(self):
        gc.disable()
        self.addCleanup(gc.enable)
        for _ in range(2):
            meter = Meter()
            meter.itself = meter
            meter.add(self.tensor())
        del meter
        found, _ = self.search()
        self.assertEqual({(each["of"], each["name"]) for each in found}, {("Meter", "history")})


class Graphs(Who):
    def test_of_losses_that_are_kept_hold_the_activations(self):
        losses = []
        for _ in range(6):
            losses.append(self.tensor(Node(), Node(Node())))
        found = self.the_one()
        # The loss itself, its node, and the two that were said to be behind it.
        self.check(found, "losses", "list of 6", 6 * 4)
        self.assertEqual(found["graph"], 6 * 3 * MIB)

    def test_what_is_kept_of_each_step_is_looked_for_before_the_one_large_tensor_of_the_last(self):
        last = self.tensor(Node(), Node(), Node())
        losses = [self.tensor() for _ in range(6)]
        with mock.patch.object(retainers, "MOST_TRIES", 1):
            found = self.the_one()
        self.check(found, "losses", "list of 6", 6)
        del last

    def test_a_librarys_variable_is_named_only_where_nothing_of_the_programs_is(self):
        scope = {}
        source = "def backward(self, look):\n    return look()\n"
        exec(compile(source, "/library/tensor.py", "exec"), scope)
        kept = [self.tensor()]
        found = scope["backward"](kept[0], self.the_one)
        self.assertEqual((found["name"], found["of"]), ("kept", self._testMethodName))
        del kept
        found = scope["backward"](self.tensor(), self.the_one)
        self.assertEqual((found["name"], found.get("line")), ("self", None))

    def test_one_graph_counts_once(self):
        shared = Node()
        losses = [self.tensor(shared) for _ in range(4)]
        self.check(self.the_one(), "losses", "list of 4", 4 * 2 + 1)
        del losses


class Care(Who):
    def test_what_nobody_in_python_keeps_has_no_name(self):
        self.blocks[next(addresses)] = MIB
        self.assertEqual(self.search(), ([], True))

    def test_nothing_of_the_programs_is_called_or_changed(self):
        class Watched:
            def __getattr__(self, name):
                raise AssertionError("asked for " + name)

            def __len__(self):
                raise AssertionError("asked for its length")

            def __repr__(self):
                raise AssertionError("printed")

            def __eq__(self, other):
                raise AssertionError("compared")

            __hash__ = None

            @property
            def kept(self):
                raise AssertionError("a property was asked for")

        watched = Watched()
        watched.states = {Tensor: [self.tensor() for _ in range(3)]}
        everything = [watched, 1, "a"]
        before = [sys.getrefcount(watched), sys.getrefcount(watched.states), gc.isenabled(), gc.get_count()[2]]
        found = self.the_one()
        after = [sys.getrefcount(watched), sys.getrefcount(watched.states), gc.isenabled(), gc.get_count()[2]]
        self.assertEqual(found["name"], "states[…]")
        self.assertEqual(before, after)
        del everything

    def test_the_dict_of_locals_is_left_as_it_is(self):
        def train(kept):
            seen = locals()
            later = self.tensor()
            self.search()
            return seen, later

        seen, _ = train([self.tensor()])
        self.assertEqual(set(seen), {"self", "kept"} if sys.version_info < (3, 13) else set(seen))

    def test_without_time_nothing_is_looked_at(self):
        losses = [self.tensor()]
        self.assertEqual(self.search(seconds=-1.0), ([], False))
        del losses

    def test_where_there_is_nothing_nothing_is_found(self):
        tensor = Tensor()
        self.blocks[tensor.address] = 0
        self.assertEqual(self.search(), ([], True))

    def test_too_many_objects_are_left(self):
        losses = [self.tensor()]
        most, retainers.MOST_OBJECTS = retainers.MOST_OBJECTS, 10
        try:
            self.assertEqual(self.search(), ([], False))
        finally:
            retainers.MOST_OBJECTS = most
        del losses


class Lines(Who):
    def line(self, **changes):
        steps = types.SimpleNamespace(count=18)
        structure = types.SimpleNamespace(kinds=lambda of: ({self.weight.address: "parameters"}, {}))
        segments = [{"address": 0, "blocks": []}]
        for address, size in self.blocks.items():
            segments[0]["blocks"].append({"address": address, "size": size, "state": "active_allocated"})
        segments[0]["blocks"].append({"address": 1, "size": 99, "state": "inactive"})
        taken = retainers.Retainers(fake_torch(), 7, Owners(), steps, structure)
        line = taken.at_oom(0, segments)
        # A program that catches one after another is not held up by each; nor is it asked less for that.
        self.assertIsNone(taken.at_oom(0, segments))
        self.assertEqual(taken.take(0, segments)["event"], "retainers")
        taken.looked_at -= retainers.EVERY
        self.assertIsNotNone(taken.at_oom(0, segments))
        return line

    def test_what_an_optimizer_knows_is_not_looked_for(self):
        self.weight = self.tensor()
        losses = [self.tensor() for _ in range(3)]
        line = self.line()
        self.assertEqual([each["name"] for each in line["retainers"]], ["losses"])
        self.assertEqual((line["looked_for"], line["unexplained"]), (3 * MIB, 0))
        self.assertEqual((line["event"], line["pid"], line["step"]), ("retainers", 7, 18))
        self.assertNotIn("left", line)
        del losses

    def test_after_one_that_had_no_time_the_next_has_more(self):
        given = []

        class Short(retainers.Search):
            def run(self):
                given.append(round(self.until - time.monotonic(), 1))
                return rows[len(given) - 1]

        name = {"name": "kept", "kind": "global", "bytes": MIB}
        no_name = {"name": "", "kind": "other", "bytes": MIB}
        rows = [([], False), ([no_name], False), ([name], False), ([name], True)]
        self.weight = self.tensor()
        structure = types.SimpleNamespace(kinds=lambda of: ({}, {}))
        taken = retainers.Retainers(fake_torch(), 7, Owners(), types.SimpleNamespace(count=18), structure)
        with mock.patch.object(retainers, "Search", Short):
            told = [taken.take(0, []) and taken.was_too_short for _ in range(3)]
            taken.at_oom(0, [], is_rehearsed=False)
        self.assertEqual(told, [True, True, False])
        self.assertEqual(given, [retainers.PATIENCE, retainers.LONGER, retainers.LONGER, retainers.PATIENCE])

    def test_without_a_gil_nothing_is_looked_at(self):
        self.weight = self.tensor()
        before = getattr(sys, "_is_gil_enabled", None)
        sys._is_gil_enabled = lambda: False
        try:
            line = self.line()
        finally:
            if before is None:
                del sys._is_gil_enabled
            else:
                sys._is_gil_enabled = before
        self.assertIn("GIL", line["left"])
        self.assertNotIn("retainers", line)


if __name__ == "__main__":
    unittest.main()
