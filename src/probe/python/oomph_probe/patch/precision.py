"""Whether a program sets a precision itself, and whether a device supports bf16. Inspects only;
changes nothing.
"""

from __future__ import annotations

import sys

from ..common import errors, members, objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Module, Torch


def of_program(torch: Torch, root: Module, device: str) -> str | None:
    """What shows that the program sets a precision itself, or None."""
    return of_model(torch, root, device) or of_process(torch)


def is_sharded(root: Module) -> bool:
    """Whether FSDP has it, which gathers and computes in what its own policy says, whatever autocast is."""
    names = [base.__name__ for base in type(root).__mro__]
    return any(name.startswith(("FSDP", "FullyShardedDataParallel")) for name in names)


def of_model(torch: Torch, root: Module, device: str) -> str | None:
    """The same, as far as the model and autocast show it."""
    if is_autocast_on(torch, device):
        return "the program uses autocast itself"
    for parameter in members.parameters(root):
        if parameter.is_floating_point() and parameter.dtype != torch.float32:
            return "its parameters are %s" % str(parameter.dtype).replace("torch.", "")
    return None


def of_process(torch: Torch) -> str | None:
    """The same, as far as it can be seen without a model. Looks at all objects for scalers: some 0.1 s."""
    said = of_settings(torch)
    if said is not None:
        return said
    names = {id(each): name for kind, name in scalers(torch) for each in objects.with_subclasses(kind)}
    for each in (objects.instances(names) or ()) if names else ():
        if each.is_enabled():
            return "it scales its loss (%s)" % names[id(type(each))]
    return None


def of_settings(torch: Torch) -> str | None:
    """What it has set for the whole process."""
    if str(torch.get_default_dtype()) != "torch.float32":
        return "its default dtype is %s" % str(torch.get_default_dtype()).replace("torch.", "")
    return of_accelerate()


def scalers(torch: Torch) -> list[tuple[type, str]]:
    """The classes of gradient scalers that this process has loaded."""
    amp = getattr(getattr(torch, "amp", None), "GradScaler", None)
    cuda = getattr(getattr(getattr(torch, "cuda", None), "amp", None), "GradScaler", None)
    kinds = [kind for kind in (amp, cuda) if isinstance(kind, type)]
    if len(kinds) == 2 and issubclass(kinds[1], kinds[0]):
        kinds.pop()
    return [(kind, "GradScaler") for kind in kinds]


def of_accelerate() -> str | None:
    """The mixed precision configured in accelerate, if it is in use."""
    state: Any = sys.modules.get("accelerate.state")
    try:
        chosen = state.AcceleratorState._shared_state.get("_mixed_precision", "no")
    except AttributeError:
        return None
    chosen = str(getattr(chosen, "value", chosen))
    return None if chosen in ("no", "None") else "accelerate computes in %s" % chosen


def is_autocast_on(torch: Torch, device: str) -> bool:
    try:
        return bool(torch.is_autocast_enabled(device))
    except TypeError:
        # Before 2.4 each device type had its own function.
        if device == "cuda":
            return bool(torch.is_autocast_enabled())
        return bool(torch.is_autocast_cpu_enabled())


def does_bf16(torch: Torch, device: str) -> bool:
    """Whether the hardware supports it; `is_bf16_supported` would count emulation."""
    if device == "cpu":
        return True
    try:
        if getattr(torch.version, "hip", None):
            return True
        return torch.cuda.get_device_capability()[0] >= 8
    except Exception:
        errors.foreseen("capability of a device")
        return False
