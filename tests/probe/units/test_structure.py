"""What the optimizers account for, with shards told beside the whole that they are parts of."""
import types
import unittest

import support  # noqa: F401
from _oomph_probe.live import structure


class Fake:
    """A tensor on the GPU."""

    def __init__(self, count, grad=None):
        self.count, self.grad = count, grad
        self.is_cuda, self.device = True, types.SimpleNamespace(index=0)

    def data_ptr(self):
        return id(self)

    def numel(self):
        return self.count

    def element_size(self):
        return 4


class Sharded(Fake):
    """A DTensor of which this rank has a part."""

    def __init__(self, count, local):
        super().__init__(count)
        self._local_tensor = Fake(local)


def measured(*parameters):
    optimizer = types.SimpleNamespace(param_groups=[{"params": list(parameters)}], state={})
    of = structure.Structure(types.SimpleNamespace(Tensor=Fake), 7)
    of.optimizers[0] = lambda: optimizer
    of.measure()
    return of.of(0)


class Structure(unittest.TestCase):
    def test_plain_parameters_are_whole(self):
        line = measured(Fake(10, grad=Fake(10)), Fake(5))
        self.assertEqual((line["parameters"], line["gradients"]), (60, 40))
        self.assertNotIn("whole", line)

    def test_gradients_are_counted_as_they_are_now(self):
        parameter = Fake(10, grad=Fake(10))
        optimizer = types.SimpleNamespace(param_groups=[{"params": [parameter, Fake(5)]}], state={})
        of = structure.Structure(types.SimpleNamespace(Tensor=Fake), 7)
        of.optimizers[0] = lambda: optimizer
        of.measure()
        parameter.grad = None
        self.assertEqual((of.of(0)["gradients"], of.gradients(0)), (40, 0))
        parameter.grad = Fake(10)
        self.assertEqual((of.gradients(0), of.gradients(1)), (40, 0))

    def test_frozen_parameters_are_those_that_no_optimizer_has(self):
        trained, frozen = Fake(10), Fake(20)
        optimizer = types.SimpleNamespace(param_groups=[{"params": [trained]}], state={})
        of = structure.Structure(types.SimpleNamespace(Tensor=Fake), 7)
        of.optimizers[0] = lambda: optimizer
        words, places = of.kinds({id(frozen): "base.0"}, [trained, frozen])
        self.assertEqual(words, {id(trained): "parameters", id(frozen): "frozen"})
        self.assertEqual(places, {id(frozen): "base.0"})

    def test_shards_are_told_beside_the_whole(self):
        line = measured(Sharded(100, 25), Fake(5))
        self.assertEqual((line["parameters"], line["whole"]), (120, 420))

    def test_a_flat_parameter_knows_its_whole_size(self):
        flat = Fake(25)
        flat._unpadded_unsharded_size = types.SimpleNamespace(numel=lambda: 100)
        line = measured(flat)
        self.assertEqual((line["parameters"], line["whole"]), (100, 400))

    def test_a_parameter_of_two_optimizers_counts_once(self):
        shared = Fake(10)
        self.assertEqual(measured(shared, shared)["parameters"], 40)


if __name__ == "__main__":
    unittest.main()
