#!/usr/bin/env python3
"""A small but real PyTorch training to try oomph on.

    oomph python3 demo/train.py --batch-size 64

The model is sized for the GPU, so that batch 64 runs out of memory on any GPU and batch 32 fits. Where there is no
PyTorch with CUDA, or others use the GPU, the same code runs on a simulated GPU (demo/simulated) and says so.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("gpt", "cnn", "mlp"), default="gpt")
    parser.add_argument("--batch-size", type=positive, default=64, metavar="N", help="samples per forward (default 64)")
    parser.add_argument("--grad-accum", type=positive, default=1, metavar="N", help="forwards per step (default 1)")
    parser.add_argument("--amp", action="store_true", help="bfloat16 where torch.autocast uses it")
    parser.add_argument("--steps", type=positive, default=60, metavar="N", help="optimizer steps (default 60)")
    parser.add_argument(
        "--scenario",
        choices=("capacity", "growth", "fragmentation", "leak", "eval", "none"),
        default="capacity",
        help="what goes wrong (default: capacity, too large at batch 64; growth: only once the samples get longer)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--real", action="store_true", help="only a real GPU, even if others use it")
    where.add_argument("--simulated", action="store_true", help="the simulated GPU, even if there is a real one")
    parser.add_argument("--card", type=gibibytes, metavar="GIB", help="the simulated GPU's memory (default 24)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(words)
    if args.real and args.card is not None:
        parser.error("--card is the simulated GPU's memory; it cannot be combined with --real")
    return args


def positive(word):
    if not word.isdigit() or int(word) < 1:
        raise argparse.ArgumentTypeError("%r is not a whole number of at least 1" % word)
    return int(word)


def gibibytes(word):
    try:
        size = float(word)
    except ValueError:
        size = 0.0
    if not 2 <= size <= 4096:
        raise argparse.ArgumentTypeError("%r is not a size between 2 and 4096 GiB" % word)
    return size


def main():
    args = arguments()
    from training import backend

    backend.choose(args.real, args.simulated, args.card)
    import torch

    train(args, simulated="simulated" in torch.__version__)


def train(args, simulated):
    import torch
    from training import data, models, progress, scenarios, sizing

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda")
    gpu = torch.cuda.get_device_properties(0)
    scenario = scenarios.SCENARIOS[args.scenario](gpu.total_memory, args.steps, args.seed)
    size = sizing.MODELS[args.model](gpu.total_memory, scenario.fill)
    model = models.MODELS[args.model](size).to(device)
    source = data.DATA[args.model](size, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    print(
        "%s of %d layers, width %d, length %d; batch %d, %d forward(s) a step%s; on %s"
        % ((args.model, size.layers, size.width, size.length, args.batch_size, args.grad_accum)
           + (", AMP" if args.amp else "", gpu.name)),
        flush=True,
    )
    line = progress.Progress(args.steps, simulated)
    step = 0
    try:
        for step in range(1, args.steps + 1):
            loss = train_step(args, model, source, optimizer, scenario, step)
            line.show(step, loss)
            if scenario.validates_after(step):
                validate(args, model, source, scenario, line)
    except BaseException:
        line.close()
        print("ended in step %d of %d" % (step, args.steps), flush=True)
        raise
    line.close()
    print("finished %d steps, peak %.2f GiB allocated of %.2f GiB%s" % (
        args.steps,
        torch.cuda.max_memory_allocated() / sizing.GIB,
        gpu.total_memory / sizing.GIB,
        " (simulated)" if simulated else "",
    ))


def train_step(args, model, source, optimizer, scenario, step):
    """One optimizer step of `grad_accum` forward passes: the gradient of the mean over all their samples."""
    import torch

    total = 0.0
    for _ in range(args.grad_accum):
        inputs, targets = source.batch(args.batch_size, scenario.share(step))
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.amp):
            loss, states = model(inputs, targets)
        loss = loss / args.grad_accum
        loss.backward()
        scenario.after_backward(states)
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    scenario.after_step()
    return total


def validate(args, model, source, scenario, line):
    """The mean loss over some batches. Lacks torch.no_grad(), on purpose."""
    import torch

    model.eval()
    losses = []
    for number in range(1, scenario.batches + 1):
        inputs, targets = source.batch(max(1, args.batch_size // 2), scenario.share(0))
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.amp):
            loss, _ = model(inputs, targets)
        losses.append(loss)
        line.show(number, loss.item(), doing="validation")
    model.train()
    return sum(losses[1:], losses[0]) / len(losses)


if __name__ == "__main__":
    main()
