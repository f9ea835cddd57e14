"""The operations of a training, each with its output shape and what it saves for backward.

What is saved follows PyTorch's derivatives.yaml: it decides how much memory activations take, and with it everything
that the demo shows.
"""
import math

from .. import amp
from .._operation import operation
from .._types import Size, float32


def linear(input, weight, bias=None):
    input, weight, bias = amp.lowered(input, weight, bias)
    tensors = [input, weight] + ([bias] if bias is not None else [])
    shape = input.shape[:-1] + (weight.shape[0],)
    return operation("AddmmBackward0", tensors, shape, input.dtype, saved=[input, weight])


def embedding(input, weight):
    return operation("EmbeddingBackward0", [weight], input.shape + weight.shape[1:], weight.dtype, saved=[input])


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    input = amp.raised(input)
    rows = input.shape[: input.ndim - len(normalized_shape)]
    mean = input._sibling(Size(rows), float32)
    deviation = input._sibling(Size(rows), float32)
    tensors = [input] + [one for one in (weight, bias) if one is not None]
    return operation(
        "NativeLayerNormBackward0", tensors, input.shape, input.dtype, saved=[input, mean, deviation]
    )


def gelu(input, approximate="none"):
    return operation("GeluBackward0", [input], input.shape, input.dtype, saved=[input])


def relu(input, inplace=False):
    return input.relu()


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False):
    """The fused kernels: they save inputs, output and one value per row, never the attention scores."""
    query, key, value = amp.lowered(query, key, value)
    rows = query._sibling(query.shape[:-1], float32)
    return operation(
        "ScaledDotProductFusedAttentionBackward0",
        [query, key, value],
        query.shape,
        query.dtype,
        saved=[query, key, value, rows],
        save_output=True,
    )


def conv2d(input, weight, bias=None, stride=1, padding=0):
    """An implicit-GEMM convolution: almost no workspace."""
    input, weight, bias = amp.lowered(input, weight, bias)
    batch, _, height, width = input.shape
    out, _, rows, columns = weight.shape
    shape = (
        batch,
        out,
        (height + 2 * padding - rows) // stride + 1,
        (width + 2 * padding - columns) // stride + 1,
    )
    tensors = [input, weight] + ([bias] if bias is not None else [])
    return operation("ConvolutionBackward0", tensors, shape, input.dtype, saved=[input, weight])


def batch_norm(input, weight, bias):
    mean = input._sibling(Size((input.shape[1],)), float32)
    deviation = input._sibling(Size((input.shape[1],)), float32)
    return operation(
        "NativeBatchNormBackward0",
        [input, weight, bias],
        input.shape,
        input.dtype,
        saved=[input, weight, mean, deviation],
    )


def adaptive_avg_pool2d(input, output_size):
    if output_size not in (1, (1, 1)):
        raise NotImplementedError("adaptive_avg_pool2d to other sizes than 1 is not simulated")
    return operation("MeanBackward1", [input], input.shape[:2] + (1, 1), input.dtype)


def log_softmax(input, dim=-1):
    input = amp.raised(input)
    return operation("LogSoftmaxBackward0", [input], input.shape, input.dtype, save_output=True)


def cross_entropy(input, target):
    logs = log_softmax(input)
    result = operation("NllLossBackward0", [logs], (), logs.dtype, saved=[logs, target])
    result._start = math.log(max(2, input.shape[1]))
    return result


def mse_loss(input, target):
    input = amp.raised(input)
    squares = operation("MseLossBackward0", [input, target], input.shape, input.dtype, saved=[input, target])
    result = squares.mean()
    result._start = 1.0
    return result
