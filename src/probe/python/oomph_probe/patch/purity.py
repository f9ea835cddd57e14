"""Whether a module's forward can be run a second time without side effects: compares the state before
and after one ordinary run. Does not depend on why that is asked.
"""

from __future__ import annotations

import random
import sys

from ..common import blocks, errors, members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Args, Kwargs, Module, Tensor, Torch

PLAIN = (bool, int, float, complex, str, bytes, type(None))


class StateCheck:
    """The state around a block at the time this was created."""

    def __init__(self, torch: Torch, block: Module, args: Args, kwargs: Kwargs) -> None:
        self.torch = torch
        self.block = block
        self.tensors = tensors_of(torch, args, kwargs)
        self.versions = [version(tensor) for tensor in self.tensors]
        self.parts = [(part, state_of(part)) for part in members.modules(block)]
        self.draws = Draws()

    def what_changed(self) -> str | None:
        """What one run changed that a second would change again, in words, or None."""
        for tensor, before in zip(self.tensors, self.versions):
            if version(tensor) != before:
                return "they change their input in place"
        for part, state in self.parts:
            # Module dicts (parameters, buffers) are compared by content, everything else as it is.
            if blocks.is_statistics(part):
                continue
            now = state_of(part)
            if now.keys() != state.keys():
                return "%s keeps state between calls" % type(part).__name__
            for name, value in state.items():
                if not same(now[name], value):
                    return "%s keeps %s between calls" % (type(part).__name__, name)
        return None

    def has_drawn(self) -> bool:
        """Whether the run drew random numbers from a generator that torch does not track."""
        return not self.draws.is_now()


def state_of(module: Module) -> dict[str, Any]:
    """The attributes of a module, in a form in which a change is visible."""
    state: dict[str, Any] = {}
    for name, value in vars(module).items():
        if name in ("_parameters", "_buffers"):
            for inner, tensor in value.items():
                state[name + "." + inner] = (id(tensor), None if tensor is None else version(tensor))
        elif name == "_modules":
            state[name] = tuple(id(child) for child in value.values())
        elif isinstance(value, (list, dict, set)):
            state[name] = (id(value), len(value))
        elif isinstance(value, PLAIN):
            state[name] = (value,)
        else:
            state[name] = (id(value), version(value))
    return state


def same(now: Any, before: Any) -> bool:
    try:
        return bool(now == before) or now != now
    except Exception:
        errors.foreseen("compare values")
        return False


def version(value: Any) -> int | None:
    """The tensor's in-place version counter; None for anything else, and where there is none."""
    try:
        return value._version
    except Exception:
        errors.foreseen("version of a tensor")
        return None


def tensors_of(torch: Torch, args: Args, kwargs: Kwargs) -> list[Tensor]:
    """The tensors in arguments that can change only by a change of a tensor, in order."""
    found: list[Any] = []
    for value in list(args) + list(kwargs.values()):
        walk(torch, value, found)
    return found


def walk(torch: Torch, value: Any, found: list[Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, tuple):
        for inner in value:
            walk(torch, inner, found)


def unsupported_argument(torch: Torch, args: Args, kwargs: Kwargs, kinds: tuple[type, ...] = ()) -> str | None:
    """The type of an argument that a run may modify or keep, or None. `kinds`: other types whose instances count as
    plain tensors."""
    constants = tuple(
        kind
        for kind in (getattr(torch, name, None) for name in ("dtype", "device", "layout"))
        if isinstance(kind, type)
    )
    tensors = (torch.Tensor, torch.nn.Parameter, *kinds)
    for value in list(args) + list(kwargs.values()):
        kind = unsupported_kind(torch, value, constants, tensors)
        if kind:
            return kind
    return None


def unsupported_kind(
    torch: Torch, value: Any, constants: tuple[type, ...], tensors: tuple[type, ...]
) -> str | None:
    if isinstance(value, PLAIN + constants):
        return None
    if isinstance(value, torch.Tensor):
        return None if type(value) in tensors else type(value).__name__
    if isinstance(value, tuple):
        for inner in value:
            kind = unsupported_kind(torch, inner, constants, tensors)
            if kind:
                return kind
        return None
    return type(value).__name__


class Draws:
    """The state of Python's and numpy's random generators; torch's own are saved by its checkpoint."""

    def __init__(self) -> None:
        self.python = random.getstate()
        # Only if the program imported it: nothing is imported here.
        self.numpy: Any = getattr(sys.modules.get("numpy"), "random", None)
        self.of_numpy = None if self.numpy is None else self.numpy.get_state()

    def is_now(self) -> bool:
        now = Draws()
        if now.python != self.python:
            return False
        if self.of_numpy is None or now.of_numpy is None:
            return self.of_numpy is None and now.of_numpy is None
        return now.of_numpy[2:] == self.of_numpy[2:] and bool(
            (now.of_numpy[1] == self.of_numpy[1]).all()
        )

    def restore(self) -> None:
        random.setstate(self.python)
        if self.of_numpy is not None:
            self.numpy.set_state(self.of_numpy)


class Rerun:
    """Wraps a second run: it draws the same random numbers, and the generators then continue from where
    they were; it updates copies of running statistics, which are discarded."""

    def __init__(self, draws: Draws | None, statistics: list[Module]) -> None:
        self.draws = draws
        self.statistics = statistics

    def __enter__(self) -> None:
        self.later = None
        if self.draws is not None:
            self.later = Draws()
            self.draws.restore()
        self.kept = []
        for part in self.statistics:
            buffers = part._buffers
            for name, buffer in list(buffers.items()):
                if buffer is not None:
                    self.kept.append((buffers, name, buffer))
                    buffers[name] = buffer.detach().clone()

    def __exit__(self, *error: Any) -> None:
        for buffers, name, buffer in self.kept:
            buffers[name] = buffer
        if self.later is not None:
            self.later.restore()
