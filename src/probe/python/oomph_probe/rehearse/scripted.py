"""Functions that torch.jit.script compiled run as they are written: what is compiled of one has kernels for the tensors
that it was called with before, and cannot take fakes.

The written function is on the compiled one since torch 2.0, for torch.compile. Memory is as written: what the compiled
function fuses allocates less on the way, and saves the same for backward.
"""

from __future__ import annotations

from . import apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from ..common.protocols import Torch

WRITTEN = "_torchdynamo_inline"


class AsWritten:
    """While it is entered, rehearsals call the written functions; other threads see no difference."""

    def __init__(self, torch: Torch) -> None:
        self.kind: Any = getattr(getattr(torch, "_C", None), "ScriptFunction", None)
        self.put: Any = None

    def __enter__(self) -> None:
        if self.kind is None:
            return
        original = self.kind.__call__

        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            written = getattr(function, WRITTEN, None) if apart.here.is_in_one() else None
            return original(function, *args, **kwargs) if written is None else written(*args, **kwargs)

        self.kind.__call__ = call
        self.put = original, call

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.put is not None:
            original, ours = self.put
            if self.kind.__call__ is ours:
                self.kind.__call__ = original
            self.put = None
