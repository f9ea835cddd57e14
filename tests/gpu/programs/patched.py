#!/usr/bin/env python3
"""A training of one of six models, written as a user would write it, for the suite of the patches.

    python3 patched.py --model decoder|llama|vit|resnet|unet|lstm
                       --around plain|compile|ddp|accelerate|scaler|autocast|autocast-loss
                       [--device cuda|cpu] [--steps 50] [--evaluate 10] [--size small|large] [--backend inductor]

It computes with deterministic kernels, so that two runs of it can be held to the same bits; its peak
and its times are of these kernels. `autocast` is the program's own, around the forward, whose outputs
go to the loss in float32; with `autocast-loss` the loss is inside it too.

Prints one line of JSON (rank 0): the losses of training and evaluation, the peak, the median step, a
sum over the weights, the names of the state, and what the probe says of its patches where it is there.
"""
import argparse
import json
import os
import statistics
import sys
import time

# Before the first cuBLAS handle: workspaces of one size, so that the order of sums is the same.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
# Reductions are laid out by their sizes, not by what a benchmark of this moment found faster.
os.environ.setdefault("TORCHINDUCTOR_DETERMINISTIC", "1")

import torch
import torch.nn as nn
import torch.nn.functional as F


def for_training(model):
    """As one prepares it for torch.compile. Each of transformers' warnings breaks the graph of the first
    call, which then runs uncompiled and draws what an uncompiled one draws: where no loss is named, and
    where gradient checkpointing meets a cache that no training needs."""
    model.loss_type = "ForCausalLM"
    model.config.use_cache = False
    return model


def decoder(large):
    from transformers import GPT2Config, GPT2LMHeadModel

    size = dict(n_embd=768, n_layer=12, n_head=12) if large else dict(n_embd=64, n_layer=4, n_head=4)
    length, words = (512, 50257) if large else (32, 211)
    config = GPT2Config(vocab_size=words, n_positions=length, **size)
    model = for_training(GPT2LMHeadModel(config))
    return model, lambda draw, n: (draw.randint(words, (n, length)),), 8 if large else 4


def llama(large):
    from transformers import LlamaConfig, LlamaForCausalLM

    size = dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12)
    small = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4)
    length, words = (512, 32000) if large else (32, 211)
    config = LlamaConfig(vocab_size=words, **(size if large else small))
    model = for_training(LlamaForCausalLM(config))
    return model, lambda draw, n: (draw.randint(words, (n, length)),), 8 if large else 4


def vit(large):
    import timm

    name, pixels = ("vit_base_patch16_224", 224) if large else ("vit_tiny_patch16_224", 32)
    more = {} if large else dict(patch_size=8, depth=4, embed_dim=48, num_heads=3)
    model = timm.create_model(
        name, img_size=pixels, num_classes=10, drop_rate=0.1, drop_path_rate=0.2, **more
    )
    return model, pictures(pixels, classes=10), 32 if large else 4


def resnet(large):
    import torchvision

    if large:
        return torchvision.models.resnet50(num_classes=10), pictures(224, classes=10), 32
    block = torchvision.models.resnet.BasicBlock
    return torchvision.models.ResNet(block, [2, 2, 1, 1], num_classes=10), pictures(32, classes=10), 4


class Double(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.steps = nn.Sequential(
            nn.Conv2d(inside, outside, 3, padding=1),
            nn.GroupNorm(4, outside),
            nn.ReLU(inplace=True),
            nn.Conv2d(outside, outside, 3, padding=1),
            nn.GroupNorm(4, outside),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.steps(x)


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(Double(a, b) for a, b in zip([3] + sizes, sizes))
        self.middle = Double(sizes[-1], sizes[-1])
        self.up = nn.ModuleList(
            Double(2 * size, size // 2 if at else size) for at, size in zip([2, 1, 0], reversed(sizes))
        )
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2.0)
            x = block(torch.cat([x, kept.pop()], dim=1))
        return self.out(x)


def unet(large):
    pixels = 256 if large else 16
    return UNet(64 if large else 8), pictures(pixels), 16 if large else 4


class Language(nn.Module):
    def __init__(self, words, width, layers):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.lstm(self.embed(tokens))[0])


def lstm(large):
    words, width, length = (32000, 1024, 256) if large else (101, 32, 16)
    model = Language(words, width, 3)
    return model, lambda draw, n: (draw.randint(words, (n, length)),), 32 if large else 4


def pictures(pixels, classes=None):
    def batch(draw, n):
        x = draw.randn((n, 3, pixels, pixels))
        return (x, draw.randint(classes, (n,))) if classes else (x, torch.roll(x, 1, 3))

    return batch


MODELS = {"decoder": decoder, "llama": llama, "vit": vit, "resnet": resnet, "unet": unet, "lstm": lstm}


class Draw:
    """Data that does not depend on what the model draws."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def randn(self, shape):
        return torch.randn(shape, generator=self.generator)

    def randint(self, below, shape):
        return torch.randint(below, shape, generator=self.generator)


def forward(name, model, batch):
    """What the model returns: its outputs, or the loss where it computes that itself."""
    if name in ("decoder", "llama"):
        return model(input_ids=batch[0], labels=batch[0]).loss
    if name == "lstm":
        return model(batch[0][:, :-1])
    return model(batch[0])


def loss_of(name, outputs, batch):
    if name in ("decoder", "llama"):
        return outputs
    if name == "lstm":
        return F.cross_entropy(outputs.flatten(0, 1), batch[0][:, 1:].flatten())
    if name == "unet":
        return F.mse_loss(outputs, batch[1])
    return F.cross_entropy(outputs, batch[1])


def be_deterministic():
    """Warns of kernels that have no deterministic form, and goes on with them."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def join_ranks(device):
    """NCCL has one rank on a GPU; where there are fewer GPUs than ranks, gloo takes their tensors too."""
    import torch.distributed as dist

    count = torch.cuda.device_count() if device == "cuda" else 0
    dist.init_process_group("nccl" if count >= int(os.environ["LOCAL_WORLD_SIZE"]) else "gloo")
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % count)
    return dist.get_rank()


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("--model", choices=MODELS, required=True)
    asked.add_argument("--around", default="plain")
    asked.add_argument("--device", default="cuda")
    asked.add_argument("--steps", type=int, default=50)
    asked.add_argument("--evaluate", type=int, default=10)
    asked.add_argument("--size", default="large")
    asked.add_argument("--backend", default="inductor", help="of torch.compile")
    asked = asked.parse_args()
    device = asked.device
    be_deterministic()
    rank = join_ranks(device) if asked.around == "ddp" else 0
    torch.manual_seed(7 + rank)
    if device == "cpu":
        torch.set_num_threads(1)
    model, batch_of, n = MODELS[asked.model](asked.size == "large")
    names = list(model.state_dict())
    torch.manual_seed(70)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    model.to(device)
    plain = model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    accelerator = scaler = None
    if asked.around == "accelerate":
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=device == "cpu")
        model, optimizer = accelerator.prepare(model, optimizer)
    elif asked.around == "compile":
        model = torch.compile(model, backend=asked.backend)
    elif asked.around == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    elif asked.around == "scaler":
        scaler = torch.amp.GradScaler(device)
    autocast = asked.around in ("scaler", "autocast", "autocast-loss")
    within = asked.around in ("scaler", "autocast-loss")
    losses, evaluations, times = [], [], []
    draw, other = Draw(1 + rank), Draw(1000)
    for step in range(asked.steps):
        batch = [each.to(device) for each in batch_of(draw, n)]
        began = time.perf_counter()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
            outputs = forward(asked.model, model, batch)
            loss = loss_of(asked.model, outputs, batch) if within else None
        if loss is None:
            outputs = outputs.float() if autocast else outputs
            loss = loss_of(asked.model, outputs, batch)
        if accelerator is not None:
            accelerator.backward(loss)
        elif scaler is not None:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
        else:
            loss.backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        times.append(time.perf_counter() - began)
        if asked.evaluate and step % asked.evaluate == asked.evaluate - 1:
            model.eval()
            with torch.no_grad():
                batch = [each.to(device) for each in batch_of(other, n)]
                outputs = forward(asked.model, model, batch)
                evaluations.append(loss_of(asked.model, outputs, batch).item())
            model.train()
    if rank == 0:
        probe = sys.modules.get("_oomph_probe")
        patches = getattr(getattr(probe, "here", None), "patches", None)
        if patches is not None:
            patches.settle()
        said = {
            "losses": losses,
            "evaluations": evaluations,
            "step_ms": 1000 * statistics.median(times[len(times) // 5 :]),
            "peak": torch.cuda.max_memory_allocated() if device == "cuda" else None,
            "weights": float(sum(p.detach().double().abs().sum() for p in plain.parameters())),
            "buffers": float(sum(b.double().sum() for b in plain.buffers())),
            "names_kept": names == list(plain.state_dict()),
            "patches": None if patches is None else {k: list(v) for k, v in patches.said.items()},
        }
        print("\n" + json.dumps(said), flush=True)
    if asked.around == "ddp":
        torch.distributed.destroy_process_group()


main()
