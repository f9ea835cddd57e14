"""Trainings of many shapes under one command line, for predictions to be held against.

    grid.py --model decoder --batch-size 16 [--precision bf16] [--recompute] [--optimizer sgd] [--steps 6]
    grid.py --model decoder --truth 8,12,16,24,32 --limit-from 16      one JSON line each: the real peaks
    grid.py --model decoder --finder accelerate --batch-size 128       what others' finders reach

Plain PyTorch throughout. `--cap GIB` bounds what PyTorch may reserve, so that limits are reached in seconds.
"""
import argparse
import gc
import json
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

GIB = 1 << 30


class Block(nn.Module):
    """A transformer's block, causal or not; the hidden layer may be a mixture of experts."""

    def __init__(self, width, heads, causal, experts=0):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        hidden = lambda: nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.experts = nn.ModuleList([hidden() for _ in range(max(1, experts))])
        self.router = nn.Linear(width, experts) if experts else None

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(attended.transpose(1, 2).reshape(n, t, width))
        y = self.norm2(x)
        if self.router is None:
            return x + self.experts[0](y)
        weights, chosen = self.router(y).softmax(-1).max(-1)
        flat, result = y.reshape(-1, width), torch.zeros_like(y).reshape(-1, width)
        for number, expert in enumerate(self.experts):
            here = (chosen.reshape(-1) == number).nonzero().squeeze(1)
            result = result.index_add(0, here, expert(flat[here]).to(result.dtype))
        return x + weights.unsqueeze(-1) * result.view_as(y)


class Tokens(nn.Module):
    """A decoder or an encoder over tokens, with the loss."""

    def __init__(self, causal, layers=12, width=768, vocabulary=32000, length=512, experts=0, recompute=False):
        super().__init__()
        self.embed, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, width // 64, causal, experts) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.recompute = recompute

    def forward(self, tokens):
        x = self.embed(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), tokens.flatten())


class Images(nn.Module):
    """A vision transformer."""

    def __init__(self, recompute):
        super().__init__()
        self.patches = nn.Conv2d(3, 768, 16, 16)
        self.position = nn.Parameter(torch.zeros(196, 768))
        self.blocks = nn.ModuleList([Block(768, 12, False) for _ in range(12)])
        self.head, self.recompute = nn.Linear(768, 1000), recompute

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(x.mean(1)).logsumexp(-1).mean()


def convolution(into, out, stride=1):
    return nn.Sequential(nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())


class Residual(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.way = nn.Sequential(convolution(into, out, stride), convolution(out, out))
        self.short = nn.Conv2d(into, out, 1, stride) if stride > 1 or into != out else nn.Identity()

    def forward(self, x):
        return F.relu(self.way(x) + self.short(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
        self.body = nn.Sequential(convolution(3, 64, 2), *[Residual(*size) for size in sizes])
        self.head = nn.Linear(512, 1000)

    def forward(self, images):
        return self.head(self.body(images).mean((2, 3))).logsumexp(-1).mean()


class UNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.down = nn.ModuleList([convolution(3, width)] + [convolution(width << k, width << (k + 1), 2) for k in range(3)])
        self.up = nn.ModuleList([convolution((width << (k + 1)) + (width << k), width << k) for k in reversed(range(3))])
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, images):
        x, kept = images, []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
        for layer, skip in zip(self.up, kept[-2::-1]):
            x = layer(torch.cat([F.interpolate(x, scale_factor=2), skip], 1))
        return F.mse_loss(self.out(x), images)


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(8000, 512), nn.LSTM(512, 1024, 3, batch_first=True), nn.Linear(1024, 8000)

    def forward(self, tokens):
        return F.cross_entropy(self.head(self.body(self.embed(tokens))[0]).flatten(0, 1), tokens.flatten())


class Adapted(nn.Module):
    """A frozen linear layer with a trained adapter of low rank."""

    def __init__(self, frozen, rank=16):
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.a, self.b = nn.Linear(frozen.in_features, rank, bias=False), nn.Linear(rank, frozen.out_features, bias=False)

    def forward(self, x):
        return self.frozen(x) + self.b(self.a(x))


def lora():
    model = Tokens(True).requires_grad_(False)
    for block in model.blocks:
        block.qkv, block.out = Adapted(block.qkv), Adapted(block.out)
    return model


class Attention(nn.Module):
    """Self-attention over the places of an image."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(8, width), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).unsqueeze(1).chunk(3, -1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).squeeze(1).transpose(1, 2).view_as(x))


class Diffusion(nn.Module):
    """A U-Net that takes noise away: told the time, with attention where the image is small."""

    def __init__(self, width=64):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(64, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        self.first = nn.Conv2d(3, width, 3, 1, 1)
        self.down = nn.ModuleList([Residual(width << k, width << (k + 1), 2) for k in range(3)])
        self.middle = Attention(width << 3)
        self.up = nn.ModuleList([Residual((width << (k + 1)) + (width << k), width << k, 1) for k in reversed(range(3))])
        self.out = nn.Conv2d(width, 3, 3, 1, 1)

    def forward(self, images):
        times = torch.rand(images.shape[0], 1, device=images.device)
        angles = times * torch.arange(32, device=images.device)
        noise = torch.randn_like(images)
        x = self.first(images * (1 - times[..., None, None]) + noise * times[..., None, None])
        x = x + self.time(torch.cat([angles.sin(), angles.cos()], 1))[..., None, None]
        kept = []
        for layer in self.down:
            kept.append(x)
            x = layer(x)
        x = self.middle(x)
        for layer in self.up:
            x = layer(torch.cat([F.interpolate(x, scale_factor=2), kept.pop()], 1))
        return F.mse_loss(self.out(x), noise)


class Classifier(nn.Module):
    """A model of timm's, untrained."""

    def __init__(self, name):
        super().__init__()
        import timm

        self.inner = timm.create_model(name, num_classes=1000)

    def forward(self, images):
        return self.inner(images).logsumexp(-1).mean()


class T5(nn.Module):
    """An encoder and a decoder of transformers', untrained."""

    def __init__(self):
        super().__init__()
        from transformers import T5Config, T5ForConditionalGeneration

        self.inner = T5ForConditionalGeneration(T5Config(d_model=512, num_layers=6, num_heads=8, decoder_start_token_id=0))

    def forward(self, tokens):
        return self.inner(input_ids=tokens, labels=tokens).loss


class Clip(nn.Module):
    """Images and captions of one batch against each other, untrained."""

    def __init__(self):
        super().__init__()
        from transformers import CLIPConfig, CLIPModel

        self.inner = CLIPModel(CLIPConfig())

    def forward(self, images, tokens):
        return self.inner(input_ids=tokens, pixel_values=images, return_loss=True).loss


class Detector(nn.Module):
    """A one-stage detector of torchvision's parts, untrained: images in one tensor, dense targets."""

    def __init__(self):
        super().__init__()
        from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
        from torchvision.models.detection.retinanet import RetinaNetHead

        self.body = resnet_fpn_backbone(backbone_name="resnet50", weights=None, trainable_layers=5)
        self.head = RetinaNetHead(256, 9, 20)

    def forward(self, images):
        found = self.head(list(self.body(images).values()))
        classes = F.binary_cross_entropy_with_logits(found["cls_logits"], torch.zeros_like(found["cls_logits"]))
        return classes + found["bbox_regression"].abs().mean()


MODELS = {
    "decoder": lambda args: Tokens(True, recompute=args.recompute),
    "wide": lambda args: Tokens(True, layers=6, width=1536, recompute=args.recompute),
    "bert": lambda args: Tokens(False, recompute=args.recompute),
    "moe": lambda args: Tokens(True, layers=6, experts=8),
    "lora": lambda args: lora(),
    "vit": lambda args: Images(args.recompute),
    "resnet": lambda args: ResNet(),
    "unet": lambda args: UNet(),
    "lstm": lambda args: LSTM(),
    "diffusion": lambda args: Diffusion(),
    "swin": lambda args: Classifier("swin_tiny_patch4_window7_224"),
    "convnext": lambda args: Classifier("convnext_tiny"),
    "t5": lambda args: T5(),
    "clip": lambda args: Clip(),
    "detector": lambda args: Detector(),
}
IMAGES = ("vit", "resnet", "unet", "diffusion", "swin", "convnext", "detector")


def batch(args, size, step):
    """A tensor, or a tuple of them where the model takes several."""
    if args.model in IMAGES:
        return torch.randn(size, 3, 224, 224, device=args.device)
    if args.model == "clip":
        tokens = torch.randint(0, 8000, (size, 77), device=args.device)
        return torch.randn(size, 3, 224, 224, device=args.device), tokens
    # Seeded by the step: every run of a batch sees the same lengths.
    length = random.Random(step).randrange(64, 512) if args.model == "bert" else 512
    return torch.randint(0, 8000, (size, length), device=args.device)


def train(args, size, steps):
    """Some steps; the peak of what was allocated, in bytes."""
    torch.manual_seed(0)
    model = MODELS[args.model](args).to(args.device)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if args.optimizer == "sgd":
        optimizer = torch.optim.SGD(trained, lr=1e-3)
    else:
        optimizer = torch.optim.AdamW(trained, lr=1e-4, foreach=args.optimizer == "adamw")
    for step in range(steps):
        with torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16"):
            inputs = batch(args, size, step)
            loss = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
            del inputs
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if args.device == "cuda":
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()
    return 0


def cleared(args, size, steps):
    """As train, from a clean allocator; None where memory runs out."""
    gc.collect()
    if args.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        return train(args, size, steps)
    except torch.OutOfMemoryError:
        return None


def truth(args):
    """The real peak of each batch, and by bisection the largest that fits under the cap."""
    for size in args.truth:
        print(json.dumps({"batch": size, "peak": cleared(args, size, args.steps)}), flush=True)
    low, high = (args.limit_from, args.limit_from) if args.limit_from else (0, 0)
    while high and cleared(args, high * 2, args.steps) is not None:
        high *= 2
        low = high
    high *= 2
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if cleared(args, middle, args.steps) is None else (middle, high)
    if high:
        print(json.dumps({"largest": low}), flush=True)


def find(args):
    """What another finder reaches from a start, and in how many runs."""
    runs = 0
    if args.finder == "accelerate":
        from accelerate.utils import find_executable_batch_size

        @find_executable_batch_size(starting_batch_size=args.batch_size)
        def inner(batch_size):
            nonlocal runs
            runs += 1
            train(args, batch_size, args.steps)
            return batch_size

        found = inner()
    else:
        found, runs = by_lightning(args)
    print(json.dumps({"finder": args.finder, "batch": found, "runs": runs}), flush=True)


def by_lightning(args):
    import lightning
    from lightning.pytorch.tuner import Tuner

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.batch_size, self.runs = args.batch_size, set()
            self.inner = MODELS[args.model](args)

        def training_step(self, data, step):
            self.runs.add(self.batch_size)
            return self.inner(data[0])

        def configure_optimizers(self):
            return torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], lr=1e-4)

        def train_dataloader(self):
            data = torch.utils.data.TensorDataset(batch(args, 4096, 0).cpu())
            return torch.utils.data.DataLoader(data, batch_size=self.batch_size)

    module = Module()
    trainer = lightning.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)
    found = Tuner(trainer).scale_batch_size(module, mode="binsearch", steps_per_trial=args.steps, max_trials=12)
    return found, len(module.runs) + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(MODELS), required=True)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--optimizer", choices=("adamw", "adamw-plain", "sgd"), default="adamw")
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--cap", type=float, help="GiB that PyTorch may reserve")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--truth", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--limit-from", type=int, default=0)
    parser.add_argument("--finder", choices=("accelerate", "lightning"))
    args = parser.parse_args()
    if args.cap:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(args.cap * GIB / total)
    if args.truth:
        truth(args)
    elif args.finder:
        find(args)
    else:
        print(json.dumps({"batch": args.batch_size, "peak": train(args, args.batch_size, args.steps)}), flush=True)


if __name__ == "__main__":
    main()
