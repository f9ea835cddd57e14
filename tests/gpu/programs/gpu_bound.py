"""A GPU-bound training: 12 encoder layers in bf16. Prints the median step in milliseconds."""
import statistics
import time

import torch

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True)
model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
batch = torch.randn(16, 512, 1024, device="cuda", dtype=torch.bfloat16)
times = []
for step in range(230):
    began = time.perf_counter()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    if step >= 30:
        times.append((time.perf_counter() - began) * 1e3)
print(statistics.median(times))
