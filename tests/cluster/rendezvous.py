"""torchrun with a rendezvous: a launcher, and an oomph, on each of two nodes with a network between them.

The nodes are network namespaces, joined by a pair of virtual interfaces, and mount namespaces in which /tmp and /run are
their own. torchrun is PyTorch's; the training it starts has the simulated GPU.
"""
import os
import shlex
import subprocess
import time

from slurm import PRIVATE, until
from stage import TOO_LARGE, TRAIN, check

NODES = {"oomph-a": "10.77.31.1", "oomph-b": "10.77.31.2"}
RENDEZVOUS = "10.77.31.1:29471"


class Network:
    """Two namespaces that see each other, and nothing else."""

    def __enter__(self):
        self.__exit__()
        self.ip("link", "add", "oomph-a0", "type", "veth", "peer", "name", "oomph-b0")
        for name, address in NODES.items():
            self.ip("netns", "add", name)
            self.ip("link", "set", name + "0", "netns", name)
            self.ip("-n", name, "address", "add", address + "/24", "dev", name + "0")
            for interface in (name + "0", "lo"):
                self.ip("-n", name, "link", "set", interface, "up")
        return self

    def __exit__(self, *_):
        for name in NODES:
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "delete", "oomph-a0"], stderr=subprocess.DEVNULL)

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True)


def start(stage, number, before):
    """The node's launcher; `before` is oomph with its options, or nothing."""
    (name, address) = list(NODES.items())[number]
    log = stage.place / "log"
    log.mkdir(exist_ok=True)
    torchrun = [stage.torchrun, "--nnodes", "2", "--nproc_per_node", "1", "--node_rank", number]
    torchrun += ["--rdzv_backend", "c10d", "--rdzv_endpoint", RENDEZVOUS, "--rdzv_id", stage.port, "--local_addr", address]
    # torchrun looks for its own address among the host's, which network namespaces do not tell it.
    torchrun += ["--rdzv_conf", "is_host=%s" % ("true" if number == 0 else "false")]
    training = [TRAIN, "--batch-size", TOO_LARGE, "--steps", "30", "--steps-log", log, "--port", stage.port]
    words = " ".join(shlex.quote(str(word)) for word in [*before, *torchrun, *training])
    environment = dict(os.environ, **{key: str(value) for key, value in stage.variables().items()})
    environment["SLURMD_NODENAME"] = name
    output = open(stage.place / (name + ".out"), "ab")
    # ip's own mount namespace is left for one with a /run of its own.
    command = ["ip", "netns", "exec", name, "unshare", "--mount", "sh", "-c", PRIVATE + "exec " + words]
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=stage.place)


def finished(launchers, seconds=240):
    until("both launchers have ended", lambda: all(each.poll() is not None for each in launchers), seconds)
    return [each.returncode for each in launchers]


def torchrun(stage):
    """Rank 1 runs out on the second node: its oomph names it, prints the edit for all nodes and starts nothing; both
    statuses are torchrun's."""
    oomph = [stage.oomph, "--headless", "--no-nvml", "--on-oom", "auto", "--allow", "effective-batch", "--"]
    began = time.monotonic()
    with Network():
        statuses = finished([start(stage, number, oomph) for number in (0, 1)])
        took = round(time.monotonic() - began, 1)
        for name in NODES:
            (stage.place / (name + ".out")).rename(stage.place / (name + ".oomph"))
        stage.port += 1
        plain = finished([start(stage, number, []) for number in (0, 1)])
    check(statuses == plain, "with oomph, without:", statuses, plain)
    first, second = [(stage.place / (name + ".oomph")).read_text() for name in NODES]
    check("out of memory:" in second and "Rank 1 on oomph-b ran out, the only one of 2 ranks." in second, second[-4000:])
    check("--batch-size 20" in second and "on every node" in second, second[-4000:])
    check("not relaunched: this is one part of a job" in second, second[-4000:])
    check("oomph: out of memory" not in first, first[-4000:])
    # Once with oomph, once without.
    check(len(stage.attempts("log")) == 4, "started again:", stage.attempts("log"))
    return {"statuses": statuses, "seconds": took}


ALL = [torchrun]
