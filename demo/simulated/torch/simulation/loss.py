"""The simulated loss. Tensors here have no numbers, so the loss is made up; it is not the result of any training.

A seeded decay over the optimizer's steps, so that the progress line moves as people expect.
"""
import math
import random


class SimulatedLoss:
    """Falls from `start` (an untrained model's loss) towards a third of it."""

    def __init__(self):
        self.steps = 0
        self.seed = 0

    def value(self, start):
        noise = random.Random("%s-%s" % (self.seed, self.steps)).uniform(-0.02, 0.02)
        return start * (0.34 + 0.66 * math.exp(-self.steps / 25.0) + noise)
