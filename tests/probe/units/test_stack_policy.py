"""When the lines of new allocations are wanted: trainings told as figures, a tick at a time."""
import unittest

import support  # noqa: F401
from _oomph_probe import stack_policy

GIB = 1 << 30
TICK = 0.1


class Training:
    """A training on a device of 100 GiB; `a second` of it is ten looks of the sampler."""

    def __init__(self, allocated=10 * GIB, bound=100 * GIB, steps_a_second=300, allocations=60000):
        self.policy = stack_policy.StackPolicy()
        self.now, self.steps, self.made = 1000.0, 0.0, 0.0
        self.allocated = self.largest = allocated
        self.bound = bound
        self.steps_a_second, self.allocations = steps_a_second, allocations

    def uses(self):
        self.largest = max(self.largest, self.allocated)
        return {0: stack_policy.Usage(self.allocated, self.largest, self.bound, int(self.made))}

    def tick(self):
        self.now += TICK
        self.steps += self.steps_a_second * TICK
        self.made += self.allocations * TICK
        return self.policy.update(self.now, int(self.steps), self.uses())

    def seconds(self, seconds):
        """Every answer of so many seconds."""
        return [self.tick() for _ in range(round(seconds / TICK))]


class LinesAre(unittest.TestCase):
    def settled(self, **figures):
        training = Training(**figures)
        training.seconds(10)
        self.assertFalse(training.policy.records)
        return training

    def test_wanted_in_the_first_seconds_and_given_up_after(self):
        training = Training()
        self.assertTrue(all(training.seconds(5)))
        self.assertFalse(any(training.seconds(1)[2:]))
        self.assertFalse(any(training.seconds(600)))

    def test_wanted_until_there_were_twenty_steps(self):
        training = Training(steps_a_second=2)
        self.assertTrue(all(training.seconds(10)))
        self.assertFalse(training.seconds(3)[-1])

    def test_wanted_before_any_step(self):
        self.assertTrue(all(Training(steps_a_second=0).seconds(60)))

    def test_never_given_up_where_they_cost_little(self):
        self.assertTrue(all(Training(allocations=2000, steps_a_second=10).seconds(120)))

    def test_never_given_up_near_the_bound(self):
        self.assertTrue(all(Training(allocated=51 * GIB).seconds(120)))
        self.assertTrue(all(Training(allocated=10 * GIB, bound=16 * GIB).seconds(120)))

    def test_wanted_again_near_the_bound_and_then_for_good(self):
        training = self.settled(allocated=45 * GIB)
        training.allocated = 50 * GIB
        self.assertTrue(training.tick())
        training.allocated = 10 * GIB
        self.assertTrue(all(training.seconds(120)))

    def test_wanted_again_for_a_while_after_a_peak_between_two_looks(self):
        training = self.settled()
        training.largest = 14 * GIB
        self.assertTrue(all(training.seconds(5)))
        self.assertFalse(training.seconds(1)[-1])
        training.largest = 17 * GIB
        self.assertFalse(any(training.seconds(5)))
        training.largest = 18 * GIB
        self.assertTrue(training.tick())

    def test_wanted_again_when_a_lower_cap_is_set(self):
        training = self.settled()
        training.bound = 15 * GIB
        self.assertTrue(training.tick())

    def test_wanted_again_in_an_evaluation_until_the_training_goes_on(self):
        training = self.settled()
        training.steps_a_second = 0
        training.allocated += GIB >> 4
        answers = training.seconds(1.5)
        training.allocated += GIB >> 4
        answers += training.seconds(60)
        self.assertFalse(any(answers[:18]))
        self.assertTrue(all(answers[22:]))
        training.steps_a_second = 300
        self.assertTrue(all(training.seconds(4.5)))
        self.assertFalse(training.seconds(1)[-1])

    def test_not_wanted_in_a_pause_that_allocates_nothing(self):
        training = self.settled()
        training.steps_a_second = training.allocations = 0
        self.assertFalse(any(training.seconds(60)))

    def test_wanted_again_when_another_device_is_taken_into_use(self):
        training = self.settled()
        first = training.uses()
        uses = dict(first)
        uses[1] = stack_policy.Usage(GIB, GIB, 100 * GIB, 5)
        self.assertTrue(training.policy.update(training.now + TICK, int(training.steps), uses))

    def test_wanted_for_good_after_an_out_of_memory(self):
        training = self.settled()
        training.policy.record_always()
        self.assertTrue(all(training.seconds(120)))


if __name__ == "__main__":
    unittest.main()
