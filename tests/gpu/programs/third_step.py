"""A training of grid.py that prints, as one JSON line, torch's own figures of its third step: what was allocated
before and after it, the peak in between, and the bytes of parameters, gradients and optimizer state.

    third_step.py --model decoder --batch-size 8
"""
import argparse
import json
import os
import sys

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import grid  # noqa: E402

figures = {}
steps = [0]


def size(tensors):
    """As the allocator rounds them."""
    return sum(-(-tensor.untyped_storage().nbytes() // 512) * 512 for tensor in tensors if tensor.is_cuda)


def ended(optimizer, *_):
    steps[0] += 1
    if steps[0] == 2:
        figures["before"] = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    if steps[0] == 3:
        figures["peak"] = torch.cuda.max_memory_allocated()
        figures["after"] = torch.cuda.memory_allocated()
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        figures["parameters"] = size(parameters)
        figures["gradients"] = size([each.grad for each in parameters if each.grad is not None])
        states = [value for state in optimizer.state.values() for value in state.values()]
        figures["optimizer_state"] = size([each for each in states if isinstance(each, torch.Tensor)])


def began(*_):
    if steps[0] == 2:
        figures["peak_before_optimizer"] = torch.cuda.max_memory_allocated()


register_optimizer_step_post_hook(ended)
register_optimizer_step_pre_hook(began)
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", choices=sorted(grid.MODELS), required=True)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
parser.add_argument("--optimizer", default="adamw")
parser.add_argument("--recompute", action="store_true")
args = parser.parse_args()
args.device = "cuda"
grid.train(args, args.batch_size, 5)
print(json.dumps(figures), flush=True)
