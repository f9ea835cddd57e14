"""PyTorch's cache is emptied where a model goes from training to evaluation, or back: what both leave in the same
segments is what fragments them. The activations are gone by then, so whole segments go back; the first call of the next
phase takes new ones of its own sizes. No number changes; each change of the phase takes some milliseconds more.
"""

from __future__ import annotations

from ..common import calls, errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Args, Kwargs, Module
    from .outcomes import Outcomes

NAME = "empty_cache"
# Set on a module: how its latest call was.
MARK = "_oomph_phase"
TRAINED, EVALUATED = 1, 2


class EmptyCache:
    """The patch of this process."""

    wants_roots = True
    nothing_found = "no model call was seen (calls inside compiled functions are not visible)"

    def __init__(self, outcomes: Outcomes, value: str) -> None:
        if value != "phases":
            raise ValueError("the cache can only be emptied between phases")
        self.outcomes = outcomes
        self.torch = outcomes.torch
        self.classes: set[Any] = set()
        self.stopped = False

    def install(self) -> None:
        self.is_compiling = calls.is_compiling_of(self.torch)

    def take_root(self, root: Module, device: str) -> None:
        if type(root) not in self.classes:
            self.classes.add(type(root))
            calls.wrap_marked(type(root), MARK, self.is_compiling, self.call)
        setattr(root, MARK, TRAINED)
        self.outcomes.apply(NAME, "PyTorch's cache is emptied between training and evaluation")

    def call(self, original: Callable[..., Any], root: Module, args: Args, kwargs: Kwargs) -> Any:
        self.look(root)
        return original(root, *args, **kwargs)

    def look(self, root: Module) -> None:
        try:
            phase = TRAINED if self.torch.is_grad_enabled() else EVALUATED
            if self.stopped or getattr(root, MARK) == phase:
                return
            setattr(root, MARK, phase)
            cuda = self.torch.cuda
            if not (cuda.is_initialized() and cuda.is_current_stream_capturing()):
                cuda.empty_cache()
        except Exception as error:
            errors.foreseen("empty the cache")
            self.stopped = True
            self.outcomes.decline(NAME, "the cache could not be emptied (%s)" % type(error).__name__)
