"""Packed sequences in a rehearsal (`pack_padded_sequence` and back): torch's own read each length, and fakes have none.

A batch is as full as the first one was that was packed at this place, where its lengths are known (a list, whole
numbers among the arguments); otherwise every sequence counts as long as its tensor is, which the rehearsal says. How
far the lengths differ is told as well: the next batch has others. What is taken for a moment follows real steps on a
CPU (torch 2.11), within 5 %.
"""

from __future__ import annotations

import sys
import weakref

from ..common import errors
from ..common.instead import Instead
from . import apart
from .effects import Stopped
from .values import NotKnown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Tensor, Torch
    from .rehearsal import Rehearsal

PACK, PAD = "_pack_padded_sequence", "_pad_packed_sequence"


class Sequences:
    """The packed sequences of one rehearsal."""

    def __init__(self, one: Rehearsal) -> None:
        self.one = one
        self.torch = one.torch
        self.pack, self.pad = functions_of(one.torch)
        # Of how many samples each is, by the tensor that says how many go on at each place.
        self.batches: dict[int, tuple[Any, int]] = {}
        # The standard deviation of a sequence's length as a share of the mean, the largest of any place; 0 where
        # nothing is known of it, and None where nothing is packed.
        self.spread: float | None = None

    def packed(self, padded: Any, lengths: Any, batch_first: bool) -> tuple[Tensor, Tensor]:
        """In the place of torch's: the data, and how many sequences go on at each place."""
        batch, length = padded.shape[:2] if batch_first else (padded.shape[1], padded.shape[0])
        mean, longest = self.lengths(lengths, length)
        places = self.torch.empty((longest,), dtype=self.torch.int64)
        self.batches[id(places)] = weakref.ref(places), batch
        return self.pack.apply(padded, batch_first, batch * mean), places

    def padded(self, data: Any, places: Any, batch_first: bool, _: float, length: int) -> tuple[Tensor, Tensor]:
        """In the place of torch's: the padded tensor, and the sequences' lengths."""
        batch = self.batch_of(places)
        return self.pad.apply(data, batch_first, batch, length), self.torch.empty((batch,), dtype=self.torch.int64)

    def batch_of(self, places: Any) -> int:
        found = self.batches.get(id(places))
        if found is None or found[0]() is not places:
            raise Stopped("sequences that were packed before its call have a length of each their own")
        return found[1]

    def lengths(self, told: Any, length: int) -> tuple[int, int]:
        """The mean of the sequences' lengths, rounded up, and the longest; the same at every batch, so that what is
        packed grows with it."""
        one = self.one
        place = one.values.asking(sys._getframe(1)), length
        known = one.answers.lengths.get(place)
        if known is None:
            try:
                found = one.values.value(told, one.operators.plainly)
                with one.operators.plainly():
                    count, total, longest = int(found.numel()), int(found.sum().item()), int(found.max().item())
                    spread = float(found.double().std(correction=0).item()) * count / max(total, 1)
                known = min(-(-total // max(count, 1)), length), min(longest, length), spread
            except NotKnown:
                errors.foreseen("the lengths of packed sequences")
                one.values.assumes = True
                known = length, length, 0.0
            one.answers.lengths[place] = known
        mean, longest, spread = known
        self.spread = max(self.spread or 0.0, spread)
        return mean, longest


def by(sequences: Sequences) -> Instead:
    """While it is there, torch.nn.utils.rnn packs and pads by a rehearsal's sequences on its thread; other threads see
    no difference."""
    place = sys.modules.get("torch.nn.utils.rnn")
    return Instead(place, "_VF", lambda original: Functions(original, sequences))


class Functions:
    """Stands where torch's module has its functions in C++."""

    def __init__(self, original: Any, sequences: Sequences) -> None:
        self.__original, self.__sequences = original, sequences

    def __getattr__(self, name: str) -> Any:
        if apart.here.is_in_one():
            if name == PACK:
                return self.__sequences.packed
            if name == PAD:
                return self.__sequences.padded
        return getattr(self.__original, name)


def functions_of(torch: Torch) -> tuple[Any, Any]:
    """What is differentiated: packing, and padding again."""

    class Pack(torch.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, padded: Any, batch_first: bool, rows: int) -> Any:
            ctx.shape = padded.shape
            shape = (rows, *padded.shape[2:])
            # Only where all are as long, and the time comes first, are the slices of each length contiguous.
            is_whole = not batch_first and rows == padded.shape[0] * padded.shape[1]
            steps = None if is_whole else padded.new_empty(shape)
            data = padded.new_empty(shape)
            del steps
            return data

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0].new_zeros(ctx.shape), None, None

    class Pad(torch.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, data: Any, batch_first: bool, batch: int, length: int) -> Any:
            ctx.shape, ctx.is_whole = data.shape, len(data) == length * batch
            padded = data.new_empty((length, batch, *data.shape[1:]))
            return padded.transpose(0, 1) if batch_first else padded

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            # Each length's slice leaves a copy of the rest, and has a gradient as large as all of them, which is added
            # to those before.
            sum_of_slices = gradients[0].new_zeros(ctx.shape)
            rest = gradients[0].clone()
            del rest
            of_slice = gradients[0].new_zeros(ctx.shape)
            if not ctx.is_whole:
                added = gradients[0].new_zeros(ctx.shape)
                del added
            del of_slice
            return sum_of_slices, None, None, None

    return Pack, Pad
