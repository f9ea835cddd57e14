"""How large each model is, so that its peak is a given share of the GPU's memory at batch 64.

Everything follows from what a training saves for backward, counted by hand below; the models are wide enough to be
realistic and long enough to fill the GPU, with as little arithmetic as that allows. All sizes in bytes.
"""
from collections import namedtuple

GIB = 1 << 30
REFERENCE_BATCH = 64

Size = namedtuple("Size", "width layers length")
"""`length` is what one sample has: tokens (gpt), pixels along a side (cnn), points (mlp)."""

BYTES_PER_PARAMETER = 16
"""The weight, its gradient and AdamW's two states, in float32."""

VOCABULARY = 256
"""gpt reads bytes."""


def gpt(capacity, share):
    """Width and depth grow with the GPU's memory, so that sequences stay short enough for attention to be cheap."""
    for limit, width, layers in ((12, 384, 12), (40, 384, 24), (100, 512, 32)):
        if capacity <= limit * GIB:
            break
    else:
        width, layers = 512, 48
    # Per token and layer, in widths of 4 bytes: two norms' inputs, two norms' outputs, q k v, attention's output,
    # the hidden layer before and after GELU (4 each); plus about ten once, where backward begins.
    per_token = 4 * width * (16 * layers + 10) + 24 * layers
    parameters = layers * 12 * width * width + 2 * VOCABULARY * width
    return Size(width, layers, lengths(capacity, share, parameters, per_token, 16))


def cnn(capacity, share):
    """Per pixel and layer: the convolution's output and the activation's."""
    width, layers = 32, 8
    per_pixel = 4 * width * (2 * layers + 3)
    pixels = lengths(capacity, share, 9 * width * width * layers, per_pixel, 1)
    return Size(width, layers, max(16, int(pixels ** 0.5) // 8 * 8))


def mlp(capacity, share):
    """Per point and layer: the activation's output."""
    width, layers = 256, 16
    per_point = 4 * width * (layers + 3)
    return Size(width, layers, lengths(capacity, share, layers * width * width, per_point, 64))


def lengths(capacity, share, parameters, per_unit, multiple):
    """How many units a sample has, for a peak of `share` of the GPU's memory at the reference batch."""
    room = share * capacity - BYTES_PER_PARAMETER * parameters
    units = room / (REFERENCE_BATCH * per_unit)
    # Long samples in rounder numbers: their tensors then fill the allocator's 2 MiB granularity exactly.
    if units > 32 * multiple:
        multiple *= 4
    return max(multiple, int(units) // multiple * multiple)


MODELS = {"gpt": gpt, "cnn": cnn, "mlp": mlp}
