"""Trainings on a CPU with or without a patch of the probe's; prints what came of them as one object of JSON.

    patched_of.py PROGRAM [PATCH ...]
"""
import json
import sys

import rehearse  # noqa: F401  (it loads the probe's package)
import torch
from _oomph_probe.patch import patches
from torch import nn


def by_optimizer(cls, **settings):
    """Losses of some steps, what the last one made and freed again, and the settings that a checkpoint would have."""
    import test_optimizers

    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(8)))
    optimizer = cls(model.parameters(), **settings)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = (model(torch.randn(16, 64)) - 1).square().mean()
        loss.backward()
        losses.append(loss.item())
        with test_optimizers.Made() as made:
            optimizer.step()
    groups = optimizer.state_dict()["param_groups"]
    return {"losses": losses, "temporaries": made.most - max(made.now, 0), "foreach": [group["foreach"] for group in groups]}


PROGRAMS = {
    "adamw": lambda: by_optimizer(torch.optim.AdamW, lr=1e-2),
    "adamw-foreach": lambda: by_optimizer(torch.optim.AdamW, lr=1e-2, foreach=True),
    "sgd": lambda: by_optimizer(torch.optim.SGD, lr=1e-2, momentum=0.9, weight_decay=0.1),
    "sgd-foreach": lambda: by_optimizer(torch.optim.SGD, lr=1e-2, momentum=0.9, weight_decay=0.1, foreach=True),
    "radam": lambda: by_optimizer(torch.optim.RAdam, lr=1e-2),
    "radam-foreach": lambda: by_optimizer(torch.optim.RAdam, lr=1e-2, foreach=True),
}


def main(program, *chosen):
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    made = patches.Patches(torch, version, list(chosen), on_cpu=True)
    made.install()
    said = PROGRAMS[program]()
    made.settle()
    print(json.dumps(dict(said, patches=made.said)))


if __name__ == "__main__":
    main(*sys.argv[1:])
