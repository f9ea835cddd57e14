"""PyTorch's cache is emptied between training and evaluation, and only there."""
import types

from fake_torch import Tensor
from patching import Block, Net, PatchTest


class EmptyCache(PatchTest):
    def patched(self, empty):
        self.torch.cuda = types.SimpleNamespace(
            is_initialized=lambda: True, is_current_stream_capturing=lambda: False, empty_cache=empty, is_available=lambda: True,
        )
        made = self.patch("empty_cache=phases")
        self.phase = True
        self.torch.is_grad_enabled = lambda: self.phase
        return made

    def test_it_is_emptied_where_the_phase_changes(self):
        emptied = []
        made = self.patched(lambda: emptied.append(self.phase))
        model = Net([Block()])
        values = []
        for phase in (True, True, False, False, True, False):
            self.phase = phase
            values.append(model(Tensor(1.0)).value)
        self.assertEqual(emptied, [False, True, False])
        self.assertEqual(len(set(values)), 1)
        self.assertEqual(self.outcome(made, "empty_cache"), "applied")

    def test_an_error_ends_the_patch_and_not_the_training(self):
        def fails():
            raise RuntimeError("no driver")

        made = self.patched(fails)
        model = Net([Block()])
        model(Tensor(1.0))
        self.phase = False
        model(Tensor(1.0))
        self.assertEqual(self.outcome(made, "empty_cache"), "declined")

    def test_only_between_phases(self):
        self.assertEqual(self.outcome(self.patch("empty_cache=always"), "empty_cache"), "declined")
