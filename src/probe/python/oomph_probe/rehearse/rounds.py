"""The model calls of one round of a training's loop, in order: a GAN's step calls two models, a siamese network's
one model twice, and what an earlier one keeps for its backward grows with the batch like the rest.

A round begins where a place calls a model again after a backward has ended since it did, and behind an out-of-memory:
what comes then is another attempt.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .roots import Call

# Calls of one round, and places whose first call is known.
MOST_CALLS = 64


class Rounds:
    """Those of one process."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        # Backwards that have ended.
        self.backwards = 0
        # The first call of each place: what is there by then is there in every step.
        self.firsts: dict[Any, Call] = {}

    def add(self, call: Call) -> None:
        """Notes one; its callers are known."""
        place = call.place()
        call.backwards = self.backwards
        again = any(each.place() == place and each.backwards < self.backwards for each in self.calls)
        is_over = any(each.module() is None for each in self.calls)
        if again or is_over or len(self.calls) >= MOST_CALLS:
            self.calls = []
        self.calls.append(call)
        if place in self.firsts or len(self.firsts) < MOST_CALLS:
            first = self.firsts.get(place)
            # Another model may be called there, after the one that was is gone.
            if first is None or first.module() is not call.module():
                first = self.firsts[place] = call
            call.first = first

    def end(self) -> None:
        """Memory ran out in it."""
        self.calls = []

    def is_repeated(self, call: Call) -> bool:
        """Whether its lines have called the model before in this round: a loop over frames or segments with one
        backward behind it, of which nobody knows how often it goes on."""
        return any(each is not call and each.place() == call.place() for each in self.calls) and call in self.calls

    def first_of(self, call: Call) -> Call | None:
        """The call that a call's round began with; None where it is itself that."""
        first = self.calls[0] if call in self.calls else call
        return None if first is call else first
