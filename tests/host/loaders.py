"""Trainings on the CPU that load their data by a DataLoader of torch's, and take too much of the host's memory as they are
called first: `loaders.py KIND [options]`. Each of them runs to its end if the remedy for it is in force.

    workers      each worker keeps 80 MiB of what it has loaded; 12 of them, by --workers
    default      the same, and the number is the default of --workers
    constant     the same, and their number, 10, stands in the text
    copies       a list of Python objects that each worker copies as it counts references to them
    prefetch     batches of 16 MiB that wait in shared memory, since the training is slow
    persistent   workers of the training wait, as those of the evaluation work
    shm          batches of 8 MiB for a /dev/shm that has room for a few of them
    pinned       batches of 32 MiB that are pinned for a GPU, which keeps what it has pinned
    descriptors  batches of many tensors, each of which is an open file of the main process
"""
import argparse
import collections
import resource
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

MIB = 1 << 20


class Numbers(Dataset):
    """Some rows; a worker keeps `keeps` bytes once it has loaded the first of them. It fills one row anew for each sample: what
    torch allocates and frees again, glibc's allocator does not always give back, and a worker would grow by each sample."""

    def __init__(self, length=256, keeps=0, row=64, pause=0.0):
        self.length, self.keeps, self.row, self.pause, self.kept = length, keeps, torch.zeros(row), pause, None

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.kept is None and self.keeps:
            self.kept = []
            for _ in range(self.keeps // (4 * MIB)):
                self.kept.append(bytearray(4 * MIB))
                time.sleep(0.1)
        time.sleep(self.pause)
        return self.row.fill_(float(index))


class Objects(Dataset):
    """A list of Python objects: what reads them counts references to them, which copies their pages in each worker."""

    def __init__(self, length):
        self.names = [("sample-%07d" % number, float(number)) for number in range(length)]
        self.at = 0

    def __len__(self):
        return 256

    def __getitem__(self, index):
        held, piece = 0.0, len(self.names) // 24
        for name, value in self.names[self.at : self.at + piece]:
            held += value + len(name)
        # Each worker comes to all of it, one piece after the other.
        self.at = (self.at + piece) % len(self.names)
        time.sleep(0.1)
        return torch.full((64,), held % 1.0)


class Many(Dataset):
    """Samples of many tensors."""

    def __init__(self, length, tensors):
        self.length, self.tensors = length, tensors

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return [torch.full((16,), float(index)) for _ in range(self.tensors)]


def train(batches, pause=0.0):
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for batch in batches:
        loss = model(batch[:, :64]).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(pause)


def workers(given):
    train(DataLoader(Numbers(keeps=80 * MIB), batch_size=4, num_workers=given.workers))


def constant(given):
    train(DataLoader(Numbers(keeps=80 * MIB), batch_size=4, num_workers=10))


def copies(given):
    train(DataLoader(Objects(1_500_000), batch_size=4, num_workers=given.workers))


def prefetch(given):
    data = Numbers(length=128, row=4 * MIB, pause=0.2)
    train(DataLoader(data, batch_size=1, num_workers=4, prefetch_factor=given.prefetch_factor), pause=0.3)


def shm(given):
    data = Numbers(length=96, row=2 * MIB, pause=0.1)
    train(DataLoader(data, batch_size=1, num_workers=4, prefetch_factor=given.prefetch_factor), pause=0.2)


def pinned(given):
    """Needs a GPU. Each batch is kept for a while, as a loop that copies ahead does: each is pinned memory of its own."""
    torch.cuda.init()
    data, ahead = Numbers(length=48, row=2 * MIB, pause=0.05), collections.deque(maxlen=24)
    for batch in DataLoader(data, batch_size=4, num_workers=2, pin_memory=True):
        ahead.append(batch)
        ahead[0].to("cuda", non_blocking=True).mean().item()
        time.sleep(0.2)


def persistent(given):
    keeps = Numbers(length=64, keeps=64 * MIB)
    training = DataLoader(keeps, batch_size=4, num_workers=4, persistent_workers=True)
    evaluation = DataLoader(keeps, batch_size=4, num_workers=4, persistent_workers=True)
    for _ in range(2):
        train(training)
        with torch.no_grad():
            for _ in evaluation:
                pass


def descriptors(given):
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    kept = []
    for batch in DataLoader(Many(400, 8), batch_size=4, num_workers=2):
        kept.append(batch)
        time.sleep(0.002)


KINDS = {
    "workers": workers,
    "default": workers,
    "constant": constant,
    "copies": copies,
    "prefetch": prefetch,
    "shm": shm,
    "pinned": pinned,
    "persistent": persistent,
    "descriptors": descriptors,
}


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--prefetch-factor", type=int, default=16)
    return parser.parse_args()


if __name__ == "__main__":
    given = parsed()
    KINDS[given.kind](given)
    print("trained to its end")
    sys.stdout.flush()
