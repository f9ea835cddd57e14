"""Patches applied at runtime: which ones the user chose.

Named in OOMPH_PATCHES, separated by commas: `recompute`, `amp`, `batch=64:32`, `workers=4`, `prefetch=1`,
`pin_memory=off`, `persistent_workers=off`, `sharing=file_system`, `foreach=off`, `fused=on`,
`eval_outputs=4`, `load=cpu`, `offload=cpu`, `cross_entropy=chunked`, `head=50257x768`, `empty_cache=phases`,
`reshard=on`, `shards=bf16`, `gradients=buckets`, `budget=50`, `dynamic=on`. Without the variable nothing is touched.
What became of changed sources (source.py) is told in the same way. Each patch is applied or declines, and reports which
and why. One that fails disables itself, and the training goes on without it.
"""

from __future__ import annotations

import os
import sys

from ..common import blocks, calls, errors, members
from . import (
    amp,
    arguments,
    chunked,
    compilation,
    copying,
    derived,
    emptying,
    foreach,
    fused,
    head_loss,
    heads,
    loader,
    loading,
    moving,
    offload,
    outcomes,
    outputs,
    precision,
    purity,
    ranks,
    recompute,
    unmade,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Line, Module, Torch

VARIABLE = "OOMPH_PATCHES"
# Allows patches on devices other than GPUs, for tests.
ON_CPU = "OOMPH_PATCHES_ON_CPU"
# A patch that found nothing to do reports so after this many optimizer steps.
SETTLED_STEPS = 2


class Patches:
    """The patches of this process. Everything but `take` runs on the training's threads."""

    def __init__(self, torch: Torch, version: tuple[int, int], chosen: list[str], on_cpu: bool = False) -> None:
        self.outcomes = told = outcomes.Outcomes(torch, version, on_cpu)
        self.recompute: recompute.Recompute | None = None
        self.amp: amp.Amp | None = None
        self.loader: loader.Loader | None = None
        self.arguments = arguments.LoaderArguments(told)
        self.sharing: str | None = None
        self.foreach: foreach.NoForeach | None = None
        self.fused: fused.FusedSteps | None = None
        self.outputs: outputs.OutputsToRam | None = None
        self.loading: loading.LoadToCpu | None = None
        self.offload: offload.Offload | None = None
        self.emptying: emptying.EmptyCache | None = None
        self.entropy: chunked.ChunkedCrossEntropy | None = None
        self.head: heads.FusedHead | None = None
        self.ranks = ranks.Ranks(told)
        self.compile = compilation.CompileOptions(told)
        self.edits: Any = getattr(sys.modules.get("_oomph_source"), "edits", None)
        for word in chosen:
            self.choose(word)

    def choose(self, word: str) -> None:
        name, _, value = word.partition("=")
        told = self.outcomes
        try:
            if name == "recompute":
                self.recompute = recompute.Recompute(told)
            elif name == "amp":
                self.amp = amp.Amp(told)
            elif name == "batch":
                self.loader = loader.Loader(told, value)
            elif name in arguments.ARGUMENTS:
                self.arguments.choose(name, value)
            elif name == arguments.SHARING:
                self.sharing = value
            elif name == loading.NAME:
                self.loading = loading.LoadToCpu(told, value)
            elif name == offload.NAME:
                self.offload = offload.Offload(told, value)
            elif name == emptying.NAME:
                self.emptying = emptying.EmptyCache(told, value)
            elif name == chunked.NAME:
                self.entropy = chunked.ChunkedCrossEntropy(told, value)
            elif name == heads.NAME:
                self.head = heads.FusedHead(told, value)
            elif name == outputs.NAME:
                self.outputs = outputs.OutputsToRam(told, value)
            elif name == foreach.NAME:
                self.foreach = foreach.NoForeach(told, value)
            elif name == fused.NAME:
                self.fused = fused.FusedSteps(told, value)
            elif name in ranks.WANTED:
                self.ranks.choose(name, value)
            elif name in (compilation.BUDGET, compilation.DYNAMIC):
                self.compile.choose(name, value)
            else:
                told.decline(word, "this version of oomph has no such patch")
        except Exception as error:
            errors.foreseen("choose a patch")
            told.decline(name, outcomes.in_words(error))

    def install(self) -> None:
        """Called right after `import torch`."""
        attempt = self.outcomes.attempt
        for name, patch in (("recompute", self.recompute), ("amp", self.amp)):
            if patch is not None:
                attempt(name, patch.install)
        if self.loader is not None:
            attempt("batch", self.loader.install)
        for name in list(self.arguments.bounds)[:1]:
            if not attempt(name, self.arguments.install):
                self.arguments.bounds.clear()
        if self.sharing is not None:
            attempt(arguments.SHARING, arguments.share_by, self.outcomes, self.sharing)
        if self.foreach is not None:
            attempt(foreach.NAME, self.foreach.install)
        if self.fused is not None:
            attempt(fused.NAME, self.fused.install)
        if self.outputs is not None:
            attempt(outputs.NAME, self.outputs.install)
        if self.loading is not None:
            attempt(loading.NAME, self.loading.install)
        if self.entropy is not None:
            attempt(chunked.NAME, self.entropy.install)
        if self.head is not None and not attempt(heads.NAME, self.head.install):
            self.head.wants_roots = False
        if self.offload is not None and not attempt(offload.NAME, self.offload.install):
            self.offload.wants_roots = False
        if self.emptying is not None and not attempt(emptying.NAME, self.emptying.install):
            self.emptying.wants_roots = False
        for several in (self.ranks, self.compile):
            for name in several.chosen[:1]:
                if not attempt(name, several.install):
                    several.chosen.clear()
        of_roots: tuple[tuple[str, Any], ...] = (
            ("recompute", self.recompute),
            ("amp", self.amp),
            (offload.NAME, self.offload),
            (emptying.NAME, self.emptying),
            (heads.NAME, self.head),
        )
        if any(patch is not None and patch.wants_roots for _, patch in of_roots):
            try:
                ours = (
                    amp, blocks, calls, chunked, copying, derived, emptying, head_loss, heads, members, moving, offload,
                    outcomes, precision, purity, recompute, unmade, sys.modules[__name__],
                )
                calls.keep_from_compiling(ours)
                self.outcomes.calls.watch(self.root_called)
            except Exception as error:
                errors.foreseen("watch calls for patches")
                for name, patch in of_roots:
                    if patch is not None:
                        self.outcomes.decline(name, outcomes.in_words(error))

    def imported(self, module: Any) -> None:
        """The program has imported a library that a patch waits for."""
        attempt = self.outcomes.attempt
        if self.outputs is not None and module.__name__ == outputs.LIBRARY:
            attempt(outputs.NAME, self.outputs.imported, module)
        if self.entropy is not None and module.__name__ == chunked.LIBRARY:
            attempt(chunked.NAME, self.entropy.imported, module)
        for name in self.ranks.chosen[:1]:
            attempt(name, self.ranks.imported, module)

    def root_called(self, root: Module) -> Callable[..., Any] | None:
        """A model is about to be called for the first time, with gradients. Returns the function that
        makes this call instead of torch's own, or None."""
        device = device_of(root)
        if device is None or not (device == "cuda" or self.outcomes.on_cpu):
            return None
        for name, patch in (
            ("amp", self.amp),
            ("recompute", self.recompute),
            (offload.NAME, self.offload),
            (emptying.NAME, self.emptying),
            (heads.NAME, self.head),
        ):
            if patch is not None and patch.wants_roots:
                if not self.outcomes.attempt(name, patch.take_root, root, device):
                    patch.wants_roots = False
        autocast = self.amp.call if self.amp is not None and getattr(root, amp.MARK, None) else None
        moving = self.offload.call if self.offload is not None and getattr(root, offload.MARK, None) else None
        return offload.inside(autocast, moving) if autocast is not None and moving is not None else autocast or moving

    def take(self, pid: int, steps: int) -> list[Line]:
        """The lines not taken yet; called on the sampler's thread."""
        self.outcomes.steps = steps
        self.say_edits(steps)
        if steps >= SETTLED_STEPS:
            self.settle()
        return self.outcomes.take(pid)

    def say_edits(self, steps: int) -> None:
        """A process that trains without its changed sources says so at its first step."""
        outcome = self.edits.outcome(steps > 0) if self.edits is not None else None
        if outcome is not None:
            made, words = outcome
            self.outcomes.say("edit", "applied" if made else "declined", words)

    def settle(self) -> None:
        for name, patch in (
            ("recompute", self.recompute),
            ("amp", self.amp),
            ("batch", self.loader),
            (foreach.NAME, self.foreach),
            (fused.NAME, self.fused),
            (outputs.NAME, self.outputs),
            (loading.NAME, self.loading),
            (offload.NAME, self.offload),
            (chunked.NAME, self.entropy),
            (heads.NAME, self.head),
            (emptying.NAME, self.emptying),
        ):
            if patch is not None and name not in self.outcomes.said:
                self.outcomes.decline(name, patch.nothing_found)
        for name in self.arguments.bounds:
            if name not in self.outcomes.said:
                self.outcomes.decline(name, self.arguments.nothing_found(name))
        self.ranks.settle()
        self.compile.settle()

    def send_again(self) -> None:
        """Queues every line again, for a new connection."""
        self.outcomes.send_again()


def of_environment(torch: Torch, version: tuple[int, int]) -> Patches | None:
    """The patches named in the environment, or None."""
    chosen = os.environ.get(VARIABLE, "").replace(" ", "").split(",")
    chosen = [word for word in chosen if word]
    if not chosen and "_oomph_source" not in sys.modules:
        return None
    return Patches(torch, version, chosen, on_cpu=os.environ.get(ON_CPU) == "1")


def device_of(module: Module) -> str | None:
    """The device type on which a module computes its gradients, or None."""
    for parameter in members.parameters(module):
        if parameter.requires_grad:
            return parameter.device.type
    return None
