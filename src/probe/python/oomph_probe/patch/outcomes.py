"""What became of each patch, and what a patch sees of its process: each is given this, and none knows the others."""

from __future__ import annotations

import collections

from ..common import calls, errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Line, Torch


class Outcomes:
    """What the patches of this process have said. Everything but `take` runs on the training's threads."""

    def __init__(self, torch: Torch, version: tuple[int, int], on_cpu: bool) -> None:
        self.torch = torch
        self.version = version
        # Whether patches may touch devices other than GPUs, for tests.
        self.on_cpu = on_cpu
        self.calls = calls.Calls(torch)
        self.said: dict[str, tuple[str, str]] = {}
        # What a patch measured of what it takes away.
        self.measured: dict[str, Line] = {}
        # What the current device's allocator says, once CUDA is initialised; its steps, as far as they were told.
        # Of live/allocator.py, which stands above.
        self.read: Callable[[], Any] | None = None
        self.steps = 0
        self.waiting: collections.deque[Any] = collections.deque()

    def attempt(self, name: str, act: Callable[..., Any], *arguments: Any) -> bool:
        """Runs one step of a patch; if it raises, the patch declines. False where it failed."""
        try:
            act(*arguments)
            return True
        except Exception as error:
            errors.foreseen("patch " + name)
            self.decline(name, in_words(error))
            return False

    def apply(self, name: str, words: str) -> None:
        """The patch is in force; `words` say what it changed."""
        self.say(name, "applied", words)

    def decline(self, name: str, words: str) -> None:
        """The patch changes nothing; `words` say why."""
        self.say(name, "declined", words)

    def say(self, name: str, outcome: str, words: str) -> None:
        if self.said.get(name) != (outcome, words):
            self.said[name] = (outcome, words)
            self.waiting.append((name, outcome, words))

    def measure(
        self, name: str, at: str, allocated: int | None, to_ram: int, time: tuple[int, int] | None = None
    ) -> None:
        """What it came to at the moment that the patch is for; told again where it has become more. `time`:
        microseconds of copies, and of a step with them."""
        known = self.measured.get(name, {})
        line: Line = {"at": at, "to_ram": max(to_ram, known.get("to_ram", 0))}
        if allocated is not None or "allocated" in known:
            line["allocated"] = max(allocated or 0, known.get("allocated", 0))
        if time is not None:
            line["time"] = {"copying": time[0], "step": time[1]}
        if line != known and name in self.said:
            self.measured[name] = line
            self.waiting.append((name,) + self.said[name])

    def take(self, pid: int) -> list[Line]:
        """The lines not taken yet; called on the sampler's thread."""
        lines = []
        while self.waiting:
            name, outcome, words = self.waiting.popleft()
            line: Line = {"event": "patch", "pid": pid, "patch": name, "outcome": outcome, "words": words}
            if name in self.measured:
                line["relief"] = self.measured[name]
            lines.append(line)
        return lines

    def send_again(self) -> None:
        """Queues every line again, for a new connection."""
        self.waiting.clear()
        self.waiting.extend((name,) + said for name, said in list(self.said.items()))


def in_words(error: BaseException) -> str:
    return "%s: %s" % (type(error).__name__, error)
