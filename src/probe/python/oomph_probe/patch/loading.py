"""`torch.load` to the CPU, for checkpoints whose tensors are handed to `load_state_dict`, which copies them to where
the model is: beside the model no second copy lies on the GPU.

Only where the program leaves the place open (no `map_location`), where one of the nearest callers names
`load_state_dict`, and where the file says by its own list of names that it holds nothing but tensors in plain
containers: then nothing of what is loaded can ask for its place. The file is looked into without running anything of
it; `weights_only`, `mmap` and all else stay as they were given.
"""

from __future__ import annotations

import functools
import os
import pickletools
import sys
import zipfile

from ..common import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable

    from .outcomes import Outcomes

NAME = "load"
HANDS_OVER = "load_state_dict"
# Callers outwards that may name it: a function that loads, and the one that has asked it to.
CALLERS = 3
# A larger list of names is not of tensors; nothing is read for longer than it takes to read this.
LARGEST_LIST = 64 << 20
# Of a checkpoint's items no more are added up.
MOST_ITEMS = 200_000
# What containers of tensors are made of (torch/_utils.py, and numpy's scalars and arrays), by module.
PLAIN = {
    "collections": ("OrderedDict", "defaultdict"),
    "torch": ("Size", "device"),
    "torch.serialization": ("_get_layout",),
    "torch.torch_version": ("TorchVersion",),
    "numpy": ("dtype", "ndarray"),
    "numpy.core.multiarray": ("scalar", "_reconstruct"),
    "numpy._core.multiarray": ("scalar", "_reconstruct"),
    "_codecs": ("encode",),
    "argparse": ("Namespace",),
    "pathlib": ("PosixPath", "Path", "PurePosixPath"),
    "builtins": ("set", "frozenset", "complex", "bytearray", "slice"),
}
REBUILDS = ("_rebuild_tensor", "_rebuild_parameter")


class LoadToCpu:
    """The patch of this process."""

    nothing_found = "torch.load was not called yet, or only where this leaves it alone"

    def __init__(self, outcomes: Outcomes, value: str) -> None:
        if value != "cpu":
            raise ValueError("torch.load is only sent to the cpu")
        self.outcomes = outcomes
        self.count = 0

    def install(self) -> None:
        serialization: Any = sys.modules["torch.serialization"]
        original = serialization.load
        ours = self.wrapped(original)
        for module in (serialization, self.outcomes.torch):
            if getattr(module, "load", None) is original:
                setattr(module, "load", ours)

    def wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        is_to_cpu, measure = self.is_to_cpu, self.measure

        @functools.wraps(original)
        def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
            if not is_to_cpu(f, map_location, sys._getframe(1)):
                return original(f, map_location, *args, **kwargs)
            loaded = original(f, "cpu", *args, **kwargs)
            measure(loaded)
            return loaded

        return load

    def measure(self, loaded: Any) -> None:
        """What was on the GPU while the checkpoint was loaded, and what of it is in RAM. Of calls behind the first
        steps only those count that have none before: memory ran out in another one."""
        outcomes = self.outcomes
        try:
            if outcomes.steps and NAME in outcomes.measured:
                return
            allocated = outcomes.read().allocated if outcomes.read is not None else None
            outcomes.measure(NAME, "loading", allocated, bytes_in_ram(outcomes.torch, loaded))
        except Exception:
            errors.foreseen("measure a checkpoint")

    def is_to_cpu(self, f: Any, map_location: Any, caller: FrameType) -> bool:
        try:
            left = why_not(f, map_location, caller)
            if left is None:
                self.count += 1
                calls = "1 call" if self.count == 1 else "%d calls" % self.count
                self.outcomes.apply(NAME, "map_location=cpu in %s of torch.load" % calls)
            elif self.count == 0:
                self.outcomes.decline(NAME, left)
            return left is None
        except BaseException:
            errors.refused("look at a checkpoint")
            return False


def bytes_in_ram(torch: Any, loaded: Any) -> int:
    """The storages of all tensors in plain containers, each once."""
    storages: dict[int, int] = {}
    left = [loaded]
    for _ in range(MOST_ITEMS):
        if not left:
            break
        item = left.pop()
        if isinstance(item, torch.Tensor):
            if item.device.type == "cpu" and str(getattr(item, "layout", "torch.strided")) == "torch.strided":
                storage = item.untyped_storage()
                storages[storage.data_ptr()] = storage.nbytes()
        elif isinstance(item, dict):
            left.extend(item.values())
        elif isinstance(item, (list, tuple)):
            left.extend(item)
    return sum(storages.values())


def why_not(f: Any, map_location: Any, caller: FrameType | None) -> str | None:
    """Why a call of torch.load is left alone, or None."""
    if map_location is not None:
        return "the program itself says where to load to (map_location)"
    if not hands_over(caller):
        return "its caller hands nothing to load_state_dict, which would copy it to the GPU"
    if not isinstance(f, (str, os.PathLike)):
        return "it does not load from a path"
    other = not_plain(f)
    return None if other is None else "the file holds more than tensors in plain containers: %s" % other


def hands_over(frame: FrameType | None) -> bool:
    for _ in range(CALLERS):
        if frame is None:
            return False
        if any(HANDS_OVER in name for name in frame.f_code.co_names):
            return True
        frame = frame.f_back
    return False


def not_plain(path: Any) -> str | None:
    """What in a checkpoint is more than tensors in containers, by its list of names; None where there is nothing."""
    if not zipfile.is_zipfile(path):
        return "its format is that before torch 1.6"
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
        if len(names) != 1 or archive.getinfo(names[0]).file_size > LARGEST_LIST:
            return "its list of names"
        listed = archive.read(names[0])
    for operation, argument, _ in pickletools.genops(listed):
        if operation.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
            return operation.name
        if operation.name == "GLOBAL" and not is_plain(str(argument)):
            return str(argument).replace(" ", ".")
    return None


def is_plain(name: str) -> bool:
    """Whether `module name` is of a container, or of what makes a tensor."""
    module, _, name = name.partition(" ")
    if name in PLAIN.get(module, ()):
        return True
    if module == "torch._utils":
        return name.startswith(REBUILDS)
    torch: Any = sys.modules["torch"]
    is_storage = module in ("torch", "torch.storage") and name.endswith("Storage")
    return is_storage or (module == "torch" and type(getattr(torch, name, None)) is torch.dtype)
