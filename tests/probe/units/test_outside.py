"""Which objects of a program's a rehearsal has copies of, and which functions of it look at these."""
import collections
import types
import unittest

import support  # noqa: F401
from _oomph_probe.common import frames
from _oomph_probe.rehearse import outside

KEPT, COUNT = {"of": [{"losses": []}]}, 0


class Manager:
    def __init__(self):
        self.losses, self.many = [], list(range(outside.LONGEST + 1))


class WithDestructor:
    def __del__(self):
        pass


MANAGER = Manager()


def note(loss):
    MANAGER.losses.append(loss)


def notes_by_another(loss):
    note(loss)


def counts():
    global COUNT
    COUNT += 1
    return COUNT


class Layer:
    scale = staticmethod(lambda x: x)

    def forward(self, loss):
        notes_by_another(loss)
        return self.scale(loss)

    def __call__(self, loss):
        return self.forward(loss)


class Outside(unittest.TestCase):
    def setUp(self):
        # The test's own files are a program's.
        owners = frames.Owners(types.SimpleNamespace(__file__="/torch/__init__.py"))
        self.outside = outside.Outside(owners)
        self.addCleanup(self.outside.forget)

    def views(self, copies):
        return outside.Views(self.outside, lambda value: copies[id(value)])

    def test_what_gets_a_copy(self):
        for value in ([], {}, set(), collections.deque(), collections.defaultdict(list), Manager()):
            self.assertTrue(self.outside.takes(value), value)
            # One attempt each.
            self.assertFalse(self.outside.takes(value), value)
            self.outside.forget()
        for value in (None, (), "", 1, MANAGER.many, WithDestructor(), Manager, type("List", (list,), {})(), types):
            self.assertFalse(self.outside.takes(value), value)

    def test_no_more_than_so_many(self):
        kept = [[number] for number in range(outside.MOST + 1)]
        self.assertEqual([self.outside.takes(each) for each in kept], [True] * outside.MOST + [False])

    def test_what_leads_there(self):
        self.assertTrue(self.outside.takes(KEPT["of"][0]["losses"]))
        for value in (KEPT, KEPT["of"], KEPT["of"][0]):
            self.assertTrue(self.outside.has(value))
        self.assertFalse(self.outside.leads(MANAGER))
        holder = Layer()
        holder.kept = (KEPT,)
        self.assertTrue(self.outside.leads(holder))
        # Too deep for a search that may take no time.
        self.assertFalse(self.outside.leads([[[[[MANAGER]]]]]))

    def test_functions_look_at_the_copies(self):
        self.assertTrue(self.outside.takes(MANAGER.losses))
        copy = types.SimpleNamespace(losses=[])
        views = self.views({id(MANAGER): copy})
        views.function(notes_by_another)(1)
        owner = Layer()
        views.give_methods(owner)
        owner(2)
        self.assertEqual((copy.losses, MANAGER.losses), ([1, 2], []))
        # The class's own is as it was.
        self.assertEqual(sorted(vars(owner)), ["forward", "scale"])
        self.assertIs(Layer.forward.__globals__, globals())

    def test_a_function_that_looks_at_nothing_of_it_is_the_programs_own(self):
        self.assertIs(self.views({}).function(note), note)
        self.assertTrue(self.outside.takes([]))
        self.assertIs(self.views({}).function(note), note)

    def test_globals_that_are_assigned(self):
        self.assertTrue(self.outside.takes(globals()))
        view = self.views({}).function(counts)
        self.assertEqual((view(), view(), COUNT), (1, 2, 0))

    def test_what_a_function_has_from_the_one_around_it(self):
        def around():
            kept = []
            return kept, lambda value: kept.append(value)

        kept, keeps = around()
        self.assertTrue(self.outside.takes(kept))
        copy = []
        self.views({id(kept): copy}).function(keeps)(1)
        self.assertEqual((copy, kept), ([1], []))


if __name__ == "__main__":
    unittest.main()
