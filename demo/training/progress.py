"""One progress line, updated in place on a terminal; elsewhere a plain line now and then."""
import shutil
import sys
import time

import torch

GIB = 1 << 30
PLAIN_EVERY_S = 2.0
BAR = 16


class Progress:
    """Counts steps of `total`; `simulated` labels the figures as such."""

    def __init__(self, total, simulated):
        self.total = total
        self.loss_name = "simulated loss" if simulated else "loss"
        self.started = time.monotonic()
        self.printed = 0.0
        self.in_place = sys.stdout.isatty()
        self.width = 0

    def show(self, step, loss, doing="step"):
        """Shows the step (or validation) so far, its loss, the rate, and the allocator's figures."""
        now = time.monotonic()
        if not self.in_place and step < self.total and now - self.printed < PLAIN_EVERY_S:
            return
        self.printed = now
        rate = step / max(1e-9, now - self.started)
        memory = "allocated %.2f, reserved %.2f, peak %.2f GiB" % (
            torch.cuda.memory_allocated() / GIB,
            torch.cuda.memory_reserved() / GIB,
            torch.cuda.max_memory_allocated() / GIB,
        )
        text = "%s %d/%d, %.2f it/s, %s %.3f, %s" % (doing, step, self.total, rate, self.loss_name, loss, memory)
        if self.in_place:
            full = int(BAR * min(1.0, step / self.total))
            text = "|%s%s| %s" % ("#" * full, "-" * (BAR - full), text)
            # The terminal may have been resized since the last line; a line that is too long wraps, and then
            # `\r` returns only to its last row. So figures that have no room are left out.
            room = shutil.get_terminal_size().columns - 1
            while len(text) > room and ", " in text:
                text = text[: text.rindex(", ")]
            text = text[:room]
            sys.stdout.write("\r" + text.ljust(min(self.width, room)))
            self.width = len(text)
        else:
            sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def close(self):
        """Ends the line, so that what follows starts a new one."""
        if self.in_place and self.width:
            sys.stdout.write("\n")
            sys.stdout.flush()
