"""What is known of the numbers that set a program's sizes: what its model was given, and where such numbers stand."""
import collections
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

import support  # noqa: F401
from _oomph_probe.common import frames
from _oomph_probe.knobs import batch, given, knobs, search
from _oomph_probe.rehearse import inputs, roots


class Tensor:
    dtype = device = None
    requires_grad = False

    def __init__(self, *shape):
        self.shape = shape

    def stride(self):
        return ()

    def untyped_storage(self):
        return types.SimpleNamespace(_cdata=id(self), nbytes=lambda: 0)


class Module:
    pass


TORCH = types.SimpleNamespace(Tensor=Tensor, nn=types.SimpleNamespace(Module=Module, Parameter=Tensor), dtype=str, device=str)
OWNERS = frames.Owners(None)


class Given(unittest.TestCase):
    def lines(self, *calls):
        seen, module = given.Given(TORCH), Module()
        for args, kwargs in calls:
            seen.add(module, args, kwargs)
        return {each["at"]: each for each in seen.latest.lines()}

    def test_tensors_are_found_in_whatever_holds_them(self):
        Pair = collections.namedtuple("Pair", "left right")
        encoding = collections.UserDict(input_ids=Tensor(8, 128))
        item = types.SimpleNamespace(x=Tensor(5, 6), name="graph")
        lines = self.lines(((Tensor(8, 3), [Tensor(2), Pair(Tensor(4), None)], encoding), {"item": item, "flag": 3}))
        shapes = {at: each.get("shape") for at, each in lines.items() if "shape" in each}
        self.assertEqual(
            shapes, {"0": [8, 3], "1.0": [2], "1.1.left": [4], "2.input_ids": [8, 128], "item.x": [5, 6]}
        )
        self.assertEqual(lines["1"]["length"], 2)

    def test_of_ever_new_models_the_latest_ones_are_known(self):
        seen, models = given.Given(TORCH), []
        for number in range(3 * given.MOST_MODELS):
            model = Module()
            # As a search does that lets go of most of its models, and as one that keeps all.
            models += [model] if number % 2 else []
            seen.add(model, (Tensor(8, number + 1),), {})
            seen.add(model, (Tensor(8, 100),), {})
            self.assertIs(seen.trained.module(), model)
            self.assertEqual(seen.trained.calls, 2)
            self.assertLessEqual(len(seen.of_models), given.MOST_MODELS)

    def test_what_differs_from_call_to_call_is_said(self):
        lines = self.lines(((Tensor(8, 120),), {}), ((Tensor(8, 77),), {}))
        self.assertEqual((lines["0"]["shape"], lines["0"]["varies"]), ([8, 77], [1]))

    def test_the_least_and_the_most_of_each_dimension_are_kept(self):
        lines = self.lines(*[((Tensor(*shape), Tensor(8)), {}) for shape in ((8, 120), (8, 300), (3, 77), (8, 90))])
        self.assertEqual((lines["0"]["shape"], lines["0"]["least"], lines["0"]["most"]), ([8, 90], [3, 77], [8, 300]))
        self.assertNotIn("most", lines["1"])

    def test_a_run_that_is_watched_tells_of_larger_inputs_again(self):
        for rehearsed_step, told in ((2, [True, False, True, True]), (0, [True, False, False, False])):
            seen, module = given.Given(TORCH), Module()
            first = knobs.FirstCall(1, 2, rehearsed_step, seen)
            said = []
            for shape in ((8, 120), (8, 120), (8, 300), (8, 77)):
                seen.add(module, (Tensor(*shape),), {})
                said.append(first.take() is not None)
            self.assertEqual(said, told)

    def test_no_property_of_the_programs_runs(self):
        class Config:
            @property
            def x(self):
                raise AssertionError

        self.assertEqual(self.lines(((Config(),), {})), {})

    def test_nothing_that_stands_for_something_else_is_made_to_load_it(self):
        class Lazy:
            """What knows what it is once it was asked."""

            @property
            def __class__(self):
                raise AssertionError

            @property
            def __dict__(self):
                raise AssertionError

        class Sequence(list):
            def __iter__(self):
                raise AssertionError

            __len__ = __getitem__ = __iter__

        class Mapping(dict):
            def items(self):
                raise AssertionError

            keys = values = __iter__ = __len__ = items

        class Batch:
            @property
            def data(self):
                raise AssertionError

        args = (Lazy(), Sequence([Tensor(4)]), Mapping(x=Tensor(5)), Batch())
        lines = self.lines((args, {}))
        self.assertEqual({at: each.get("shape") for at, each in lines.items()}, {"1.0": [4], "1": None, "2.x": [5]})
        self.assertEqual(search.settings_in(args[0]), [])
        with self.assertRaises(roots.CannotNote):
            roots.noted(TORCH, args[0])
        with self.assertRaises(roots.CannotNote):
            roots.noted(TORCH, args[3])


class Running(unittest.TestCase):
    """The call that runs when memory runs out, by the frames of torch's `Module.__call__`."""

    CALLS = "def _call_impl(self, *args, **kwargs):\n    return look(self, *args, **kwargs)\n"

    def seen(self, file, module, *args, **kwargs):
        found = []

        def look(module, *args, **kwargs):
            inner = calls["_call_impl"]
            if args:
                return inner(Module())
            found.append(given.of_running(TORCH, OWNERS, frames.outwards(sys._getframe())))

        calls = {"look": look}
        exec(compile(self.CALLS, os.path.join(OWNERS.torch_home, file), "exec"), calls)
        calls["_call_impl"](module, *args, **kwargs)
        return found[0]

    def test_the_outermost_module_counts(self):
        module = Module()
        running = self.seen(given.CALLED_IN, module, Tensor(512, 3), mask=Tensor(512))
        self.assertIs(running.module(), module)
        self.assertEqual({each["at"]: each["shape"] for each in running.lines()}, {"0": [512, 3], "mask": [512]})

    def test_nothing_else_is_taken_for_a_call(self):
        self.assertIsNone(self.seen("other.py", Module(), Tensor(512, 3)))
        self.assertIsNone(self.seen(given.CALLED_IN, "no module"))

    def test_an_evaluation_is_told_of_by_its_own_call(self):
        seen, module = given.Given(TORCH), Module()
        of_process = knobs.Knobs(TORCH, 1, OWNERS, seen)
        seen.add(module, (Tensor(64, 3),), {})
        # Calls are looked at in the first steps only: what an evaluation is given is not known then.
        self.assertEqual(of_process.called(True), (seen.latest, False, False))
        seen.add(module, (Tensor(1000, 3),), {}, is_evaluated=True)
        self.assertEqual(of_process.called(True)[0].shapes, {"0": (1000, 3)})
        self.assertEqual(of_process.called(True)[1:], (True, False))

    def test_the_call_that_failed_counts_with_what_was_noted_before(self):
        seen, module = given.Given(TORCH), Module()
        seen.add(module, (Tensor(64, 192),), {})
        of_process = knobs.Knobs(TORCH, 1, OWNERS, seen)
        self.assertEqual(of_process.called(False), (seen.latest, False, False))
        running = given.Tensors(module)
        running.add(TORCH, (Tensor(64, 768),), {})
        with mock.patch.object(given, "of_running", return_value=running):
            self.assertEqual(of_process.called(False), (seen.latest, False, True))
        [line] = seen.latest.lines()
        self.assertEqual((line["shape"], line["least"], line["varies"]), ([64, 768], [64, 192], [1]))


class Names(unittest.TestCase):
    def test_variables_and_what_they_hold(self):
        class Lazy:
            def __init__(self):
                self.seen = 48

            def __getattr__(self, name):
                raise AssertionError

        def train(batch_size, args):
            config, settings, lazy, flag = {"bsz": 16}, types.SimpleNamespace(width=96), Lazy(), True
            found = search.Names(OWNERS).of_frames([sys._getframe()])
            return {each["name"]: each["value"] for each in found}, (config, settings, lazy, flag)

        found, _ = train(64, types.SimpleNamespace(seq_len=1024, lr=0.1))
        self.assertEqual(
            {name: found.get(name) for name in ("batch_size", "args.seq_len", "config.bsz", "settings.width", "lazy.seen")},
            {"batch_size": 64, "args.seq_len": 1024, "config.bsz": 16, "settings.width": 96, "lazy.seen": 48},
        )
        self.assertNotIn("flag", found)


class Literals(unittest.TestCase):
    TEXT = """\
import argparse
B, T = 64, 1024
parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=64)
def train(loader, batch_size: int = 64, *, steps=64): pass
class Config:
    bsz: int = 64
loader = DataLoader(data, batch_size=64, shuffle=True)
settings = {"batch": 64, "layers": 12}
print(64)
other = DataLoader(data, batch_size=64 // ranks)
half = DataLoader(data, batch_size=ranks // 64)
of_shell = int(os.environ.get("BATCH_SIZE", "64"))
bs = os.getenv("BS", 64)
odd = os.environ.get("ODD", u"64"), max(1, 64), int("64")
class TEST:
    batch = 64
cfg.VAL.batch_size = 64
cfg.TRAIN.batch_size = 64
"""

    def test_each_place_where_the_number_has_a_name(self):
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "train.py")
            with open(path, "w") as file:
                file.write(self.TEXT)
            found = search.literals([path], {64})
        lines = self.TEXT.splitlines()
        self.assertEqual(
            sorted((each["line"], each["name"], each["kind"]) for each in found),
            [(2, "B", "assignment"), (4, "--batch-size", "declared"), (5, "batch_size", "default"), (5, "steps", "default"),
             (7, "bsz", "assignment"), (8, "batch_size", "keyword"), (9, "batch", "entry"), (11, "batch_size", "keyword"), (13, "of_shell", "assignment"), (14, "bs", "assignment"),
             (17, "TEST.batch", "assignment"), (18, "VAL.batch_size", "assignment"), (19, "batch_size", "assignment")],
        )
        for each in found:
            self.assertEqual(lines[each["line"] - 1][each["column"] :][:2], "64")

    def test_what_is_computed_of_written_numbers_is_one_at_its_place(self):
        text = (
            "a = 2 ** 6\nb = 4 * 16\nc = (2 + 2) * 16\nd = n * 64\ndef f(e=8 * 8, *, g=2 * 2 ** 5): pass\n"
            "h = 2 ** 7 // ranks\ni = (60 + 4)\nj = 2 ** 99\n"
        )
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "train.py")
            with open(path, "w") as file:
                file.write(text)
            found = search.literals([path], {64, 128})
        self.assertEqual(
            sorted((each["line"], each["column"], each["name"], each["value"]) for each in found),
            [(1, 4, "a", 64), (2, 4, "b", 64), (5, 8, "e", 64), (5, 20, "g", 64), (6, 4, "h", 128), (7, 5, "i", 64)],
        )

    def test_a_file_that_cannot_be_read_is_passed_over(self):
        self.assertEqual(search.literals(["/nowhere/at/all.py"], {64}), [])


class Batch(unittest.TestCase):
    def test_names_of_a_batch(self):
        for name in ("batch_size", "args.bsz", "trainBatchSize", "per_device_train_batch_size", "config.batch", "BATCH_SIZE"):
            self.assertTrue(batch.is_batch(name), name)
        for name in ("eval_batch_size", "num_batch", "batches", "batch_norm", "total_batch_size", "bias", "absolute"):
            self.assertFalse(batch.is_batch(name), name)

    def test_the_number_that_the_program_calls_its_batch(self):
        def train(batch_size, eval_batch_size, layers):
            return batch.told([(35, batch_size), (layers, batch_size, 200)], OWNERS, None)

        self.assertEqual(train(20, 10, 2), 20)
        self.assertIsNone(batch.told([(35, 21), (2, 21, 200)], OWNERS, None))

    def test_the_dimension_that_it_is(self):
        def dimension(size, is_first, *shape):
            return inputs.dimension_of(inputs.Shape(Tensor(*shape)), size, is_first)

        # By time, with a state of two layers beside it.
        self.assertEqual([dimension(20, False, *each) for each in ((35, 20), (2, 20, 200), (35,))], [1, 1, None])
        # The batch first: a state of layers is the only one that has it second.
        self.assertEqual([dimension(20, True, *each) for each in ((20, 35), (2, 20, 200), (1, 20), (20,))], [0, 1, None, 0])


if __name__ == "__main__":
    unittest.main()
