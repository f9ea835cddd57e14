"""A training under accelerate, with the loader and the optimizer prepared by it."""
import argparse

import torch
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
args = parser.parse_args()

accelerator = Accelerator()
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 10))
data = torch.utils.data.TensorDataset(torch.randn(2048, 1024), torch.randint(0, 10, (2048,)))
loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size)
model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), loader)
for epoch in range(2):
    for inputs, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
accelerator.print(f"done {loss.item():.4f}")
