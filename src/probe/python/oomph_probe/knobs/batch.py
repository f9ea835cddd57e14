"""The batch of a model's call, by the number that the program itself calls so: a parsed argument or a variable of a
running function. The first dimension of most tensors is only a guess where inputs are laid out by time, or hidden
states come along.
"""

from __future__ import annotations

from ..common import frames
from . import search
from .knobs import parsed_numbers
from .names import BATCH, OTHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..common.frames import Owners


def is_batch(name: str) -> bool:
    """Whether a name is a batch's: `batch_size`, `args.bsz`, `trainBatchSize`."""
    said = search.words(name.rpartition(".")[2])
    return bool(said & BATCH) and not said & OTHER


def told(shapes: Iterable[tuple[int, ...]], owners: Owners, training_thread: int | None) -> int | None:
    """The one size among the first two dimensions of these that the program calls its batch; None where there is none,
    or where there are several."""
    sizes = {size for shape in shapes for size in shape[:2] if size > 1}
    parsed = {each["value"] for each in parsed_numbers() if is_batch(each["name"])} & sizes
    if len(parsed) == 1:
        return int(parsed.pop())
    if sizes:
        names = search.Names(owners).of_frames(frames.of_training(training_thread))
        named = {each["value"] for each in names if is_batch(each["name"])} & sizes
        if len(named) == 1:
            return int(named.pop())
    return None
