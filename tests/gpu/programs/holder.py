"""Takes `--batch-size` parts of 1/100 of the card, then trains a little: 130 of them do not fit."""
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, required=True)
args = parser.parse_args()
part = torch.cuda.get_device_properties(0).total_memory // 100
held = [torch.empty(part, dtype=torch.uint8, device="cuda").fill_(1) for _ in range(args.batch_size)]
model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
print("held", len(held), "parts of", part)
