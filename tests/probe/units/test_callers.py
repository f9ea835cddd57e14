"""The lines from a model's call to backward, by the source of the functions that called it. What they make on fake
tensors needs torch: tests/torch/test_losses.py."""
import sys
import types
import unittest

import fake_torch
import support  # noqa: F401
from _oomph_probe.common import frames
from _oomph_probe.rehearse import callers, noting, statements

TORCH = types.SimpleNamespace(
    Tensor=fake_torch.Tensor, nn=types.SimpleNamespace(Module=type("Module", (), {})), dtype=complex, device=complex
)
FOUND = []


def model(*given):
    """Where it is called from, as when memory runs out in it."""
    frame = sys._getframe(1)
    noted = callers.Callers("/torch/", frame)
    FOUND.append(callers.lines_of(TORCH, noted, frames.outwards(frame)))
    return Value()


class Value:
    """Anything that may follow."""

    def __getattr__(self, name):
        return self

    def __call__(self, *given):
        return self

    def __iter__(self):
        return iter((self, self))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    __add__ = __truediv__ = __mul__ = __call__


def in_a_loop(criterion, batches):
    for x, y in batches:
        out = model(x)
        shown = out.argmax(1)
        loss = criterion(out, y)
        loss = loss / len(batches)
        loss.backward()
        print(shown, file=None) if False else None


def over_segments(batches, memory, state):
    for x, y in batches:
        hidden = state
        given = [x, y]
        x = given[0]
        loss, (memory, state) = model(x, given, memory, hidden)
        x = loss.normalized()
        loss.backward()


def in_a_context(scaler, criterion, x, y):
    with scaler:
        out = model(x)
        loss = criterion(out, y)
    loss = loss * 2
    scaler.scale(loss).backward()


def helper(criterion, x, y):
    return criterion(model(x), y)


def with_a_helper(criterion, x, y):
    loss = helper(criterion, x, y)
    if x is None:
        loss.scaled().backward()
    else:
        loss.backward()


def without_backward(x):
    out = model(x)
    print(out, file=None) if False else None


def names(block):
    return [sorted(statements.bound_by(each)) for each in block]


class Lines(unittest.TestCase):
    def lines(self, function, *given):
        del FOUND[:]
        function(*given)
        self.assertEqual(len(FOUND), 1)
        return FOUND[0]

    def test_what_the_loss_depends_on_and_nothing_else(self):
        lines = self.lines(in_a_loop, Value(), [(1, 2)])
        (scene,) = lines.scenes
        self.assertEqual((names(scene.inside), scene.after), ([["out"], ["loss"], ["loss"]], []))
        self.assertTrue(lines.is_in_loop())
        self.assertEqual(sorted(scene.values), ["batches", "criterion", "y"])
        self.assertEqual(scene.values["batches"], [(1, 2)])

    def test_what_the_loop_binds_anew_before_the_call_is_not_carried_over(self):
        (scene,) = self.lines(over_segments, [(1, 2)], Value(), Value()).scenes
        self.assertEqual(sorted(scene.carried), ["hidden", "memory"])

    def test_what_is_behind_a_context_runs_outside_of_it(self):
        lines = self.lines(in_a_context, Value(), Value(), 1, 2)
        (scene,) = lines.scenes
        self.assertEqual((names(scene.inside), names(scene.after)), ([["out"], ["loss"]], [["loss"]]))
        # A scaler's factor is no part of the loss.
        self.assertEqual(scene.result.id, "loss")
        self.assertFalse(lines.is_in_loop())

    def test_a_function_that_returns_it(self):
        lines = self.lines(with_a_helper, Value(), 1, 2)
        inner, outer = lines.scenes
        self.assertTrue(inner.ends)
        self.assertEqual((names(inner.inside), names(outer.inside)), ([], [["loss"]]))
        self.assertFalse(outer.ends)

    def test_no_backward_is_no_loss(self):
        self.assertIsNone(self.lines(without_backward, 1))

    def test_a_call_before_the_steps_leads_to_no_loss(self):
        """It is looked at once memory has run out in a step."""

        def trained(first, criterion, batches):
            model_before(first)
            for x, y in batches:
                loss = None
                if y:
                    model(x)
                    loss = criterion(y)
                loss.backward()

        noted = []

        def model_before(given):
            noted.append(callers.Callers("/torch/", sys._getframe(1)))

        def criterion(y):
            frame = sys._getframe(1)
            found.append(callers.lines_of(TORCH, noted[0], frames.outwards(frame)))
            return Value()

        found = []
        trained(0, criterion, [(1, 2)])
        self.assertEqual(found[0].scenes[0].values["loss"], None)
        self.assertTrue(found[0].lead_nowhere())
        # Not where the lines make it, and not where what it is may have a graph.
        self.assertFalse(self.lines(in_a_loop, Value(), [(1, 2)]).lead_nowhere())
        self.assertFalse(self.lines(in_a_context, Value(), Value(), 1, 2).lead_nowhere())
        found[0].scenes[0].values["loss"] = noting.Unknown()
        self.assertFalse(found[0].lead_nowhere())

    def test_objects_are_not_kept(self):
        import gc
        import weakref

        criterion = Value()
        lines = self.lines(in_a_loop, criterion, [(1, 2)])
        gone = weakref.ref(criterion)
        del criterion
        gc.collect()
        self.assertIsNone(gone())
        with self.assertRaises(noting.Gone):
            lines.scenes[0].values["criterion"].value()

    def test_numbers_that_nobody_can_refer_to_weakly_are_noted_themselves(self):
        of_numpy = type("float64", (float,), {"__module__": "numpy", "__slots__": (), "item": float.__float__})(0.5)
        shape = type("Size", (tuple,), {"__module__": "torch", "__slots__": ()})((3, 4))
        for each in (of_numpy, shape, range(3)):
            self.assertIs(noting.note(TORCH, each), each)
        self.assertIsInstance(noting.note(TORCH, iter([])), noting.Unknown)

    def test_frames_of_torchs_and_of_ours_are_passed(self):
        frame = sys._getframe()
        noted = callers.Callers(frames.home_of(unittest), frame)
        self.assertEqual(noted.places[0][0].co_name, self._testMethodName)
        self.assertFalse([place for place in noted.places if "unittest" in place[0].co_filename])


if __name__ == "__main__":
    unittest.main()
