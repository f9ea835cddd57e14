"""An evaluation of transformers' Trainer that moves its outputs to RAM every few batches, where it would have kept
those of all batches on the GPU until it ends.

That is Trainer's own `eval_accumulation_steps`, set for the time of an evaluation and put back after it: arguments that
the program saves or prints are its own. Where it is typed already, the smaller one counts. What is gathered, its order
and its values stay: at the end Trainer moves all of it to RAM in any case.
"""

from __future__ import annotations

import functools
import sys

from ..common import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .outcomes import Outcomes

NAME = "eval_outputs"
# What has to be imported, and is patched then (hook.py waits for it).
LIBRARY = "transformers.trainer"
# Both loops have the argument since transformers 4.0; the second one is gone since 5.0.
LOOPS = ("evaluation_loop", "prediction_loop")
ARGUMENT = "eval_accumulation_steps"


class OutputsToRam:
    """The patch of this process."""

    nothing_found = "transformers' Trainer was not imported in this process"

    def __init__(self, outcomes: Outcomes, value: str) -> None:
        self.outcomes = outcomes
        self.steps = int(value)
        if self.steps < 1:
            raise ValueError("%s is no number of batches" % value)

    def install(self) -> None:
        module = sys.modules.get(LIBRARY)
        if module is not None and hasattr(module, "Trainer"):
            self.imported(module)

    def imported(self, module: Any) -> None:
        """Trainer's file was imported."""
        cls = module.Trainer
        loops = [name for name in LOOPS if name in vars(cls)]
        if not loops:
            return self.outcomes.decline(NAME, "this version of transformers evaluates in another way")
        for name in loops:
            setattr(cls, name, self.wrapped(getattr(cls, name)))
        every = "each batch" if self.steps == 1 else "every %d batches" % self.steps
        self.outcomes.apply(NAME, "Trainer's evaluations move their outputs to RAM after %s" % every)

    def wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        lower, put_back, peak, measure = self.lower, self.put_back, self.peak, self.measure

        @functools.wraps(original)
        def loop(self: Any, *args: Any, **kwargs: Any) -> Any:
            before, most = lower(self), peak()
            try:
                result = original(self, *args, **kwargs)
            finally:
                put_back(self, before)
            measure(most, result)
            return result

        return loop

    def peak(self) -> int | None:
        """The most that was allocated so far."""
        try:
            return self.outcomes.read().peak if self.outcomes.read is not None else None
        except Exception:
            errors.foreseen("read a peak")
            return None

    def measure(self, before: int | None, result: Any) -> None:
        """What an evaluation came to on the GPU, where that is more than all before it, and its outputs in RAM."""
        try:
            most = self.peak()
            is_its_own = most is not None and before is not None and most > before
            outputs = [getattr(result, name, None) for name in ("predictions", "label_ids")]
            self.outcomes.measure(NAME, "evaluation", most if is_its_own else None, bytes_of(outputs))
        except Exception:
            errors.foreseen("measure an evaluation")

    def lower(self, trainer: Any) -> tuple[Any] | None:
        """Sets the argument; what it was before, or None where it stays."""
        try:
            settings = vars(trainer.args)
            typed = settings[ARGUMENT]
            if typed is not None and typed <= self.steps:
                return None
            # As it is stored: newer arguments refuse to be set once they are in use.
            settings[ARGUMENT] = self.steps
            return (typed,)
        except BaseException:
            errors.refused("lower " + ARGUMENT)
            return None

    def put_back(self, trainer: Any, before: tuple[Any] | None) -> None:
        try:
            settings = vars(trainer.args)
            if before is not None and settings[ARGUMENT] == self.steps:
                settings[ARGUMENT] = before[0]
        except BaseException:
            errors.refused("put back " + ARGUMENT)


def bytes_of(outputs: Any) -> int:
    """Of arrays in the containers that Trainer returns."""
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if isinstance(outputs, (list, tuple)):
        return sum(bytes_of(each) for each in outputs)
    return int(getattr(outputs, "nbytes", 0))
