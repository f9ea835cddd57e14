"""Trainings that run out of memory by what one remedy takes away: an optimizer's temporaries or its state, an evaluation's
outputs, a checkpoint on the GPU, what a forward saves, the loss of large logits with its head and alone, attention's scores,
pieces of the cache.

    removals.py CASE MODEL [--bare] [--left BYTES] [MORE]
                                       CASE of CASES, MODEL 0, 1 or 2; --bare: on the whole card, where it does not run out;
                                       --left: what a ballast leaves to PyTorch, where the case does not say so itself;
                                       MORE: what transformers' `TrainingArguments` takes, for `states`; for `attention`
                                       --attn_implementation NAME
    removals.py --try                  small forms of all on a CPU

The last line is an object of JSON: losses, what was asked of outputs, and the peaks in bytes. All is deterministic.
"""
import json
import os
import sys
import tempfile

import torch
import torch.multiprocessing.reductions
from torch import nn

SMALL = "--try" in sys.argv
DEVICE = "cpu" if SMALL else "cuda"
GIB = 1 << (16 if SMALL else 30)


class Ballast:
    """Leaves so many bytes of the card."""

    def __init__(self, left=0):
        self.held = None
        if "--left" in sys.argv:
            left = int(sys.argv[sys.argv.index("--left") + 1]) - torch.cuda.memory_reserved()
        if "--bare" not in sys.argv and not SMALL:
            free, _ = torch.cuda.mem_get_info()
            self.held = torch.empty(max(free - int(left), 1), dtype=torch.uint8, device="cuda")

    def bytes(self):
        return 0 if self.held is None else self.held.numel()


def bytes_of(model):
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def tables():
    return nn.ModuleList(nn.Embedding(GIB // 4 // 64 // 4, 64) for _ in range(8))


def layers():
    width = int((GIB / 4 / 16) ** 0.5)
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(32)))


def decoder():
    import transformers

    width = 64 if SMALL else 1536
    config = transformers.GPT2Config(vocab_size=1000, n_positions=64, n_embd=width, n_layer=2 if SMALL else 18, n_head=8)
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
    return transformers.GPT2LMHeadModel(config)


MODELS = (tables, layers, decoder)


def loss_of(model):
    if isinstance(model, nn.ModuleList):
        places = torch.arange(64, device=DEVICE)
        return sum(table(places).square().mean() for table in model)
    if isinstance(model, nn.Sequential):
        width = model[0][0].in_features
        return (model(torch.linspace(-1, 1, 4 * width, device=DEVICE).view(4, width)) - 1).square().mean()
    tokens = torch.arange(128, device=DEVICE).view(2, 64)
    return model(input_ids=tokens, labels=tokens).loss


def steps(model, optimizer, count=4):
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def foreach(which):
    """Parameters, gradients and state fit; a copy of all parameters more does not."""
    model = MODELS[which]().to(DEVICE)
    ballast = Ballast(3.6 * bytes_of(model) + GIB // 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return {"losses": steps(model, optimizer), "ballast": ballast.bytes()}


def fused(which):
    """The same, for the other way without it."""
    return foreach(which)


def states(which):
    """Adam's state does not fit beside parameters and gradients; a smaller one does."""
    import transformers

    small = {"vocab_size": 500 if SMALL else 1000, "hidden_size": 64 if SMALL else 2048, "num_hidden_layers": 2 if SMALL else 12}
    other = dict(small, intermediate_size=64 if SMALL else 4096, num_attention_heads=8)
    # The last one's words are a third of its parameters: their state stays in 32 bits where a library thinks that better.
    model = (
        decoder,
        lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**other, num_key_value_heads=8)),
        lambda: transformers.BertForMaskedLM(transformers.BertConfig(**dict(other, vocab_size=500 if SMALL else 120_000))),
    )[which]()
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    asked, _ = parser.parse_args_into_dataclasses(args=sys.argv[3:] or ["--output_dir", os.devnull], return_remaining_strings=True)
    asked.max_steps, asked.logging_steps, asked.save_strategy, asked.report_to = 6, 1, "no", []
    tokens = [torch.arange(place, place + 64) % small["vocab_size"] for place in range(64)]
    trainer = transformers.Trainer(
        model=model, args=asked, train_dataset=[{"input_ids": words, "labels": words} for words in tokens]
    )
    ballast = Ballast(2.4 * bytes_of(model) + GIB // 4)
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return {"losses": losses, "ballast": ballast.bytes()}


def load(which):
    """The checkpoint does not fit beside its model."""
    model = MODELS[which]().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    directory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        path = folder + "/state.pt"
        torch.save({"model": model.state_dict(), "step": 4}, path)
        ballast = Ballast(0.6 * bytes_of(model))
        resume(model, path)
    loaded, held = peak(), ballast.bytes()
    del ballast
    return {"losses": steps(model, optimizer), "loaded": loaded, "ballast": held}


def resume(model, path):
    model.load_state_dict(torch.load(path)["model"])


def outputs(which):
    """transformers' Trainer keeps the logits of all batches; 1.5 of twice their bytes are there."""
    import transformers

    words, length, rows = (60, 8, 24) if SMALL else (40_000, 128, 192)
    shape = dict(vocab_size=words, num_hidden_layers=1, num_attention_heads=2, hidden_size=64)
    model = (
        lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=words, n_embd=64, n_layer=1, n_head=2)),
        lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(intermediate_size=128, **shape)),
        lambda: transformers.BertForMaskedLM(transformers.BertConfig(intermediate_size=128, **shape)),
    )[which]()
    data = [{"input_ids": [n % 50] * length, "labels": [n % 50] * length} for n in range(rows)]
    sums = []

    def metrics(predictions):
        sums.append(float(predictions.predictions[::7, ::11, ::13].astype("float64").sum()))
        return {"rows": len(predictions.predictions)}

    ballast = Ballast(1.5 * rows * length * words * 4)
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            folder, per_device_train_batch_size=1, per_device_eval_batch_size=4, max_steps=4, eval_strategy="steps", eval_steps=4,
            report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1, use_cpu=SMALL,
        )
        trainer = transformers.Trainer(model, settings, train_dataset=data, eval_dataset=data, compute_metrics=metrics)
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return {"losses": losses, "outputs": sums, "ballast": ballast.bytes()}


class Encoder(nn.Module):
    """Attention by hand, so that its weights are saved as well."""

    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList((nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, width)))
            for _ in range(layers)
        )

    def forward(self, x):
        for norm, inner, outer, last in self.layers:
            q, k, v = (each.unflatten(-1, (8, -1)).transpose(1, 2) for each in inner(norm(x)).chunk(3, -1))
            x = x + outer((q @ k.transpose(-1, -2)).softmax(-1).matmul(v).transpose(1, 2).flatten(2))
            x = x + last(torch.nn.functional.gelu(x))
        return (x - 1).square().mean()


class Wide(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.LayerNorm(width)) for _ in range(layers)))

    def forward(self, x):
        return (self.layers(x) - 1).square().mean()


class Words(nn.Module):
    """A decoder of transformers' and its loss."""

    def __init__(self):
        super().__init__()
        import transformers

        width = 64 if SMALL else 768
        config = transformers.GPT2Config(vocab_size=5000, n_positions=512, n_embd=width, n_layer=2 if SMALL else 12, n_head=8)
        config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
        self.inner = transformers.GPT2LMHeadModel(config)

    def forward(self, tokens):
        return self.inner(input_ids=tokens, labels=tokens).loss


def offload(which):
    """What the forward saves is most of a step; what is left of the card is said from outside."""
    rows = 2 if SMALL else 24
    model, shape = (
        lambda: (Wide(64 if SMALL else 2048, 24), (rows * 512, 64 if SMALL else 2048)),
        lambda: (Encoder(64 if SMALL else 1024, 12), (rows, 64 if SMALL else 512, 64 if SMALL else 1024)),
        lambda: (Words(), (rows, 64 if SMALL else 512)),
    )[which]()
    model = model.to(DEVICE)
    ballast = Ballast()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses = []
    for step in range(6):
        optimizer.zero_grad()
        if which == 2:
            given = (torch.arange(shape[0] * shape[1], device=DEVICE) * (step + 1) % 5000).view(shape)
        else:
            given = torch.linspace(-1, 1 + step, shape[0] * shape[1] * (shape[2] if which == 1 else 1), device=DEVICE).view(shape)
        loss = model(given)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        del loss
    return {"losses": losses, "ballast": ballast.bytes(), "fixed": 4 * bytes_of(model)}


class Head(nn.Module):
    """A table, a layer or two, and the cross-entropy of a large vocabulary: a decoder's end. `is_counted`: its logits say as
    well how many words were right."""

    def __init__(self, words, width, is_counted=False):
        super().__init__()
        self.table, self.inner, self.head = nn.Embedding(words, width), nn.Linear(width, width), nn.Linear(width, words, bias=False)
        self.is_counted = is_counted

    def forward(self, tokens):
        logits = self.head(nn.functional.gelu(self.inner(self.table(tokens))))
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=3)
        return (loss, (logits[:, :-1].argmax(-1) == tokens[:, 1:]).sum()) if self.is_counted else (loss, None)


class Decoded(nn.Module):
    """A decoder of transformers', whose loss is that library's own."""

    def __init__(self, words, is_counted=False):
        super().__init__()
        import transformers

        width = 64 if SMALL else 512
        config = transformers.LlamaConfig(
            vocab_size=words, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2, num_attention_heads=8,
        )
        self.inner = transformers.LlamaForCausalLM(config)
        self.is_counted = is_counted

    def forward(self, tokens):
        said = self.inner(input_ids=tokens, labels=tokens)
        return said.loss, said.logits.argmax(-1).sum() if self.is_counted else None


class Tied(nn.Module):
    """A decoder written out, whose head is its table's weight, under autocast."""

    def __init__(self, words, width, layers=2):
        super().__init__()
        self.table, self.norm = nn.Embedding(words, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True, norm_first=True) for _ in range(layers)
        )
        # As GPT-2 begins.
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, tokens):
        with torch.autocast(DEVICE, torch.bfloat16):
            x = self.table(tokens)
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
            for block in self.blocks:
                x = block(x, src_mask=mask, is_causal=True)
            logits = nn.functional.linear(self.norm(x), self.table.weight)
            return nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1)), None


class Classifier(nn.Module):
    """Images of a great many classes."""

    def __init__(self, classes, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(512, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.out, self.loss, self.classes = nn.Linear(width, classes), nn.CrossEntropyLoss(label_smoothing=0.1), classes

    def forward(self, tokens):
        given = torch.sin(tokens.reshape(-1, 1).float() * torch.linspace(0, 1, 512, device=tokens.device))
        return self.loss(self.out(self.body(given)), tokens.reshape(-1)), None


def of_logits(makes, words, rows):
    model = makes().to(DEVICE)
    ballast = Ballast()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses = []
    for step in range(6):
        optimizer.zero_grad()
        tokens = (torch.arange(rows * 512, device=DEVICE) * (step + 1) % words).view(rows, 512)
        loss, right = model(tokens)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        del loss, right
    return {"losses": losses, "ballast": ballast.bytes(), "fixed": 4 * bytes_of(model)}


def chunked(which):
    """The logits and their loss are most of a step, and something else is made of them: the loss alone is in chunks."""
    words, rows, width = (500, 2, 64) if SMALL else (100_000, 16, 512)
    makes = (
        lambda: Head(words, width, is_counted=True),
        lambda: Head(words + 24, width, is_counted=True),
        lambda: Decoded(words, is_counted=True),
    )[which]
    return of_logits(makes, words, rows)


def head(which):
    """The logits go to their loss alone: the head is computed with it."""
    words, rows, width = (500, 2, 64) if SMALL else (100_000, 16, 512)
    makes = (lambda: Tied(words, width), lambda: Decoded(words), lambda: Classifier(words, width))[which]
    return of_logits(makes, words, rows)


def attention(which):
    """Scores of a model whose command asks for written-out attention."""
    import transformers

    asked = sys.argv[sys.argv.index("--attn_implementation") + 1] if "--attn_implementation" in sys.argv else "eager"
    width, heads, length, rows = (64, 2, 64, 2) if SMALL else (512, 8, 4096, 4)
    if which == 0:
        config = transformers.GPT2Config(
            vocab_size=1000, n_positions=length, n_embd=width, n_layer=2, n_head=heads, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
        )
    elif which == 1:
        config = transformers.LlamaConfig(
            vocab_size=1000, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=3, num_attention_heads=heads,
            max_position_embeddings=length,
        )
    else:
        config = transformers.BertConfig(
            vocab_size=1000, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=3, num_attention_heads=heads,
            max_position_embeddings=length, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
        )
    kind = transformers.AutoModelForMaskedLM if which == 2 else transformers.AutoModelForCausalLM
    model = kind.from_config(config, attn_implementation=asked).to(DEVICE)
    ballast = Ballast(4 * GIB)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        tokens = (torch.arange(rows * length, device=DEVICE) * (step + 1) % 1000).view(rows, length)
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        del loss
    return {"losses": losses, "ballast": ballast.bytes()}


class Passing(torch.autograd.Function):
    """Takes memory of the sizes given: the first is free again at once, the others stay for the backward."""

    @staticmethod
    def forward(ctx, weight, given, sizes):
        scratch = torch.empty(sizes[0], dtype=torch.uint8, device=weight.device)
        del scratch
        kept = [torch.empty(size, dtype=torch.uint8, device=weight.device) for size in sizes[1:]]
        ctx.save_for_backward(weight, *kept)
        return given * weight[: given.shape[1]]

    @staticmethod
    def backward(ctx, gradient):
        weight, *_ = ctx.saved_tensors
        passed_on = gradient * weight[: gradient.shape[1]]
        return torch.full_like(weight, 1e-3).mul_(gradient.mean()), passed_on, None


class CutUp(nn.Module):
    """Two layers: what the second one keeps is free again when the first one's gradient is asked for, which fits into none of it."""

    def __init__(self, first, weight, sizes):
        super().__init__()
        self.weight, self.sizes = nn.Parameter(torch.linspace(0.5, 1, weight // 4, device=DEVICE)), sizes
        self.first = nn.Parameter(torch.linspace(1, 2, first // 4, device=DEVICE))

    def forward(self, given):
        if torch.is_grad_enabled():
            return Passing.apply(self.weight, given * self.first[: given.shape[1]], self.sizes)
        # An evaluation makes pieces of what the training kept, and then needs one such block whole.
        outputs = [torch.full_like(self.weight, 0.5) for _ in self.sizes[1:]]
        scratch = torch.empty(max(self.sizes), dtype=torch.uint8, device=given.device)
        del scratch
        return given * sum(output[: given.shape[1]] for output in outputs)


# What a layer frees at once and what it keeps, and the parameters of both, in units: the momentum of the second takes a piece of
# the largest block that is kept, and what is left of that fits nothing that comes after it.
PIECES = ((112, (50, 60, 110)), (104, (30, 62, 100)), (112, (20, 110, 52, 48)))


def pieces(which):
    """The optimizer's state takes a piece of a block that a step has freed, and the next step needs another. Where that
    block has gone back to the GPU when the first layer's gradient was asked for, the state has blocks of its own."""
    unit = GIB >> (7 if which == 0 else 8)
    first, sizes = PIECES[which]
    model = CutUp(first * unit, 64 * unit, [size * unit for size in sizes]).to(DEVICE)
    ballast = Ballast()
    losses = descend(model)
    reserved = 0 if SMALL else torch.cuda.max_memory_reserved()
    return {"losses": losses, "ballast": ballast.bytes(), "reserved": reserved}


def splits(which):
    """The same in a program that shares tensors of the GPU between processes, where no segment may grow."""
    if not SMALL:
        torch.multiprocessing.reductions.reduce_tensor(torch.ones(1, device=DEVICE))
    return pieces(which)


def descend(model, momentum=0.9):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=momentum, foreach=False)
    losses = []
    for step in range(6):
        given = torch.linspace(-1, 1 + step, 8 * 256, device=DEVICE).view(8, 256)
        optimizer.zero_grad()
        loss = model(given).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        del loss
    return losses


def emptying(which):
    """What an evaluation keeps takes pieces of the blocks that training has left, and then it needs such a block whole. With
    --bare the program empties the cache itself."""
    # Each block's size and how many the training keeps, and how many units the whole card is: more than the training takes, less
    # than the evaluation does with pieces that it can not use.
    kept, count, card = ((110, 3, 540), (100, 4, 600), (90, 5, 645))[which]
    unit = GIB >> 8 if SMALL else torch.cuda.mem_get_info()[0] // card >> 21 << 21
    model = CutUp(8 * unit, 64 * unit, [size * unit for size in (20, *[kept] * count)]).to(DEVICE)
    losses = descend(model, momentum=0.0)
    if "--bare" in sys.argv:
        torch.cuda.empty_cache()
    model.eval()
    with torch.no_grad():
        losses.append(model(torch.linspace(-1, 1, 8 * 256, device=DEVICE).view(8, 256)).square().mean().item())
    return {"losses": losses, "ballast": 0}


def peak():
    return 0 if SMALL else torch.cuda.max_memory_allocated()


ALL = (foreach, fused, states, outputs, load, offload, chunked, head, attention, pieces, splits, emptying)
CASES = {function.__name__: function for function in ALL}


def main(case, which):
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    said = CASES[case](which)
    print(json.dumps(dict(said, peak=peak())))


if __name__ == "__main__":
    if SMALL:
        for each in CASES:
            for model in range(3):
                main(each, model)
    else:
        main(sys.argv[1], int(sys.argv[2]))
