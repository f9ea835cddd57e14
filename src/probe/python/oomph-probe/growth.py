"""Which lines of the program hold more from step to step: what each line holds is summed up after
some steps, more rarely the longer the training goes on, and two of these sums are compared.

Taken on the training's thread at the end of a step, when activations are gone; where lines are not
recorded, or blocks are so many that it would be felt, it is left out.
"""
import time

from . import snapshot

# After the fourth step, the eighth, and so on; the last lies at least half way back then.
FIRST = 4
# Live blocks beyond which a snapshot takes tens of milliseconds.
MOST_BLOCKS = 20000
# So many sums are taken as their steps come; then they take at most this share of the time.
AT_FIRST = 3
COST_FACTOR = 500.0
MAX_LINES = 6
# A line that holds less more than this share of all that has come is of no interest.
NOTABLE = 0.02


class Growth:
    """The sums of one process, by device."""

    def __init__(self, process, owners):
        self.process = process
        self.owners = owners
        self.next_step = FIRST
        self.next_at = 0.0
        self.sums = {}

    def step_ended(self, device, count, blocks):
        """`blocks` are alive on the device that the optimizer's parameters lie on."""
        if count < self.next_step:
            return
        recording = self.process.recording
        if recording is None or not recording.with_stacks or recording.keeps_history:
            return
        now = time.monotonic()
        sums = self.sums.setdefault(device, [])
        if blocks > MOST_BLOCKS or (len(sums) >= AT_FIRST and now < self.next_at):
            return
        self.next_step = count * 2
        segments = self.process.torch.cuda.memory._snapshot(device)["segments"]
        segments = [segment for segment in segments if segment.get("device", device) == device]
        sums.append((count, snapshot.by_line(segments, self.owners)))
        # Of a training of a billion steps there are thirty.
        del sums[:-32]
        self.next_at = now + COST_FACTOR * (time.monotonic() - now)

    def lines(self, device):
        """The lines that hold more than they did, most first; nothing before there are two sums."""
        sums = self.sums.get(device, [])
        if len(sums) < 2:
            return []
        (first, before), (last, after) = sums[-2], sums[-1]
        grown = {key: held - before.get(key, 0) for key, held in after.items()}
        whole = sum(more for more in grown.values() if more > 0)
        most = sorted(grown.items(), key=lambda item: -item[1])[:MAX_LINES]
        return [
            snapshot.as_growing(key, after[key], more, first, last)
            for key, more in most
            if more > 0 and more >= NOTABLE * whole
        ]
