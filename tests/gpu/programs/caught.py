"""A training that catches its out-of-memories, in forward and in backward, and goes on: the losses that follow, as
exact numbers, and how long each attempt that failed took. Run bare and under oomph they must be the same to the bit.

    caught.py [--cap GIB]
"""
import argparse
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.inner = nn.BatchNorm1d(width), nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.calls, self.seen = 0, []

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape[0])
        del self.seen[:-4]
        return x + F.dropout(self.inner(self.norm(x)), 0.1, self.training)


class Net(nn.Module):
    def __init__(self, width=1024, layers=8):
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Block(width) for _ in range(layers)]), nn.Linear(width, 1000)
        self.cache = {}

    def forward(self, x):
        self.cache["latest"] = tuple(x.shape)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cap", type=float, default=8.0)
    args = parser.parse_args()
    torch.cuda.set_per_process_memory_fraction(args.cap * (1 << 30) / torch.cuda.get_device_properties(0).total_memory)
    torch.manual_seed(3)
    net = Net().cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    losses, failed = [], []

    def step(size):
        x, y = torch.randn(size, 1024, device="cuda"), torch.randint(0, 1000, (size,), device="cuda")
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())

    # 300,000 rows fail in forward; somewhat fewer get through it and fail in backward.
    for size in (300000, 44000, 42000, 40000):
        began = time.monotonic()
        try:
            step(size)
        except torch.OutOfMemoryError:
            failed.append(round(time.monotonic() - began, 3))
            torch.cuda.empty_cache()
    for _ in range(50):
        step(64)
    print(json.dumps({"losses": losses, "failed": failed, "calls": [b.calls for b in net.blocks], "seen": [b.seen for b in net.blocks],
                      "cache": net.cache["latest"], "random": torch.rand(3).tolist(), "cuda_random": torch.rand(3, device="cuda").tolist(),
                      "allocated": torch.cuda.memory_allocated(), "hooks": [len(net._forward_hooks), len(net._forward_pre_hooks)]}))


if __name__ == "__main__":
    main()
