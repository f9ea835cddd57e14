"""What a rule says of an operator's outputs is what torch says of them, on a CPU's fakes and on a GPU's.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import unittest

import rehearse  # noqa: F401
import torch
from _oomph_probe.rehearse import operators, rules
from torch._subclasses.fake_tensor import FakeTensorMode

ATEN = torch.ops.aten
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
UNARY = {
    "hardtanh": (-1.0, 1.0), "clamp": (0.0, 1.0), "clamp_min": (0.0,), "leaky_relu": (0.1,), "elu": (1.0,),
    "softplus": (1.0, 20.0),
}
BACKWARD = {"threshold_backward": (0.0,), "hardtanh_backward": (-1.0, 1.0)}


def cases(made, whole):
    """Each operator with arguments: `made` makes a tensor of a shape, `whole` one of whole numbers."""
    x, other = made(4, 6, 8), made(4, 6, 8)
    turned, broad = made(4, 8, 6).transpose(1, 2), made(8)
    for name in rules.UNARY.split():
        if name == "pow":
            for each in (x, turned):
                yield ATEN.pow.Tensor_Scalar, (each, 2), {}
            continue
        for each in (x, turned, made(0, 3), made()):
            yield getattr(ATEN, name).default, (each, *UNARY.get(name, ())), {}
    for name in rules.BINARY.split():
        function = getattr(ATEN, name).Tensor
        yield from ((function, (x, second), {}) for second in (other, turned, broad, 2.0, 2, True))
        yield from ((function, (turned, second), {}) for second in (turned, 3))
        for first, second in (
            ((4, 6, 8), (1, 6, 1)), ((8,), (4, 6, 8)), ((4, 1, 8), (1, 6, 1)), ((4, 6), ()), ((), (4, 6)), ((1, 1), (1,)),
            ((5, 1), (1, 7)), ((6, 3, 2, 2), (6, 1, 1, 1)), ((0, 3), (1, 3)), ((1,), (1, 1, 1)), ((4, 1, 1, 3), (2, 5, 1)),
        ):
            yield function, (made(*first), made(*second)), {}
        yield function, (made(6, 4).t(), made(1, 6)), {}
        yield getattr(ATEN, name + "_").Tensor, (made(4, 6), made(1, 6)), {}
        yield getattr(ATEN, name + "_").Tensor, (made(4, 6), made()), {}
        yield getattr(ATEN, name + "_").Tensor, (made(4, 6), made(4, 6)), {}
        yield getattr(ATEN, name + "_").Tensor, (made(4, 6), 2.0), {}
        yield getattr(ATEN, name + "_").Tensor, (made(4, 6), made(6)), {}
    for name in ("relu", "silu", "sigmoid", "hardswish"):
        yield getattr(ATEN, name + "_").default, (made(4, 6),), {}
    yield ATEN.hardtanh_.default, (made(4, 6), 0.0, 6.0), {}
    for each, of in ((made(4, 6), made(4, 6)), (whole(6), made(6)), (made(4, 6).t(), made(6, 4)), (made(4, 6), made(6))):
        yield ATEN.copy_.default, (each, of), {}
    for name in rules.BACKWARD.split():
        for first, second in ((x, other), (x, turned), (turned, turned), (x, broad)):
            yield getattr(ATEN, name).default, (first, second, *BACKWARD.get(name, ())), {}
    yield ATEN.native_dropout.default, (x, 0.1, True), {}
    yield ATEN.native_dropout.default, (x, 0.1, False), {}
    yield ATEN.native_dropout_backward.default, (x, x > 0, 1.1), {}
    for each in (x, turned):
        yield ATEN._softmax.default, (each, -1, False), {}
        yield ATEN._log_softmax.default, (each, 1, False), {}
        yield ATEN._softmax_backward_data.default, (each, each, -1, each.dtype), {}
        yield ATEN._log_softmax_backward_data.default, (each, each, 1, each.dtype), {}
    yield from normalized(made)
    scores, targets = made(6, 5), whole(6)
    for reduction in (0, 1, 2):
        yield ATEN.nll_loss_forward.default, (scores, targets, None, reduction, -100), {}
        grad = made(6) if reduction == 0 else made()
        yield ATEN.nll_loss_backward.default, (grad, scores, targets, None, reduction, -100, made()), {}
    for wanted in ({}, {"memory_format": torch.contiguous_format}, {"memory_format": torch.preserve_format}):
        for each in (x, turned, broad.expand(4, 8)):
            yield ATEN.clone.default, (each,), wanted
    for each in (x, turned):
        yield ATEN.roll.default, (each, [1, 2], [0, 1]), {}
        for over, keeps in (([0], False), ([-1, 0], True), ([1], True), ([], False)):
            yield ATEN.sum.dim_IntList, (each, over, keeps), {}
        yield ATEN.bmm.default, (each, made(4, 8, 3)), {}
        yield ATEN.bmm.default, (each, made(4, 3, 8).transpose(1, 2)), {}
    left, right = made(6, 4), made(5, 4).t()
    yield ATEN.mm.default, (left, right), {}
    yield ATEN.mm.default, (right.t(), left.t()), {}
    for added in (made(5), made(6, 5), made(1)):
        yield ATEN.addmm.default, (added, left, right), {}
    for each in ([x, other], [x, made(4, 6, 3)], [x, turned], [x]):
        yield ATEN.cat.default, (each, -1), {}
    yield ATEN.cat.default, ([made(2, 3), made(4, 3)],), {}
    yield ATEN.cat.default, ([made(0), made(4, 3)],), {}
    yield ATEN.slice_backward.default, (made(4, 2), [4, 6], 1, 0, 2, 1), {}
    yield ATEN.select_backward.default, (made(4), [4, 6], 1, 0), {}
    for name in ("zeros", "ones", "empty"):
        function = getattr(ATEN, "new_" + name).default
        yield from ((function, (turned, [3, 5]), given) for given in ({}, {"dtype": torch.long}, {"pin_memory": False}))
    for dtype in (*DTYPES, torch.long):
        yield from ((ATEN._to_copy.default, (each,), {"dtype": dtype}) for each in (x, turned, whole(6)))
    yield ATEN._to_copy.default, (x,), {"device": torch.device("cpu")}


def normalized(made):
    weight, bias = made(8), made(8)
    for each in (made(4, 6, 8), made(4, 8, 6).transpose(1, 2)):
        means = made(4, 6, 1)
        for given in ((weight, bias), (None, None)):
            yield ATEN.native_layer_norm.default, (each, [8], *given, 1e-5), {}
            for mask in ([True, True, True], [True, False, False], [False, True, True]):
                backward = ATEN.native_layer_norm_backward.default
                yield backward, (each, each, [8], means, means, *given, mask), {}
    of_images, means = made(6), made(6)
    for each in (made(4, 6, 5, 5), made(4, 6, 5, 5).to(memory_format=torch.channels_last), made(4, 6)):
        for is_training in (True, False):
            # Without running means, which torch would copy with CUDA's own hands.
            given = (each, of_images, of_images, None, None, is_training, 0.1, 1e-5)
            yield ATEN.native_batch_norm.default, given, {}
            yield ATEN.cudnn_batch_norm.default, given, {}
            for mask in ([True, True, True], [True, False, True]):
                backward = (each, each, of_images, means, means, means, means, is_training, 1e-5, mask)
                yield ATEN.native_batch_norm_backward.default, backward, {}
        reserved = torch.empty(0, dtype=torch.uint8, device=each.device)
        given = (each, each, of_images, means, means, means, means, 1e-5, reserved)
        yield ATEN.cudnn_batch_norm_backward.default, given, {}
    for each in (made(4, 6, 5, 5), made(4, 6, 5, 5).to(memory_format=torch.channels_last)):
        yield ATEN.native_group_norm.default, (each, of_images, of_images, 4, 6, 25, 3, 1e-5), {}
        of_groups = made(4, 3)
        for mask in ([True, True, True], [True, False, False]):
            backward = (each, each, of_groups, of_groups, of_images, 4, 6, 25, 3, mask)
            yield ATEN.native_group_norm_backward.default, backward, {}


class Rules(unittest.TestCase):
    def compared(self, device, dtype):
        """Compares all; the operators of which a rule has answered."""
        answered = set()
        mode = FakeTensorMode(allow_non_fake_inputs=False)
        asking = operators.Operators(torch, mode, operators.Known())

        def made(*shape):
            return torch.empty(shape, dtype=dtype, device=device)

        def whole(*shape):
            return torch.empty(shape, dtype=torch.long, device=device)

        with mode:
            for function, args, kwargs in cases(made, whole):
                said = rules.RULES[function.name()](asking.kinds, args, kwargs)
                if said is None:
                    continue
                answered.add(function.name())
                with self.subTest(function=str(function), dtype=dtype, device=device, args=repr(args)[:200]):
                    returned = function(*args, **kwargs)
                    several = returned if isinstance(returned, (list, tuple)) else [returned]
                    kept = set()
                    storages = [each.untyped_storage()._cdata if isinstance(each, torch.Tensor) else None for each in args]
                    torchs = [plain(asking.told(each, args, storages, kept)) for each in several]
                    self.assertEqual([plain(each) for each in said], torchs)
        return answered

    def test_a_rule_says_what_torch_says(self):
        for device in ("cpu", "cuda"):
            answered = set()
            for dtype in DTYPES:
                answered |= self.compared(device, dtype)
            self.assertEqual(answered, set(rules.RULES))

    def test_whole_numbers_are_left_to_torch(self):
        mode = FakeTensorMode(allow_non_fake_inputs=False)
        asking = operators.Operators(torch, mode, operators.Known())
        with mode:
            number = torch.empty(4, dtype=torch.long)
            for function, args in (
                (ATEN.add.Tensor, (number, 2.0)), (ATEN.div.Tensor, (number, number)), (ATEN.sum.dim_IntList, (number, [0])),
                (ATEN.sigmoid.default, (number,)), (ATEN.mul_.Tensor, (number, 2)),
            ):
                self.assertIsNone(rules.RULES[function.name()](asking.kinds, args, {}), function)


def plain(output):
    how, place, shape, stride, dtype, device, offset = output
    return how, place, tuple(shape), tuple(stride), dtype, device and device.type, offset


if __name__ == "__main__":
    unittest.main()
