"""Where gradients meet, the rehearsal adds them in place as often as autograd does where nobody looks: counted by torch's
own profiler, which is no dispatch mode.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import copy
import unittest

import on_cpu  # noqa: F401
import rehearse  # noqa: F401
import torch
import torch.nn as nn
from _oomph_probe.rehearse import accumulation, apart, rehearsal, roots
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

WIDTH = 8


def line():
    return nn.Linear(WIDTH, WIDTH)


class Net(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.first, self.a, self.b, self.c = line(), line(), line(), line()
        self.how = how

    def forward(self, x):
        return self.how(self, self.first(x)).square().mean()


NETS = {
    "two heads": lambda net, h: net.a(h) + net.b(h),
    "a residual": lambda net, h: h + net.b(net.a(h).relu()),
    "three ways": lambda net, h: h + net.a(h) + net.b(h),
    "a value twice": lambda net, h: net.a(h) * net.a(h).sigmoid(),
    "attention": lambda net, h: torch.softmax(net.a(h) @ net.b(h).T, -1) @ net.c(h) + h,
    "parts of one": lambda net, h: torch.cat([net.a(h)[:, :4], net.a(h)[:, 4:]], 1) + h,
    "expanded": lambda net, h: h + h.mean(1, keepdim=True).expand_as(h),
    "a sum that is not dense": lambda net, h: net.a(h.T).T + h,
}


def in_place(net):
    """How often autograd adds in place, and how often not, where gradients meet."""
    net = copy.deepcopy(net)
    loss = net(torch.randn(WIDTH, WIDTH))
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        loss.backward()
    names = [each.name for each in seen.events()]
    return names.count("aten::add_"), names.count("aten::add")


class Accumulations(unittest.TestCase):
    def test_as_often_as_autograd(self):
        for name, how in NETS.items():
            net = Net(how)
            said = []
            original = accumulation.Accumulation.is_one

            def is_one(self, func, args, kwargs, caller):
                one = original(self, func, args, kwargs, caller)
                if func is self.adds and accumulation.is_engines(caller):
                    said.append(one)
                return one

            accumulation.Accumulation.is_one = is_one
            try:
                call = roots.Call(torch, net, (torch.randn(WIDTH, WIDTH),), {}, 0, torch.device("cpu"))
                one = rehearsal.Rehearsal(torch, call, rehearsal.Variant((WIDTH, WIDTH)), apart.Deadline(float("inf")))
                one.run()
            finally:
                accumulation.Accumulation.is_one = original
            with self.subTest(name):
                self.assertEqual((said.count(True), said.count(False)), in_place(net))

    def test_its_own_step_lies_on_the_cpu_whatever_the_default_is(self):
        """A backward of tensors on a GPU runs on a thread that has no frame of Python's to be asked for."""
        devices = set()

        class Devices(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                made = func(*args, **(kwargs or {}))
                devices.add(getattr(made, "device", None))
                return made

        with torch.device("meta"):
            accumulation.Accumulation(torch).measure(Devices())
        self.assertEqual(devices - {None}, {torch.device("cpu")})


if __name__ == "__main__":
    unittest.main()
