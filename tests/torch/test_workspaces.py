"""What cuDNN takes for a convolution, against what it took on a GPU (torch 2.11, H200), in MiB."""
import pathlib
import sys
import unittest

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "probe" / "units"))
import support  # noqa: E402, F401
from _oomph_probe.rehearse import convolving, sizes, trace  # noqa: E402

# The input's shape, output channels, the window, stride, groups, whether transposed; what forward and backward took in fp32, then
# in bf16.
MEASURED = [
    ((64, 64, 32, 32), 64, 3, 1, 1, False, 32.14, 34.11, 16.07, 17.90),
    ((32, 128, 64, 64), 128, 3, 1, 1, False, 128.56, 136.44, 64.28, 71.59),
    ((16, 256, 32, 32), 512, 3, 1, 1, False, 52.50, 56.63, 26.25, 30.00),
    ((64, 64, 56, 56), 64, 3, 1, 1, False, 98.14, 100.11, 49.07, 50.90),
    ((32, 128, 64, 64), 256, 3, 2, 1, False, 103.13, 105.00, 48.56, 52.31),
    ((64, 3, 32, 32), 64, 3, 1, 1, False, 0.0, 0.0, 0.0, 9.41),
    ((32, 3, 224, 224), 64, 7, 2, 1, False, 116.41, 128.29, 73.55, 79.39),
    ((64, 256, 56, 56), 64, 1, 1, 1, False, 0.0, 4.0, 0.0, 4.0),
    ((64, 256, 56, 56), 512, 1, 2, 1, False, 196.50, 302.0, 147.0, 148.5),
    ((1280, 2048, 11), 512, 1, 1, 1, False, 0.0, 145.5, 0.0, 70.75),
    ((64, 256, 1000), 256, 3, 1, 1, False, 63.25, 134.0, 62.88, 65.88),
    ((64, 128, 32, 32), 128, 3, 1, 128, False, 0.0, 0.0, 0.0, 0.0),
    ((64, 128, 32, 32), 128, 3, 1, 32, False, 64.02, 64.58, 32.01, 32.01),
    ((16, 256, 32, 32), 128, 2, 2, 1, True, 48.50, 56.0, 24.25, 25.25),
    ((4, 16, 64, 64, 64), 32, 3, 1, 1, False, 192.05, 193.04, 96.03, 96.09),
]
# By so much of it, or so many MiB, a figure may be off beside two copies of the weight, which are not counted; 1-D and strided
# ones in fp32 or bf16 write in place or do not.
SHARE, MIB = 0.15, 4.5
IN_PLACE = {((64, 256, 1000), "bf16"), ((64, 256, 56, 56), "fp32")}


def arguments(shape, channels, window, stride, groups, is_transposed, dtype, last=False):
    rank = len(shape) - 2
    each = (shape[1], channels // groups) if is_transposed else (channels, shape[1] // groups)
    source = torch.empty(shape, dtype=dtype, device="meta")
    weight = torch.empty((*each, *[window] * rank), dtype=dtype, device="meta")
    if last:
        source = source.to(memory_format=torch.channels_last)
    pads = [0 if is_transposed else window // 2] * rank
    after = ([stride] * rank, pads, [1] * rank, is_transposed, [0] * rank, groups)
    made = torch.ops.aten.convolution(source, weight, None, *after)
    return (source, weight, None, *after), (made, source, weight, None, *after, [True, True, False])


class Workspaces(unittest.TestCase):
    def test_they_are_about_what_was_measured(self):
        for *shape, one, two, three, four in MEASURED:
            for name, dtype, forward, backward in (
                ("fp32", torch.float32, one, two), ("bf16", torch.bfloat16, three, four),
            ):
                there, back = arguments(*shape, dtype)
                for words, args, measured in (("convolution", there, forward), (convolving.BACKWARD, back, backward)):
                    said = convolving.workspace(torch.float32, words, args, back[0]) / (1 << 20)
                    if (shape[0], name) in IN_PLACE and said and measured > 8:
                        self.assertLess(abs(said / measured - 1), 0.55, (shape, words, name))
                        continue
                    weights = 2 * convolving.bytes_of(there[1]) / (1 << 20)
                    self.assertLess(abs(said - measured), max(SHARE * measured, MIB) + weights, (shape, words, name))

    def test_what_is_laid_out_with_channels_last_takes_none(self):
        there, back = arguments((64, 64, 32, 32), 64, 3, 1, 1, False, torch.float32, last=True)
        self.assertEqual(convolving.workspace(torch.float32, "convolution", there, back[0]), 0)
        self.assertEqual(convolving.workspace(torch.float32, convolving.BACKWARD, back, None), 0)

    def test_nothing_is_said_where_cudnn_is_off_or_tries_and_of_fp32_only_with_tf32(self):
        cudnn = torch.backends.cudnn
        halves = frozenset([torch.float16, torch.bfloat16])
        self.assertEqual(convolving.dtypes_with(torch), halves | {torch.float32})
        for name, value, said in (
            ("enabled", False, frozenset()), ("benchmark", True, frozenset()), ("allow_tf32", False, halves),
        ):
            kept = getattr(cudnn, name)
            try:
                setattr(cudnn, name, value)
                self.assertEqual(convolving.dtypes_with(torch), said, name)
            finally:
                setattr(cudnn, name, kept)

    @unittest.skipUnless(hasattr(torch.backends.cudnn, "conv"), "torch 2.9 on has a setting for convolutions alone")
    def test_a_program_with_the_newer_setting_is_asked_in_its_way(self):
        conv = torch.backends.cudnn.conv
        kept = conv.fp32_precision
        try:
            conv.fp32_precision = "ieee"
            with self.assertRaises(RuntimeError):
                torch.backends.cudnn.allow_tf32
            self.assertNotIn(torch.float32, convolving.dtypes_with(torch))
        finally:
            conv.fp32_precision = kept

    def test_its_word_in_a_trace_grows_with_the_batch_and_counts_in_the_peak(self):
        made = trace.Trace("cuda:0")
        made.take(100)
        made.take_if_there_is_room(1009 * 8)
        self.assertEqual((made.words, made.count, made.allocated), (["100", "8072", "-1?"], 2, 512))
        words = sizes.by_one(made.words, 1009, set())
        self.assertEqual(words, ["100", "x8", "-1?"])
        self.assertEqual(sizes.peak(sizes.at(words, 100)), 900)


if __name__ == "__main__":
    unittest.main()
