"""Activation checkpointing for programs that have no argument for it: the repeated blocks of a model
run in `torch.utils.checkpoint.checkpoint(…, use_reentrant=False)`, or the model's own
`gradient_checkpointing_enable()` is called if it has one.

Numerics stay the same, or nothing is done: the first call of each kind of block runs as usual and is
checked. Blocks that carry state from one call to the next, modify their input or take arguments that
they may modify are skipped, with a message that says why.
"""

from __future__ import annotations

import functools
import inspect

from ..common import blocks, calls, errors, members
from . import purity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator

    from ..common.blocks import Group
    from ..common.protocols import Args, Kwargs, Module, Tensor, Torch
    from .outcomes import Outcomes

NAME = "recompute"
# The checkpoint that verifies what it recomputes, and can be nested.
SINCE = (2, 1)
# Two reasons. Since torch 2.7 a random operation recomputed in a compiled graph on CUDA has its own
# generator (graphsafe_rng_functionalization of torch._functorch.config): the same numbers in forward
# and backward, but not those of a run without checkpointing. And transformers warns once that its
# cache is incompatible with checkpointing: that breaks the first call's graph, which runs uncompiled.
DRAWN = "under torch.compile, dropout may draw different random numbers"
# Set on a module: the number of its group, from 1; whether it may be recomputed in a compiled graph.
MARK, COMPILED = "_oomph_recompute", "_oomph_recompute_compiled"


class Build:
    """Blocks with the same structure, and what is known about them."""

    def __init__(self, group: Group) -> None:
        self.cls = group.cls
        self.count = len(group.members)
        self.has_statistics = group.has_statistics
        self.why_not = group.why_not
        # Modes (training or not) in which an ordinary call was checked, and recomputing is safe.
        self.may: set[bool] = set()
        self.draws = False
        self.used = False


class Recompute:
    """The checkpointing patch of this process."""

    wants_roots = True
    nothing_found = "no model call was seen (calls inside compiled functions are not visible)"

    def __init__(self, outcomes: Outcomes) -> None:
        self.outcomes = outcomes
        self.torch = outcomes.torch
        self.builds: list[Build] = []
        self.enabled: list[str] = []
        self.already: list[str] = []
        self.classes: set[Any] = set()
        self.draws_compiled = False

    def install(self) -> None:
        if self.outcomes.version < SINCE:
            self.wants_roots = False
            return self.outcomes.decline(NAME, "needs torch 2.1 or later")
        import torch.utils.checkpoint

        self.checkpoint = torch.utils.checkpoint.checkpoint
        self.is_compiling = calls.is_compiling_of(self.torch)

    def take_root(self, root: Module, device: str) -> None:
        why = why_not_root(root)
        if why is not None:
            return self.outcomes.decline(NAME, why)
        if self.use_own_switch(root):
            self.look_for_dropout(root, members.modules(root))
            return self.report()
        groups = blocks.find(root)
        for group in groups:
            self.take_group(group)
            if group.why_not is None and not group.has_statistics:
                self.look_for_dropout(root, group.members)
        if not groups and not self.builds:
            return self.outcomes.decline(
                NAME, "%s has no repeated blocks of one class" % type(root).__name__
            )
        self.report()

    def use_own_switch(self, root: Module) -> bool:
        """Uses the model's own switch, if it has one that accepts the kind of checkpoint."""
        module = with_own_switch(root)
        if module is None:
            return False
        name = type(module).__name__
        if getattr(module, "is_gradient_checkpointing", False):
            self.already.append("%s, which checkpoints itself" % name)
            return True
        if not switch_on(module):
            return False
        self.enabled.append("%s by its own gradient checkpointing" % name)
        return True

    def take_group(self, group: Group) -> None:
        build = Build(group)
        self.builds.append(build)
        if build.why_not is not None:
            return
        self.wrap_call(group.cls)
        number = len(self.builds)
        for member in group.members:
            setattr(member, MARK, number)
            # A compiled graph would update the running statistics twice.
            setattr(member, COMPILED, not group.has_statistics)

    def look_for_dropout(self, root: Module, recomputed: Iterable[Module]) -> None:
        """Only for the message; a model that cannot be inspected gets none."""
        try:
            compiled = blocks.compiled(root)
            self.draws_compiled = self.draws_compiled or any(
                blocks.is_dropout(part)
                for module in recomputed
                if id(module) in compiled
                for part in members.modules(module)
            )
        except Exception:
            errors.foreseen("look for dropout")

    def wrap_call(self, cls: type) -> None:
        """Wraps a class's `__call__`; the wrapper acts on marked modules only."""
        if cls in self.classes:
            return
        self.classes.add(cls)
        # May wrap the wrapper that looks for models: another model may be of this class.
        original = cls.__call__
        is_compiling, checkpoint, grad = self.is_compiling, self.checkpoint, self.torch.is_grad_enabled
        call = self.call

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._oomph_recompute or not grad():
                return original(self, *args, **kwargs)
            if is_compiling():
                if not self._oomph_recompute_compiled:
                    return original(self, *args, **kwargs)
                run = functools.partial(original, self, **kwargs)
                return checkpoint(run, *args, use_reentrant=False)
            return call(original, self, args, kwargs)

        setattr(cls, MARK, 0)
        setattr(cls, COMPILED, False)
        setattr(cls, "__call__", __call__)

    def call(self, original: Callable[..., Any], block: Module, args: Args, kwargs: Kwargs) -> Any:
        """One call of a marked block, with gradients, not compiled."""
        build = self.build_of(block)
        if build is None or build.why_not is not None:
            return original(block, *args, **kwargs)
        try:
            is_the_moment = self.is_the_moment(block)
        except Exception as error:
            errors.foreseen("look whether a block can be recomputed")
            self.leave(build, "whether they can be is not known (%s)" % type(error).__name__)
            is_the_moment = False
        if not is_the_moment:
            return original(block, *args, **kwargs)
        kind = purity.unsupported_argument(self.torch, args, kwargs)
        if kind is not None:
            self.leave(build, "a call may modify one of their arguments (%s)" % kind)
            return original(block, *args, **kwargs)
        if bool(block.training) not in build.may:
            return self.look(build, original, block, args, kwargs)
        return self.run(build, original, block, args, kwargs)

    def build_of(self, block: Module) -> Build | None:
        number = getattr(block, MARK)
        if 0 < number <= len(self.builds) and self.builds[number - 1].cls is type(block):
            return self.builds[number - 1]
        # The block comes from a model that another process pickled.
        return None

    def is_the_moment(self, block: Module) -> bool:
        """False inside another block, and where saved tensors cannot be hooked."""
        torch = self.torch
        if calls.is_inside(self.outcomes.calls.inside) or blocks.has_hooks(block):
            return False
        if calls.is_tracing(torch) or not saved_tensors_may_be_hooked(torch):
            return False
        # The random generator's state cannot be read during graph capture.
        return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())

    def look(self, build: Build, original: Callable[..., Any], block: Module, args: Args, kwargs: Kwargs) -> Any:
        """The first call of a structure: runs as usual, and is checked."""
        try:
            look = purity.StateCheck(self.torch, block, args, kwargs)
        except Exception as error:
            errors.foreseen("look at a block")
            self.leave(build, "they cannot be inspected (%s)" % type(error).__name__)
            return original(block, *args, **kwargs)
        result = original(block, *args, **kwargs)
        try:
            changed = look.what_changed()
            if changed is not None:
                self.leave(build, changed)
            else:
                build.draws = build.draws or look.has_drawn()
                build.may.add(bool(block.training))
        except Exception as error:
            errors.foreseen("check a block")
            self.leave(build, "they cannot be inspected (%s)" % type(error).__name__)
        return result

    def run(self, build: Build, original: Callable[..., Any], block: Module, args: Args, kwargs: Kwargs) -> Any:
        """A call whose activations are not saved."""
        inside = calls.Inside(self.outcomes.calls.inside)
        tensors, rebuild = flatten_tensors(self.torch, args, kwargs)
        statistics = []
        if build.has_statistics:
            statistics = [part for part in members.modules(block) if blocks.is_statistics(part)]
        draws = purity.Draws() if build.draws else None
        runs = []

        def forward(*given: Any) -> Any:
            args, kwargs = rebuild(given)
            runs.append(1)
            if len(runs) == 1:
                with inside:
                    return original(block, *args, **kwargs)
            with inside, purity.Rerun(draws, statistics):
                return original(block, *args, **kwargs)

        try:
            result = self.checkpoint(forward, *tensors, use_reentrant=False)
        except Exception:
            errors.foreseen("recompute a block")
            if runs:
                raise
            # The block was never reached: torch's checkpoint rejected the arguments.
            self.leave(build, "torch.utils.checkpoint does not accept them")
            return original(block, *args, **kwargs)
        if not build.used:
            build.used = True
            self.report()
        return result

    def leave(self, build: Build, why: str) -> None:
        build.why_not = why
        self.report()

    def report(self) -> None:
        """Reports what is recomputed and what is skipped so far."""
        used = self.enabled + in_words(
            [build for build in self.builds if build.why_not is None]
        )
        left = [
            "%s left alone: %s" % (in_words([build])[0], build.why_not)
            for build in self.builds
            if build.why_not is not None
        ]
        if used:
            words = "recomputed in backward: " + ", ".join(used)
            drawn = [DRAWN] if self.draws_compiled else []
            self.outcomes.apply(NAME, "; ".join([words] + drawn + left))
        elif self.already or left:
            self.outcomes.decline(NAME, "; ".join(self.already + left))


def in_words(builds: list[Build]) -> list[str]:
    """`12 BasicBlock`, one figure for all blocks of a class."""
    counts: dict[str, int] = {}
    for build in builds:
        counts[build.cls.__name__] = counts.get(build.cls.__name__, 0) + build.count
    return ["%d %s" % (count, name) for name, count in counts.items()]


def with_own_switch(root: Module) -> Any:
    """The module of a model that checkpoints itself if it is told to; None where there is none."""
    for module in members.modules(root):
        can = getattr(type(module), "gradient_checkpointing_enable", None) is not None
        if can and getattr(module, "supports_gradient_checkpointing", False):
            return module
    return None


def switch_on(module: Any) -> bool:
    """Tells it so; False where it does not take the kind of checkpoint."""
    if "gradient_checkpointing_kwargs" not in inspect.signature(type(module).gradient_checkpointing_enable).parameters:
        return False
    module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return True


def why_not_root(root: Module) -> str | None:
    for module in members.modules(root):
        kind = blocks.is_kind(module, ("DataParallel", "DeepSpeedEngine", "PipelineModule"))
        if kind:
            return "%s handles calls in its own way" % kind
    return None


def saved_tensors_may_be_hooked(torch: Torch) -> bool:
    """False inside torch.func's transforms, and where the program disabled such hooks."""
    try:
        if not torch._C._autograd._saved_tensors_hooks_is_enabled():
            return False
        return torch._C._functorch.peek_interpreter_stack() is None
    except AttributeError:
        return False


def flatten_tensors(
    torch: Torch, args: Args, kwargs: Kwargs
) -> tuple[list[Tensor], Callable[[Iterable[Tensor]], tuple[Args, Kwargs]]]:
    """The tensors among the arguments as a flat list for torch's checkpoint (which saves them, and takes
    the devices of its random generators from them), and the function that puts them back."""
    tensors = purity.tensors_of(torch, args, kwargs)

    def rebuild(given: Iterable[Tensor]) -> tuple[Args, Kwargs]:
        given = iter(given)
        return (
            tuple(put_back(torch, value, given) for value in args),
            {name: put_back(torch, value, given) for name, value in kwargs.items()},
        )

    return tensors, rebuild


def put_back(torch: Torch, value: Any, given: Iterator[Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return next(given)
    if isinstance(value, tuple):
        inner = [put_back(torch, each, given) for each in value]
        return type(value)(*inner) if hasattr(value, "_fields") else type(value)(inner)
    return value
