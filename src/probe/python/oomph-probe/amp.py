"""bf16 autocast around a model's forward, for programs that have no precision of their own.

Only calls with gradients: an evaluation computes as it did. Each call enters autocast and leaves it,
so that the cached casts of the weights are fresh after every optimizer step, and what the model
returns in bf16 is handed on in float32, so that a loss outside it is computed as autocast would.
"""
import copy
import sys

from . import calls, precision

NAME = "amp"
# Autocast by the kind of device, and the fallback of autograd's threads on its dtype.
SINCE = (2, 0)
# On a module: 1 while training, 2 in either mode (one that trains in evaluation mode).
MARK = "_oomph_amp"


class Amp:
    """The patch of one process."""

    wants_roots = True
    nothing_found = "no call of a model was seen (one inside a compiled function is not)"

    def __init__(self, patches):
        self.patches = patches
        self.torch = patches.torch
        self.classes = set()
        self.named = []
        self.device = None
        self.stopped = False
        self.is_entering = False

    def install(self):
        if self.patches.version < SINCE:
            self.wants_roots = False
            return self.patches.decline(NAME, "needs torch 2.0 or later")
        self.is_compiling = calls.is_compiling_of(self.torch)

    def take_root(self, root, device):
        if self.stopped:
            return
        why = why_not_root(root) or precision.of_program(self.torch, root, device)
        if why is None and not precision.does_bf16(self.torch, device):
            why = "the device has no bf16"
        if why is not None:
            return self.stop(why)
        if self.device is None:
            self.device = device
            self.watch_autocast()
        elif self.device != device:
            return
        self.stand_around(type(root))
        setattr(root, MARK, 1 if root.training else 2)
        self.named.append(type(root).__name__)
        self.patches.apply(NAME, "bf16 autocast around the forward of %s" % ", ".join(self.named))

    def stop(self, why):
        """From here on nothing is done any more."""
        self.stopped = True
        self.wants_roots = False
        self.patches.decline(NAME, why)

    def watch_autocast(self):
        """An autocast that the program enters inside its model is a precision of its own."""
        cls = self.torch.amp.autocast_mode.autocast
        original = cls.__enter__
        entered = self.entered

        def __enter__(self):
            entered(self)
            return original(self)

        __enter__.__wrapped__ = original
        cls.__enter__ = __enter__

    def entered(self, context):
        try:
            if self.is_entering or self.stopped or not context._enabled:
                return
            if context.device == self.device and not in_library():
                self.stop("the program enters autocast itself; from that step on it is left alone")
        except Exception:
            pass

    def stand_around(self, cls):
        if cls in self.classes:
            return
        self.classes.add(cls)
        # With it, while it is there, what looks for models: there may be another of this class.
        original = cls.__call__
        is_compiling, call = self.is_compiling, self.call

        def __call__(self, *args, **kwargs):
            if not self._oomph_amp or is_compiling():
                return original(self, *args, **kwargs)
            return call(original, self, args, kwargs)

        setattr(cls, MARK, 0)
        cls.__call__ = __call__

    def call(self, original, root, args, kwargs):
        torch = self.torch
        is_training = root.training or getattr(root, MARK) == 2
        inside = self.patches.calls.inside
        if self.stopped or not is_training or not torch.is_grad_enabled() or calls.is_inside(inside):
            return original(root, *args, **kwargs)
        if precision.is_autocast_on(torch, self.device):
            self.stop("the program enters autocast itself; from that step on it is left alone")
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


def why_not_root(root):
    for base in type(root).__mro__:
        if base.__name__ in ("DataParallel", "DeepSpeedEngine", "PipelineModule"):
            return "%s has its own way with calls" % base.__name__
        if base.__name__.startswith(("FSDP", "FullyShardedDataParallel")):
            return "FSDP has a precision of its own"
    return None


def in_library():
    """Whether torch's own code enters it: a recomputation does, with what was in force before."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "__enter__":
        frame = frame.f_back
    return frame is not None and "utils/checkpoint.py" in frame.f_code.co_filename.replace("\\", "/")


def in_float32(torch, value, depth=4):
    """What a model returns, its bf16 tensors in float32; containers as they were, but copies."""
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
        # Of a kind that cannot be made anew: handed on as it is.
        pass
    return value


def replaced(container, items, torch, depth):
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


def replaced_fields(value, torch, depth):
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
