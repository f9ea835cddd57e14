"""What DeepSpeed's ZeRO holds when memory has run out, by its own buffers, and which of its settings move them.

Its optimizer steps flat copies of the parameters, so that what an optimizer of torch's refers to is a part of it alone.
The engine is found among the functions that run: forward, backward and step are its methods. Only looks: what is read
are the attributes' values, by the names that they have in DeepSpeed 0.9 to 0.19.
"""

from __future__ import annotations

from ..common import errors, frames, objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable, Iterable, Iterator

    from ..common.protocols import Line, Torch

ENGINE = "DeepSpeedEngine"
# The last letters of the class of stage 3, and of the one that keeps a copy in 32 bits without ZeRO.
STAGE_3, BF16 = "Stage3", "BF16_Optimizer"
# Which attribute holds which part. A tensor counts where it is met first.
PARTS = (
    ("parameters", ("bit16_groups_flat", "fp16_partitioned_groups_flat", "fp16_groups_flat", "bf16_groups_flat")),
    (
        "master",
        ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups_flat_partition"),
    ),
    (
        "gradients",
        (
            "averaged_gradients", "grads_in_partition", "all_grad_tensors", "fp32_groups_gradients_flat",
            "fp32_groups_gradient_flat_partition", "grad_partitions_flat_buffer",
            "_DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition",
        ),
    ),
    (
        "buckets",
        (
            "ipg_buffer", "ipg_buckets", "grads_in_ipg_bucket", "params_in_ipg_bucket", "extra_large_param_to_reduce",
            "temp_grad_buffer_for_cpu_offload", "_DeepSpeedZeroOptimizer_Stage3__ipg_bucket_flat_buffer",
        ),
    ),
)
# Lists of lists of objects that hold tensors.
DEEPEST = 4


def of(torch: Torch, stack: Iterable[FrameType], device: int) -> Line | None:
    """The record's part; None where no engine with ZeRO runs."""
    optimizer = optimizer_of(stack)
    if optimizer is None:
        return None

    def is_here(tensor: Any) -> bool:
        return bool(tensor.is_cuda and tensor.device.index == device)

    return Ledger(torch, optimizer, is_here).line()


def optimizer_of(stack: Iterable[FrameType]) -> Any:
    """ZeRO's own, of the engine that runs."""
    for frame in stack:
        engine = frames.read_locals(frame, lambda variables: variables.get("self"))
        if any(base.__name__ == ENGINE for base in type(engine).__mro__):
            optimizer = own(engine).get("optimizer")
            is_zeros = ".zero." in type(optimizer).__module__ or type(optimizer).__name__ == BF16
            return optimizer if is_zeros else None
    return None


def own(thing: Any) -> dict[str, Any]:
    return objects.namespace_of(thing) or {}


class Ledger:
    """The bytes of one process on one device."""

    def __init__(self, torch: Torch, optimizer: Any, is_here: Callable[[Any], bool]) -> None:
        self.torch = torch
        self.optimizer = optimizer
        self.own = own(optimizer)
        self.is_here = is_here
        self.seen: set[int] = set()

    def line(self) -> Line:
        line: Line = {"stage": self.stage(), "world": self.world()}
        for part, names in PARTS:
            line[part] = sum(self.add(self.own.get(name), DEEPEST) for name in names)
        line["gathered"], whole = self.gathered()
        # Below stage 3 each rank has all of them.
        line["whole"] = whole or line["parameters"]
        stepped = self.own.get("optimizer")
        state = own(stepped).get("state")
        line["state"] = self.add(state, DEEPEST)
        # Gradients of the model's own parameters, where nothing is in a bucket yet.
        line["gradients"] += sum(self.add(getattr(each, "grad", None), 1) for each in self.parameters())
        if type(self.own.get("reduce_bucket_size")) is int:
            line["bucket_elements"] = self.own["reduce_bucket_size"]
        if self.own.get("cpu_offload") is True or self.own.get("offload_optimizer") is True:
            line["offloads_optimizer"] = True
        if self.own.get("offload_param") is True or self.own.get("params_in_nvme_and_cpu") is True:
            line["offloads_parameters"] = True
        return line

    def stage(self) -> int:
        if type(self.optimizer).__name__.endswith(STAGE_3):
            return 3
        return 2 if self.own.get("partition_gradients") is True else 1

    def world(self) -> int:
        group = self.own.get("dp_process_group")
        distributed: Any = self.torch.distributed
        try:
            return int(distributed.get_world_size(group))
        except Exception:
            errors.foreseen("the ranks of ZeRO's group")
            return 1

    def parameters(self) -> Iterator[Any]:
        for name in ("bit16_groups", "fp16_groups"):
            groups = self.own.get(name)
            if type(groups) is list:
                for group in groups:
                    yield from group if type(group) is list else ()
                return

    def gathered(self) -> tuple[int, int]:
        """Bytes of what is whole at this moment beside its shards, and of all parameters if they were (stage 3)."""
        here = whole = 0
        for each in self.parameters():
            # Beside a whole parameter its shard is there as well, in a flat buffer that is counted already.
            if hasattr(each, "ds_tensor"):
                here += self.add(each, 1)
                whole += int(getattr(each, "ds_numel", 0)) * each.element_size()
        return here, whole

    def add(self, value: Any, depth: int) -> int:
        """The bytes of the tensors in it that were not met before."""
        if objects.is_a(value, self.torch.Tensor):
            if not self.is_here(value):
                return 0
            storage = value.untyped_storage()
            if storage.data_ptr() in self.seen or not storage.nbytes():
                return 0
            self.seen.add(storage.data_ptr())
            return int(storage.nbytes())
        if depth <= 0:
            return 0
        if objects.is_a(value, dict):
            inner: Any = [each for _, each in objects.entries(value)]
        elif objects.is_a(value, (list, tuple)):
            inner = objects.elements(value)
        elif type(value).__module__.startswith("deepspeed."):
            inner = own(value).values()
        else:
            return 0
        return sum(self.add(each, depth - 1) for each in list(inner))
