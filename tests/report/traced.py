"""A recording with a traced step, made up: the step of a model of twelve blocks that runs out of memory.

No GPU has measured its figures. Its names are meant to be more than text where a page lets them.
"""

import json

MIB = 1 << 20
LAYERS = 12
HOSTILE = "</script><b id=broken>\u2028\u202e&amp;"
CARD = 24 << 30


class Step:
    """Blocks in the order of their allocation, those alive at the beginning first."""

    def __init__(self):
        self.carried, self.events, self.origins, self.blocks = [], [], [], []
        self.modules, self.of_modules = [], []

    def origin(self, file, line, function, kind=None):
        origin = {"line": {"file": file, "line": line, "function": function}}
        if kind:
            origin["kind"] = kind
        self.origins.append(origin)
        return len(self.origins)

    def module(self, name):
        if name and name not in self.modules:
            self.modules.append(name)
        return self.modules.index(name) + 1 if name else 0

    def block(self, size, origin, module):
        self.blocks.append(str(origin))
        self.of_modules.append(str(self.module(module)))
        return str(int(size * MIB))

    def carry(self, size, origin, module=None):
        self.carried.append(self.block(size, origin, module))

    def allocate(self, size, origin, module=None):
        self.events.append(self.block(size, origin, module))


def step():
    made = Step()
    weights = made.origin("/home/ada/gpt/model.py", 41, "build", "parameters")
    moments = made.origin("/home/ada/gpt/train.py", 97, "main", "optimizer_state")
    scores = made.origin("/home/ada/gpt/model.py", 58, "attend")
    hidden = made.origin("/home/ada/gpt/%s.py" % HOSTILE, 74, HOSTILE)
    logits = made.origin("/home/ada/gpt/train.py", 88, "main")
    gradients = made.origin("/home/ada/gpt/train.py", 92, "main", "gradients")
    for layer in range(LAYERS):
        for part in ("attn.c_attn", "mlp.c_fc", "mlp.c_proj"):
            made.carry(90, weights, "transformer.h.%d.%s" % (layer, part))
            made.carry(180, moments, "transformer.h.%d.%s" % (layer, part))
    for layer in range(LAYERS):
        made.allocate(300, scores, "transformer.h.%d.attn" % layer)
        made.allocate(120, scores, "transformer.h.%d.attn" % layer)
        made.events.append("-1")
        made.allocate(420, hidden, "transformer.h.%d.mlp" % layer)
    made.allocate(900, hidden, HOSTILE)
    made.allocate(1500, logits, "lm_head")
    backward = len(made.events)
    made.allocate(1500, logits, "lm_head")
    for layer in reversed(range(LAYERS)):
        made.allocate(90, gradients, "transformer.h.%d.attn" % layer)
    return {
        "pid": 71,
        "device": 0,
        "step": 12,
        "failed": True,
        "trace": "%s | %s" % (" ".join(made.carried), " ".join(made.events)),
        "phases": [{"phase": "forward", "from": 0}, {"phase": "backward", "from": backward}],
        "origins": made.origins,
        "blocks": " ".join(made.blocks),
        "modules": made.modules,
        "block_modules": " ".join(made.of_modules),
    }


def write(path):
    command = {"argv": ["python", "train.py", "--name", HOSTILE], "cwd": "/home/ada/" + HOSTILE}
    device = {"index": 0, "uuid": "made-up", "name": "a GPU that is made up " + HOSTILE, "total": CARD}
    events = [
        (0, "session_started", {"id": "made-up", "wall": 1795250587.0, "monotonic": 1, "schema": 1, "version": "0.2.0"}),
        (1, "started", {"run": 1, "pid": 71, "command": command}),
        (2, "device", dict(device, used=0, free=CARD)),
        (3, "hello", {"pid": 71, "run": 1, "python": "3.12", "torch": "2.9.0 " + HOSTILE, "devices": [dict(device, ordinal=0)], "backend": "native"}),
    ]
    events[0][2].update(command=command, probe=True, nvml=True)
    for second in range(1, 40):
        used = int((2 + 20 * (second % 4) / 3) * (1 << 30))
        sample = {"pid": 71, "device": 0, "allocated": used, "reserved": 23 << 30, "allocated_peak": used, "reserved_peak": 23 << 30}
        events.append((second * 1_000_000, "sample", sample))
    events.append((40_000_000, "step_trace", step()))
    oom = {"pid": 71, "device": 0, "requested": 1500 * MIB, "total": CARD, "free": 300 * MIB, "phase": "backward", "step": 11}
    oom["sample"] = dict(sample, allocated=23 << 30)
    events.append((40_100_000, "oom", oom))
    events.append((41_000_000, "exited", {"run": 1, "exit": {"code": 1}}))
    with open(path, "w", encoding="utf-8") as file:
        for at, kind, fields in events:
            file.write(json.dumps({"at": at, "event": kind, **fields}) + "\n")
