"""Which module was running when: forward, backward, an activation computed again, under a real torch."""
import gc
import pathlib
import sys
import unittest
import weakref

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "probe" / "units"))
import support  # noqa: E402, F401
from _oomph_probe.live import modules  # noqa: E402
from _oomph_probe.rehearse import roots  # noqa: E402


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, recomputes=False, width=8, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(10, width)
        self.h = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, 10)
        self.recomputes = recomputes

    def forward(self, x):
        x = self.embedding(x)
        for block in self.h:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.recomputes else block(x)
        return {"logits": self.head(x)}


def step(model, loss=F.cross_entropy):
    logits = model(torch.randint(0, 10, (2, 5)))["logits"]
    loss(logits.flatten(0, 1), torch.zeros(10, dtype=torch.long)).backward()


def names_of(seen):
    marks, names, _ = seen
    return [names.get(label) for _, label in marks]


class TheMarks(unittest.TestCase):
    def setUp(self):
        self.seen = modules.Modules(torch)
        self.addCleanup(self.seen.end)

    def traced(self, model, **more):
        self.seen.begin(by_hooks=True)
        step(model, **more)
        return self.seen.take()

    def test_forward_goes_through_the_modules_and_backward_comes_back(self):
        names = names_of(self.traced(Model()))
        forward = names[: names.index(None)]
        self.assertEqual(forward[:8], ["Model", "embedding", "Model", "h.0", "h.0.norm", "h.0", "h.0.up", "h.0"])
        backward = names[names.index(None) + 1 :]
        once = [name for at, name in enumerate(backward) if at == 0 or backward[at - 1] != name]
        self.assertEqual(once[:6], ["head", "h.1", "h.1.down", "h.1", "h.1.up", "h.1.norm"])
        self.assertEqual(once[-1], "embedding")

    def test_what_is_computed_again_is_its_modules(self):
        names = names_of(self.traced(Model(recomputes=True)))
        again = names[names.index(None) + 1 :]
        self.assertGreater(again.count("h.1.up"), 1)
        self.assertEqual(self.seen.stack, [])

    def test_parameters_have_their_modules_names(self):
        model = Model()
        _, _, of_parameters = self.traced(model)
        self.assertEqual(of_parameters[id(model.h[1].up.weight)], "h.1.up")
        self.assertEqual(len(of_parameters), len(list(model.parameters())))

    def test_a_wrapper_and_a_loss_do_not_change_the_models_names(self):
        class Wrapper(nn.Module):
            def __init__(self, module):
                super().__init__()
                self.module = module

            def forward(self, x):
                return self.module(x)

        names = names_of(self.traced(Wrapper(Model()), loss=nn.CrossEntropyLoss()))
        self.assertIn("h.0.up", names)
        self.assertIn("CrossEntropyLoss", names)
        self.assertNotIn("module.h.0.up", names)

    def test_nothing_of_the_program_changes(self):
        torch.manual_seed(1)
        model = Model()
        inputs = torch.randint(0, 10, (2, 5))

        def gradients():
            model.zero_grad()
            logits = model(inputs)["logits"]
            logits.sum().backward()
            return [parameter.grad.clone() for parameter in model.parameters()]

        bare = gradients()
        self.seen.begin(by_hooks=True)
        traced = gradients()
        self.seen.end()
        self.assertTrue(all(torch.equal(one, other) for one, other in zip(bare, traced)))
        global_hooks = torch.nn.modules.module
        self.assertFalse(global_hooks._global_forward_hooks or global_hooks._global_forward_pre_hooks)

    def test_no_graph_is_kept(self):
        model = Model()
        self.seen.begin(by_hooks=True)
        logits = model(torch.randint(0, 10, (2, 5)))["logits"]

        class Kept:
            pass

        mark = Kept()
        logits.grad_fn.metadata["mark"] = mark
        of_graph, of_output = weakref.ref(mark), weakref.ref(logits)
        del logits, mark
        gc.collect()
        self.assertIsNone(of_output())
        self.assertIsNone(of_graph())
        kept = weakref.ref(model)
        del model
        gc.collect()
        self.assertIsNone(kept())

    def test_an_exception_leaves_no_module_on_the_stack(self):
        model = Model()
        self.seen.begin(by_hooks=True)
        with self.assertRaises(Exception):
            model(torch.zeros(2, 5))
        self.assertEqual(self.seen.stack, [])

    def test_the_wrapper_of_the_first_steps_sees_the_same(self):
        by_hooks = names_of(self.traced(Model()))
        self.seen.end()
        first = roots.Roots(torch, lambda *_: None, self.seen)
        first.install()
        try:
            self.assertTrue(first.sees_modules())
            self.seen.begin(by_hooks=False)
            model = Model()
            step(model)
            self.assertEqual(names_of(self.seen.take()), by_hooks)
        finally:
            first.rest()
        self.assertFalse(first.sees_modules())

    def test_a_backward_that_is_compiled_is_left_alone(self):
        """Compiled autograd traces the hooks of nodes, and refuses those that it does not know."""
        from torch._dynamo import compiled_autograd

        first = roots.Roots(torch, lambda *_: None, self.seen)
        first.install()
        try:
            for _ in range(2):
                model = Model()
                self.seen.begin(by_hooks=False)
                loss = model(torch.zeros(2, 5, dtype=torch.long))["logits"].square().mean()
                compiler = torch.compile(backend="eager", fullgraph=True)
                with compiled_autograd._enable(compiler):
                    loss.backward()
                self.assertIsNotNone(model.head.weight.grad)
                # It may come again: nothing is marked for it any more.
                self.assertEqual(self.seen.nodes, [])
        finally:
            first.rest()
            torch._dynamo.reset()
            compiled_autograd.reset()


if __name__ == "__main__":
    unittest.main()
