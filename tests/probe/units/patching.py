"""Patches on a fake torch, taken off again after each test: they change classes."""
import sys
import types
import unittest

import support  # noqa: F401
import fake_torch
from fake_torch import Linear, Module, ModuleList, Parameter, Tensor, flags
from _oomph_probe.patch import patches


class Block(Module):
    """Two parts, as much as a block must have."""

    def __init__(self, weight=1.0):
        super().__init__()
        self.first, self.second = Linear(weight), Linear(2.0)

    def forward(self, x, scale=1.0):
        return Tensor(self.second(self.first(x)).value * scale, flags.autocast or x.dtype)


class Net(Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = ModuleList(blocks)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class PatchTest(unittest.TestCase):
    """`self.patch("recompute")` makes the patches of a process, in force."""

    def setUp(self):
        self.checkpoint = fake_torch.Checkpoint()
        self.torch = fake_torch.make(self.checkpoint)
        utils = types.ModuleType("torch.utils")
        utils.checkpoint = types.ModuleType("torch.utils.checkpoint")
        utils.checkpoint.checkpoint = self.checkpoint.checkpoint
        self.torch.utils = utils
        modules = {"torch": self.torch, "torch.utils": utils}
        modules["torch.utils.checkpoint"] = utils.checkpoint
        before = {name: sys.modules.get(name) for name in modules}
        sys.modules.update(modules)
        classes = [(cls, dict(vars(cls))) for cls in every_class(Module) + [fake_torch.autocast]]
        self.addCleanup(restore, classes, before)
        self.addCleanup(vars(flags).clear)

    def afresh(self):
        """As before any patch, for the next of several cases."""
        self.doCleanups()
        self.setUp()

    def patch(self, *chosen, version=(2, 11)):
        made = patches.Patches(self.torch, version, chosen)
        made.install()
        return made

    def outcome(self, made, name):
        return made.outcomes.said.get(name, (None, None))[0]

    def words(self, made, name):
        return made.outcomes.said[name][1]


def every_class(cls):
    return [cls] + [inner for each in cls.__subclasses__() for inner in every_class(each)]


def restore(classes, modules):
    for cls, names in classes:
        for name in list(vars(cls)):
            if name not in names and not name.startswith("__weak") and name != "__dict__":
                delattr(cls, name)
        if "__call__" in names and vars(cls).get("__call__") is not names["__call__"]:
            cls.__call__ = names["__call__"]
        if "__enter__" in names:
            cls.__enter__ = names["__enter__"]
    for name, module in modules.items():
        if module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module


def frozen(module):
    for parameter in module.parameters():
        parameter.requires_grad = False
    return module


def on(device, module):
    for parameter in module.parameters():
        parameter.device = types.SimpleNamespace(type=device, index=None)
    return module


__all__ = ["Block", "Net", "PatchTest", "Parameter", "frozen", "on"]
