"""What the probe asks of others, for the type checker: torch as far as it is used, and the way to the UI. There is
nothing here to import when a program runs.
"""
from typing import Any, Dict, Iterator, List, Mapping, Optional, Protocol, Tuple

# A line of the wire: its fields.
Line = Dict[str, Any]
# Of the allocator's snapshot.
Segments = List[Dict[str, Any]]
# The allocator's counters, by name and pool.
Stats = Mapping[str, Any]
# Of a call.
Args = Tuple[Any, ...]
Kwargs = Dict[str, Any]

class Wire(Protocol):
    """The way to the UI: a socket, or a file on another node."""

    # Whether this node's devices are to be read, which the UI cannot see.
    reads_devices: bool
    # Whether a step's end may send.
    sends_at_steps: bool
    # Whether more than readings is queued, which may wait for each other.
    is_urgent: bool
    connections: int
    writer: Optional[int]

    def put(self, line: Line, ns: Optional[int] = None, keep: bool = False) -> None: ...
    def is_connected(self) -> bool: ...
    def pause(self, interval: float, /) -> float: ...
    def receive(self) -> bytes: ...
    def flush(self, timeout: float, although_stalled: bool = False) -> bool: ...
    def flush_at_once(self) -> None: ...
    def end(self) -> None: ...
    def abandon(self) -> None: ...

class Settings(Protocol):
    """What the environment said when torch was imported."""

    socket: str
    # Seconds.
    interval: float
    flush_at_exit: float
    # The step that is rehearsed though memory does not run out; 0 for none.
    rehearsed_step: int
    rehearses: bool

class Lifetime(Protocol):
    """Whether the probe is at work in this process."""

    # For good no more in a forked child.
    live: bool

class ModuleWrapper(Protocol):
    """What notes the model's calls in the first steps."""

    def sees_modules(self) -> bool: ...

class StepRehearsal(Protocol):
    """What rehearses steps that got through."""

    # The step that is to be rehearsed; 0 for none.
    asked_for: int

    def step_ended(self, count: int) -> None: ...

class RetainerSearch(Protocol):
    """What looks for who keeps memory alive."""

    was_too_short: bool

    def take(self, device: int, segments: Segments) -> Line: ...

class SnapshotSaver(Protocol):
    """What saves PyTorch's own snapshot."""

    def save_now(self, directory: str) -> None: ...

class Device(Protocol):
    type: str
    index: int

class Storage(Protocol):
    _cdata: int

    def nbytes(self) -> int: ...

class Tensor(Protocol):
    """`torch.Tensor`, as far as it is looked at."""

    dtype: Any
    device: Device
    shape: Any
    grad: Any
    grad_fn: Any
    is_cuda: bool
    requires_grad: bool

    def numel(self) -> int: ...
    def element_size(self) -> int: ...
    def data_ptr(self) -> int: ...
    def dim(self) -> int: ...
    def __getattr__(self, name: str) -> Any: ...

class Module(Protocol):
    """`torch.nn.Module`."""

    training: bool

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def modules(self) -> Iterator[Module]: ...
    def children(self) -> Iterator[Module]: ...
    def parameters(self, recurse: bool = True) -> Iterator[Tensor]: ...
    def named_modules(self) -> Iterator[Tuple[str, Module]]: ...
    def __getattr__(self, name: str) -> Any: ...

class Optimizer(Protocol):
    """`torch.optim.Optimizer`."""

    param_groups: List[Dict[str, Any]]
    state: Dict[Any, Any]

class Cuda(Protocol):
    """`torch.cuda`."""

    memory: Any

    def is_initialized(self) -> bool: ...
    def current_device(self) -> int: ...
    def device_count(self) -> int: ...
    def mem_get_info(self, device: int) -> Tuple[int, int]: ...
    def get_device_capability(self) -> Tuple[int, int]: ...
    def __getattr__(self, name: str) -> Any: ...

class Torch(Protocol):
    """The module `torch`, of whatever version the program has."""

    __version__: str
    Tensor: Any
    nn: Any
    _C: Any
    cuda: Cuda

    def is_grad_enabled(self) -> bool: ...
    def __getattr__(self, name: str) -> Any: ...
