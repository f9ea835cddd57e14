"""Random states, file offsets, globals, queues and torch's settings are after a rehearsal what they were before it.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import array
import collections
import contextvars
import functools
import gc
import heapq
import itertools
import os
import pathlib
import queue
import random
import signal
import socket
import sys
import tempfile
import threading
import types
import unittest
import warnings

import numpy
import rehearse
import torch
from _oomph_probe.rehearse import work
from torch import nn

DIRECTORY = tempfile.TemporaryDirectory()
PATH = pathlib.Path(DIRECTORY.name) / "file"
PATH.write_bytes(b"0123456789" * 10)
FILE, RAW = open(PATH, "r+"), os.open(PATH, os.O_RDWR)
ONE, OTHER = socket.socketpair()
ONE.setblocking(False)
OTHER.setblocking(False)
OTHER.send(b"some bytes")
QUEUE, SIMPLE = queue.Queue(), queue.SimpleQueue()
QUEUE.put(1), SIMPLE.put(1)
READ, WRITE = os.pipe()
os.set_blocking(READ, False)
os.write(WRITE, b"x")
COUNT, LISTED, KEYED, SET = 0, [1, 2, 3], {"a": 1}, {1}
DEFAULT, COUNTER, DEQUE = collections.defaultdict(list), collections.Counter(a=1), collections.deque([1])
ARRAY, NUMBERS, BYTES = array.array("i", [1]), numpy.zeros(3), bytearray(b"abc")
TENSOR, OWN_RANDOM, OWN_NUMPY = torch.zeros(3), random.Random(3), numpy.random.default_rng(3)
OWN_TORCH = torch.Generator().manual_seed(3)
OBJECT, LOCAL, VARIABLE = types.SimpleNamespace(a=1), threading.local(), contextvars.ContextVar("v", default=1)
ITERATOR, COUNTING, GENERATOR = iter([1, 2, 3]), itertools.count(), (each for each in range(9))
EVENT, LOCK = threading.Event(), threading.Lock()
VIEW = memoryview(BYTES)


class Settings:
    shared = 1


@functools.lru_cache(maxsize=None)
def cached(number):
    return number


def closing():
    held = 0

    def change():
        nonlocal held
        held += 1

    return change, lambda: held


CHANGE, HELD = closing()


def add_one():
    global COUNT
    COUNT += 1


def a_file():
    FILE.read(3)


def a_files_place():
    FILE.seek(7)


def a_descriptor():
    os.read(RAW, 3)


def a_descriptors_place():
    os.lseek(RAW, 5, os.SEEK_SET)


def written():
    FILE.write("abc")


def of_attribute():
    OBJECT.a += 1


def of_class():
    Settings.shared = 2


def of_item():
    KEYED["a"] = 2


def of_numpy():
    NUMBERS[0] = 5


def of_numpy_in_place():
    numbers = NUMBERS
    numbers += 1


def of_array():
    ARRAY.append(3)


def of_bytes():
    BYTES[0] = 9


def of_view():
    VIEW[0] = 9


def of_a_list_by_another_name():
    other = LISTED
    other.append(3)


def of_a_list_by_a_slice():
    LISTED[:] = []


def of_a_module():
    sys.modules[__name__].COUNT = 7


def of_the_environment():
    os.environ["OOMPH_TEST"] = "1"


def of_the_path():
    sys.path.append("/nowhere")


def of_warnings():
    warnings.simplefilter("error")


def of_a_backend():
    torch.backends.cudnn.benchmark = True


def of_a_signal():
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def of_a_tensor():
    TENSOR.add_(1)


def of_a_tensors_item():
    TENSOR[0] = 1


def of_a_local():
    LOCAL.value = 3


def of_a_closure():
    CHANGE()


def by_a_loop():
    for _ in ITERATOR:
        break


def by_a_loop_over_pairs():
    for _ in zip(
        range(2),
        ITERATOR,
    ):
        break


def by_unpacking():
    first, *others = ITERATOR
    return first, others


def by_a_comprehension():
    return [
        each
        for each in ITERATOR
    ]


def by_draws_in_a_comprehension():
    return [
        number
        + OWN_NUMPY.random()
        for number in range(2)
    ]


def by_another_name():
    draw = OWN_NUMPY.random
    return draw()


def of_a_default():
    return DEFAULT["b"]


CHANGES = [
    add_one, a_file, a_files_place, a_descriptor, a_descriptors_place, written, of_attribute, of_class, of_item, of_numpy,
    of_numpy_in_place, of_array, of_bytes, of_view, of_a_list_by_another_name,
    of_a_list_by_a_slice, of_a_module, of_the_environment, of_the_path, of_warnings, of_a_signal, of_a_backend,
    of_a_tensor, of_a_tensors_item, of_a_local, of_a_closure, by_a_loop, by_a_loop_over_pairs, by_unpacking, by_a_comprehension,
    by_draws_in_a_comprehension, by_another_name, of_a_default,
] + [
    functools.partial(lambda act: act(), act)
    for act in (
        lambda: random.random(), lambda: random.shuffle(list(range(5))), lambda: numpy.random.rand(), lambda: torch.rand(2),
        lambda: torch.manual_seed(5), lambda: random.seed(7), lambda: numpy.random.seed(7),
        lambda: OWN_RANDOM.random(), lambda: OWN_NUMPY.random(), lambda: torch.rand(2, generator=OWN_TORCH),
        lambda: QUEUE.get_nowait(), lambda: QUEUE.put(2), lambda: SIMPLE.get_nowait(), lambda: SIMPLE.put(2),
        lambda: ONE.recv(3), lambda: ONE.send(b"x"), lambda: os.read(READ, 1), lambda: os.write(WRITE, b"y"),
        lambda: SET.add(2), lambda: KEYED.update(b=2), lambda: KEYED.pop("a"), lambda: COUNTER.update(["a"]),
        lambda: DEQUE.rotate(), lambda: DEQUE.append(2), lambda: next(ITERATOR), lambda: next(COUNTING), lambda: next(GENERATOR),
        lambda: list(ITERATOR), lambda: setattr(OBJECT, "a", 5), lambda: OBJECT.__dict__.update(a=5),
        lambda: globals().update(COUNT=9), lambda: VARIABLE.set(5), lambda: EVENT.set(), lambda: LOCK.acquire(),
        lambda: cached(77), lambda: os.chdir("/"), lambda: PATH.write_text("x"), lambda: PATH.unlink(),
        lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_num_threads(1),
        lambda: torch.use_deterministic_algorithms(True), lambda: gc.disable(), lambda: sys.setrecursionlimit(5000),
        lambda: torch.set_grad_enabled(False), lambda: [ARRAY.append(each) for each in range(2)],
        lambda: sum(ITERATOR), lambda: 2 in ITERATOR, lambda: print(*ITERATOR), lambda: ITERATOR.__next__(),
        lambda: GENERATOR.send(None), lambda: OWN_RANDOM.shuffle([1, 2]), lambda: random.shuffle(LISTED),
        lambda: heapq.heappush(LISTED, 0), lambda: numpy.add(NUMBERS, 1, out=NUMBERS), lambda: numpy.copyto(NUMBERS, 4),
        lambda: LISTED.sort(reverse=True), lambda: LISTED.extend([3]), lambda: NUMBERS.fill(3), lambda: NUMBERS.sort(),
    )
]


class Acts(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.inner, self.acts = nn.Linear(4, 4), [act]

    def forward(self, x):
        x = self.inner(x)
        self.acts[0]()
        return x


def everything():
    """All of it as it is now."""
    tail = lambda iterator: repr(iterator.__reduce__())  # noqa: E731
    return {
        "random": (random.getstate(), OWN_RANDOM.getstate()),
        "numpy": ([str(part) for part in numpy.random.get_state(legacy=False).items()], str(OWN_NUMPY.bit_generator.state)),
        "torch": (torch.get_rng_state().tolist(), OWN_TORCH.get_state().tolist()),
        "files": (FILE.tell(), os.lseek(RAW, 0, os.SEEK_CUR), PATH.exists() and PATH.read_bytes()),
        "queues": (list(QUEUE.queue), SIMPLE.qsize()),
        "sockets": (waiting(ONE), waiting(OTHER), waiting_in_pipe()),
        "globals": (
            COUNT, list(LISTED), dict(KEYED), set(SET), dict(DEFAULT), dict(COUNTER), list(DEQUE), list(ARRAY), NUMBERS.tolist(),
            bytes(BYTES), TENSOR.tolist(), dict(vars(OBJECT)), Settings.shared, dict(vars(LOCAL)), HELD(),
        ),
        "iterators": (tail(ITERATOR), repr(COUNTING), GENERATOR.gi_frame.f_lasti, repr(GENERATOR.gi_frame.f_locals)),
        "threads": (EVENT.is_set(), LOCK.locked(), VARIABLE.get(), cached.cache_info().currsize),
        "process": (
            dict(os.environ), os.getcwd(), list(sys.path), repr(warnings.filters), signal.getsignal(signal.SIGUSR1),
            gc.isenabled(), sys.getrecursionlimit(),
        ),
        "settings": (
            torch.get_default_dtype(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(),
            torch.backends.cudnn.benchmark, torch.is_grad_enabled(),
        ),
    }


def waiting(one):
    try:
        return one.recv(100, socket.MSG_PEEK)
    except BlockingIOError:
        return b""


def waiting_in_pipe():
    import fcntl
    import struct
    import termios

    return struct.unpack("i", fcntl.ioctl(READ, termios.FIONREAD, b"\0\0\0\0"))[0]


class Untouched(unittest.TestCase):
    def test_everything_is_as_it_was(self):
        torch.set_num_threads(2)
        given = torch.zeros(4, 4)
        # What is imported at the first use is there.
        self.assertIsNone(rehearse.why_not(rehearse.said(Acts(lambda: None), given)))
        tasks, work.TASKS = work.TASKS, work.TASKS[:1]
        self.addCleanup(setattr, work, "TASKS", tasks)
        for act in CHANGES:
            code = act.__code__ if isinstance(act, types.FunctionType) else act.args[0].__code__
            model = Acts(act)
            before = everything()
            rehearse.said(model, given)
            after = everything()
            with self.subTest(code.co_name, names=code.co_names):
                self.assertEqual([name for name in before if before[name] != after[name]], [])

    def test_what_a_forward_makes_itself_is_its_own(self):
        given = torch.zeros(4, 4)
        for act in OWN:
            with self.subTest(act.__name__):
                self.assertIsNone(rehearse.why_not(rehearse.said(act(), given)))


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.cache = nn.Linear(4, 4), collections.defaultdict(list)


class Asks(Linear):
    """As transformers asks a model for its dtype."""

    def forward(self, x):
        parameter = next(self.parameters())
        return self.inner(x.to(parameter.dtype)) + next(iter([1])) + next(each for each in range(3))


class Keeps(Linear):
    def forward(self, x):
        setattr(self, "last", x.shape)
        self.cache[x.shape].append(1)
        return self.inner(x)


class Loops(Linear):
    def forward(self, x):
        numbers, pairs = iter([1, 2, 3]), {}
        for number, module in zip(numbers, self.children()):
            x = module(x) * number
        first, second = (each for each in (1, 2))
        pairs[first], heap = second, []
        heapq.heappush(heap, 1)
        return x + sum(numbers) + len(list(self.named_children())) + numpy.random.default_rng(3).random()


OWN = [Asks, Keeps, Loops]


if __name__ == "__main__":
    unittest.main()
