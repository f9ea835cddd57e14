"""What goes wrong, and truly so: each scenario is a mistake (or a want) that real trainings have.

`fill` is the share of the card that the training's own peak takes at batch 64; what a scenario adds comes on top.
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
        """How much of a sample's full length this step uses."""
        return 1.0

    def after_backward(self, states):
        """What the training does with the hidden states."""

    def after_step(self):
        """What the training does between two steps."""

    def validates_after(self, step):
        """Whether a validation follows this step."""
        return False


class Capacity(Scenario):
    """Too large: 1.35 times the card at batch 64, two thirds of it at batch 32.

    Trains on a quarter of the length at first, as sequence-length warm-up and progressive resizing do: so it runs for
    a few seconds and then does not fit. All that it holds is in use; no allocator setting makes room. (A quarter and
    not a half: a block's sizes are 1, 3 and 4 times its width, and a half would leave blocks of 1.5 in the cache.)
    """

    fill = 1.35
    warm_up_steps = 24

    def share(self, step):
        return 0.25 if step <= min(self.warm_up_steps, self.steps // 2) else 1.0


class Leak(Scenario):
    """Hidden states kept for statistics that are made at the end: the floor rises with every step.

    `.detach().cpu()` would mend it. A smaller batch rises more slowly and ends the same.
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
    """Lengths vary and part of each step's states stays: holes too small for the next step's tensors.

    A memory of hard examples keeps the states of 55 % of each batch. Each copy is cut from a cached block of a whole
    state; the rest of that block, 45 %, is too small for anything large of a later step, and because the copy lives
    the block cannot be given back. Emptying the cache after every step, as people do against just this, makes it
    worse: the next step's blocks are all new. In use is never more than 86 % of the card; expandable segments give
    the holes back.
    """

    fill = 0.45
    hard = 0.55
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
        copies = [state.detach()[:count].clone() for state in states]
        self.memory.append(copies)
        self.kept += sum(copy.numel() * copy.element_size() for copy in copies)
        while self.kept > self.memory_share * self.capacity:
            self.kept -= sum(copy.numel() * copy.element_size() for copy in self.memory.popleft())

    def after_step(self):
        torch.cuda.empty_cache()


SCENARIOS = {
    "none": Scenario,
    "capacity": Capacity,
    "leak": Leak,
    "eval": Evaluation,
    "fragmentation": Fragmentation,
}
