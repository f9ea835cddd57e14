"""What FSDP and DistributedDataParallel are told where the program constructs them: parameters divided again behind
forward (`reshard=on`), gathered in bf16 (`shards=bf16`), gradients that are views of the buckets (`gradients=buckets`).

Only arguments of torch's own constructors are changed, and only where the program left them at what takes more memory;
what the program says otherwise (a precision of its own, gradients in buckets already) stays. Nothing is sent, and no
state is touched.
"""

from __future__ import annotations

import functools
import inspect
import sys

from ..common import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .outcomes import Outcomes

RESHARD, SHARDS, GRADIENTS = "reshard", "shards", "gradients"
WANTED = {RESHARD: "on", SHARDS: "bf16", GRADIENTS: "buckets"}
# FSDP2 and FullyShardedDataParallel; hook.py waits for its import. A private file of FSDP2's has the class.
FSDP = "torch.distributed.fsdp"
# Strategies that keep parameters behind forward, and those that do not.
KEEPS = {"SHARD_GRAD_OP": "FULL_SHARD", "_HYBRID_SHARD_ZERO2": "HYBRID_SHARD"}


class Ranks:
    """The patches of this kind in this process."""

    def __init__(self, outcomes: Outcomes) -> None:
        self.outcomes = outcomes
        self.chosen: list[str] = []
        self.counts: dict[str, int] = {}
        self.is_done = False

    def choose(self, name: str, value: str) -> None:
        if value != WANTED[name]:
            raise ValueError("%s can only be %s" % (name, WANTED[name]))
        self.chosen.append(name)

    def nothing_found(self, name: str) -> str:
        if name == GRADIENTS:
            return "no DistributedDataParallel was constructed that copies its gradients into buckets"
        if name == SHARDS:
            return "FSDP was not used without a precision of its own (param_dtype)"
        return "FSDP was not told to keep parameters behind forward"

    def install(self) -> None:
        """Right after `import torch`."""
        if GRADIENTS in self.chosen:
            replicated = self.outcomes.torch.nn.parallel.DistributedDataParallel
            wrap_constructor(replicated, self.in_buckets)
        if FSDP in sys.modules:
            self.imported(sys.modules[FSDP])

    def imported(self, module: Any) -> None:
        """FSDP was imported."""
        if self.is_done or not (RESHARD in self.chosen or SHARDS in self.chosen):
            return
        self.is_done = True
        wrap_constructor(module.FullyShardedDataParallel, self.flat)
        original = getattr(module, "fully_shard", None)
        if original is not None:
            self.wrap_function(module, original)

    def wrap_function(self, module: Any, original: Any) -> None:
        default = inspect.signature(original).parameters["reshard_after_forward"].default
        change = self.divided

        @functools.wraps(original)
        def fully_shard(module: Any, *args: Any, **kwargs: Any) -> Any:
            changed = changed_by(change, kwargs, default)
            return original(module, *args, **(kwargs if changed is None else changed))

        # Torch's own files have it by its name, too.
        for name, holder in list(sys.modules.items()):
            if name.startswith("torch.distributed") and vars(holder).get("fully_shard") is original:
                setattr(holder, "fully_shard", fully_shard)
        sharded = getattr(module, "FSDPModule", None)
        if RESHARD in self.chosen and hasattr(sharded, "set_reshard_after_forward"):
            self.wrap_setter(sharded)

    def wrap_setter(self, sharded: Any) -> None:
        """What a program sets later counts as if it were said first."""
        original, done = sharded.set_reshard_after_forward, self.done

        @functools.wraps(original)
        def set_reshard_after_forward(self: Any, reshard_after_forward: Any, *args: Any, **kwargs: Any) -> Any:
            if reshard_after_forward is False:
                done(RESHARD)
                return None
            return original(self, reshard_after_forward, *args, **kwargs)

        sharded.set_reshard_after_forward = set_reshard_after_forward

    def divided(self, given: dict[str, Any], default: Any) -> dict[str, Any] | None:
        """The arguments of `fully_shard`, where they become others."""
        made = dict(given)
        # A number of ranks to keep parameters among, or False. Torch itself then leaves the outermost module whole.
        if RESHARD in self.chosen and made.get("reshard_after_forward", default) not in (True, default):
            made["reshard_after_forward"] = default
            self.done(RESHARD)
        if SHARDS in self.chosen:
            torch, policy = self.outcomes.torch, made.get("mp_policy")
            if policy is None or policy.param_dtype is None:
                kind = sys.modules[FSDP].MixedPrecisionPolicy
                reduced = getattr(policy, "reduce_dtype", None) or torch.float32
                how = {} if policy is None else {"output_dtype": policy.output_dtype}
                made["mp_policy"] = kind(param_dtype=torch.bfloat16, reduce_dtype=reduced, **how)
                self.done(SHARDS)
        return None if made == given else made

    def flat(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """The same of FullyShardedDataParallel."""
        made, fsdp = dict(given), sys.modules[FSDP]
        strategy = getattr(made.get("sharding_strategy"), "name", None)
        if RESHARD in self.chosen:
            if strategy in KEEPS:
                made["sharding_strategy"] = getattr(fsdp.ShardingStrategy, KEEPS[strategy])
                self.done(RESHARD)
            if made.get("limit_all_gathers") is False:
                made["limit_all_gathers"] = True
                self.done(RESHARD)
        precision = made.get("mixed_precision")
        if SHARDS in self.chosen and (precision is None or precision.param_dtype is None):
            torch = self.outcomes.torch
            reduced = getattr(precision, "reduce_dtype", None) or torch.float32
            made["mixed_precision"] = fsdp.MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=reduced)
            self.done(SHARDS)
        return made

    def in_buckets(self, given: dict[str, Any]) -> dict[str, Any] | None:
        if given.get("gradient_as_bucket_view") or given.get("mixed_precision") is not None:
            return None
        self.done(GRADIENTS)
        return dict(given, gradient_as_bucket_view=True)

    def done(self, name: str) -> None:
        count = self.counts[name] = self.counts.get(name, 0) + 1
        several = "" if count == 1 else " (%d times)" % count
        words = {
            RESHARD: "FSDP divides parameters again behind forward",
            SHARDS: "FSDP gathers parameters in bf16 and reduces gradients in float32",
            GRADIENTS: "DistributedDataParallel's gradients are views of its buckets",
        }
        self.outcomes.apply(name, words[name] + several)

    def settle(self) -> None:
        for name in self.chosen:
            if name not in self.outcomes.said:
                self.outcomes.decline(name, self.nothing_found(name))


def changed_by(change: Callable[..., Any], *args: Any) -> Any:
    """What an argument becomes; None where it stays, or where that fails."""
    try:
        return change(*args)
    except BaseException:
        errors.refused("change how ranks divide a model")
        return None


def wrap_constructor(cls: Any, change: Callable[[dict[str, Any]], Any]) -> None:
    """Has the arguments of a class's constructor changed, by their names."""
    original = cls.__init__
    parameters = inspect.signature(original)

    def by_name(self: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
        bound = parameters.bind(self, *args, **kwargs).arguments
        given = {name: value for name, value in list(bound.items())[1:]}
        # What stands for any further arguments.
        for name, parameter in parameters.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                given.update(given.pop(name, {}))
            elif parameter.kind is parameter.VAR_POSITIONAL and name in given:
                return None
        made: dict[str, Any] | None = change(given)
        return made

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        made = changed_by(by_name, self, args, kwargs)
        if made is None:
            original(self, *args, **kwargs)
        else:
            original(self, **made)

    cls.__init__ = __init__
