"""The line of the program that limits its memory, where it has reached a limit: searched for in the text of its own
files, once memory has run out, for a moment at the most: they may lie on a slow disk. Where there are several, or none,
or not all were read, nothing is said."""

from __future__ import annotations

import os
import sys
import time

from ..common import errors
from ..common.frames import OWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

    from ..common.frames import Owners
    from ..common.protocols import Line

CALL = "set_per_process_memory_fraction("
# Of larger files, and of more of them, nobody has written each line.
LARGEST, MOST = 1 << 20, 500
# Seconds, for all of them.
MOMENT = 0.1


def line(owners: Owners) -> Line | None:
    until = time.monotonic() + MOMENT
    found: list[Line] = []
    for path in files(owners):
        found += calls(path)
        if len(found) > 1 or time.monotonic() > until:
            return None
    return found[0] if found else None


def files(owners: Owners) -> list[str]:
    """The program's own, each once."""
    paths = []
    for module in list(sys.modules.values()):
        # A module may make its attributes when they are asked for.
        path = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(path, str) and path.endswith(".py") and path not in paths and owners.of(path) == OWN:
            paths.append(path)
    return paths[:MOST]


def calls(path: str) -> Iterable[Line]:
    try:
        if os.path.getsize(path) > LARGEST:
            return []
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        errors.foreseen("a file of the program")
        return []
    texts = text.splitlines() if CALL in text else []
    is_call = [CALL in text.split("#")[0] and not text.lstrip().startswith("def ") for text in texts]
    return [{"file": path, "line": at + 1, "function": ""} for at, found in enumerate(is_call) if found]
