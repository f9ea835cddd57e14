"""Functions that torch.jit.script compiled run as they are written: what is compiled of one has kernels for the tensors
that it was called with before, and cannot take fakes.

The written function is on the compiled one since torch 2.0, for torch.compile. Memory is as written: what the compiled
function fuses allocates less on the way, and saves the same for backward.
"""

from __future__ import annotations

from ..common.instead import Instead
from . import apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Torch

WRITTEN = "_torchdynamo_inline"


def as_written(torch: Torch) -> Instead:
    """While it is there, rehearsals call the written functions; other threads see no difference."""

    def calling(original: Any) -> Any:
        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            written = getattr(function, WRITTEN, None) if apart.here.is_in_one() else None
            return original(function, *args, **kwargs) if written is None else written(*args, **kwargs)

        return call

    return Instead(getattr(getattr(torch, "_C", None), "ScriptFunction", None), "__call__", calling)
