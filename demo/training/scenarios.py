"""What goes wrong, for real: each scenario is a mistake (or a limit) that real trainings have.

`fill` is the share of the GPU's memory that the training itself uses at its peak at batch 64; a scenario may add to it.
"""
import random
from collections import deque

import torch


class Scenario:
    """A training that fits."""

    fill = 0.6
    def __init__(self, capacity, steps, seed):
        self.capacity = capacity
        self.steps = steps

    def share(self, step):
        """The share of a sample's full length that this step uses."""
        return 1.0

    def after_backward(self, states):
        """What the training does with the hidden states."""

    def after_step(self):
        """What the training does between two steps."""

    def validates_after(self, step):
        """Whether a validation follows this step."""
        return False


class Capacity(Scenario):
    """Too large from the first step on: 1.25 times the GPU's memory at batch 64, five eighths of it at batch 32.

    All its memory is in use; no allocator setting makes room.
    """

    fill = 1.25


class Growth(Capacity):
    """As large, but the samples are short at first, like sequence-length warm-up and progressive resizing.

    It runs on a quarter of the length for some steps and then does not fit: what the first steps show is not what it
    needs. (A quarter and not a half: a block's sizes are 1, 3 and 4 times its width, and a half would leave blocks of
    1.5 in the cache.)
    """

    warm_up_steps = 24

    def share(self, step):
        return 0.25 if step <= min(self.warm_up_steps, self.steps // 2) else 1.0


class Leak(Scenario):
    """Hidden states kept for statistics that are computed at the end: live memory grows with every step.

    `.detach().cpu()` would fix it. A smaller batch grows more slowly and ends the same way.
    """

    fill = 0.5

    def __init__(self, capacity, steps, seed):
        super().__init__(capacity, steps, seed)
        self.history = []

    def after_backward(self, states):
        self.history.append(states)


class Evaluation(Scenario):
    """Validation without torch.no_grad(): each loss that is kept for the mean keeps its whole graph."""

    fill = 0.3
    every = 10
    batches = 40

    def validates_after(self, step):
        return step % self.every == 0


class Fragmentation(Scenario):
    """Lengths vary and part of each step's states stays: the holes are too small for the next step's tensors.

    A memory of hard examples keeps the states of 55 % of each batch, for three views of it. Each copy is cut from a
    cached block the size of a whole state; the rest of that block, 45 %, is too small for any large tensor of a later
    step, and because the copy is alive the block cannot be released. Emptying the cache after every step, which people
    do against exactly this, makes it worse: the next step's blocks are all new. At most 86 % of the GPU's memory is
    ever in use; expandable segments make the holes usable.
    """

    fill = 0.45
    hard = 0.55
    views = 3
    memory_share = 0.40
    lengths = (0.85, 0.88, 0.91, 0.94, 0.97, 1.0)

    def __init__(self, capacity, steps, seed):
        super().__init__(capacity, steps, seed)
        self.memory = deque()
        self.random = random.Random(seed)
        self.kept = 0

    def share(self, step):
        return self.random.choice(self.lengths)

    def after_backward(self, states):
        count = max(1, int(states[0].shape[0] * self.hard))
        copies = [state.detach()[:count].clone() for state in states for _ in range(self.views)]
        self.memory.append(copies)
        self.kept += sum(copy.numel() * copy.element_size() for copy in copies)
        while self.kept > self.memory_share * self.capacity:
            self.kept -= sum(copy.numel() * copy.element_size() for copy in self.memory.popleft())

    def after_step(self):
        torch.cuda.empty_cache()


SCENARIOS = {
    "none": Scenario,
    "capacity": Capacity,
    "growth": Growth,
    "leak": Leak,
    "eval": Evaluation,
    "fragmentation": Fragmentation,
}
