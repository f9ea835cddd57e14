"""A vision transformer of timm with the options of timm's own training script, on made-up pictures."""
import argparse
import os

import timm
import timm.optim
import timm.scheduler
import torch

TINY = bool(os.environ.get("OOMPH_TINY"))

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir")
parser.add_argument("--model", default="vit_base_patch16_224")
parser.add_argument("-b", "--batch-size", type=int, default=128)
parser.add_argument("--grad-accum-steps", type=int, default=1)
parser.add_argument("--sched", default="cosine")
parser.add_argument("--opt", default="adamw")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--amp", action="store_true")
parser.add_argument("--amp-dtype", default="float16")
parser.add_argument("--grad-checkpointing", action="store_true")
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
model = timm.create_model("test_vit" if TINY else args.model, num_classes=10).to(device)
model.set_grad_checkpointing(args.grad_checkpointing)
optimizer = timm.optim.create_optimizer_v2(model, opt=args.opt, lr=1e-4)
scheduler, _ = timm.scheduler.create_scheduler_v2(optimizer, sched=args.sched, num_epochs=args.epochs)
side = model.default_cfg["input_size"][-1]
dtype = torch.bfloat16 if args.amp_dtype == "bfloat16" else torch.float16
for step in range(8):
    for _ in range(args.grad_accum_steps):
        pictures = torch.randn(args.batch_size, 3, side, side, device=device)
        labels = torch.arange(args.batch_size, device=device) % 10
        with torch.autocast(device, dtype=dtype, enabled=args.amp):
            loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        (loss / args.grad_accum_steps).backward()
    optimizer.step()
    optimizer.zero_grad()
scheduler.step(1)
print("finished", loss.item())
if device == "cuda":
    print("PEAK", torch.cuda.max_memory_allocated())
