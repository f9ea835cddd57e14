"""Traces of the caching allocator and what becomes of them, for the two implementations of its rules to be held
against: the simulated GPU (Python) and `forecast::replay` (Rust). `python3 tests/demo/replay_corpus.py > FILE` writes
the made-up ones anew, with what the simulated GPU says of each.

A case is a few `key: value` lines and a line that is the trace, in the form that src/forecast/trace.rs describes.
"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "demo", "simulated"))

from torch.simulation.allocator import Allocator
from torch.simulation.errors import OutOfMemoryError
from torch.simulation.gpu import MIB, Gpu
from torch.simulation.settings import Settings


def play(trace, settings, device=None, cap=None):
    """What the simulated GPU makes of a trace: allocated and reserved at their most, reserved, retries, where it ended."""
    of = Allocator(Gpu(device or 1 << 50, speed=0), Settings(settings))
    of.allowed = cap
    carried, events = trace.split("|")[:2]
    blocks, ran_out = [], "-"
    words = [(0, word) for word in carried.split()] + list(enumerate(events.split()))
    for at, word in words:
        if word == "!":
            of.empty_cache()
        elif word.startswith("-"):
            number = len(blocks) - int(word[1:])
            of.free(blocks[number])
        else:
            try:
                blocks.append(of.allocate(int(word)))
            except OutOfMemoryError:
                ran_out = str(at)
                break
    figures = of.statistics()
    reserved = figures["reserved_bytes"]["all"]
    return [
        figures["allocated_bytes"]["all"]["peak"],
        reserved["peak"],
        reserved["current"],
        figures["num_alloc_retries"],
        ran_out,
    ]


def cases(text):
    """The cases of a file: (settings, device, cap, expected words, trace)."""
    for paragraph in text.split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        said = dict(line.split(": ", 1) for line in lines[:-1] if ": " in line)
        number = {key: int(said[key]) for key in ("device", "cap") if key in said}
        yield said.get("settings", ""), number.get("device"), number.get("cap"), said["expect"].split(), lines[-1]


def made_up(seed):
    """A random trace: bursts of requests of a few recurring sizes, frees in any order, now and then an empty_cache."""
    chance = random.Random(seed)
    scale = chance.choice([20, 64, 300]) * MIB
    sizes = [int(2 ** chance.uniform(0, 1) * chance.choice([300, 2000, 70000, 900000, 3 * MIB, scale // 3, scale]))
             for _ in range(chance.randint(3, 14))]
    words, alive, count, total = [], [], 0, 0
    for _ in range(chance.randint(40, 220)):
        if alive and chance.random() < 0.46:
            number = alive.pop(chance.choice([0, -1, chance.randrange(len(alive))]))
            words.append("-%d" % (count - number))
        elif chance.random() < 0.01:
            words.append("!")
        else:
            words.append(str(chance.choice(sizes)))
            alive.append(count)
            count += 1
    return "| " + " ".join(words), chance


SETTINGS = ["", "", "expandable_segments:True", "max_split_size_mb:21", "max_split_size_mb:128"]


def main():
    print("# Made up at random by tests/demo/replay_corpus.py, with what the simulated GPU makes of each.")
    for seed in range(60):
        trace, chance = made_up(seed)
        settings = SETTINGS[seed % len(SETTINGS)]
        free = play(trace, settings)
        print()
        if settings:
            print("settings: %s" % settings)
        limits = {}
        if seed % 3:
            key = ("device", "cap")[seed % 2]
            limits[key] = int(free[1] * chance.uniform(0.55, 0.98)) // (2 * MIB) * 2 * MIB
            print("%s: %d" % (key, limits[key]))
        print("expect: %s" % " ".join(map(str, play(trace, settings, **limits))))
        print(trace)


if __name__ == "__main__":
    main()
