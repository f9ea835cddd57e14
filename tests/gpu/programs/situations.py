"""Runs out of memory on purpose in the situations that people report: evaluations, checkpoints, logits, attention, retries.

    situations.py CASE SIZE        CASE of CASES below, SIZE 0, 1 or 2
    situations.py leave SHARE      leaves a process behind that holds that share of the card until its input ends
    situations.py --try            small forms of those that need no GPU

All is sized from the card. Where a part of the card has to be full before, `Full` holds it.
"""
import copy
import os
import pathlib
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F

GIB = 1 << 30


class Full:
    """A model that leaves so many bytes of the card."""

    def __init__(self, left):
        torch.zeros(1, device="cuda")
        free, _ = torch.cuda.mem_get_info()
        self.weights = torch.empty((free - left) // 4, device="cuda")


class Head(nn.Module):
    """A narrow language model with a large vocabulary."""

    def __init__(self, vocabulary, width=64):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, labels=None):
        logits = self.lm_head(self.words(tokens))
        if labels is None:
            return logits
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))


class WrittenAttention(nn.Module):
    """Attention as it stands in textbooks."""

    def __init__(self, width, heads=8):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(width, 3 * width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        att = (q @ k.transpose(-2, -1)) * (q.size(-1) ** -0.5)
        att = F.softmax(att, dim=-1)
        return x + (att @ v).transpose(1, 2).reshape(batch, length, width)


def card():
    return torch.cuda.get_device_properties(0).total_memory


def trainer_evaluation(size):
    """transformers' Trainer keeps the logits of all batches."""
    import transformers

    vocabulary, length, items = 50_000, (256, 512, 1024)[size], 8
    config = transformers.GPT2Config(vocab_size=vocabulary, n_positions=length, n_embd=64, n_layer=1, n_head=2)
    batches = int(1.4 * card() / (items * length * vocabulary * 4)) + 4
    rows = [{"input_ids": [n % 97] * length, "labels": [n % 97] * length} for n in range(items * batches)]
    with tempfile.TemporaryDirectory() as directory:
        arguments = transformers.TrainingArguments(
            directory, per_device_train_batch_size=2, per_device_eval_batch_size=items, max_steps=3, eval_strategy="steps",
            eval_steps=3, report_to=[], save_strategy="no", disable_tqdm=True,
        )
        trainer = transformers.Trainer(
            transformers.GPT2LMHeadModel(config), arguments, train_dataset=rows, eval_dataset=rows,
            compute_metrics=lambda predictions: {"n": len(predictions.predictions)},
        )
        trainer.train()


def own_list(size):
    """An evaluation that keeps its logits in a list."""
    model = Head((20_000, 40_000, 80_000)[size]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.randint(0, 20_000, (8, 256), device="cuda")
    for _ in range(4):
        model(tokens, tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
    evaluate(model, tokens)


@torch.no_grad()
def evaluate(model, tokens):
    model.eval()
    outputs = []
    for _ in range(100_000):
        outputs.append(model(tokens))
    return outputs


def checkpoint_load(size):
    """A checkpoint is read beside a model that fills the card."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        path = pathlib.Path(directory) / "state.pt"
        torch.save({str(n): torch.empty(GIB // 16, device="cuda") for n in range(4 * (size + 1))}, path)
        torch.cuda.empty_cache()
        full = Full(GIB // 2)
        state = torch.load(path)
    return full, state


def optimizer_load(size):
    """The optimizer's state of a checkpoint, read into RAM as it should be, does not fit on the card."""
    words = nn.Embedding((size + 1) * GIB // 4 // 64, 64, device="cuda")
    optimizer = torch.optim.AdamW(words.parameters(), lr=0.1)
    state = torch.zeros_like(words.weight, device="cpu")
    saved = optimizer.state_dict()
    saved["state"] = {0: {"step": torch.tensor(1.0), "exp_avg": state, "exp_avg_sq": state}}
    full = Full((size + 1) * GIB // 2)
    optimizer.load_state_dict(saved)
    return full


def checkpoint_save(size):
    """The best parameters are kept as a copy on the card."""
    words = nn.Embedding((size + 1) * GIB // 4 // 64, 64, device="cuda")
    full = Full((size + 1) * GIB // 2)
    best = copy.deepcopy(words.state_dict())
    return full, best


def large_logits(size):
    """A backward of the loss has log-probabilities and two gradients of their size: the third does not fit."""
    vocabulary = (100_000, 150_000, 250_000)[size]
    model = Head(vocabulary).cuda()
    items = int(0.4 * card() / (vocabulary * 4) / 256) + 1
    tokens = torch.randint(0, vocabulary, (items, 256), device="cuda")
    for _ in range(3):
        model(tokens, tokens).backward()


def attention_scores(size):
    length = (4096, 6144, 8192)[size]
    items = int(0.06 * card() / (8 * length * length * 4)) + 1
    model = nn.Sequential(*(WrittenAttention(128) for _ in range(16))).cuda()
    model(torch.randn(items, length, 128, device="cuda")).square().mean().backward()


def attention_weights(size):
    """torch's own attention is asked for its weights."""
    length = (4096, 6144, 8192)[size]
    items = int(0.06 * card() / (8 * length * length * 4)) + 1
    layers = nn.ModuleList(nn.MultiheadAttention(128, 8, batch_first=True) for _ in range(16)).cuda()
    x = torch.randn(items, length, 128, device="cuda")
    for layer in layers:
        x, _ = layer(x, x, x, need_weights=True, average_attn_weights=False)
    x.square().mean().backward()


def step(model, x):
    return model(x).square().mean()


def held_by_exception(size):
    """A retry inside of `except`, with half the batch."""
    width = (1024, 2048, 4096)[size]
    model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(24))).cuda()
    x = torch.randn(int(1.5 * card() / (48 * width * 4)), width, device="cuda")
    try:
        step(model, x).backward()
    except torch.OutOfMemoryError:
        step(model, x[: len(x) // 2]).backward()


def unused_block(size):
    """Most of a large segment is free, but belongs to another stream."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        whole = torch.empty(int(card() * (0.6, 0.65, 0.7)[size]), dtype=torch.uint8, device="cuda")
        del whole
        piece = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    wanted = torch.empty(int(card() * 0.5), dtype=torch.uint8, device="cuda")
    return piece, wanted


def optimizer_foreach(size):
    """State fits, the temporaries of foreach do not."""
    share = (0.21, 0.22, 0.23)[size]
    tables = nn.ModuleList(nn.Embedding(int(card() * share / 4 / 64 / 4), 64, device="cuda") for _ in range(4))
    optimizer = torch.optim.AdamW(tables.parameters(), lr=0.1, foreach=True)
    for words in tables:
        words(torch.arange(64, device="cuda")).square().mean().backward()
    optimizer.step()


def second_step(size):
    """The first step fits; the second one finds its state beside it."""
    share, width = (0.14, 0.15, 0.16)[size], (1024, 2048, 4096)[size]
    words = nn.Embedding(int(card() * share / 4 / 64), 64, device="cuda")
    model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(24))).cuda()
    x = torch.randn(int(0.6 * card() / (48 * width * 4)), width, device="cuda")
    optimizer = torch.optim.AdamW([*model.parameters(), *words.parameters()], lr=1e-4, foreach=False)
    for _ in range(3):
        (step(model, x) + words(torch.arange(64, device="cuda")).square().mean()).backward()
        optimizer.step()
        optimizer.zero_grad()


def attention_math(size):
    """torch's own attention without a fused kernel."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    length = (4096, 6144, 8192)[size]
    x = torch.randn(int(0.06 * card() / (8 * length * length * 4)) + 1, 8, length, 16, device="cuda", requires_grad=True)
    with sdpa_kernel(SDPBackend.MATH):
        for _ in range(16):
            x = x + F.scaled_dot_product_attention(x, x, x)
    x.square().mean().backward()


def wrong_size(size):
    """A number in a shape is a product of two that should have been divided."""
    model = nn.Linear(64, 64, device="cuda")
    positions = torch.zeros(1 << (45, 50, 59)[size], device="cuda")
    return model(positions.view(-1, 64))


def own_ranks(size):
    """Two ranks that both train on the first GPU."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    torch.cuda.set_device(0)
    if dist.get_rank() == 1:
        held = torch.empty(int(card() * (0.45, 0.5, 0.55)[size]), dtype=torch.uint8, device="cuda")
        dist.barrier()
        dist.barrier()
        return held
    dist.barrier()
    width = 2048
    model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(24))).cuda()
    step(model, torch.randn(int(0.7 * card() / (48 * width * 4)), width, device="cuda")).backward()
    dist.barrier()


def left_over(size):
    """A worker of an earlier run of this program holds three fifths of the card (`leave`: the harness ran it)."""
    width = 2048
    model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(24))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        step(model, torch.randn(int((0.5, 0.55, 0.6)[size] * card() / (48 * width * 4)), width, device="cuda")).backward()
        optimizer.step()
        optimizer.zero_grad()


def leave(share):
    """An earlier run: its worker goes on while it ends."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        with os.fdopen(reading) as told:
            print(told.readline().strip(), flush=True)
        return
    os.close(reading)
    held = torch.empty(int(card() * share), dtype=torch.uint8, device="cuda") if torch.cuda.is_available() else None
    with os.fdopen(writing, "w") as tell:
        tell.write("held\n")
    sys.stdin.read()
    del held


def wide(size):
    """A model, and the rows whose step takes a fifth of the card."""
    width = (1024, 2048, 4096)[size]
    model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(24))).cuda()
    return model, width, int(0.2 * card() / (48 * width * 4))


def recorded(model, x):
    """A step as a CUDA graph, recorded as torch's notes on them say: behind a step on another stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step(model, x[:64]).backward()
    torch.cuda.current_stream().wait_stream(stream)
    model.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(model, x)
        loss.backward()
    return graph, x, loss


def graph_pools(size):
    """A graph for each length of the input: each has a pool of its own."""
    model, width, rows = wide(size)
    return [recorded(model, torch.randn(rows - 64 * n, width, device="cuda")) for n in range(16)]


def beside_graphs(size):
    """What runs without a graph finds no room beside the pools of those that were recorded."""
    model, width, rows = wide(size)
    graphs = [recorded(model, torch.randn(rows - 64 * n, width, device="cuda")) for n in range(3)]
    model.zero_grad()
    step(model, torch.randn(3 * rows, width, device="cuda")).backward()
    return graphs


def autotuning(size):
    """Kernels are tried out on inputs of their own, beside a step that fills the card."""
    rows, width = (16, 24, 32)[size] * 8192, 4096
    model = nn.Linear(width, width, bias=False, device="cuda")
    x = torch.randn(rows, width, device="cuda")
    compiled = torch.compile(model, mode="max-autotune-no-cudagraphs", dynamic=False)
    # What the product itself takes is there; what the trials take beside it is not.
    full = Full(rows * width * 4 + GIB // 2)
    with torch.no_grad():
        compiled(x)
    return full


CASES = {
    function.__name__: function
    for function in (trainer_evaluation, own_list, checkpoint_load, optimizer_load, checkpoint_save, large_logits, attention_scores,
                     attention_weights, held_by_exception, unused_block, optimizer_foreach, own_ranks, left_over, graph_pools,
                     beside_graphs, autotuning, second_step, attention_math, wrong_size)
}


def try_models():
    tokens = torch.randint(0, 50, (2, 8))
    print("head", Head(50)(tokens, tokens).item())
    print("attention", WrittenAttention(32)(torch.randn(2, 8, 32)).shape)


if __name__ == "__main__":
    if sys.argv[1] == "--try":
        try_models()
    elif sys.argv[1] == "leave":
        leave(float(sys.argv[2]))
    else:
        CASES[sys.argv[1]](int(sys.argv[2]))
