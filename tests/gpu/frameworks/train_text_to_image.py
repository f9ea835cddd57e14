"""An encoder under accelerate, with the options of diffusers' training scripts, on made-up text."""
import argparse
import os

import torch
from accelerate import Accelerator

TINY = bool(os.environ.get("OOMPH_TINY"))

parser = argparse.ArgumentParser()
parser.add_argument("--pretrained_model_name_or_path")
parser.add_argument("--dataset_name")
parser.add_argument("--output_dir")
parser.add_argument("--resolution", type=int, default=512)
parser.add_argument("--train_batch_size", type=int, default=16)
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
parser.add_argument("--max_train_steps", type=int, default=8)
parser.add_argument("--mixed_precision", choices=["no", "fp16", "bf16"])
parser.add_argument("--lr_scheduler", default="constant")
args = parser.parse_args()

accelerator = Accelerator(
    gradient_accumulation_steps=args.gradient_accumulation_steps, mixed_precision=args.mixed_precision
)
width, layers = (16, 1) if TINY else (768, 12)
layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
model = torch.nn.TransformerEncoder(layer, layers)
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader(range(1 << 20), batch_size=args.train_batch_size)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
steps = 0
for numbers in loader:
    with accelerator.accumulate(model):
        words = torch.randn(len(numbers), 256, width, device=accelerator.device)
        loss = model(words).pow(2).mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    steps += accelerator.sync_gradients
    if steps >= args.max_train_steps:
        break
print("finished", loss.item())
if torch.cuda.is_available():
    print("PEAK", torch.cuda.max_memory_allocated())
