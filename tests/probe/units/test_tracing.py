"""Which steps are traced: a training told step by step, its peak as a figure."""
import types
import unittest
from unittest import mock

import support  # noqa: F401
from _oomph_probe.live import tracing


class Traced(tracing.Tracing):
    """Notes the steps that are read instead of reading them."""

    def __init__(self):
        recording = types.SimpleNamespace(trace=lambda on: True)
        modules = types.SimpleNamespace(begin=lambda by_hooks: None, end=lambda: None)
        self.allocator = types.SimpleNamespace(peaks={}, read=lambda device: types.SimpleNamespace(blocks=9))
        counted = types.SimpleNamespace(count=0)
        super().__init__(None, 7, None, self.allocator, counted, None, recording, modules, wrapper=None)
        self.traced = []

    def read(self, step, device, failed=False):
        self.traced.append(step)


def train(seconds, peaks, asked=0):
    """The steps that are traced of a training whose steps take so long; `peaks` by the steps that reach them, and during
    which step somebody asks for one."""
    with mock.patch.object(tracing, "time") as clock:
        clock.time_ns.return_value = 0
        clock.monotonic.return_value = 1000.0
        traced = Traced()
        traced.begin()
        peak = 0
        for step in range(1, 1001):
            clock.monotonic.return_value += seconds
            peak = max(peak, peaks.get(step, 0))
            traced.allocator.peaks[0] = (peak, peak)
            if step == asked:
                traced.hurry()
            traced.step_ended(step, 0)
    return traced.traced


class Steps(unittest.TestCase):
    def test_of_a_steady_training_are_traced_ever_more_rarely(self):
        self.assertEqual(train(0.125, {1: 100}), [3, 484, 969])
        self.assertEqual(train(60.0, {1: 100})[:5], [3, 7, 15, 31, 63])

    def test_a_higher_peak_is_traced_soon_and_once(self):
        # A step after the growth was seen, and no sooner than five seconds after the last trace.
        self.assertEqual(train(0.125, {1: 100, 200: 300})[:2], [3, 201])
        self.assertEqual(train(0.125, {1: 100, 10: 300})[:2], [3, 44])
        self.assertEqual(train(0.125, {1: 100, 200: 110})[:2], [3, 484])

    def test_one_that_is_asked_for_does_not_wait_until_it_is_due(self):
        self.assertEqual(train(0.125, {1: 100}, asked=60)[:3], [3, 61, 542])

    def test_a_peak_that_goes_on_growing_costs_a_trace_each_five_seconds_at_most(self):
        growing = {step: int(100 * 1.3**step) for step in range(1, 101)}
        self.assertLessEqual(len(train(0.125, growing)), 5)


if __name__ == "__main__":
    unittest.main()
