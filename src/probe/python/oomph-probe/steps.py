"""Optimizer steps, by torch's global hooks (since 2.0; earlier versions are probed without them).

Every step is counted. Readings and lines are thinned out: of steps that follow each other faster than
THIN_NS, or faster than a reading is worth on this machine, only some are read, so that a training with
short steps pays almost nothing. No reference to a
step, a parameter or a closure is kept, so nothing here keeps a tensor alive.
"""
import collections
import sys
import time
import weakref
from _thread import get_ident

THIN_NS = 20_000_000
# A reading may take one part in so many of the time. Of the first steps each is read.
WORTH = 1000
LONGEST_PAUSE_NS = 500_000_000
FIRST = 20
# A step that raised never ends; one that is older than this is assumed to have raised.
STALE_NS = 600_000_000_000
# A finished but unsent step is sent after this long without another one.
SETTLED_NS = 200_000_000


class Steps:
    """The steps of this process. Hooks run on the training's thread, `report` on the sampler's."""

    def __init__(self, process):
        self.process = process
        self.count = 0
        self.thread = None
        self.running = []
        self.read_at = 0
        self.ended_at = 0
        self.latest = None
        self.sent = 0
        self.lines = collections.deque(maxlen=256)
        self.devices = {}
        # The bytes alive after the last step that was read, by device.
        self.after = {}
        self.spent_ns = 0
        self.pause_ns = THIN_NS

    def register(self):
        if self.process.version < (2, 0):
            return
        torch_optimizer = sys.modules["torch.optim.optimizer"]

        def before_step(optimizer, args, kwargs):
            try:
                if self.process.live:
                    self.thread = get_ident()
                    self.begin(optimizer, time.monotonic_ns())
            except Exception:
                pass

        def after_step(optimizer, args, kwargs):
            try:
                if self.process.live:
                    self.end(optimizer, time.monotonic_ns())
            except Exception:
                pass

        # torch.compile must not look into the hooks where a program compiles its optimizer's step.
        before_step._torchdynamo_disable = True
        after_step._torchdynamo_disable = True
        torch_optimizer.register_optimizer_step_pre_hook(before_step)
        torch_optimizer.register_optimizer_step_post_hook(after_step)

    def is_running(self):
        """Whether an optimizer step is running."""
        return bool(self.running)

    def forget_running(self):
        """A step ran out of memory: it will most likely not finish."""
        del self.running[:]

    def begin(self, optimizer, now):
        identity = id(optimizer)
        self.leave(identity)
        while self.running and now - self.running[0][1] > STALE_NS:
            del self.running[0]
        device = edge = None
        if not self.running:
            self.process.tracing.optimizer_began()
        if not self.running and self.is_due(now):
            self.read_at = now
            device = self.device_of(optimizer)
            edge = self.process.allocator.read(device).edge()
            self.spent_ns = time.monotonic_ns() - now
        self.running.append((identity, now, device, edge))

    def end(self, optimizer, now):
        step = self.leave(id(optimizer))
        if self.running:
            # An optimizer inside another one's step: the wrapper's end is the step's end.
            return
        self.count += 1
        self.ended_at = now
        on = self.device_of(optimizer)
        self.process.step_ended(self.count)
        self.process.tracing.step_ended(self.count, on)
        self.process.requests.step_ended(on)
        if self.process.recording is not None:
            self.process.recording.rest()
        if step is None or step[3] is None:
            return
        _, began, device, before = step
        reading = self.process.allocator.read(device)
        after = reading.edge()
        self.after[device] = reading.allocated
        self.latest = {
            "event": "step",
            "pid": self.process.pid,
            "device": device,
            "count": self.count,
            "micros": (now - began) // 1000,
            "before": before,
            "after": after,
        }
        self.lines.append((now, self.latest))
        spent = self.spent_ns + time.monotonic_ns() - now
        self.pause_ns = min(max(THIN_NS, WORTH * spent), LONGEST_PAUSE_NS)
        # These two count what they cost themselves.
        self.process.structure.step_ended(optimizer, self.count)
        self.process.growth.step_ended(device, self.count, reading.blocks)

    def is_due(self, now):
        return now - self.read_at >= (THIN_NS if self.count < FIRST else self.pause_ns)

    def leave(self, identity):
        """Removes this optimizer's step, and those still open inside it, from the running ones."""
        for place, step in enumerate(self.running):
            if step[0] == identity:
                del self.running[place:]
                return step
        return None

    def device_of(self, optimizer):
        known = self.devices.get(id(optimizer))
        if known is not None and known[0]() is optimizer:
            return known[1]
        device = self.find_device(optimizer)
        if len(self.devices) > 64:
            self.devices.clear()
        self.devices[id(optimizer)] = (weakref.ref(optimizer), device)
        return device

    def find_device(self, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.is_cuda:
                    return parameter.device.index
        return self.process.torch.cuda.current_device()

    def report(self, wire, at_end):
        """Queues the steps that ended since the last call."""
        while self.lines:
            ns, line = self.lines.popleft()
            wire.put(line, ns)
            self.sent = line["count"]
        latest, count = self.latest, self.count
        settled = at_end or time.monotonic_ns() - self.ended_at >= SETTLED_NS
        if latest is not None and count > self.sent and settled and not self.lines:
            # This step was not read: the figures are those of an earlier one, and the line says so.
            wire.put(dict(latest, count=count, figures_of=latest["count"]), self.ended_at)
            self.sent = count
