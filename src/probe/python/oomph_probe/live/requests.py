"""What the UI asks this process to do: on a key that its user pressed, to look for who keeps memory alive or to save
PyTorch's own snapshot; where it sees memory grow, to trace the next step, and where that is certainly a leak, to look
once who keeps it. Nothing is ever done without being asked.

Lines of JSON come back over the socket that the probe writes to; the sampler's thread reads them. A search waits
until the next optimizer step has ended: then only what stays is alive, and it is the training's thread that looks,
so that nothing changes meanwhile. Where no step ends (an evaluation, a data loader) the sampler's thread does it. One
that came to nothing because it had no time is made once more, with more.
"""

from __future__ import annotations

import json
import time
from _thread import allocate_lock

from ..common import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import RetainerSearch, SnapshotSaver, Torch, Wire
    from .allocator import Allocator
    from .growth import Growth
    from .steps import Steps
    from .tracing import Tracing

# Seconds until a search no longer waits for the end of a step.
PATIENCE = 5.0
# Bytes of one line; what is longer is no request.
LONGEST = 65536


class Requests:
    """What was asked for and has not been done."""

    def __init__(
        self,
        torch: Torch,
        wire: Wire,
        note: Callable[[str], None],
        allocator: Allocator,
        steps: Steps,
        growth: Growth,
        retainers: RetainerSearch,
        dump: SnapshotSaver,
        tracing: Tracing,
    ) -> None:
        self.torch = torch
        self.wire = wire
        self.note = note
        self.allocator = allocator
        self.steps = steps
        self.growth = growth
        self.retainers = retainers
        self.dump = dump
        self.tracing = tracing
        self.unread = b""
        # When a search was asked for; taken by whoever does it.
        self.asked_at: float | None = None
        # Whether that is the second one, after one that had no time.
        self.is_second = False
        self.lock = allocate_lock()

    def take(self, received: bytes) -> None:
        """Bytes from the UI, on the sampler's thread."""
        *lines, self.unread = (self.unread + received).split(b"\n")
        if len(self.unread) > LONGEST:
            self.unread = b""
        for line in lines:
            try:
                self.handle(json.loads(line.decode("utf-8")))
            except Exception:
                # Of a later UI.
                errors.foreseen("read a request")
                continue
        if self.asked_at is not None and time.monotonic() - self.asked_at >= PATIENCE:
            self.search(self.device())

    def handle(self, request: dict[str, Any]) -> None:
        kind = request["request"]
        if kind == "retainers":
            self.is_second = False
            self.ask()
        elif kind == "snapshot":
            self.dump.save_now(request["directory"])
        elif kind == "trace":
            self.tracing.hurry()

    def ask(self) -> None:
        """Has it looked for at the end of the next step."""
        self.asked_at = time.monotonic()
        self.steps.hurry()

    def is_waiting(self) -> bool:
        """Whether a search waits for the end of a step."""
        return self.asked_at is not None

    def step_ended(self, device: int) -> None:
        """After a step that is looked at, on the training's thread; cheap where nothing was asked."""
        if self.asked_at is not None:
            self.search(device)

    def search(self, device: int) -> None:
        with self.lock:
            asked, self.asked_at = self.asked_at, None
        if asked is not None:
            try:
                self.send_retainers(device)
            except Exception as error:
                errors.ours("look for who keeps memory alive")
                self.note("who keeps memory alive could not be looked for: %r" % error)
                return
            if self.retainers.was_too_short and not self.is_second:
                self.is_second = True
                self.ask()

    def send_retainers(self, device: int) -> None:
        segments = self.torch.cuda.memory._snapshot(device)["segments"]
        segments = [segment for segment in segments if segment.get("device", device) == device]
        line = self.retainers.take(device, segments)
        growing = self.growth.until_now(device, self.steps.count, segments)
        if growing:
            line["growing"] = growing
        self.wire.put(line, keep=True)

    def device(self) -> int:
        """The device that most memory is allocated on."""
        devices = range(len(self.allocator.devices()))
        return max(devices, key=lambda device: self.allocator.read(device).allocated)
