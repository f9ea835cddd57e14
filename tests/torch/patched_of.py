"""Trainings on a CPU with or without a patch of the probe's; prints what came of them as one object of JSON.

    patched_of.py PROGRAM [PATCH ...]
"""
import json
import sys

import rehearse  # noqa: F401  (it loads the probe's package)
import torch
import torch.utils.checkpoint
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
    saved = optimizer.state_dict()
    groups = saved["param_groups"]
    return {
        "losses": losses, "temporaries": made.most - max(made.now, 0), "foreach": [group["foreach"] for group in groups],
        "groups": repr(groups),
        "state": [sorted((name, str(value.dtype), str(value.device), float(value.max()) if name == "step" else 0)
                         for name, value in each.items() if value is not None) for each in saved["state"].values()],
    }


def compiled():
    """How a model is compiled for several sizes, what its graph keeps for backward, and its losses."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.utils import counters
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    kept = []

    def forward(graph, inputs):
        output = next(node for node in graph.graph.nodes if node.op == "output")
        kept.append(sum(each.meta["val"].numel() for each in output.args[0][1:] if hasattr(each.meta.get("val"), "numel")))
        return graph

    backend = aot_autograd(
        fw_compiler=forward, bw_compiler=lambda graph, _: graph, partition_fn=min_cut_rematerialization_partition
    )
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.GELU()) for _ in range(4)))
    made = torch.compile(model, backend=backend, dynamic=False)
    losses = []
    for batch in (16, 12, 8, 4):
        loss = made(torch.randn(batch, 64)).square().mean()
        loss.backward()
        losses.append(loss.item())
    return {"losses": losses, "kept": str(kept[0]), "compiled": counters["stats"]["unique_graphs"]}


def trainer():
    """Losses of a few steps, what an evaluation says of all its outputs, and how many bytes of them it keeps as tensors."""
    import tempfile

    import transformers
    from _oomph_probe.common import frames
    from _oomph_probe.oom import gathering
    from transformers import trainer_pt_utils

    kept, come = [0], [None]
    container = trainer_pt_utils.EvalLoopContainer
    add = container.add

    def counting(self, tensors):
        add(self, tensors)
        come[0] = gathering.of(frames.outwards(sys._getframe()))
        if self.tensors is not None:
            kept[0] = max(kept[0], sum(each.nbytes for each in torch.utils._pytree.tree_leaves(self.tensors)))

    container.add = counting
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    rows = [{"input_ids": [(n * k) % 50 for k in range(16)], "labels": [(n * k) % 50 for k in range(16)]} for n in range(96)]
    sums = []

    def metrics(predictions):
        sums.append([float(predictions.predictions.astype("float64").sum()), list(predictions.predictions.shape)])
        return {"first": float(predictions.predictions.ravel()[0])}

    with tempfile.TemporaryDirectory() as directory:
        arguments = transformers.TrainingArguments(
            directory, per_device_train_batch_size=4, per_device_eval_batch_size=4, max_steps=6, eval_strategy="steps",
            eval_steps=3, report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1, use_cpu=True,
        )
        made = transformers.Trainer(
            transformers.GPT2LMHeadModel(config), arguments, train_dataset=rows, eval_dataset=rows, compute_metrics=metrics,
        )
        made.train()
        losses = [entry["loss"] for entry in made.state.log_history if "loss" in entry]
    return {"losses": losses, "outputs": sums, "kept": kept[0], "come": come[0], "typed": arguments.eval_accumulation_steps}


def resumed():
    """Losses before and after a checkpoint of model and optimizer, and where torch.load put its tensors."""
    import tempfile

    from torch import serialization

    places = []
    restoring = serialization._get_restore_location

    def noted(map_location):
        places.append(map_location)
        return restoring(map_location)

    serialization._get_restore_location = noted
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data, losses = torch.randn(16, 8), []

    def steps():
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(data).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

    def resume(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    steps()
    with tempfile.TemporaryDirectory() as directory:
        path = directory + "/state.pt"
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 4}, path)
        steps()
        resume(path)
        steps()
        whole = directory + "/model.pt"
        torch.save(model, whole)
        again = torch.load(whole, weights_only=False)
        again.load_state_dict(model.state_dict())
    return {"losses": losses, "whole": again(data).sum().item(), "places": places}


class Net(nn.Module):
    """What saves tensors in all the ways that differ: views of one storage, a Function, in-place, an expanded one, buffers."""

    def __init__(self, is_hooked=False, is_functional=False, is_checkpointed=False):
        super().__init__()
        self.first, self.second = nn.Linear(512, 3 * 512), nn.Linear(512, 512)
        self.norm, self.drop = nn.LayerNorm(512), nn.Dropout(0.1)
        self.frozen = nn.Linear(512, 512).requires_grad_(False)
        self.register_buffer("table", torch.linspace(0, 1, 1024 * 512).view(1024, 512))
        self.is_hooked, self.is_functional, self.is_checkpointed = is_hooked, is_functional, is_checkpointed

    def part(self, x):
        return torch.relu_(self.second(x).mul(x))

    def forward(self, x):
        if self.is_hooked:
            with torch.autograd.graph.saved_tensors_hooks(lambda kept: kept * 1, lambda kept: kept):
                return self.through(x)
        return self.through(x)

    def through(self, x):
        q, k, v = self.norm(self.first(x)[:, :512]).chunk(1)[0], *self.first(x).split(512, dim=1)[1:]
        y = torch.sigmoid(q) * k + v.exp().t().contiguous().t() * self.table
        y = self.drop(self.frozen(y)) + Cube.apply(y) + y[:1].expand_as(y) * y
        y = torch.utils.checkpoint.checkpoint(self.part, y, use_reentrant=False) if self.is_checkpointed else self.part(y)
        if self.is_functional:
            y = y + torch.func.grad(lambda each: (each**2).sum())(y.detach())
        return y


class Cube(torch.autograd.Function):
    """Writes into what was saved without a new version, as kernels of others do."""

    @staticmethod
    def forward(ctx, x):
        made = x.clone()
        ctx.save_for_backward(made)
        made.data.mul_(2)
        return made**3

    @staticmethod
    def backward(ctx, given):
        (made,) = ctx.saved_tensors
        return given * 6 * made**2


def saving(is_twice=False, **how):
    """Losses and gradients of some steps."""
    import gc

    torch.manual_seed(0)
    model = Net(**how)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses, sums = [], []
    for _ in range(4):
        optimizer.zero_grad()
        x = torch.randn(1024, 512)
        loss = model(x).square().mean()
        loss.backward(retain_graph=is_twice)
        if is_twice:
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
        sums += [parameter.grad.double().sum().item() for parameter in model.parameters() if parameter.grad is not None]
        del loss
    gc.collect()
    return {"losses": losses, "gradients": sums}


def words():
    """Losses and gradients of a decoder with a large vocabulary, and how many tensors as large as its logits there were."""
    import card

    torch.manual_seed(0)
    rows, classes = 8192, 2048
    inner, head = nn.Embedding(classes, 16), nn.Linear(16, classes)
    parameters = [*inner.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    losses, sums = [], []
    gpu = card.Card()
    for each in parameters:
        gpu.one.is_new(each.untyped_storage())
    for step in range(3):
        optimizer.zero_grad()
        tokens = torch.arange(rows).mul(step + 3) % classes
        with gpu:
            loss = nn.CrossEntropyLoss(ignore_index=7)(head(inner(tokens)), (tokens + 1) % classes)
            loss.backward()
        losses.append(loss.item())
        sums += [each.grad.double().sum().item() for each in parameters]
        optimizer.step()
    return {"losses": losses, "gradients": sums, "logits": gpu.peak / (rows * classes * 4)}


PROGRAMS = {
    "words": words,
    "saving": saving,
    "saving-twice": lambda: saving(is_twice=True),
    "saving-checkpointed": lambda: saving(is_checkpointed=True),
    "saving-hooked": lambda: saving(is_hooked=True),
    "saving-functional": lambda: saving(is_functional=True),
    "compiled": compiled,
    "resumed": resumed,
    "trainer": trainer,
    "adamw": lambda: by_optimizer(torch.optim.AdamW, lr=1e-2),
    "adamw-foreach": lambda: by_optimizer(torch.optim.AdamW, lr=1e-2, foreach=True),
    "sgd": lambda: by_optimizer(torch.optim.SGD, lr=1e-2, momentum=0.9, weight_decay=0.1),
    "sgd-foreach": lambda: by_optimizer(torch.optim.SGD, lr=1e-2, momentum=0.9, weight_decay=0.1, foreach=True),
    "radam": lambda: by_optimizer(torch.optim.RAdam, lr=1e-2),
    "radam-foreach": lambda: by_optimizer(torch.optim.RAdam, lr=1e-2, foreach=True),
}


def main(program, *chosen):
    if program == "trainer":
        # As hook.py has it: patched once it is imported.
        __import__("transformers.trainer")
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    made = patches.Patches(torch, version, list(chosen), on_cpu=True)
    made.install()
    said = PROGRAMS[program]()
    made.settle()
    if made.offload is not None:
        ram = made.offload.ram
        said = dict(said, ram={"now": ram.now, "most": ram.most})
    print(json.dumps(dict(said, patches=made.outcomes.said, measured=made.outcomes.measured)))


if __name__ == "__main__":
    main(*sys.argv[1:])
