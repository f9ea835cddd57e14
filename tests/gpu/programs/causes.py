"""Runs out of memory on purpose, each time for one cause, with models that the demo does not have.

    causes.py CAUSE SIZE        CAUSE of CAUSES below, SIZE 0, 1 or 2
    causes.py hold SHARE        holds that share of the card until its input ends
    causes.py --try-models      forwards and backwards of the models on whatever device there is

All is sized from the card, and nothing is capped but where the cap is the cause.
"""
import ctypes
import random
import re
import sys

import torch
from torch import nn

WIDTHS = (256, 512, 1024)


class Waves(nn.Module):
    """Gated, dilated convolutions over time."""

    def __init__(self, width, depth=8):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 3, padding=2 ** (n % 4), dilation=2 ** (n % 4)) for n in range(depth)
        )

    def forward(self, x):
        x = x.transpose(1, 2)
        for layer in self.layers:
            value, gate = layer(x).chunk(2, dim=1)
            x = x + torch.tanh(value) * torch.sigmoid(gate)
        return x.transpose(1, 2)


class Gated(nn.Module):
    """Feed-forward blocks with gated linear units."""

    def __init__(self, width, depth=8):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(width), "rise": nn.Linear(width, 4 * width),
                           "fall": nn.Linear(2 * width, width)}) for _ in range(depth)
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + layer["fall"](nn.functional.glu(layer["rise"](layer["norm"](x))))
        return x


class Recurrent(nn.Module):
    """A stack of recurrent layers."""

    def __init__(self, width, depth=3):
        super().__init__()
        self.layers = nn.GRU(width, width, num_layers=depth, batch_first=True)

    def forward(self, x):
        return self.layers(x)[0]


MODELS = (Waves, Gated, Recurrent)


class Place:
    """The card, and a model of the size asked for on it."""

    def __init__(self, size):
        torch.manual_seed(size)
        random.seed(size)
        self.size = size
        self.width = WIDTHS[size]
        self.card = torch.cuda.get_device_properties(0).total_memory
        self.model = MODELS[size](self.width).cuda()

    def batch(self, items, length=64):
        return torch.randn(items, length, self.width, device="cuda")

    def loss(self, items, length=64):
        return self.model(self.batch(items, length)).square().mean()

    def per_item(self, length=64):
        """Bytes that one item's forward holds, by two small batches."""
        def held(items):
            before = torch.cuda.memory_allocated()
            loss = self.loss(items, length)
            return torch.cuda.memory_allocated() - before, loss

        held(8)
        small, _ = held(8)
        large, _ = held(24)
        torch.cuda.empty_cache()
        return max((large - small) / 16, 1)

    def items_for(self, share, length=64):
        return int(self.card * share / self.per_item(length))

    def train(self, optimizer, items, length=64):
        self.loss(items, length).backward()
        optimizer.step()
        optimizer.zero_grad()

    def optimizer(self):
        return torch.optim.AdamW(self.model.parameters(), lr=1e-4)


def load(place):
    side = (8192, 16384, 32768)[place.size]
    layers = []
    while True:
        layers.append(nn.Linear(side, side, bias=False, device="cuda"))


def forward(place):
    place.loss(place.items_for((1.3, 1.6, 2.5)[place.size])).backward()


def table(place, share):
    """An embedding of that share of the card, whose gradient is as large as itself."""
    return nn.Embedding(int(place.card * share / 4 / 256), 256, device="cuda")


def backward(place):
    words = table(place, (0.55, 0.65, 0.8)[place.size])
    optimizer = torch.optim.SGD(words.parameters(), lr=0.1)
    words(torch.arange(4096, device="cuda")).square().mean().backward()
    optimizer.step()


def optimizer_state(place):
    words = table(place, (0.28, 0.33, 0.4)[place.size])
    optimizer = torch.optim.AdamW(words.parameters(), lr=0.1, foreach=False)
    words(torch.arange(4096, device="cuda")).square().mean().backward()
    optimizer.step()


def fragmentation(place):
    """Halves of cached blocks are kept; what is left of each is too small for what comes."""
    block = (256, 512, 1024)[place.size] << 20
    whole = [torch.empty(block, dtype=torch.uint8, device="cuda") for _ in range(int(place.card * 0.93 / block))]
    count = len(whole)
    del whole
    kept = [torch.empty(int(block * 0.55), dtype=torch.uint8, device="cuda") for _ in range(count)]
    late = [torch.empty(int(block * 0.9), dtype=torch.uint8, device="cuda") for _ in range(count)]
    return kept, late


def foreign_process(place):
    # Another process holds three fifths of the card: the harness started it.
    optimizer = place.optimizer()
    items = place.items_for((0.5, 0.55, 0.6)[place.size])
    for _ in range(3):
        place.train(optimizer, items)


def limit(place):
    share = (0.1, 0.2, 0.3)[place.size]
    torch.cuda.set_per_process_memory_fraction(share)
    optimizer = place.optimizer()
    items = max(1, int(place.card * share * 2 / place.per_item()))
    for _ in range(3):
        place.train(optimizer, items)


def leak(place):
    """A running loss that keeps the graph of every step."""
    optimizer = place.optimizer()
    items = place.items_for((0.015, 0.02, 0.03)[place.size])
    running = 0
    for _ in range(200):
        loss = place.loss(items)
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        running = running + loss


def evaluation_graph(place):
    """An evaluation that forgets no_grad and keeps its outputs."""
    optimizer = place.optimizer()
    items = place.items_for((0.05, 0.08, 0.1)[place.size])
    for _ in range(8):
        place.train(optimizer, items)
    place.model.eval()
    batch = place.batch(items)
    outputs = []
    for _ in range(200):
        outputs.append(place.model(batch))


def odd_batch(place):
    """Short sequences of all lengths, then a long one."""
    optimizer = place.optimizer()
    items = place.items_for((0.05, 0.08, 0.1)[place.size], 128)
    for step in range(40):
        place.train(optimizer, items, random.choice((32, 48, 64, 96, 128)))
    place.train(optimizer, items, 128 * 32)


def non_pytorch(place):
    """Another library of this process takes its memory from CUDA itself."""
    torch.cuda.init()
    with open("/proc/self/maps") as maps:
        path = re.search(r"(/\S*libcudart\S*)", maps.read()).group(1)
    runtime = ctypes.CDLL(path)
    pointer = ctypes.c_void_p()
    share = (0.45, 0.5, 0.6)[place.size]
    error = runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(int(place.card * share)))
    assert error == 0, error
    optimizer = place.optimizer()
    items = place.items_for(0.65)
    for _ in range(3):
        place.train(optimizer, items)


CAUSES = {
    function.__name__: function
    for function in (load, forward, backward, optimizer_state, fragmentation, foreign_process, limit, leak,
                     evaluation_graph, odd_batch, non_pytorch)
}


def hold(share):
    held = torch.empty(int(torch.cuda.get_device_properties(0).total_memory * share), dtype=torch.uint8, device="cuda")
    held.zero_()
    print("held", flush=True)
    sys.stdin.read()


def try_models():
    for model, width in zip(MODELS, WIDTHS):
        made = model(width)
        loss = made(torch.randn(2, 16, width)).square().mean()
        loss.backward()
        print(model.__name__, sum(p.numel() for p in made.parameters()), loss.item())


if __name__ == "__main__":
    if sys.argv[1] == "--try-models":
        try_models()
    elif sys.argv[1] == "hold":
        hold(float(sys.argv[2]))
    else:
        CAUSES[sys.argv[1]](Place(int(sys.argv[2])))
