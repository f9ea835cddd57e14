"""Values in a rehearsal, whose tensors have none: what follows from constants alone (a causal mask, positions) is
computed when a forward asks for it, on the host; a model's own flag is read. What follows from the program's data
is not known: a question of yes or no is answered with yes, a figure that is no size with one, where something
stands (the largest of a row) with the first place, and of tokens that go to one of several experts each gets an even
share. The rehearsal then says so. Nothing is infinite or no number; and
where the function that asked raises an error thereupon (a check of what it was given), the answer is no the next time.
"""

from __future__ import annotations

import operator
import os
import sys
import weakref

from ..common import errors, frames
from ..common.instead import Instead
from . import apart, callers, shares
from .effects import Stopped
from .shares import Shares
from .sizes import PRIME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any, Callable, Tuple

    from ..common.protocols import Args, Kwargs, Tensor, Torch

    # A question, by where it is asked: a function's code, and the place in it.
    Place = Tuple[Any, int]

# What a turn of a loop keeps is much if it is so much of what is allocated.
KEPT = 0.01
# Elements of a tensor that is computed.
MOST_ELEMENTS = 1 << 20
# What makes a tensor of no other, of values that are known.
MAKING = frozenset(
    "arange full ones zeros eye linspace scalar_tensor tril_indices triu_indices lift_fresh_copy lift_fresh".split()
)
LIFTING = frozenset(("lift_fresh_copy", "lift_fresh"))
# And what makes one of another's sizes.
LIKE = {"zeros_like": 0, "new_zeros": 0, "ones_like": 1, "new_ones": 1}
# What depends on values for the size of what it returns.
BY_VALUE = frozenset("nonzero masked_select".split())
# What makes places of elements, which are no sizes, and what gives some of them on.
PLACES = frozenset("argmax argmin argsort topk sort multinomial randint randperm searchsorted bucketize".split())
GIVING = frozenset(
    "select slice view _unsafe_view squeeze unsqueeze permute transpose t expand alias detach clone _to_copy unbind"
    .split()
)
# What a guess is compared with its label by, and what is made of that: how many guesses are right is no size.
COMPARING = frozenset(("eq", "ne"))
OF_HITS = GIVING.union("sum add mul logical_and bitwise_and reshape".split())
# Counts how often each number comes: of as many as its last argument says, where none is larger.
BINS = "bincount"
# Questions whose answer is no in a training that goes well.
FAILURES = frozenset("isnan isinf isneginf isposinf".split())


# What is followed to know how many elements are not zero.
COUNTED = frozenset(("eq", "bincount", "histc")).union(
    shares.KEEPING, shares.GIVING, shares.SUMS, shares.ZEROS, shares.INTO_ZEROS
)


# Of all others something is noted only where something is known of what they are given.
ALWAYS_FOLLOWED = FAILURES.union(LIKE, PLACES, MAKING, ("eq", "bincount", "histc"), shares.ZEROS, shares.INTO_ZEROS)


class NotKnown(Exception):
    """A value follows from the program's data."""


class ManyTurns(Stopped):
    """A loop keeps memory in each turn, and values say how many it has."""


class Lazy:
    """A tensor by the operation that makes it; its value is computed once, where it is asked for."""

    __slots__ = ("func", "args", "kwargs", "value")

    def __init__(self, func: Any, args: Any, kwargs: Any) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.value: Any = None

    def get(self) -> Any:
        if self.value is None:
            self.value = self.func(*computed(self.args), **computed(self.kwargs))
            self.func = self.args = self.kwargs = None
        return self.value


def computed(value: Any) -> Any:
    if type(value) is Lazy:
        return value.get()
    if type(value) in (list, tuple):
        return type(value)(computed(each) for each in value)
    if type(value) is dict:
        return {key: computed(each) for key, each in value.items()}
    return value


def stretched(given: Tensor, at: int | None, shape: tuple[int, ...]) -> Any:
    """The numbers of a batch for a larger or smaller one: its samples again and again."""
    if at is None:
        return given
    times = -(-shape[at] // max(given.shape[at], 1))
    return given.repeat([times if place == at else 1 for place in range(given.dim())]).narrow(at, 0, shape[at])


def on_the_host(tensor: Any) -> Any:
    return tensor.detach().to("cpu")


class Values:
    """What is known of the values of one rehearsal's fakes."""

    def __init__(self, torch: Torch, allocated: Callable[[], int]) -> None:
        self.torch = torch
        self.torch_home = frames.home_of(torch)
        self.allocated = allocated
        # Questions that were answered with yes, and those to be answered with no.
        self.yes: list[Place] = []
        self.no: set[Place] = set()
        # Whether a line (a function's code, and its number) is what a loop asks; of those that have begun a turn, whose
        # it is and what was allocated by then.
        self.loops: dict[Place, bool] = {}
        self.turns: dict[Place, tuple[int, int]] = {}
        self.known: dict[int, tuple[Any, Lazy, int]] = {}
        # Fakes that have places of elements.
        self.places: dict[int, Any] = {}
        # Fakes that say, or count, where a guess (a place) is what the program's data says.
        self.hits: dict[int, Any] = {}
        # Of how many elements the places were asked for, each time; in how many parts they are by an earlier rehearsal.
        self.asked: list[int] = []
        self.shares: list[int] = []
        # Whether something was answered that is not known.
        self.assumes = False
        # Of what is not known how many are not zero.
        self.shares_of = Shares()

    def of(self, fake: Any) -> Lazy | None:
        found = self.known.get(id(fake))
        # `data` counts versions from zero again.
        if found is None or found[0]() is not fake or found[2] < fake._version:
            return None
        return found[1]

    def follow(self, func: Any, name: str, args: Args, kwargs: Kwargs, returned: Any) -> None:
        """Notes how what an operation has returned is computed, where that follows from what is known."""
        if name not in ALWAYS_FOLLOWED and not self.knows_of(args):
            return
        if name in COUNTED:
            known = [isinstance(each, self.torch.Tensor) and self.of(each) is not None for each in args[:2]]
            self.shares_of.follow(name, args, returned, known == [False, True])
        if name in FAILURES:
            shape = tuple(returned.shape)
            self.note(returned, Lazy(self.torch.zeros, (shape,), {"dtype": returned.dtype, "device": "cpu"}))
            return
        if name in LIKE and returned.numel() <= MOST_ELEMENTS:
            kwargs = {"dtype": returned.dtype, "device": "cpu"}
            self.note(returned, Lazy(self.torch.full, (tuple(returned.shape), LIKE[name]), kwargs))
            return
        if name in PLACES or self.places and name in GIVING and self.has_places(args[0]):
            self.note_places(returned)
        if self.places and self.compares(name, args) or self.hits and name in OF_HITS and self.are_hits(args[0]):
            self.hits[id(returned)] = weakref.ref(returned)
        if not args and not kwargs or not self.known and name not in MAKING:
            return
        made = returned if type(returned) in (list, tuple) else (returned,)
        if name in LIFTING and args and type(args[0]) is self.torch.Tensor:
            # Of a list of numbers, or an array (`torch.as_tensor(lengths)`).
            if args[0].numel() <= MOST_ELEMENTS:
                self.are(returned, args[0])
            return
        if name in MAKING and name not in LIFTING:
            kwargs = {**kwargs, "device": "cpu", "pin_memory": False}
        elif type(args[0] if args else None) is not list and (not args or self.of(args[0]) is None):
            return
        if func._schema.is_mutable or not made:
            # What is changed in place is another version of itself.
            self.known.pop(id(args[0]) if args else 0, None)
            return
        try:
            lazy_args, lazy_kwargs = self.lazily(args), self.lazily(kwargs)
        except NotKnown:
            return
        # Of what returns several it is computed once for all of them.
        whole = Lazy(func, lazy_args, lazy_kwargs)
        for place, each in enumerate(made):
            if isinstance(each, self.torch.Tensor) and each.numel() <= MOST_ELEMENTS:
                self.note(each, whole if made[0] is returned else Lazy(operator.getitem, (whole, place), {}))

    def knows_of(self, args: Args) -> bool:
        """Whether anything may be known of what an operator is given; most are given what nothing is known of."""
        if self.places or self.hits or self.shares_of.filled or self.shares_of.counts:
            return True
        return bool(args) and (type(args[0]) is list or id(args[0]) in self.known)

    def note_places(self, returned: Any) -> None:
        for each in returned if type(returned) in (list, tuple) else (returned,):
            if each.dtype in (self.torch.int64, self.torch.int32):
                self.places[id(each)] = weakref.ref(each)

    def has_places(self, fake: Any) -> bool:
        found = self.places.get(id(fake))
        return found is not None and found() is fake

    def compares(self, name: str, args: Args) -> bool:
        """Whether places are compared one by one. (With a number, or each with the numbers of all experts, they may be
        tokens'.)"""
        if name not in COMPARING or not all(isinstance(each, self.torch.Tensor) for each in args[:2]):
            return False
        return args[0].shape == args[1].shape and any(map(self.has_places, args[:2]))

    def are_hits(self, fake: Any) -> bool:
        found = self.hits.get(id(fake))
        return found is not None and found() is fake

    def note(self, fake: Any, lazy: Lazy) -> None:
        self.known[id(fake)] = weakref.ref(fake), lazy, fake._version

    def are(self, fake: Any, tensor: Any) -> None:
        """Those of a tensor of the program's, read if they are asked for."""
        self.note(fake, Lazy(on_the_host, (tensor,), {}))

    def lazily(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, self.torch.Tensor):
            lazy = self.of(value)
            if lazy is None:
                raise NotKnown
            return lazy
        if kind in (list, tuple):
            return kind(self.lazily(each) for each in value)
        if kind is dict:
            return {key: self.lazily(each) for key, each in value.items()}
        if kind is self.torch.device:
            return self.torch.device("cpu")
        return value

    def value(self, fake: Any, plainly: Any) -> Tensor:
        """Raises `NotKnown`; `plainly` enters a context in which no mode sees what is computed."""
        lazy = self.of(fake)
        if lazy is None:
            raise NotKnown
        try:
            with plainly(), self.torch.no_grad():
                found: Tensor = lazy.get()
                return found
        except Exception as error:
            errors.foreseen("compute a value")
            raise NotKnown from error

    def number(self, fake: Any, plainly: Any) -> Any:
        """What `item` says of a tensor of one element; raises `NotKnown` of a whole number that may be a size."""
        try:
            found = self.value(fake, plainly)
            with plainly():
                return found.item()
        except NotKnown:
            kind = str(fake.dtype)
            count = self.shares_of.counted(fake)
            if count is not None:
                self.assumes = True
                return count
            # A place, or how many guesses are right.
            is_place = self.has_places(fake) or self.are_hits(fake)
            if not ("bool" in kind or fake.dtype.is_floating_point or is_place):
                raise
            self.assumes = True
            if is_place:
                return 0
            return self.answered() if "bool" in kind else 1.0

    def counted(self, fake: Any, plainly: Any) -> Tensor:
        """The numbers of a tensor, on the host; raises `NotKnown`."""
        try:
            return self.value(fake, plainly)
        except NotKnown:
            counts = self.shares_of.listed(fake)
            if counts is None:
                raise
            self.assumes = True
            with plainly():
                made: Tensor = self.torch.tensor(counts, dtype=fake.dtype, device="cpu")
                return made

    def answered(self) -> bool:
        """The answer to a question of yes or no about what is not known."""
        frame = self.theirs(sys._getframe(1))
        if frame is None:
            return True
        place = frame.f_code, frame.f_lasti
        if place in self.no:
            return False
        if self.has_turned(frame):
            return False
        self.yes.append(place)
        return True

    def has_turned(self, frame: FrameType) -> bool:
        """Whether a loop asks that has had its turn: Python asks before the first and behind each, in two places of one
        line."""
        line = frame.f_code, frame.f_lineno
        if line not in self.loops:
            self.loops[line] = callers.is_asked_by_a_loop(*line)
        if not self.loops[line]:
            return False
        turn, now = self.turns.pop(line, None), self.allocated()
        if turn is None or turn[0] != id(frame):
            self.turns[line] = id(frame), now
            return False
        if now - turn[1] > KEPT * now:
            name = os.path.basename(frame.f_code.co_filename)
            raise ManyTurns("how often a loop runs depends on the values of tensors (%s:%d)" % (name, frame.f_lineno))
        return True

    def theirs(self, frame: FrameType | None) -> FrameType | None:
        """What runs of the program's, or of a library that is not torch."""
        while frame is not None and frame.f_code.co_filename.startswith((self.torch_home, *frames.OURS)):
            frame = frame.f_back
        return frame

    def asking(self, frame: FrameType | None) -> Place | None:
        """Where it asks."""
        asks = self.theirs(frame)
        return None if asks is None else (asks.f_code, asks.f_lasti)

    def answers_no(self, traceback: TracebackType | None) -> bool:
        """Whether an error was raised by a function that had been answered with yes, or one of ours was because of what
        it did: the last such answer is no from now on."""
        code = None
        while traceback is not None:
            if not traceback.tb_frame.f_code.co_filename.startswith(frames.OURS):
                code = traceback.tb_frame.f_code
            traceback = traceback.tb_next
        for place in reversed(self.yes):
            if place[0] is code and place not in self.no:
                self.no.add(place)
                return True
        return False

    def count(self, fake: Any, plainly: Any) -> int:
        """How many elements are not zero."""
        try:
            found = self.value(fake, plainly)
            with plainly():
                return int(found.count_nonzero().item())
        except NotKnown:
            self.assumes = True
            filled = self.shares_of.not_zero(fake)
            if filled is not None:
                return filled
            count, at = int(fake.numel()), len(self.asked)
            self.asked.append(count)
            # A share of what grows with the batch grows with it, too.
            times = PRIME if count % PRIME == 0 else 1
            return -(-count // times // (self.shares[at] if at < len(self.shares) else 1)) * times

    def parts(self) -> list[int]:
        """For each time how many times the places in so many elements were asked for: so many experts share them."""
        return [self.asked.count(each) for each in self.asked]


def bins_of(args: Args, kwargs: Kwargs) -> int:
    return int(kwargs["minlength"] if "minlength" in kwargs else args[2] if len(args) > 2 else 0)


def by(values: Values, kind: Any, plainly: Any) -> list[Instead]:
    """While they are there, lists and arrays are made of a rehearsal's fakes by what is known of them; element by
    element, as torch does it, a batch of lengths would take seconds."""

    def made_by(name: str) -> Instead:
        def make(original: Any) -> Any:
            def of_a_fake(self: Any, *args: Any, **kwargs: Any) -> Any:
                if not apart.here.is_in_one():
                    return original(self, *args, **kwargs)
                try:
                    found = values.counted(self, plainly)
                except NotKnown:
                    errors.foreseen("read a tensor")
                    return original(self, *args, **kwargs)
                with plainly():
                    return getattr(found, name)()

            return of_a_fake

        return Instead(kind, name, make)

    return [made_by("tolist"), made_by("numpy")]
