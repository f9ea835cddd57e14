"""What the allocator of each device holds, as lines of the wire: what changed, and now and then what did not."""

from __future__ import annotations

import collections
import time

from ..common import errors
from .doing import AtPeaks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Line, Torch, Wire
    from .allocator import Allocator, Reading

# An unchanged reading is still sent this often (seconds), to show that the process is alive; and how often the
# program's cap is read.
KEEP_ALIVE = 1.0
# A device that this process does not use is read ever more rarely, down to this.
FIRST_LOOK, IDLE_LOOK = 0.1, 1.0
# Readings that wait for the step that sends them.
MOST_WAITING = 64


class Readings:
    """The devices of one process."""

    def __init__(self, torch: Torch, pid: int, allocator: Allocator) -> None:
        self.torch = torch
        self.pid = pid
        self.allocator = allocator
        # By device: when its last line was sent, and the line.
        self.last: dict[Any, Any] = {}
        self.looked: dict[Any, Any] = {}
        # The cap, and when it was read.
        self.limits: dict[Any, Any] = {}
        self.limited: dict[Any, Any] = {}
        # For the stack policy.
        self.usages: dict[Any, Any] = {}
        self.at_peaks = AtPeaks()
        # What of it was told.
        self.activities: dict[int, str | None] = {}
        self.waiting: collections.deque[Any] = collections.deque(maxlen=MOST_WAITING)

    def forget(self) -> None:
        """A new connection knows nothing yet."""
        self.last.clear()
        self.activities.clear()
        self.looked.clear()

    def gather(self, wire: Wire, at_end: bool) -> None:
        """Reads every device and queues its line, where there is anything new."""
        now = time.monotonic()
        for device in range(len(self.allocator.devices())):
            self.gather_device(wire, device, now, at_end)

    def gather_device(self, wire: Wire, device: int, now: float, at_end: bool) -> None:
        sent, last_line = self.last.get(device, (0.0, None))
        looked, pause = self.looked.get(device, (0.0, 0.0))
        if last_line is None and now - looked < pause and not at_end:
            return
        self.looked[device] = now, min(max(2 * pause, FIRST_LOOK), IDLE_LOOK)
        reading = self.allocator.read(device)
        if last_line is None and not (reading.reserved or reading.peak):
            return
        is_due = now - sent >= KEEP_ALIVE
        if now - self.limited.get(device, 0.0) >= KEEP_ALIVE:
            self.limits[device], self.limited[device] = self.allocator.limit(device), now
        self.usages[device] = self.allocator.usage(device, reading, self.limits.get(device))
        line = self.line_of(device, reading)
        if is_due or line != last_line:
            wire.put(line)
            self.last[device] = (now, line)
            self.put_activity(wire, device)
            if wire.reads_devices:
                self.gather_device_memory(wire, device)

    def line_of(self, device: int, reading: Reading) -> Line:
        self.at_peaks.look(device, reading.allocated)
        return self.allocator.sample(self.pid, device, reading, self.limits.get(device))

    def put_activity(self, wire: Wire, device: int) -> None:
        """What the program did at the highest reading, where that has changed."""
        doing = self.at_peaks.known.get(device)
        if doing != self.activities.get(device):
            self.activities[device] = doing
            line = {"event": "peak_activity", "pid": self.pid, "device": device}
            wire.put(line if doing is None else dict(line, doing=doing))

    def gather_device_memory(self, wire: Wire, device: int) -> None:
        """The whole device, of which NVML on the UI's node sees nothing."""
        try:
            free, total = self.torch.cuda.mem_get_info(device)
        except Exception:
            errors.foreseen("memory of a device")
            return
        wire.put({"event": "device_memory", "device": device, "free": free, "total": total})

    def look(self) -> None:
        """Reads the devices in use, within a step, and leaves the lines to whoever sends next."""
        for device in list(self.last):
            ns = time.monotonic_ns()
            reading = self.allocator.read(device)
            self.usages[device] = self.allocator.usage(device, reading, self.limits.get(device))
            self.waiting.append((ns, device, self.line_of(device, reading)))

    def put_waiting(self, wire: Wire) -> None:
        """Queues the lines of what was read within steps."""
        while self.waiting:
            ns, device, line = self.waiting.popleft()
            if line != self.last.get(device, (0.0, line))[1]:
                wire.put(line, ns)
                self.last[device] = (ns / 1e9, line)
