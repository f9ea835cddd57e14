"""Nothing is compiled by a rehearsal: a function or module that the program has compiled runs as it is written there,
and torch.compile, its caches and what it knows of sizes stay as they were.

torch.compile takes up the frames that a thread begins while a callback is set there; a compiled function sets it when
it is called. On a rehearsal's thread that leaves the frames to Python instead; other threads see no difference.
"""

from __future__ import annotations

import sys

from ..common import errors
from ..common.instead import Instead
from . import apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Where torch's compiler has it.
PLACE = "torch._dynamo.eval_frame"
# What a compiled function calls to have its frames taken up, by torch's version.
NAMES = ("_maybe_set_eval_frame", "set_eval_frame")
# The function or method that was compiled, on what torch.compile made of it.
ORIGINAL = "_torchdynamo_orig_callable"
WRAPPER = "OptimizedModule"
# Where a module that was compiled in place keeps what it calls instead of its forward.
IN_PLACE = "_compiled_call_impl"


def setting_of(place: Any) -> str:
    """The name of that function in the module where torch's compiler has it."""
    return next((each for each in NAMES if hasattr(place, each)), NAMES[0])


def left() -> Instead:
    """While it is there, rehearsals leave compiled functions uncompiled."""

    def leaving(original: Any) -> Any:
        return lambda callback: original(None if apart.here.is_in_one() else callback)

    place = sys.modules.get(PLACE)
    return Instead(place, setting_of(place), leaving)


def is_imported() -> bool:
    return PLACE in sys.modules


def is_wrapper(value: Any) -> bool:
    """Whether it is what torch.compile returns for a module; of another class where `fully_shard` has taken it over."""
    return any(base.__name__ == WRAPPER for base in type(value).__mro__)


def is_compiled(module: Any) -> bool:
    """Whether a module is called by what torch.compile has made of it."""
    return is_wrapper(module) or getattr(module, "__dict__", {}).get(IN_PLACE) is not None


def as_written(value: Any) -> Any:
    """What was compiled, of a module or function that torch.compile has returned; else the value itself."""
    try:
        if is_wrapper(value):
            inner = value.__dict__.get("_modules", {}).get("_orig_mod")
            return value if inner is None else inner
        # On a module it is a method of the inner one's.
        original = getattr(value, "__dict__", {}).get(ORIGINAL)
        return value if original is None or not callable(original) else original
    except Exception:
        errors.foreseen("what was compiled")
        return value
