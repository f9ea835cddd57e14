"""The simulated loss. Tensors here hold no numbers, so a figure is made up, and it is no result of any training.

A seeded decay over the optimizer's steps: enough that a progress line moves as people expect it to.
"""
import math
import random


class SimulatedLoss:
    """Falls from `start` (what an untrained model has) towards a third of it."""

    def __init__(self):
        self.steps = 0
        self.seed = 0

    def value(self, start):
        noise = random.Random("%s-%s" % (self.seed, self.steps)).uniform(-0.02, 0.02)
        return start * (0.34 + 0.66 * math.exp(-self.steps / 25.0) + noise)
