"""What the line that ran out of memory works on: the tensors among the variables of its frame. Where one of them has
a history, a graph is being built; where the request is many times as large as any of them, it is for something in
between, such as the scores of attention."""

from __future__ import annotations

from ..common import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ..common.protocols import Torch

# Variables of one frame that are looked at, those in lists and tuples included.
MOST = 1000


class Operands:
    def __init__(self, torch: Torch, stack: list[FrameType], torch_home: str) -> None:
        """Of the innermost frame of `stack` that is not torch's."""
        self.torch = torch
        # The bytes of the largest on a GPU; None where there is none.
        self.largest: int | None = None
        # Whether one was made by an operation that autograd recorded.
        self.has_history = False
        frame = next((each for each in stack if not each.f_code.co_filename.startswith(torch_home)), None)
        if frame is not None:
            frames.read_locals(frame, lambda values: self.look_at(list(values.values())))

    def look_at(self, values: list[Any]) -> None:
        parts: list[Any] = []
        for value in values[:MOST]:
            if type(value) in (list, tuple):
                parts.extend(value[: MOST - len(parts)])
            else:
                parts.append(value)
        for each in parts[:MOST]:
            # A class of the program's may compute what is asked of it.
            if type(each) is self.torch.Tensor and each.is_cuda:
                self.largest = max(self.largest or 0, each.numel() * each.element_size())
                self.has_history = self.has_history or (each.requires_grad and not each.is_leaf)
