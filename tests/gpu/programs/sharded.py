"""Ranks that share a device, each with DataLoader workers, for as long as they are let."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Zeros(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return torch.zeros(1024)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.cuda.set_device(0)
    model = DistributedDataParallel(torch.nn.Linear(1024, 1024).cuda(), device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, batch in enumerate(torch.utils.data.DataLoader(Zeros(), batch_size=64, num_workers=2)):
        model(batch.cuda()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0 and step % 50 == 0:
            print("step", step, flush=True)
