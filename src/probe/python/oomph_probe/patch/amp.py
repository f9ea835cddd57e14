"""bf16 autocast around a model's forward, for programs that set no precision themselves.

Only calls with gradients enabled are changed, so evaluation computes as before. Autocast is entered
and left in every call, so that the cached weight casts are fresh after each optimizer step. bf16
outputs are cast back to float32, so that a loss outside the model is computed as under autocast.
"""

from __future__ import annotations

import copy
import sys

from ..common import calls, errors
from . import precision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable, Iterable

    from ..common.protocols import Args, Kwargs, Module, Torch
    from .outcomes import Outcomes

NAME = "amp"
# torch.autocast takes a device type, and autograd's threads follow the autocast dtype, since 2.0.
SINCE = (2, 0)
# Set on a module: 1 = only in training mode, 2 = in either mode (the model trains in eval mode).
MARK = "_oomph_amp"


class Amp:
    """The autocast patch of this process."""

    wants_roots = True
    nothing_found = "no model call was seen (calls inside compiled functions are not visible)"

    def __init__(self, outcomes: Outcomes) -> None:
        self.outcomes = outcomes
        self.torch = outcomes.torch
        self.classes: set[Any] = set()
        self.named: list[str] = []
        self.device: Any = None
        self.stopped = False
        self.is_entering = False

    def install(self) -> None:
        if self.outcomes.version < SINCE:
            self.wants_roots = False
            return self.outcomes.decline(NAME, "needs torch 2.0 or later")
        self.is_compiling = calls.is_compiling_of(self.torch)

    def take_root(self, root: Module, device: str) -> None:
        if self.stopped:
            return
        why = why_not_root(root) or precision.of_program(self.torch, root, device)
        if why is None and not precision.does_bf16(self.torch, device):
            why = "the device does not support bf16"
        if why is not None:
            return self.stop(why)
        if self.device is None:
            self.device = device
            self.watch_autocast()
        elif self.device != device:
            return
        self.wrap_call(type(root))
        setattr(root, MARK, 1 if root.training else 2)
        self.named.append(type(root).__name__)
        self.outcomes.apply(NAME, "bf16 autocast around the forward of %s" % ", ".join(self.named))

    def stop(self, why: str) -> None:
        """Disables the patch for good."""
        self.stopped = True
        self.wants_roots = False
        self.outcomes.decline(NAME, why)

    def watch_autocast(self) -> None:
        """Detects autocast entered by the program itself: it then has a precision of its own."""
        cls = self.torch.amp.autocast_mode.autocast
        original = cls.__enter__
        entered = self.entered

        def __enter__(self: Any) -> Any:
            entered(self)
            return original(self)

        setattr(__enter__, "__wrapped__", original)
        cls.__enter__ = __enter__

    def entered(self, context: Any) -> None:
        try:
            if self.is_entering or self.stopped or not context._enabled:
                return
            if context.device == self.device and not in_library():
                self.stop("the program uses autocast itself; the patch is off from that step on")
        except BaseException:
            errors.refused("see autocast entered")

    def wrap_call(self, cls: type) -> None:
        if cls in self.classes:
            return
        self.classes.add(cls)
        calls.wrap_marked(cls, MARK, self.is_compiling, self.call)

    def call(self, original: Callable[..., Any], root: Module, args: Args, kwargs: Kwargs) -> Any:
        torch = self.torch
        is_training = root.training or getattr(root, MARK) == 2
        inside = self.outcomes.calls.inside
        if self.stopped or not is_training or not torch.is_grad_enabled() or calls.is_inside(inside):
            return original(root, *args, **kwargs)
        if precision.is_autocast_on(torch, self.device):
            self.stop("the program uses autocast itself; the patch is off from that step on")
            return original(root, *args, **kwargs)
        context = torch.autocast(self.device, dtype=torch.bfloat16)
        self.is_entering = True
        try:
            context.__enter__()
        finally:
            self.is_entering = False
        try:
            result = original(root, *args, **kwargs)
        finally:
            context.__exit__(*sys.exc_info())
        return in_float32(torch, result)


def why_not_root(root: Module) -> str | None:
    for base in type(root).__mro__:
        if base.__name__ in ("DataParallel", "DeepSpeedEngine", "PipelineModule"):
            return "%s handles calls in its own way" % base.__name__
    return "FSDP sets its own precision" if precision.is_sharded(root) else None


def in_library() -> bool:
    """Whether torch's own code enters autocast: checkpoint recomputation restores the outer state."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "__enter__":
        frame = frame.f_back
    return frame is not None and "utils/checkpoint.py" in frame.f_code.co_filename.replace("\\", "/")


def in_float32(torch: Torch, value: Any, depth: int = 4) -> Any:
    """The model's output with bf16 tensors cast to float32, in copies of the same containers."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype == torch.bfloat16 else value
    if depth == 0:
        return value
    try:
        if isinstance(value, tuple):
            inner = [in_float32(torch, each, depth - 1) for each in value]
            if all(new is old for new, old in zip(inner, value)):
                return value
            return type(value)(*inner) if hasattr(value, "_fields") else type(value)(inner)
        if isinstance(value, list):
            return replaced(value, enumerate(value), torch, depth)
        if isinstance(value, dict):
            return replaced(value, value.items(), torch, depth)
        if hasattr(type(value), "__dataclass_fields__"):
            return replaced_fields(value, torch, depth)
    except Exception:
        # A container that cannot be rebuilt is returned unchanged.
        errors.foreseen("cast an output")
    return value


def replaced(container: Any, items: Iterable[tuple[Any, Any]], torch: Torch, depth: int) -> Any:
    changed = {}
    for key, old in list(items):
        new = in_float32(torch, old, depth - 1)
        if new is not old:
            changed[key] = new
    if not changed:
        return container
    container = copy.copy(container)
    for key, new in changed.items():
        container[key] = new
    return container


def replaced_fields(value: Any, torch: Torch, depth: int) -> Any:
    changed = {}
    for name in type(value).__dataclass_fields__:
        old = getattr(value, name, None)
        new = in_float32(torch, old, depth - 1)
        if new is not old:
            changed[name] = new
    if not changed:
        return value
    value = copy.copy(value)
    for name, new in changed.items():
        object.__setattr__(value, name, new)
    return value
