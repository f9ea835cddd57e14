"""The layers: parameters on the CPU until `to` moves them, and a forward from `functional`."""
from .. import functional as F
from ..._storage import CPU
from ..._tensor import Tensor
from ..._types import float32, int64
from ..parameter import Parameter
from .module import Module


def weight(*shape):
    return Parameter(Tensor._empty(shape, float32, CPU))


class Linear(Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.weight = weight(out_features, in_features)
        self.bias = weight(out_features) if bias else None

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)


class Embedding(Module):
    def __init__(self, num_embeddings, embedding_dim):
        super().__init__()
        self.weight = weight(num_embeddings, embedding_dim)

    def forward(self, input):
        return F.embedding(input, self.weight)


class LayerNorm(Module):
    def __init__(self, normalized_shape, eps=1e-5):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.weight = weight(*self.normalized_shape)
        self.bias = weight(*self.normalized_shape)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias)


class Conv2d(Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, bias=True):
        super().__init__()
        self.stride, self.padding = stride, padding
        self.weight = weight(out_channels, in_channels, kernel_size, kernel_size)
        self.bias = weight(out_channels) if bias else None

    def forward(self, input):
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding)


class BatchNorm2d(Module):
    def __init__(self, num_features):
        super().__init__()
        self.weight = weight(num_features)
        self.bias = weight(num_features)
        self.register_buffer("running_mean", Tensor._empty((num_features,), float32, CPU))
        self.register_buffer("running_var", Tensor._empty((num_features,), float32, CPU))
        self.register_buffer("num_batches_tracked", Tensor._empty((), int64, CPU))

    def forward(self, input):
        return F.batch_norm(input, self.weight, self.bias)


class GELU(Module):
    def forward(self, input):
        return F.gelu(input)


class ReLU(Module):
    def forward(self, input):
        return F.relu(input)


class AdaptiveAvgPool2d(Module):
    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return F.adaptive_avg_pool2d(input, self.output_size)


class Flatten(Module):
    def forward(self, input):
        return input.flatten(1)
