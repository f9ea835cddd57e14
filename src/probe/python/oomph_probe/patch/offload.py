"""Activations that wait for the backward in RAM, as `torch.autograd.graph.save_on_cpu` keeps them: what a forward saves
is moved to the host and comes back when its node needs it (moving.py).

Programs with hooks of their own around the forward are left alone; `torch.func` forbids hooks, so they are taken off
for it. Copies to the host wait for the GPU, like torch's own: nothing can run ahead of them on another stream. What
they take of the first steps is measured (copying.py).
"""

from __future__ import annotations

from ..common import calls, errors
from . import amp, copying, moving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Args, Kwargs, Module, Torch
    from .outcomes import Outcomes

NAME = "offload"
# Which pair of hooks is the innermost one, how ours are put there, and how torch.func forbids them.
ASKED = (
    "_top_saved_tensors_default_hooks",
    "_push_saved_tensors_default_hooks",
    "_pop_saved_tensors_default_hooks",
    "_saved_tensors_hooks_is_enabled",
    "_saved_tensors_hooks_disable",
)
# Why it stops.
OWN_HOOKS = "the program has hooks of its own for what a forward saves; the patch is off from that step on"
FORBIDDEN = "the program uses what forbids hooks of saved tensors (torch.func); the patch is off from there on"
LATER = "the program may move saved activations itself already, which oomph cannot see with this version of torch"
# Set on a module: 1 = only in training mode, 2 = in either mode (the model trains in eval mode).
MARK = "_oomph_offload"


class Offload:
    """The patch of this process."""

    wants_roots = True
    nothing_found = "no model call was seen (calls inside compiled functions are not visible)"

    def __init__(self, outcomes: Outcomes, value: str) -> None:
        if value != "cpu":
            raise ValueError("activations only go to the cpu")
        self.outcomes = outcomes
        self.torch = outcomes.torch
        self.classes: set[Any] = set()
        self.named: list[str] = []
        self.stopped = False
        # The pair of hooks of the forward that runs, if one does; None once they were taken off.
        self.hooks: Any = None
        self.ram = moving.Ram()
        self.clock = copying.Clock(self.torch)
        self.told = 0

    def install(self) -> None:
        if not can_hook(self.torch):
            return self.stop(LATER)
        self.autograd: Any = self.torch._C._autograd
        self.is_compiling = calls.is_compiling_of(self.torch)
        self.mover = moving.Mover(self.torch, self.ram, self.clock, self.outcomes.on_cpu)
        self.make_way()

    def stop(self, why: str) -> None:
        """Disables the patch for good."""
        self.stopped = True
        self.wants_roots = False
        self.outcomes.decline(NAME, why)

    def make_way(self) -> None:
        """torch.func and others forbid hooks, and raise where there are some: ours are taken off before."""
        original = self.autograd._saved_tensors_hooks_disable
        leave = self.take_off

        def disable(*args: Any, **kwargs: Any) -> Any:
            try:
                leave(FORBIDDEN)
            except BaseException:
                errors.refused("take hooks off")
            return original(*args, **kwargs)

        self.autograd._saved_tensors_hooks_disable = disable

    def take_off(self, why: str | None = None) -> None:
        hooks, top = self.hooks, None
        if hooks is None:
            return
        try:
            top = self.autograd._top_saved_tensors_default_hooks(False)
            if top is not None and top[0] is hooks[0]:
                self.hooks = None
                self.autograd._pop_saved_tensors_default_hooks()
        finally:
            if why is not None:
                self.stop(why)

    def take_root(self, root: Module, device: str) -> None:
        if self.stopped:
            return
        why = why_not_root(root)
        if why is not None:
            return self.stop(why)
        self.wrap_call(type(root))
        setattr(root, MARK, 1 if root.training else 2)
        self.named.append(type(root).__name__)
        self.outcomes.apply(NAME, self.words())

    def words(self) -> str:
        shown = "%.1f GiB" % (self.told / 2**30) if self.told >= 1 << 30 else "%d MiB" % (self.told >> 20)
        ram = " (%s at the most)" % shown if self.told else ""
        said = "what the forward of %s saves waits in RAM%s" % (", ".join(self.named), ram)
        return said if self.clock.found is None else "%s; %s" % (said, copying.words(*self.clock.found))

    def wrap_call(self, cls: type) -> None:
        if cls in self.classes:
            return
        self.classes.add(cls)
        calls.wrap_marked(cls, MARK, self.is_compiling, self.call)

    def call(self, original: Callable[..., Any], root: Module, args: Args, kwargs: Kwargs) -> Any:
        is_training = root.training or getattr(root, MARK) == 2
        if not (is_training and self.torch.is_grad_enabled() and self.enter(root)):
            return original(root, *args, **kwargs)
        try:
            return original(root, *args, **kwargs)
        finally:
            self.leave()

    def enter(self, root: Module) -> bool:
        """Puts the hooks around a forward, or leaves it as it is."""
        try:
            if self.stopped or self.hooks is not None:
                return False
            if self.torch.cuda.is_available() and self.torch.cuda.is_current_stream_capturing():
                return False
            autograd = self.autograd
            if not autograd._saved_tensors_hooks_is_enabled():
                return False
            if autograd._top_saved_tensors_default_hooks(False) is not None:
                self.stop(OWN_HOOKS)
                return False
            self.clock.begins(root)
            self.mover.keep(root)
            self.ram.look()
            hooks = (self.mover.pack, self.mover.unpack)
            autograd._push_saved_tensors_default_hooks(*hooks)
            self.hooks = hooks
            return True
        except BaseException:
            errors.refused("put hooks around a forward")
            self.stop("hooks could not be put around the forward")
            return False

    def leave(self) -> None:
        try:
            self.take_off()
            # Told again where it has become more by a tenth, and once it is known what it costs.
            is_more, is_timed = self.ram.most * 10 > self.told * 11, self.clock.has_just_found()
            if not self.stopped and (is_more or is_timed):
                self.told = max(self.told, self.ram.most)
                # Told once, with what was measured.
                self.outcomes.said[NAME] = "applied", self.words()
                self.outcomes.measure(NAME, "step", None, self.told, self.clock.found)
        except BaseException:
            errors.refused("take hooks off a forward")


def inside(outer: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a model's first call by two patches, one within the other."""

    def call(original: Callable[..., Any], root: Module, args: Args, kwargs: Kwargs) -> Any:
        return outer(lambda model, *given, **named: inner(original, model, given, named), root, args, kwargs)

    return call


def can_hook(torch: Torch) -> bool:
    autograd = getattr(torch._C, "_autograd", None)
    return all(hasattr(autograd, name) for name in ASKED)


def why_not_root(root: Module) -> str | None:
    if hasattr(root, "_orig_mod"):
        return "the model is compiled, which plans what it saves as a whole"
    for base in type(root).__mro__:
        if base.__name__.startswith(("FSDP", "FullyShardedDataParallel")):
            return "FSDP moves what it saves itself"
    return amp.why_not_root(root)
