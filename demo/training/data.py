"""Small data sets that can really be learned, made on the device: no downloads, and no files but Python's own
sources."""
import glob
import os

import torch

TEXT_BYTES = 1 << 20


class Text:
    """Windows of the source of Python's standard library, one token per byte."""

    def __init__(self, size, device):
        self.length = size.length
        self.text = torch.frombuffer(bytearray(source_text(4 * size.length)), dtype=torch.uint8).to(device)

    def batch(self, count, share):
        length = max(1, int(self.length * share))
        starts = torch.randint(len(self.text) - length - 1, (count, 1), device=self.text.device)
        window = self.text[starts + torch.arange(length + 1, device=self.text.device)].long()
        return window[:, :-1], window[:, 1:]


def source_text(least):
    """Up to a MiB of *.py files; this file repeated if the library's sources are not readable."""
    text = b""
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py"))):
        with open(path, "rb") as file:
            text += file.read()
        if len(text) >= TEXT_BYTES:
            break
    while len(text) < least:
        with open(__file__, "rb") as file:
            text += file.read()
    return text[: max(TEXT_BYTES, least)]


class Images:
    """Noise around one of ten colours."""

    def __init__(self, size, device):
        self.side = size.length
        self.colours = torch.randn(10, 3, 1, 1, device=device)

    def batch(self, count, share):
        side = max(8, int(self.side * share ** 0.5))
        labels = torch.randint(10, (count,), device=self.colours.device)
        return torch.randn(count, 3, side, side, device=self.colours.device) + self.colours[labels], labels


class Landscape:
    """Points in the plane, and the height of a landscape at each."""

    def __init__(self, size, device):
        self.points = size.length
        self.device = device

    def batch(self, count, share):
        points = torch.rand(count, max(1, int(self.points * share)), 2, device=self.device)
        return points, (points * 12.0).sin().sum(-1, keepdim=True)


DATA = {"gpt": Text, "cnn": Images, "mlp": Landscape}
