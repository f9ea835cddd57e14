"""The modules, by their public names."""
from .container import ModuleList, Sequential
from .layers import (
    GELU,
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    Embedding,
    Flatten,
    LayerNorm,
    Linear,
    ReLU,
)
from .module import Module
