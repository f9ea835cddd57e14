"""When the lines of new allocations are wanted: trainings told as figures, a tick at a time."""
import unittest

import support  # noqa: F401
from _oomph_probe.live import stack_policy

GIB = 1 << 30
TICK = 0.1


class Training:
    """A training on a device of 100 GiB; a second of it is ten looks of the sampler. `after` is what is
    alive after a step."""

    def __init__(self, allocated=10 * GIB, bound=100 * GIB, steps_a_second=300, allocations=60000, after=GIB):
        self.policy = stack_policy.StackPolicy()
        self.now, self.steps, self.made = 1000.0, 0.0, 0.0
        self.allocated = self.largest = allocated
        self.bound = bound
        self.steps_a_second, self.allocations = steps_a_second, allocations
        self.after, self.left_a_second = after, 0

    def uses(self):
        self.largest = max(self.largest, self.allocated)
        return {0: stack_policy.Usage(self.allocated, self.largest, self.bound, int(self.made))}

    def tick(self):
        self.now += TICK
        self.steps += self.steps_a_second * TICK
        self.made += self.allocations * TICK
        self.after += self.left_a_second * TICK
        alive = {0: self.after} if self.steps >= 1 else {}
        return self.policy.update(self.now, int(self.steps), self.uses(), alive)

    def seconds(self, seconds):
        """Every answer of so many seconds."""
        return [self.tick() for _ in range(round(seconds / TICK))]


class LinesAre(unittest.TestCase):
    def settled(self, **figures):
        training = Training(**figures)
        training.seconds(10)
        self.assertFalse(training.policy.records)
        return training

    def test_wanted_in_the_first_steps_and_given_up_after(self):
        training = Training()
        self.assertTrue(training.tick())
        self.assertFalse(any(training.seconds(1)[2:]))
        self.assertFalse(any(training.seconds(600)))

    def test_not_given_up_by_a_look_within_a_step_which_may_only_begin(self):
        training = Training()
        policy, after = training.policy, {0: GIB}
        for tick in range(1, 100):
            self.assertTrue(policy.update(1000 + tick / 10, tick * 30, training.uses(), after, may_end=False))
            training.made += 6000
        training = self.settled()
        training.allocated *= 2
        now, steps = training.now + 0.05, int(training.steps)
        self.assertTrue(training.policy.update(now, steps, training.uses(), {0: GIB}, may_end=False))

    def test_wanted_until_three_steps_after_the_first(self):
        training = Training(steps_a_second=1)
        self.assertTrue(all(training.seconds(3.9)))
        self.assertFalse(training.seconds(0.4)[-1])

    def test_wanted_before_any_step(self):
        self.assertTrue(all(Training(steps_a_second=0).seconds(60)))

    def test_wanted_for_good_where_they_cost_nothing(self):
        training = Training(allocations=500, steps_a_second=10)
        training.seconds(3)
        self.assertTrue(all(training.seconds(120)))

    def test_wanted_near_the_bound(self):
        self.assertTrue(all(Training(allocated=86 * GIB).seconds(120)))
        self.assertTrue(all(Training(allocated=10 * GIB, bound=11 * GIB).seconds(120)))

    def test_wanted_again_near_the_bound_and_then_for_good(self):
        training = self.settled(allocated=80 * GIB)
        training.allocated = 86 * GIB
        self.assertTrue(training.tick())
        training.allocated = 10 * GIB
        self.assertTrue(all(training.seconds(120)))

    def test_wanted_again_for_some_steps_after_a_peak_between_two_looks(self):
        training = self.settled()
        training.largest = 14 * GIB
        self.assertTrue(training.tick())
        self.assertFalse(training.seconds(1)[-1])
        training.largest = 17 * GIB
        self.assertFalse(any(training.seconds(5)))
        training.largest = 18 * GIB
        self.assertTrue(training.tick())

    def test_never_given_up_while_steps_leave_memory_behind(self):
        training = Training(steps_a_second=30)
        training.left_a_second = 3 * GIB
        self.assertTrue(all(training.seconds(20)))

    def test_wanted_now_and_then_while_a_little_is_left_behind(self):
        training = self.settled()
        training.left_a_second = GIB / 30
        answers = training.seconds(600)
        self.assertTrue(5 <= sum(answers) <= 60, sum(answers))

    def test_wanted_again_when_a_lower_cap_is_set(self):
        training = self.settled()
        training.bound = 11 * GIB
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
        self.assertFalse(training.seconds(1)[-1])

    def test_not_wanted_in_a_pause_that_allocates_nothing(self):
        training = self.settled()
        training.policy.is_costly = True
        training.steps_a_second = 0
        self.assertFalse(any(training.seconds(60)))

    def test_wanted_again_when_another_device_is_taken_into_use(self):
        training = self.settled()
        uses = dict(training.uses())
        uses[1] = stack_policy.Usage(GIB, GIB, 100 * GIB, 5)
        steps = int(training.steps)
        self.assertTrue(training.policy.update(training.now + TICK, steps, uses, {0: GIB}))

    def test_wanted_for_good_after_an_out_of_memory(self):
        training = self.settled()
        training.policy.record_always()
        self.assertTrue(all(training.seconds(120)))


if __name__ == "__main__":
    unittest.main()
