"""Which optimizer steps are counted, and which are looked at: hooks called as torch does, by a clock of ours."""
import contextlib
import sys
import types
import unittest
from unittest import mock

import support  # noqa: F401
from _oomph_probe.live import step_hooks, steps

MILLISECOND = 1_000_000


class Parameter:
    is_cuda = True
    device = types.SimpleNamespace(index=0)


class Optimizer:
    def __init__(self):
        self.param_groups = [{"params": [Parameter()]}]


class Training:
    """The hooks of one process, which notes what is done at its steps."""

    def __init__(self):
        self.now = 10**12
        self.read = self.traced = 0
        self.sampler = types.SimpleNamespace(due_at=0.0, step_ended=self.sent)
        self.requests = types.SimpleNamespace(asked=False)
        self.requests.is_waiting = lambda: self.requests.asked
        self.requests.step_ended = self.answer
        nothing = types.SimpleNamespace(step_ended=lambda *_: None)
        tracing = types.SimpleNamespace(is_on=lambda: False, optimizer_began=lambda: None, step_ended=self.trace)
        self.lifetime = types.SimpleNamespace(live=True)
        hooks = {}
        torch_optimizer = types.SimpleNamespace(
            register_optimizer_step_pre_hook=lambda hook: hooks.update(before=hook),
            register_optimizer_step_post_hook=lambda hook: hooks.update(after=hook),
        )
        with self.clock(), mock.patch.dict(sys.modules, {"torch.optim.optimizer": torch_optimizer}):
            self.steps = steps.Steps(7, types.SimpleNamespace(read=self.reading))
            torch = types.SimpleNamespace(cuda=types.SimpleNamespace(current_device=lambda: 0))
            hooked = step_hooks.StepHooks(
                self.lifetime, torch, self.steps, self.sampler, self.requests, tracing, recording=None,
                structure=nothing, growth=nothing,
                rehearsals=types.SimpleNamespace(asked_for=0, step_ended=lambda count: None),
            )
            hooked.register()
        self.after_backward = hooked.after_backward
        self.hooks = hooks

    @contextlib.contextmanager
    def clock(self):
        """Every clock that a step is told by shows `now`."""
        with mock.patch.object(steps, "monotonic_ns", lambda: self.now):
            with mock.patch.object(step_hooks, "monotonic_ns", lambda: self.now):
                yield

    def reading(self, device):
        self.read += 1
        return types.SimpleNamespace(allocated=1, blocks=1, edge=dict)

    def trace(self, count, device):
        self.traced += 1

    def sent(self, now):
        self.sampler.due_at = now + 0.25

    def answer(self, device):
        self.requests.asked = False

    def step(self, optimizer, inner=(), raises=False):
        with self.clock():
            self.hooks["before"](optimizer, (), {})
        for each in inner:
            self.step(each)
        self.now += MILLISECOND
        if not raises:
            with self.clock():
                self.hooks["after"](optimizer, (), {})


class Counted(unittest.TestCase):
    def setUp(self):
        self.training = Training()
        self.one, self.other = Optimizer(), Optimizer()

    def count(self):
        return self.training.steps.count

    def test_are_the_steps_of_every_optimizer(self):
        for _ in range(50):
            self.training.step(self.one)
            self.training.step(self.other)
        self.assertEqual(self.count(), 100)

    def test_is_a_wrappers_step_once(self):
        for _ in range(50):
            self.training.step(self.one, inner=[self.other, self.other])
        self.assertEqual(self.count(), 50)

    def test_is_no_step_that_raised(self):
        for _ in range(5):
            self.training.step(self.one, raises=True)
            self.training.step(self.one)
        self.assertEqual(self.count(), 5)

    def test_another_optimizer_goes_on_where_memory_ran_out_in_a_step(self):
        self.training.step(self.one, raises=True)
        self.assertTrue(self.training.steps.is_running())
        self.training.steps.forget_running()
        self.training.step(self.other)
        self.assertEqual(self.count(), 1)

    def test_another_optimizer_goes_on_long_after_a_step_that_raised(self):
        self.training.step(self.one, raises=True)
        self.training.step(self.other)
        self.assertEqual(self.count(), 0, "it may be a part of the other's step")
        self.training.now += 601 * 10**9
        self.training.step(self.other)
        self.training.step(self.other)
        self.assertEqual(self.count(), 2)


class ByBackward(unittest.TestCase):
    """A program without an optimizer of torch's."""

    def setUp(self):
        self.training = Training()
        self.classes = types.SimpleNamespace(Optimizer=type("Optimizer", (), {"step": lambda self: None}))

    def end(self):
        with self.training.clock(), mock.patch.dict(sys.modules, {"torch.optim.optimizer": self.classes}):
            self.training.now += MILLISECOND
            return self.training.after_backward()

    def test_each_is_a_step_and_looked_at_like_one(self):
        for _ in range(50):
            self.assertTrue(self.end())
        self.assertEqual(self.training.steps.count, 50)
        self.assertGreaterEqual(self.training.traced, steps.FIRST)
        self.assertLess(self.training.traced, 50)
        self.assertEqual(self.training.steps.latest["event"], "step")

    def test_none_is_where_an_optimizer_was_made(self):
        step = types.FunctionType((lambda self: None).__code__, {})
        step.hooked = True
        type("Own", (self.classes.Optimizer,), {"step": step})
        self.assertFalse(self.end())
        self.assertEqual(self.training.steps.count, 0)

    def test_none_is_once_an_optimizer_has_stepped(self):
        self.training.step(Optimizer())
        self.assertFalse(self.end())
        self.assertEqual(self.training.steps.count, 1)


class LookedAt(unittest.TestCase):
    def setUp(self):
        self.training, self.optimizer = Training(), Optimizer()
        for _ in range(steps.FIRST):
            self.training.step(self.optimizer)

    def go_on(self, count):
        self.training.read = self.training.traced = 0
        for _ in range(count):
            self.training.step(self.optimizer)

    def test_is_each_of_the_first_steps(self):
        self.assertEqual(self.training.traced, steps.FIRST)

    def test_are_few_of_short_ones(self):
        self.go_on(1000)
        # Both edges of a step every 20 ms, which is all that this clock says of a reading's cost; and the end of the
        # step before it, in which the moment came.
        self.assertLessEqual(self.training.traced, 2 * (1000 // 20 + 1))
        self.assertLessEqual(self.training.read, 2 * (1000 // 20 + 1))
        self.assertGreaterEqual(self.training.read, 80)

    def test_is_each_of_long_ones_from_its_beginning(self):
        self.training.read = 0
        for _ in range(10):
            self.training.now += 1000 * MILLISECOND
            self.training.step(self.optimizer)
        self.assertEqual(self.training.read, 20)

    def test_is_the_next_one_where_something_is_asked(self):
        self.go_on(1)
        self.training.requests.asked = True
        self.training.steps.hurry()
        self.go_on(1)
        self.assertFalse(self.training.requests.asked)

    def test_is_none_in_a_forked_child(self):
        self.training.lifetime.live = False
        self.go_on(100)
        self.assertEqual((self.training.read, self.training.traced), (0, 0))


if __name__ == "__main__":
    unittest.main()
