"""In which phase memory ran out: told by what runs, under a real torch.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import pathlib
import sys
import types
import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "probe" / "units"))
import support  # noqa: E402, F401
from _oomph_probe.common import frames  # noqa: E402
from _oomph_probe.oom import observer  # noqa: E402

FOUND, OPERANDS = [], []
OWNERS = frames.Owners(torch)


def runs_out(*_):
    """What the allocator calls, where it would."""
    steps = types.SimpleNamespace(count=STEPS, thread=None, running=0, is_running=lambda: False, forget_running=lambda: None)
    records = observer.Records.__new__(observer.Records)
    records.torch, records.owners, records.steps = torch, OWNERS, steps
    record = {}
    records.add_stack(record, 0)
    FOUND.append(record["phase"])
    OPERANDS[:] = [record.get("operands")]


STEPS = 10


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.runs_out = nn.Linear(4, 4), True

    def forward(self, x):
        if self.runs_out:
            runs_out()
        return self.inner(x)

    def generate(self, x):
        with torch.no_grad():
            x = self(x)
            runs_out()
        return x


def a_step(model, x):
    out = model(x)
    runs_out()
    loss = F.mse_loss(out, x)
    return loss


def by_hand(x, has_history):
    """A forward pass without a module."""
    weight = torch.randn(4, 4, requires_grad=has_history)
    runs_out(x, x @ weight)


def evaluate(model, x):
    model.eval()
    with torch.no_grad():
        out = model(x)
    gathered = []
    gather(gathered, out)
    model.train()


def gather(gathered, out):
    runs_out()
    gathered.append(out.clone())


def evaluation_loop(outputs):
    """Nothing but the name tells it."""
    gather([], outputs)


def in_inference(model, x):
    with torch.inference_mode():
        model(x)
        runs_out()


def train_against_attacks(model, x):
    """The inputs are changed against the model in eval mode, then it is trained on them."""
    model.eval()
    attack(model, x.requires_grad_())
    model.train()
    model(x)


def attack(model, x):
    model(x)
    runs_out()


def validate_with_gradients(model, x):
    """As a part of training, and no_grad was forgotten."""
    model.eval()
    model(x)


class Trainer:
    def __init__(self, model):
        self.model, self.criterion = model, nn.CrossEntropyLoss()

    def fit(self, x):
        self.compute(x)

    def compute(self, x):
        runs_out()


class Stays:
    """Runs out while it is read or written."""

    def __reduce__(self):
        runs_out()
        return (Stays, ())

    def __setstate__(self, state):
        runs_out()


class Phases(unittest.TestCase):
    def of(self, function, *args):
        del FOUND[:]
        function(*args)
        return FOUND[:]

    def test_a_training_step(self):
        self.assertEqual(self.of(a_step, Model(), torch.zeros(2, 4)), ["forward", "forward"])
        self.assertEqual(self.of(Trainer(Model()).fit, torch.zeros(2, 4)), ["forward"])

    def test_an_evaluation_gathers_what_its_model_returned(self):
        self.assertEqual(self.of(evaluate, Model(), torch.zeros(2, 4)), ["evaluation", "evaluation"])
        self.assertEqual(self.of(evaluation_loop, torch.zeros(2, 4)), ["evaluation"])
        self.assertEqual(self.of(in_inference, Model(), torch.zeros(2, 4)), ["evaluation", "evaluation"])
        self.assertEqual(self.of(Trainer(Model().eval()).fit, torch.zeros(2, 4)), ["evaluation"])

    def test_a_model_in_eval_mode_may_be_trained(self):
        global STEPS
        self.assertEqual(self.of(train_against_attacks, Model(), torch.zeros(2, 4)), ["forward"] * 3)
        self.assertEqual(self.of(validate_with_gradients, Model(), torch.zeros(2, 4)), ["evaluation"])

        def in_a_script(model, x):
            return model(x)

        frozen = Model().eval()
        # Where no function says what it does, an evaluation comes after steps.
        self.assertEqual(self.of(in_a_script, frozen, torch.zeros(2, 4)), ["evaluation"])
        STEPS = 0
        try:
            self.assertEqual(self.of(in_a_script, frozen, torch.zeros(2, 4)), ["forward"])
            with torch.no_grad():
                self.assertEqual(self.of(in_a_script, frozen, torch.zeros(2, 4)), ["evaluation"])
        finally:
            STEPS = 10

    def test_a_forward_pass_without_a_module_is_one_from_what_autograd_recorded_on(self):
        global STEPS
        STEPS = 0
        try:
            with mock.patch.object(torch.Tensor, "is_cuda", True, create=True):
                self.assertEqual(self.of(by_hand, torch.zeros(2, 4), True), ["forward"])
                self.assertEqual(OPERANDS, [2 * 4 * 4])
                # A weight that is made, before anything is computed from it.
                self.assertEqual(self.of(by_hand, torch.zeros(2, 4), False), ["load"])
                with torch.no_grad():
                    self.assertEqual(self.of(by_hand, torch.zeros(2, 4), True), ["load"])
        finally:
            STEPS = 10

    def test_what_is_compiled_is_a_part_of_a_step_before_the_first_has_ended(self):
        global STEPS

        def graph(module, inputs):
            def compiled(*args):
                runs_out()
                return module.forward(*args)

            return compiled

        def loss_of(weight, x):
            return (x @ weight).pow(2).mean()

        def evaluated(weight, x):
            with torch.no_grad():
                return torch.compile(loss_of, backend=graph)(weight, x)

        weight, x = torch.zeros(4, 4, requires_grad=True), torch.zeros(2, 4)
        STEPS = 0
        try:
            self.assertEqual(self.of(torch.compile(loss_of, backend=graph), weight, x), ["forward"])
            self.assertEqual(self.of(evaluated, weight, x), ["evaluation"])
        finally:
            STEPS = 10
            torch._dynamo.reset()

    def test_generation(self):
        self.assertEqual(self.of(Model().generate, torch.zeros(2, 4)), ["evaluation", "evaluation"])

    def test_a_checkpoint(self):
        import tempfile

        model = Model()
        model.runs_out = False
        state = Stays()
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "checkpoint"

            def saves():
                torch.save({"model": model.state_dict(), "more": state}, path)

            def loads():
                hook = model.register_load_state_dict_post_hook(runs_out)
                model.load_state_dict(torch.load(path, weights_only=False)["model"])
                hook.remove()

            self.assertEqual(self.of(saves), ["unknown"])
            self.assertEqual(self.of(loads), ["load"])


if __name__ == "__main__":
    unittest.main()
