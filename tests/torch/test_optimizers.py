"""What torch's optimizers keep, and what their steps make and free again, counted under a real torch: the record that the probe makes
of each, and these bytes beside it, are in `tests/forecast/optimizers.jsonl`, which the sums in Rust are compared with.

    python3 tests/torch/test_optimizers.py --write
"""
import json
import pathlib
import sys
import unittest
import unittest.mock
import weakref

import rehearse  # noqa: F401  (it loads the probe's package)
import torch
from _oomph_probe.oom import optimizer as at_oom
from _oomph_probe.patch import foreach, fused, outcomes
from _oomph_probe.rehearse import optimizers as rehearsed
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

COUNTED = pathlib.Path(__file__).parent.parent / "forecast" / "optimizers.jsonl"
SHAPES = ((512, 1024), (1024,), (1024, 512), (16, 8, 3, 3))

CASES = {
    "Adam": dict(foreach=True),
    "Adam with decay": dict(foreach=True, weight_decay=0.1),
    "Adam amsgrad": dict(foreach=True, amsgrad=True),
    "AdamW": dict(foreach=True),
    "AdamW amsgrad": dict(foreach=True, amsgrad=True),
    "AdamW one by one": dict(foreach=False),
    "AdamW fused": dict(fused=True),
    "Adamax": dict(foreach=True),
    "NAdam": dict(foreach=True),
    "RAdam": dict(foreach=True),
    "RAdam one by one": dict(foreach=False),
    "Adam with decay one by one": dict(foreach=False, weight_decay=0.1),
    "NAdam one by one": dict(foreach=False),
    "SGD": dict(lr=0.1, foreach=True),
    "SGD with decay": dict(lr=0.1, foreach=True, weight_decay=0.1),
    "SGD momentum": dict(lr=0.1, foreach=True, momentum=0.9),
    "SGD momentum one by one": dict(lr=0.1, foreach=False, momentum=0.9),
    "SGD fused": dict(lr=0.1, fused=True, momentum=0.9),
    "RMSprop": dict(foreach=True),
    "RMSprop centered with momentum": dict(foreach=True, centered=True, momentum=0.9),
    "Adagrad": dict(foreach=True),
    "Adadelta": dict(foreach=True),
    "ASGD": dict(foreach=True),
    "Rprop": dict(foreach=True),
    "Adafactor one by one": dict(foreach=False),
    "Adafactor foreach": dict(foreach=True),
}


class Made(TorchDispatchMode):
    """Bytes of the storages that are made while it is on: now, and at the most."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self.known = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        for tensor in tensors((args, kwargs)):
            self.note(tensor, is_new=False)
        out = function(*args, **(kwargs or {}))
        for tensor in tensors(out):
            self.note(tensor, is_new=True)
        return out

    def note(self, tensor, is_new):
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes() if is_new and tensor.dim() else 0
        if key in self.known:
            return
        self.known.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self.forget, key, size)

    def forget(self, key, size):
        self.known.discard(key)
        self.now -= size


def tensors(values):
    return [each for each in tree_iter(values) if isinstance(each, torch.Tensor)]


class OnCpu(at_oom.Sizes):
    """A count of steps is no tensor of the device's there."""

    def is_here(self, tensor):
        return tensor.dim() > 0


def counted(name):
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    made = getattr(torch.optim, name.partition(" ")[0])(parameters, **CASES[name])

    def with_gradients():
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)

    with_gradients()
    before = OnCpu(torch, made, 0).line()
    # RAdam's first steps are simpler ones.
    for _ in range(7):
        made.step()
        with_gradients()
    with Made() as later:
        made.step()
    state = [each for of in made.state.values() for each in of.values()]
    kept = sum(each.numel() * each.element_size() for each in tensors(state) if each.dim() > 0)
    after = OnCpu(torch, made, 0).line()
    return {"name": name, "record": before, "state": kept, "temporaries": later.most - max(later.now, 0)}, after


class Optimizers(unittest.TestCase):
    def test_what_they_keep_and_make_is_what_was_written_down(self):
        lines = [json.loads(line) for line in COUNTED.read_text().splitlines()]
        self.assertEqual([line["name"] for line in lines], list(CASES))
        for line in lines:
            with self.subTest(line["name"]):
                now, after = counted(line["name"])
                self.assertEqual(now, line)
                self.assertEqual(sum(after["states"].values()), now["state"])
                self.assertEqual(after["stated"], after["trained"] if now["state"] else 0)

    def test_a_rehearsal_is_told_which_make_lists(self):
        for line in (json.loads(line) for line in COUNTED.read_text().splitlines()):
            settings = CASES[line["name"]]
            if settings.get("foreach"):
                parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
                made = getattr(torch.optim, line["name"].partition(" ")[0])(parameters, **settings)
                makes_lists = line["temporaries"] >= line["record"]["trained"]
                self.assertEqual(at_oom.optimizers.describe(made)["foreach"], makes_lists, line["name"])

    def test_the_state_of_embeddings_stays_in_32_bits_under_transformers_trainer(self):
        words = torch.nn.Embedding(600, 16)
        model = torch.nn.Sequential(words, torch.nn.Linear(16, 512))

        def small():
            return OnCpu(torch, torch.optim.AdamW(model.parameters()), 0).line()["small"]

        self.assertEqual(small(), 512)
        with unittest.mock.patch.dict(sys.modules, {at_oom.TRAINER: unittest}):
            self.assertEqual(small(), 512 + words.weight.numel())

    def test_an_optimizer_is_found_by_its_id_or_by_its_size(self):
        small = torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))], lr=0.1)
        large = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(30))])
        find = at_oom.optimizers.largest
        ours = [small.param_groups[0]["params"][0], large.param_groups[0]["params"][0]]

        def is_ours(parameter):
            return any(parameter is each for each in ours)

        self.assertIs(find(torch, is_ours, id(small)), small)
        self.assertIs(find(torch, is_ours), large)

    def test_a_step_that_a_patch_has_changed_has_no_temporaries(self):
        left = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(30))])
        typed = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(30))], foreach=True)

        def said(optimizer):
            line = OnCpu(torch, optimizer, 0).line()
            return line["foreach"], line.get("foreach_by_default", False), line["fused"]

        def is_rehearsed_with_lists(optimizer):
            with unittest.mock.patch.object(rehearsed, "largest", lambda *_: optimizer):
                return rehearsed.of(torch, torch.device("cpu"))["foreach"]

        self.assertEqual((said(left), is_rehearsed_with_lists(left)), ((True, True, False), True))
        for made in (foreach.NoForeach, fused.FusedSteps):
            files = [module for name, module in sys.modules.items() if name.startswith("torch.optim")]
            before = [(module, dict(vars(module))) for module in files]
            outcome = outcomes.Outcomes(torch, (2, 11), on_cpu=True)
            try:
                made(outcome, "off" if made is foreach.NoForeach else "on").install()
                with unittest.mock.patch.object(fused, "is_allowed", lambda *_: True):
                    self.assertEqual(said(left), (False, False, made is fused.FusedSteps), made)
                    self.assertFalse(is_rehearsed_with_lists(left))
                    # What the program says itself stays.
                    self.assertEqual(said(typed), (True, False, False))
                    self.assertTrue(is_rehearsed_with_lists(typed))
            finally:
                for module, names in before:
                    vars(module).update(names)


if __name__ == "__main__":
    if "--write" in sys.argv:
        COUNTED.write_text("".join(json.dumps(counted(name)[0]) + "\n" for name in CASES))
    else:
        unittest.main()
