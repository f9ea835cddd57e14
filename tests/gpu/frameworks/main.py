"""A convolutional network under LightningCLI, on made-up pictures."""
import os

import torch
from lightning.pytorch import LightningDataModule, LightningModule
from lightning.pytorch.cli import LightningCLI

TINY = bool(os.environ.get("OOMPH_TINY"))


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        side = 32 if TINY else 224
        return torch.full((3, side, side), float(index % 7)), index % 10


class Data(LightningDataModule):
    def __init__(self, batch_size: int = 8):
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self):
        return torch.utils.data.DataLoader(Pictures(), batch_size=self.batch_size)


class Net(LightningModule):
    def __init__(self, width: int = 64):
        super().__init__()
        width = 4 if TINY else width
        layers = [torch.nn.Conv2d(3, width, 3, padding=1)]
        for _ in range(1 if TINY else 8):
            layers += [torch.nn.ReLU(), torch.nn.Conv2d(width, width, 3, padding=1)]
        self.layers = torch.nn.Sequential(*layers)
        self.head = torch.nn.Linear(width, 10)

    def training_step(self, batch, _):
        pictures, labels = batch
        logits = self.head(self.layers(pictures).mean(dim=(2, 3)))
        return torch.nn.functional.cross_entropy(logits, labels)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


if __name__ == "__main__":
    LightningCLI(Net, Data, save_config_callback=None)
    if torch.cuda.is_available():
        print("PEAK", torch.cuda.max_memory_allocated())
