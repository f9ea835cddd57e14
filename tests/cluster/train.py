#!/usr/bin/env python3
"""A training of several ranks on simulated GPUs, for srun (one task a rank) or torchrun.

The ranks meet after each step over TCP, as an all-reduce would: if one is gone the others fail with what NCCL
would say, so that the log has consequences beside the cause. One rank has larger batches than the others.
"""
import argparse
import os
import pathlib
import signal
import socket
import sys
import time

DEMO = pathlib.Path(__file__).resolve().parents[2] / "demo"
sys.path[:0] = [str(DEMO), str(DEMO / "simulated")]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=40)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--odd-rank", type=int, default=1, help="whose batches are larger; -1 for none")
    parser.add_argument("--odd-share", type=float, default=1.5)
    parser.add_argument("--port", type=int, default=29611)
    parser.add_argument("--steps-log", help="a directory for one file a rank, with a line a step")
    parser.add_argument("--hang", action="store_true", help="a rank that loses the others waits for them, as NCCL without a time-out")
    parser.add_argument("--last-words", help="a file that says which signal ended it")
    return parser.parse_args()


def number(*names):
    return next(int(os.environ[name]) for name in names if name in os.environ)


class Peers:
    """Rank 0 hears of every other rank's step, and answers."""

    def __init__(self, rank, world, port):
        self.rank = rank
        host = os.environ.get("MASTER_ADDR", "127.0.0.1")
        if rank == 0:
            server = socket.create_server(("", port))
            server.settimeout(60)
            self.sockets = [server.accept()[0] for _ in range(world - 1)]
        else:
            self.sockets = [self.connect(host, port)]
        for each in self.sockets:
            each.settimeout(60)

    def connect(self, host, port):
        deadline = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection((host, port), 5)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def meet(self):
        try:
            turns = (self.hear, self.tell) if self.rank == 0 else (self.tell, self.hear)
            for turn in turns:
                turn()
        except OSError:
            raise RuntimeError(
                "[%d] NCCL communicator was aborted on rank %d. Original reason for failure was: "
                "Connection closed by remote peer" % (self.rank, self.rank)
            )

    def hear(self):
        for each in self.sockets:
            if each.recv(1) != b".":
                raise OSError

    def tell(self):
        for each in self.sockets:
            each.sendall(b".")


def main():
    args = arguments()
    rank, world = number("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"), number("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")
    if args.last_words:
        def ended(signum, frame):
            with open("%s.%d" % (args.last_words, rank), "a") as file:
                file.write("%s\n" % signal.Signals(signum).name)
            if signum != signal.SIGUSR1:
                sys.exit(128 + signum)

        for each in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(each, ended)
    import torch
    from training import data, models, sizing

    device = torch.device("cuda")
    gpu = torch.cuda.get_device_properties(0)
    size = sizing.MODELS["gpt"](gpu.total_memory, 1.0)
    model = models.MODELS["gpt"](size).to(device)
    source = data.DATA["gpt"](size, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    peers = Peers(rank, world, args.port)
    batch = int(args.batch_size * (args.odd_share if rank == args.odd_rank else 1))
    print("rank %d of %d on %s: batch %d" % (rank, world, os.environ.get("SLURMD_NODENAME"), batch), flush=True)
    for step in range(1, args.steps + 1):
        inputs, targets = source.batch(batch, 1.0)
        loss, _ = model(inputs, targets)
        loss.backward()
        try:
            peers.meet()
        except RuntimeError:
            if not args.hang:
                raise
            print("rank %d waits" % rank, flush=True)
            time.sleep(600)
        optimizer.step()
        optimizer.zero_grad()
        if args.steps_log:
            with open(os.path.join(args.steps_log, "rank-%d" % rank), "a") as file:
                file.write("%d %f %s\n" % (step, time.time(), os.environ.get("SLURM_JOB_ID")))
    print("rank %d finished %d steps, peak %d" % (rank, args.steps, torch.cuda.max_memory_allocated()), flush=True)


if __name__ == "__main__":
    main()
