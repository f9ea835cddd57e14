"""The thread that reads the allocator and feeds the socket. With no UI connected it neither reads nor
queues, and only tries to connect now and then.
"""
import time
from _thread import allocate_lock, get_ident, start_new_thread

# An unchanged reading is still sent this often (seconds), to show that the process is alive.
KEEP_ALIVE = 1.0
# A device that this process does not use is read ever more rarely, down to this.
FIRST_LOOK, IDLE_LOOK = 0.1, 1.0
# Time limit of one attempt to send; it is exceeded only when the UI's buffer is full.
# And at exit, which waits a set time for this thread.
SEND_LAST = 1.0
SEND = 0.05
# Pause between attempts to connect: the first, and the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0


class Sampler:
    """A thread unknown to `threading`, so that debuggers, profilers and the program's own thread counts
    do not see it."""

    def __init__(self, process, interval):
        self.process = process
        self.interval = interval
        self.stopping = False
        self.wake = allocate_lock()
        self.ended = allocate_lock()
        self.last = {}
        self.looked = {}
        self.limits = {}
        self.usages = {}
        self.connection = 0
        self.pause = FIRST_PAUSE
        self.next_attempt = 0.0

    def start(self):
        self.wake.acquire()
        self.ended.acquire()
        start_new_thread(self.run, ())

    def stop(self, timeout):
        """Makes the thread send the rest and exit; waits at most `timeout` seconds."""
        self.stopping = True
        self.hurry()
        self.ended.acquire(True, timeout)

    def hurry(self):
        """Wakes the thread."""
        try:
            self.wake.release()
        except RuntimeError:
            # It was woken and has not run yet.
            pass

    def run(self):
        self.process.wire.writer = get_ident()
        try:
            # is_initialized() turns True only after the initialisation that started this thread.
            pause = 0.002
            while not self.process.torch.cuda.is_initialized():
                if self.sleep(pause):
                    break
                pause = min(pause * 1.5, 1.0)
            while not self.stopping and not self.sleep(self.pause_now()):
                self.tick()
            # The final reading; for a short program also the only one.
            if self.process.torch.cuda.is_initialized():
                self.tick()
                self.process.wire.flush(SEND_LAST, although_stalled=True)
            self.process.wire.end()
        except BaseException:
            pass
        finally:
            self.ended.release()

    def pause_now(self):
        if self.process.wire.is_connected():
            return self.process.wire.pause(self.interval)
        return min(max(self.next_attempt - time.monotonic(), 0.0), LONGEST_PAUSE)

    def sleep(self, seconds):
        """True if the process is exiting."""
        self.wake.acquire(True, seconds)
        return self.stopping

    def tick(self):
        try:
            wire = self.process.wire
            if not wire.is_connected() and not self.find_front(wire):
                return
            if wire.connections != self.connection:
                self.begin_anew(wire.connections)
            self.gather(wire)
            wire.flush(SEND)
        except Exception:
            # No error here may reach the program's output; the next tick tries again.
            pass

    def find_front(self, wire):
        now = time.monotonic()
        if now < self.next_attempt:
            return False
        self.next_attempt = now + self.pause
        self.pause = min(self.pause * 2, LONGEST_PAUSE)
        wire.flush(SEND)
        return wire.is_connected()

    def begin_anew(self, connection):
        """A new connection knows nothing yet: send everything again."""
        self.connection = connection
        self.pause = FIRST_PAUSE
        self.last.clear()
        self.looked.clear()
        self.process.structure.unsent = True
        if self.process.patches is not None:
            self.process.patches.send_again()

    def gather(self, wire):
        self.gather_patches(wire)
        if self.process.resting is not None:
            return
        self.process.requests.take(wire.receive())
        self.process.steps.report(wire, self.stopping)
        for structure in self.process.structure.take():
            wire.put(structure)
        trace = self.process.tracing.take()
        if trace is not None:
            wire.put(trace)
        now = time.monotonic()
        for device in range(len(self.process.allocator.devices())):
            self.gather_device(wire, device, now)
        if self.process.recording is not None and not self.stopping:
            steps = self.process.steps
            self.process.recording.update(steps.count, self.usages, steps.after)

    def gather_patches(self, wire):
        if self.process.patches is not None:
            for line in self.process.patches.take(self.process.pid, self.process.steps.count):
                wire.put(line)

    def gather_device(self, wire, device, now):
        last_sent, last_line = self.last.get(device, (0.0, None))
        looked, pause = self.looked.get(device, (0.0, 0.0))
        if last_line is None and now - looked < pause and not self.stopping:
            return
        self.looked[device] = now, min(max(2 * pause, FIRST_LOOK), IDLE_LOOK)
        allocator = self.process.allocator
        reading = allocator.read(device)
        if last_line is None and not (reading.reserved or reading.peak):
            return
        due = now - last_sent >= KEEP_ALIVE
        if due:
            self.limits[device] = allocator.limit(device)
        self.usages[device] = allocator.usage(device, reading, self.limits.get(device))
        line = allocator.sample(self.process.pid, device, reading, self.limits.get(device))
        if due or line != last_line:
            wire.put(line)
            self.last[device] = (now, line)
            if wire.reads_devices:
                self.gather_device_memory(wire, device)

    def gather_device_memory(self, wire, device):
        """The whole device, of which NVML on the UI's node sees nothing."""
        try:
            free, total = self.process.torch.cuda.mem_get_info(device)
        except Exception:
            return
        wire.put({"event": "device_memory", "device": device, "free": free, "total": total})
