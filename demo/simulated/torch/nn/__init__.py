"""torch.nn, as far as demo/train.py needs it."""
from . import functional, modules
from .modules import (
    GELU,
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    Embedding,
    Flatten,
    LayerNorm,
    Linear,
    Module,
    ModuleList,
    ReLU,
    Sequential,
)
from .parameter import Parameter
