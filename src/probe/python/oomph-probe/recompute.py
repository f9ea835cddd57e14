"""Activation checkpointing for programs that have no argument for it: the repeated blocks of a model
run in `torch.utils.checkpoint.checkpoint(…, use_reentrant=False)`, or the model's own
`gradient_checkpointing_enable()` is called where it has one.

The numbers stay the same, or nothing is done: of each build of blocks the first call runs as it
always did and is looked at; blocks that keep something from one call to the next, change their input
or take arguments that they may change are left alone, in words.
"""
import functools
import inspect

from . import blocks, calls, purity

NAME = "recompute"
# The checkpoint that checks what it recomputes, and can be nested.
SINCE = (2, 1)
# Two causes. Since torch 2.7 a random operation that is recomputed in a compiled graph on CUDA has a
# generator of its own (graphsafe_rng_functionalization of torch._functorch.config): the same numbers
# in forward and backward, but others than without. And transformers warns once that its cache and
# checkpointing do not go together: that breaks the graph of the first call, which runs uncompiled.
DRAWN = "under torch.compile dropout may then draw other random numbers"
# On a module: the number of its group, from 1, and whether it may be recomputed in a compiled graph.
MARK, COMPILED = "_oomph_recompute", "_oomph_recompute_compiled"


class Build:
    """Blocks of one build, and what was found out about them."""

    def __init__(self, group):
        self.cls = group.cls
        self.count = len(group.members)
        self.has_statistics = group.has_statistics
        self.why_not = group.why_not
        # Modes, training or not, in which one ordinary call has shown that another may follow.
        self.may = set()
        self.draws = False
        self.used = False


class Recompute:
    """The patch of one process."""

    wants_roots = True
    nothing_found = "no call of a model was seen (one inside a compiled function is not)"

    def __init__(self, patches):
        self.patches = patches
        self.torch = patches.torch
        self.builds = []
        self.enabled = []
        self.already = []
        self.classes = set()
        self.draws_compiled = False

    def install(self):
        if self.patches.version < SINCE:
            self.wants_roots = False
            return self.patches.decline(NAME, "needs torch 2.1 or later")
        import torch.utils.checkpoint

        self.checkpoint = torch.utils.checkpoint.checkpoint
        self.is_compiling = calls.is_compiling_of(self.torch)

    def take_root(self, root, device):
        why = why_not_root(root)
        if why is not None:
            return self.patches.decline(NAME, why)
        if self.go_own_way(root):
            self.look_for_dropout(root, root.modules())
            return self.report()
        groups = blocks.find(root)
        for group in groups:
            self.take_group(group)
            if group.why_not is None and not group.has_statistics:
                self.look_for_dropout(root, group.members)
        if not groups and not self.builds:
            return self.patches.decline(
                NAME, "%s has no repeated blocks of one class" % type(root).__name__
            )
        self.report()

    def go_own_way(self, root):
        """The model's own switch, where it has one that takes the kind of checkpoint."""
        for module in root.modules():
            enable = getattr(type(module), "gradient_checkpointing_enable", None)
            if enable is None or not getattr(module, "supports_gradient_checkpointing", False):
                continue
            name = type(module).__name__
            if getattr(module, "is_gradient_checkpointing", False):
                self.already.append("%s, which does so itself" % name)
                return True
            if "gradient_checkpointing_kwargs" not in inspect.signature(enable).parameters:
                return False
            module.gradient_checkpointing_enable(
                gradient_checkpointing_kwargs={"use_reentrant": False}
            )
            self.enabled.append("%s by its own gradient checkpointing" % name)
            return True
        return False

    def take_group(self, group):
        build = Build(group)
        self.builds.append(build)
        if build.why_not is not None:
            return
        self.stand_around(group.cls)
        number = len(self.builds)
        for member in group.members:
            setattr(member, MARK, number)
            # A compiled graph would count the statistics twice.
            setattr(member, COMPILED, not group.has_statistics)

    def look_for_dropout(self, root, recomputed):
        """Only a matter of words: what cannot be looked at is not worth one."""
        try:
            compiled = blocks.compiled(root)
            self.draws_compiled = self.draws_compiled or any(
                blocks.is_dropout(part)
                for module in recomputed
                if id(module) in compiled
                for part in module.modules()
            )
        except Exception:
            pass

    def stand_around(self, cls):
        """Gives a class a call that goes by the mark of the module."""
        if cls in self.classes:
            return
        self.classes.add(cls)
        # With it, while it is there, what looks for models: there may be another of this class.
        original = cls.__call__
        is_compiling, checkpoint, grad = self.is_compiling, self.checkpoint, self.torch.is_grad_enabled
        call = self.call

        def __call__(self, *args, **kwargs):
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
        cls.__call__ = __call__

    def call(self, original, block, args, kwargs):
        """One call of a marked block, with gradients, not compiled."""
        build = self.build_of(block)
        if build is None or build.why_not is not None or not self.is_the_moment(block):
            return original(block, *args, **kwargs)
        kind = purity.strange_argument(self.torch, args, kwargs)
        if kind is not None:
            self.leave(build, "an argument of theirs (%s) may be changed by a call" % kind)
            return original(block, *args, **kwargs)
        if bool(block.training) not in build.may:
            return self.look(build, original, block, args, kwargs)
        return self.run(build, original, block, args, kwargs)

    def build_of(self, block):
        number = getattr(block, MARK)
        if 0 < number <= len(self.builds) and self.builds[number - 1].cls is type(block):
            return self.builds[number - 1]
        # Of a model that another process pickled.
        return None

    def is_the_moment(self, block):
        """False inside another block, and where saved tensors cannot be had another way."""
        torch = self.torch
        if calls.is_inside(self.patches.calls.inside) or blocks.has_hooks(block):
            return False
        if torch.jit.is_tracing() or not saved_tensors_may_be_hooked(torch):
            return False
        # The random generator cannot be asked while a graph is being captured.
        return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())

    def look(self, build, original, block, args, kwargs):
        """The first call of a build: as ever, and looked at."""
        try:
            look = purity.Look(self.torch, block, args, kwargs)
        except Exception as error:
            self.leave(build, "they cannot be looked at (%s)" % type(error).__name__)
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
            self.leave(build, "they cannot be looked at (%s)" % type(error).__name__)
        return result

    def run(self, build, original, block, args, kwargs):
        """A call whose activations are not kept."""
        inside = calls.Inside(self.patches.calls.inside)
        tensors, rebuild = apart(self.torch, args, kwargs)
        statistics = []
        if build.has_statistics:
            statistics = [part for part in block.modules() if blocks.is_statistics(part)]
        draws = purity.Draws() if build.draws else None
        runs = []

        def forward(*given):
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
            if runs:
                raise
            # It did not come to the block at all: torch's checkpoint does not want this.
            self.leave(build, "torch's checkpoint does not take them")
            return original(block, *args, **kwargs)
        if not build.used:
            build.used = True
            self.report()
        return result

    def leave(self, build, why):
        build.why_not = why
        self.report()

    def report(self):
        """What is recomputed and what is left alone, as it stands."""
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
            self.patches.apply(NAME, "; ".join([words] + drawn + left))
        elif self.already or left:
            self.patches.decline(NAME, "; ".join(self.already + left))


def in_words(builds):
    """`12 BasicBlock`, all builds of a class together."""
    counts = {}
    for build in builds:
        counts[build.cls.__name__] = counts.get(build.cls.__name__, 0) + build.count
    return ["%d %s" % (count, name) for name, count in counts.items()]


def why_not_root(root):
    for module in root.modules():
        kind = blocks.is_kind(module, ("DataParallel", "DeepSpeedEngine", "PipelineModule"))
        if kind:
            return "%s has its own way with calls" % kind
    return None


def saved_tensors_may_be_hooked(torch):
    """False inside torch.func's transforms, and where the program has forbidden it."""
    try:
        if not torch._C._autograd._saved_tensors_hooks_is_enabled():
            return False
        return torch._C._functorch.peek_interpreter_stack() is None
    except AttributeError:
        return False


def apart(torch, args, kwargs):
    """The tensors among the arguments, to be given to torch's checkpoint in one row (it saves them,
    and goes by them for the random generators), and how to put them back in their places."""
    tensors = purity.tensors_of(torch, args, kwargs)

    def rebuild(given):
        given = iter(given)
        return (
            tuple(put_back(torch, value, given) for value in args),
            {name: put_back(torch, value, given) for name, value in kwargs.items()},
        )

    return tensors, rebuild


def put_back(torch, value, given):
    if isinstance(value, torch.Tensor):
        return next(given)
    if isinstance(value, tuple):
        inner = [put_back(torch, each, given) for each in value]
        return type(value)(*inner) if hasattr(value, "_fields") else type(value)(inner)
    return value
