"""What FSDP has gathered of its parameters at a moment, beside the shards that a rank keeps: the parameters that are
whole, and the buffers that others are gathered in. Only read, from what torch keeps of each group; no group is kept
alive.
"""

from __future__ import annotations

import sys
import time
import weakref

from ..common import errors, members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Module

STATES = "torch.distributed._composable_state"
WRAPPER = "FullyShardedDataParallel"
# The most that was seen counts for so many seconds, in two halves.
RECENT = 5.0


class Gathered:
    """The groups of this process."""

    def __init__(self) -> None:
        self.groups: list[Any] = []
        # The bytes of a group's parameters where they are whole, by its place.
        self.whole: dict[int, int] = {}
        self.flat: list[Any] = []
        self.known: Any = None
        # The most of the half that is running and of the one before, by device, and since when that runs.
        self.most: dict[int, list[int]] = {}
        self.since = 0.0

    def is_divided(self, module: Module) -> bool:
        return any(
            base.__name__ in ("FSDPModule", WRAPPER) and base.__module__.startswith("torch.distributed")
            for base in type(module).__mro__
        )

    def look(self, module: Module) -> None:
        """Notes the groups of a model that is called."""
        if self.known is not None and self.known() is module or not self.is_divided(module):
            return
        self.known = weakref.ref(module)
        groups: list[Any] = []
        flat: list[Any] = []
        states: Any = sys.modules.get(STATES)
        for each in members.modules(module):
            if type(each).__name__ == WRAPPER:
                handle = each.__dict__.get("_handle")
                if handle is not None:
                    flat.append(weakref.ref(handle))
            elif states is not None and self.is_divided(each):
                group = getattr(states._get_module_state(each), "_fsdp_param_group", None)
                if group is not None:
                    groups.append(weakref.ref(group))
        self.whole, self.groups, self.flat = {}, groups, flat

    def now(self, device: int) -> int | None:
        """Bytes at this moment; None where nothing is divided."""
        if not self.groups and not self.flat:
            return None
        try:
            sizes = [self.of_group(at, group(), device) for at, group in enumerate(self.groups)]
            return sum(sizes) + sum(of_handle(handle(), device) for handle in self.flat)
        except Exception:
            # The training's thread changes it meanwhile.
            errors.foreseen("what is gathered")
            return None

    def of_group(self, at: int, group: Any, device: int) -> int:
        if group is None or group.device.index != device:
            return 0
        count = 0
        if group._sharded_state.name == "UNSHARDED":
            if at not in self.whole:
                outputs = [each for parameter in group.fsdp_params for each in parameter.all_gather_outputs]
                count = sum(int(each.untyped_storage().nbytes()) for each in outputs)
                if count:
                    self.whole[at] = count
            else:
                count = self.whole[at]
        result = group._all_gather_result
        return count if result is None else count + int(result.all_gather_output.untyped_storage().nbytes())

    def lately(self, device: int) -> int | None:
        """The most of the last seconds."""
        count, now = self.now(device), time.monotonic()
        if count is None:
            return None
        if now - self.since > RECENT / 2:
            self.since = now
            self.most = {on: [0, running] for on, (running, _) in self.most.items()}
        running, before = self.most.get(device, [0, 0])
        self.most[device] = [max(running, count), before]
        return max(running, count, before)


def of_handle(handle: Any, device: int) -> int:
    """The whole of a flat parameter, where it is there."""
    if handle is None or handle.device.index != device:
        return 0
    whole = getattr(handle.flat_param, "_full_param_padded", None)
    return 0 if whole is None else int(whole.untyped_storage().nbytes())
