"""In which phase of a step a stack was taken, by what runs: backward, the optimizer's step, a model and whether it is
trained, gradients, and the functions that are called."""

from __future__ import annotations

import re

from . import frames, objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from .frames import Stack
    from .protocols import Torch

# Functions that write or read a checkpoint; src/event/probe.rs has the same for what is said of it.
SAVES = frozenset("save _save save_checkpoint _save_checkpoint save_state save_model save_pretrained".split())
LOADS = frozenset("load _load load_checkpoint load_state_dict load_state load_model resume_from_checkpoint".split())
# Of these names others are common too: only in the files that read and write for torch.
SHORT = frozenset("save _save load _load".split())
CHECKPOINTS = ("torch/serialization.py", "torch/distributed/checkpoint/", "/safetensors/", "/flax/serialization")
GATHERS = "state_dict"
READS = re.compile("(^|_)load(_|$)")
GENERATES = re.compile("^_?(generate|greedy_search|beam_search|sample|p_sample|ddim_sample|sample_loop|p_sample_loop)$")
EVALUATES = re.compile(
    "^_?(run_|do_|maybe_)?(eval|evaluate|evaluation|validate|validation|valid|val|test|predict|prediction|estimate_loss)"
    "(_loop|_step|_epoch|_one_epoch|_model|_batch|_loss|_all)?$"
    r"|^_?(\w+_)?(evaluate|evaluation|evaluator|validation)(_\w+)?$"
    r"|^_?(single|multi|dist|distributed|ddp|slide|run|do|in|on|after|before)_(\w+_)?(test|val|valid|eval)(_\w+)?$"
    r"|^_?(test|val|valid|validate|eval)_(net|on|one|with|for|in)(_\w+)?$"
    "|^inference_on_dataset$"
)
TRAINS = re.compile("(^|_)(pre)?(train|training)(_|$)")


def phase(stack: Stack, steps_ended: int, grad_enabled: bool, in_step: bool) -> str:
    """The phase as a word of the wire."""
    if stack.is_in_backward:
        return "backward"
    if in_step and not stack.is_in_module:
        return "optimizer"
    if any(is_checkpoint(line["file"], line["function"], LOADS) for line in stack.lines):
        return "load"
    if any(is_checkpoint(line["file"], line["function"], SAVES) for line in stack.lines):
        return "unknown"
    has_begun = stack.is_in_module or stack.is_in_functional or stack.is_in_compiled or steps_ended > 0
    if not (has_begun or (stack.has_history and grad_enabled)):
        return "load"
    if not (grad_enabled or stack.hides_gradients):
        return "evaluation"
    if stack.is_in_module:
        return "evaluation" if stack.is_in_evaluation and is_evaluated(stack, steps_ended) else "forward"
    # Between the calls of a model: outputs that are gathered, a metric, a loss.
    if stack.has_trained_model is None:
        names = [line["function"] for line in stack.lines]
        return "evaluation" if any(evaluates(name) for name in names) else "forward"
    return "forward" if stack.has_trained_model or not is_evaluated(stack, steps_ended) else "evaluation"


def evaluates(function: str) -> bool:
    says_so = EVALUATES.match(function) and not TRAINS.search(function)
    return bool(says_so or GENERATES.match(function))


def is_evaluated(stack: Stack, steps_ended: int) -> bool:
    """Whether a model in eval mode that has gradients is evaluated, and not trained so: with frozen statistics, or in
    an attack on its inputs. The innermost function that says something decides; where none does, an evaluation comes
    after steps."""
    for line in stack.lines:
        name = line["function"].lower()
        if evaluates(name):
            return True
        if TRAINS.search(name):
            return False
    return steps_ended > 0


def is_checkpoint(path: str, function: str, names: frozenset[str]) -> bool:
    return function in names and (function not in SHORT or any(part in path for part in CHECKPOINTS))


def activity(path: str, function: str) -> str | None:
    """What a function does by its name: "checkpoint" where one is saved or gathered for that, "evaluation", or None."""
    name = function.lower()
    if is_checkpoint(path, function, SAVES) or (GATHERS in name and not READS.search(name)):
        return "checkpoint"
    return "evaluation" if EVALUATES.match(name) and not TRAINS.search(name) else None


def has_trained_model(torch: Torch, stack: list[FrameType]) -> bool | None:
    """Whether a model is in training mode, by the innermost frame that has one with parameters among its variables,
    or as an attribute of `self`; None where there is none."""
    for frame in stack:
        models = frames.read_locals(frame, lambda values: models_in(torch, list(values.values()), values.get("self")))
        if models:
            return any(each.__dict__.get("training") is not False for each in models)
    return None


def models_in(torch: Torch, values: list[Any], owner: Any) -> list[Any]:
    """Those with parameters; read without running anything of the program's."""
    own = objects.namespace_of(owner)
    if own is not None and not objects.is_a(owner, torch.nn.Module):
        values = values + list(own.values())
    modules = [each for each in values if objects.is_a(each, torch.nn.Module)]
    return [each for each in modules if has_parameters(each)]


def has_parameters(module: Any) -> bool:
    todo, seen = [module], 0
    while todo and seen < 200:
        each, seen = todo.pop(), seen + 1
        if any(value is not None for value in each.__dict__.get("_parameters", {}).values()):
            return True
        todo.extend(part for part in each.__dict__.get("_modules", {}).values() if part is not None)
    return False
