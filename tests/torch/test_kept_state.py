"""What a model keeps itself (buffers, counters, caches, files, generators, hooks' counts) is after a rehearsal what it
was before it: the rehearsal has a copy of its own, or ends before the effect.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import array
import collections
import contextlib
import csv
import functools
import io
import itertools
import json
import logging
import marshal
import os
import pathlib
import pickle
import queue
import random
import tempfile
import types
import unittest
import warnings

import numpy
import rehearse
import torch
from torch import nn

DIRECTORY = tempfile.TemporaryDirectory()


class Kept(nn.Module):
    """A layer, and something that its forward does beside it; `goes` says whether that can be rehearsed."""

    goes = True

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.begin()

    def begin(self):
        pass

    def forward(self, x):
        x = self.inner(x)
        self.act(x)
        return x

    def state(self):
        return None


class Statistics(Kept):
    """A batch norm's running mean, its count of batches, and an average of the program's own."""

    def begin(self):
        self.norm, self.dropout = nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.register_buffer("average", torch.ones(4))
        self.register_buffer("seen", torch.tensor(3))

    def act(self, x):
        self.dropout(self.norm(x))
        with torch.no_grad():
            self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.average[0] = 7
            self.seen += 1

    def state(self):
        return [(name, each.tolist(), each._version) for name, each in self.named_buffers()]


class Rebound(Kept):
    """A buffer that is bound again, and weights that are written to."""

    def begin(self):
        self.register_buffer("center", torch.zeros(4))

    def act(self, x):
        self.center = self.center * 0.9 + x.detach().mean(0) * 0.1
        with torch.no_grad():
            self.inner.weight.clamp_(-0.01, 0.01)
            self.inner.bias.data.fill_(3)

    def state(self):
        inner = self.inner
        return id(self.center), self.center.tolist(), inner.weight.tolist(), inner.bias.tolist(), inner.weight._version


class Counts(Kept):
    def begin(self):
        self.calls, self.sizes, self.by_name, self.names = 0, [], {"a": [1]}, {"a"}
        self.counter, self.default = collections.Counter(a=1), collections.defaultdict(list)
        self.ordered = collections.OrderedDict(a=[1])

    def act(self, x):
        self.calls += 1
        self.sizes.append(tuple(x.shape))
        self.by_name["a"].append(2)
        self.by_name["x"] = x
        self.names.add("b")
        self.counter["a"] += 1
        self.default["b"].append(1)
        self.ordered["a"].append(x)

    def state(self):
        return repr((self.calls, self.sizes, self.by_name, self.names, self.counter, self.default, self.ordered))


class Config(Kept):
    """An object with attributes, whose list is the program's."""

    goes = None

    def begin(self):
        self.config = types.SimpleNamespace(calls=0, sizes=[], deeper=types.SimpleNamespace(calls=0))

    def act(self, x):
        self.config.sizes.append(1)

    def state(self):
        return repr(self.config)


class Deeper(Config):
    def act(self, x):
        self.config.deeper.calls += 1


class Log:
    def __init__(self):
        self.calls, self.sizes, self.deeper = 0, [], types.SimpleNamespace(calls=0)

    def note(self, size):
        self.calls += 1
        self.sizes.append(size)
        self.deeper.calls += 1


class Noted(Kept):
    """A method of an object of the program's own."""

    goes = None

    def begin(self):
        self.log = Log()

    def act(self, x):
        self.log.note(len(x))

    def state(self):
        return self.log.calls, list(self.log.sizes), self.log.deeper.calls


class Recent(Kept):
    goes = None

    def begin(self):
        self.recent = collections.deque([1], maxlen=3)

    def act(self, x):
        self.recent.append(2)

    def state(self):
        return list(self.recent)


class Numbers(Kept):
    goes = None

    def begin(self):
        self.numbers, self.few = numpy.zeros(4), array.array("i", [1])

    def act(self, x):
        self.numbers[0] += 1

    def state(self):
        return self.numbers.tolist(), self.few.tolist()


class NumbersInPlace(Numbers):
    def act(self, x):
        self.numbers += 1


class Few(Numbers):
    def act(self, x):
        self.few.append(1)


class SharedNumbers(Numbers):
    """A tensor over an array's memory: what is fake has none."""

    goes = True

    def begin(self):
        super().begin()
        self.shared = torch.from_numpy(self.numbers)

    def act(self, x):
        self.shared.add_(1)


class OwnRandom(Kept):
    goes = None

    def begin(self):
        self.random, self.numpys, self.torchs = random.Random(1), numpy.random.default_rng(1), torch.Generator().manual_seed(1)

    def act(self, x):
        self.random.random()

    def state(self):
        return self.random.getstate(), str(self.numpys.bit_generator.state), self.torchs.get_state().tolist()


class OwnNumpyRandom(OwnRandom):
    def act(self, x):
        self.numpys.integers(3)


class OwnTorchRandom(OwnRandom):
    def act(self, x):
        torch.rand(2, generator=self.torchs)


class OwnTorchRandomInPlace(OwnRandom):
    def act(self, x):
        torch.empty(2).normal_(generator=self.torchs)


class SharedRandom(Kept):
    """By torch's, numpy's and Python's own, which are put back."""

    def act(self, x):
        nn.functional.dropout(x, 0.5) + torch.rand_like(x) + torch.randn(4)
        random.random(), numpy.random.rand(), numpy.random.permutation(4), torch.randperm(4)

    def state(self):
        numpys = [str(each) for each in numpy.random.get_state()]
        return random.getstate(), numpys, torch.get_rng_state().tolist()


class Written(Kept):
    goes = False

    def begin(self):
        self.path = pathlib.Path(DIRECTORY.name, type(self).__name__)
        self.path.write_text("before\n")
        self.file = open(self.path, "r+")

    def act(self, x):
        self.file.write("step\n")

    def state(self):
        # What is in its buffer yet would be written by then.
        at = self.file.tell()
        self.file.flush()
        return at, self.path.read_bytes(), sorted(os.listdir(DIRECTORY.name))


class Printed(Written):
    def act(self, x):
        print("step", x.shape, file=self.file)


class Dumped(Written):
    def act(self, x):
        json.dump({"shape": list(x.shape)}, self.file)


class Appended(Written):
    def act(self, x):
        with open(self.path, "a") as file:
            file.write("step\n")


class Saved(Written):
    def act(self, x):
        torch.save(x, self.path)


class SavedByNumpy(Written):
    def act(self, x):
        numpy.save(self.path, numpy.zeros(3))


class WrittenByNumpy(Written):
    """In C, past Python's own files."""

    def act(self, x):
        numpy.zeros(3).tofile(self.file)


class ReadByNumpy(Written):
    def act(self, x):
        numpy.fromfile(self.file, dtype=numpy.int8, count=2)


class Pickled(Written):
    def begin(self):
        super().begin()
        self.file.close()
        self.file = open(self.path, "r+b")

    def act(self, x):
        pickle.dump([1], self.file)


class PickledByAnObject(Pickled):
    def act(self, x):
        pickle.Pickler(self.file).dump([1])


class Marshalled(Pickled):
    def act(self, x):
        marshal.dump([1], self.file)


class FewWritten(Pickled):
    def act(self, x):
        array.array("i", [1]).tofile(self.file)


class Rows(Written):
    def begin(self):
        super().begin()
        self.rows = csv.writer(self.file)

    def act(self, x):
        self.rows.writerow([1, 2])


class WrittenByPathlib(Written):
    def act(self, x):
        (self.path.parent / "another").mkdir(exist_ok=True)


class InMemory(Kept):
    goes = None

    def begin(self):
        self.text = io.StringIO()

    def act(self, x):
        self.text.write("step")

    def state(self):
        return self.text.getvalue(), self.text.tell()


class Logged(Kept):
    def begin(self):
        self.stream = io.StringIO()
        self.logger = logging.getLogger("of a model's own")
        self.logger.handlers = [logging.StreamHandler(self.stream)]
        self.logger.propagate = False
        self.logger.setLevel(logging.INFO)

    def act(self, x):
        self.logger.info("a step of %s", x.shape)

    def state(self):
        return self.stream.getvalue()


class LoggedOnce(Logged):
    """As transformers warns once of each thing: a program that goes on is still to be warned."""

    def begin(self):
        super().begin()
        self.once = ONCE
        self.once.cache_clear()

    def act(self, x):
        self.once(self.logger, "a step")

    def state(self):
        return super().state(), self.once.cache_info().currsize


@functools.lru_cache(None)
def ONCE(logger, text):
    logger.warning(text)


class Queued(Kept):
    goes = False

    def begin(self):
        self.queue = queue.Queue()

    def act(self, x):
        self.queue.put(1)

    def state(self):
        return list(self.queue.queue), self.queue.unfinished_tasks


class Drawn(Kept):
    goes = None

    def begin(self):
        self.numbers = itertools.count()

    def act(self, x):
        next(self.numbers)

    def state(self):
        return repr(self.numbers)


class Looped(Drawn):
    def begin(self):
        self.numbers = iter([1, 2, 3])

    def act(self, x):
        for _ in self.numbers:
            break

    def state(self):
        return repr(self.numbers.__reduce__())


class OfItsClass(Kept):
    goes = None
    calls, kept = 0, []

    def act(self, x):
        type(self).calls += 1

    def state(self):
        return OfItsClass.calls, list(OfItsClass.kept)


class ListOfItsClass(OfItsClass):
    """By the instance, which has none of that name."""

    def act(self, x):
        self.kept.append(1)


class Environment(Kept):
    goes = False

    def act(self, x):
        os.environ["OOMPH_KEPT"] = "1"

    def state(self):
        return os.environ.get("OOMPH_KEPT")


class Hooked(Kept):
    """Hooks are the program's own: none of them is called."""

    def begin(self):
        self.calls = calls = collections.Counter()
        count = lambda name: lambda *_: calls.update([name])  # noqa: E731
        self.inner.register_forward_hook(count("forward"))
        self.inner.register_forward_pre_hook(count("before"))
        self.inner.register_full_backward_hook(count("backward"))
        self.inner.weight.register_hook(count("gradient"))
        self.inner.weight.register_post_accumulate_grad_hook(count("accumulated"))

    def act(self, x):
        pass

    def state(self):
        return dict(self.calls)


class HookOfAnOutput(Kept):
    """A hook that forward itself puts on a tensor changes what is outside in backward."""

    goes = None

    def begin(self):
        self.log = Log()

    def act(self, x):
        log = self.log
        if x.requires_grad:
            x.register_hook(lambda gradient: log.note(1))

    def state(self):
        return self.log.calls, list(self.log.sizes), self.log.deeper.calls


class Gradients(Kept):
    def begin(self):
        self.inner.weight.grad = torch.ones(4, 4)

    def act(self, x):
        pass

    def state(self):
        grad = self.inner.weight.grad
        return id(grad), grad.tolist(), grad._version, self.inner.bias.grad


class Mode(Kept):
    def act(self, x):
        self.eval()
        self.inner.requires_grad_(False)
        self.added = nn.Linear(4, 4)
        self.inner.requires_grad_(True)

    def state(self):
        return self.training, self.inner.training, self.inner.weight.requires_grad, list(vars(self)), list(self._modules)


def kinds(of=Kept):
    for each in of.__subclasses__():
        yield each
        yield from kinds(each)


class KeptState(unittest.TestCase):
    def test_what_a_model_keeps_is_as_it_was(self):
        given = torch.zeros(4, 4)
        # What is imported at the first use is there.
        rehearse.said(nn.Linear(4, 4), given)
        for kind in kinds():
            model = kind()
            said, errors = io.StringIO(), io.StringIO()
            before = model.state()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
                line = rehearse.said(model, given)
            with self.subTest(kind.__name__):
                self.assertEqual(model.state(), before)
                self.assertEqual((said.getvalue(), given.tolist(), given.requires_grad), ("", [[0.0] * 4] * 4, False))
                if kind.goes is not None:
                    self.assertEqual(rehearse.why_not(line) is None, kind.goes, rehearse.why_not(line))
                # A real step does change it, or nothing is tested here.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model(given).sum().backward()
                self.assertNotEqual(model.state(), before)
            if isinstance(model, Written):
                model.file.close()


if __name__ == "__main__":
    unittest.main()
