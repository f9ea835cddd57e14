"""Readings of PyTorch's caching allocator. Only memory of this process is read: nothing here makes a
CUDA call that could create a context, and nothing resets a peak.
"""

from __future__ import annotations

from ..common import errors
from . import gathered, stack_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..common.protocols import Line, Stats, Torch
    from .stack_policy import Usage

# `_cuda_memoryStats` keeps the GIL while it waits for the allocator's mutex; an allocator written in
# Python needs the GIL while it has that mutex. So only torch's own backends are read.
READABLE = (None, "native", "cudaMallocAsync")


def backend(torch: Torch) -> str | None:
    """The backend's name, or None where torch cannot tell (before 1.13)."""
    try:
        return str(torch.cuda.memory.get_allocator_backend())
    except Exception:
        errors.foreseen("name of the allocator")
        return None


def reason_not_to_read(name: str | None) -> str | None:
    """Why an allocator of this name is not read, or None."""
    if name in READABLE:
        return None
    return "the program uses its own allocator (%s)" % name


def settings(torch: Torch) -> Line:
    """The settings in force, as the allocator reports them; `{}` where this torch does not."""
    try:
        read = torch.cuda.memory._snapshot()["allocator_settings"]
        said: Line = {"alloc_conf": str(read["PYTORCH_CUDA_ALLOC_CONF"])}
        said["expandable_segments"] = bool(read["expandable_segments"])
        return said
    except Exception:
        errors.foreseen("the allocator's settings")
        return {}


def small_pool(stats: Stats) -> Line:
    """The pool of blocks up to 1 MiB; the remainder is the large pool. `{}` where torch has no such figures."""
    try:
        return {
            "small_pool": {
                field: stats[key]["small_pool"]["current"]
                for field, key in (
                    ("allocated", "allocated_bytes"),
                    ("reserved", "reserved_bytes"),
                    ("inactive_split", "inactive_split_bytes"),
                    ("segments", "segment"),
                )
            }
        }
    except KeyError:
        return {}


class Reading:
    """The allocator of one device at one moment; None where this torch has no such figure."""

    __slots__ = ("allocated", "reserved", "peak", "reserved_peak", "allocations", "blocks", "other")

    def __init__(self, stats: Stats, native: bool) -> None:
        allocated = stats["allocated_bytes"]["all"]
        reserved = stats["reserved_bytes"]["all"]
        self.allocated = allocated["current"]
        self.reserved = reserved["current"]
        self.peak = allocated["peak"]
        self.reserved_peak = reserved["peak"]
        allocations = stats.get("allocation", {}).get("all", {})
        self.allocations = allocations.get("allocated", 0)
        self.blocks = allocations.get("current", 0)
        self.other = {
            "alloc_retries": stats.get("num_alloc_retries", 0),
            "ooms": stats.get("num_ooms", 0),
        }
        # cudaMallocAsync leaves these at zero, which would be wrong.
        if native:
            for field, key in (
                ("active", "active_bytes"),
                ("inactive_split", "inactive_split_bytes"),
                ("requested", "requested_bytes"),
                ("segments", "segment"),
            ):
                if key in stats:
                    self.other[field] = stats[key]["all"]["current"]
            self.other.update(small_pool(stats))

    def edge(self) -> Line:
        """The reading at the start or the end of an optimizer step."""
        return {"allocated": self.allocated, "reserved": self.reserved, "peak": self.peak}


class Allocator:
    """The allocators of this process's devices, with peaks that the program cannot reset."""

    def __init__(self, torch: Torch, name: str | None) -> None:
        self.torch = torch
        # What FSDP has gathered.
        self.gathered = gathered.Gathered()
        self.backend = name
        # Why it is not read, or None.
        self.resting = reason_not_to_read(name)
        self.native = name != "cudaMallocAsync"
        self.stats = torch._C._cuda_memoryStats
        self.peaks: dict[int, tuple[int, int]] = {}
        self.known: list[Line] | None = None

    def read(self, device: int) -> Reading:
        """A reading of one device, which also updates our peaks (14 us)."""
        reading = Reading(self.stats(device), self.native)
        allocated, reserved = self.peaks.get(device, (0, 0))
        if reading.peak > allocated or reading.reserved_peak > reserved:
            # The program may reset torch's peaks, but not these.
            self.peaks[device] = (
                max(allocated, reading.peak),
                max(reserved, reading.reserved_peak),
            )
        return reading

    def usage(self, device: int, reading: Reading, limit: int | None) -> Usage:
        """A reading in the form that the stack policy needs."""
        bound = self.devices()[device]["total"] if limit is None else limit
        largest = self.peaks.get(device, (0, 0))[1]
        return stack_policy.Usage(reading.allocated, largest, bound, reading.allocations)

    def sample(self, pid: int, device: int, reading: Reading, limit: int | None, is_exact: bool = False) -> Line:
        """A reading as a line of the wire. `is_exact`: what FSDP has gathered now, not the most of the last seconds."""
        allocated_peak, reserved_peak = self.peaks.get(device, (0, 0))
        line = {
            "event": "sample",
            "pid": pid,
            "device": device,
            "allocated": reading.allocated,
            "reserved": reading.reserved,
            "allocated_peak": allocated_peak,
            "reserved_peak": reserved_peak,
        }
        line.update(reading.other)
        if limit is not None:
            line["limit"] = limit
        gathered = self.gathered.now(device) if is_exact else self.gathered.lately(device)
        if gathered is not None:
            line["gathered"] = gathered
        return line

    def devices(self) -> list[Line]:
        """The devices by CUDA ordinal. Call only after CUDA was initialised."""
        if self.known is None:
            self.known = [self.describe(n) for n in range(self.torch.cuda.device_count())]
        return self.known

    def describe(self, ordinal: int) -> Line:
        properties = self.torch.cuda.get_device_properties(ordinal)
        device = {
            "ordinal": ordinal,
            "name": str(properties.name),
            "total": int(properties.total_memory),
        }
        uuid = getattr(properties, "uuid", None)
        if uuid is not None:
            text = str(uuid)
            device["uuid"] = text[4:] if text.startswith("GPU-") else text
        return device

    def limit(self, device: int) -> int | None:
        """The cap that the program or the environment set, where torch reports it (2.7)."""
        try:
            fraction = self.torch.cuda.memory.get_per_process_memory_fraction(device)
            if fraction < 1.0:
                return int(fraction * self.devices()[device]["total"])
        except Exception:
            errors.foreseen("cap of a device")
        return None
