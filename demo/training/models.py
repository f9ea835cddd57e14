"""The three models, written against torch's public API: real and simulated torch run this very code.

Each forward takes inputs and targets and returns (loss, states); `states` are hidden tensors that some scenarios keep,
about a sixteenth of all activations, like `output_hidden_states` of well-known libraries.
"""
import torch
from torch import nn
from torch.nn import functional as F

from . import sizing


class Block(nn.Module):
    """A transformer block with pre-normalisation."""

    def __init__(self, width):
        super().__init__()
        self.heads = width // 64
        self.norm1 = nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.attend(self.norm1(x)).split(width, dim=2)
        q, k, v = (one.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for one in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.widen(self.norm2(x))))


class GPT(nn.Module):
    """A decoder over bytes."""

    def __init__(self, size):
        super().__init__()
        self.embed = nn.Embedding(sizing.VOCABULARY, size.width)
        self.position = nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList([Block(size.width) for _ in range(size.layers)])
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, sizing.VOCABULARY, bias=False)

    def forward(self, tokens, targets):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embed(tokens) + self.position(positions)
        states = []
        for block in self.blocks:
            x = block(x)
            states.append(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, sizing.VOCABULARY), targets.reshape(-1)), states


class CNN(nn.Module):
    """Convolutions at full resolution, then one average per channel."""

    def __init__(self, size):
        super().__init__()
        layers = []
        for number in range(size.layers):
            layers.append(nn.Conv2d(3 if number == 0 else size.width, size.width, 3, padding=1, bias=False))
            layers.append(nn.BatchNorm2d(size.width))
            layers.append(nn.ReLU())
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(size.width, 10)

    def forward(self, images, labels):
        features = self.features(images)
        logits = self.head(self.pool(features).flatten(1))
        return F.cross_entropy(logits, labels), [features]


class MLP(nn.Module):
    """A coordinate network: from a point in the plane to the height of a landscape."""

    def __init__(self, size):
        super().__init__()
        self.enter = nn.Linear(2, size.width)
        self.hidden = nn.ModuleList([nn.Linear(size.width, size.width) for _ in range(size.layers - 1)])
        self.leave = nn.Linear(size.width, 1)

    def forward(self, points, heights):
        x = F.relu(self.enter(points))
        for layer in self.hidden:
            x = F.relu(layer(x))
        return F.mse_loss(self.leave(x), heights), [x]


MODELS = {"gpt": GPT, "cnn": CNN, "mlp": MLP}
