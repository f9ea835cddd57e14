"""The thread that reads the allocator and feeds the socket. It does little and rests long: with no
front it neither reads nor queues, and looks for one now and then.
"""
import time
from _thread import allocate_lock, start_new_thread

# A reading that does not differ is sent once a second all the same, to say that we live.
KEEP_ALIVE = 1.0
# A device of which this process uses nothing is looked at as often.
IDLE_LOOK = 1.0
# One attempt to send; the front's buffer is full where that does not do.
SEND = 0.05
# Attempts to find the front: from the first to the longest pause.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0


class Sampler:
    """A thread that `threading` does not list: debuggers, profilers and the program's own counts of
    threads see the program's alone."""

    def __init__(self, process, interval):
        self.process = process
        self.interval = interval
        self.stopping = False
        self.wake = allocate_lock()
        self.ended = allocate_lock()
        self.last = {}
        self.looked = {}
        self.limits = {}
        self.uses = {}
        self.connection = 0
        self.pause = FIRST_PAUSE
        self.next_attempt = 0.0

    def start(self):
        self.wake.acquire()
        self.ended.acquire()
        start_new_thread(self.run, ())

    def stop(self, timeout):
        """Has the thread send the rest and end; waits for it no longer than `timeout` seconds."""
        self.stopping = True
        self.wake.release()
        self.ended.acquire(True, timeout)

    def run(self):
        try:
            # torch says so only when the initialisation that started this thread has ended.
            pause = 0.002
            while not self.process.torch.cuda.is_initialized():
                if self.sleep(pause):
                    break
                pause = min(pause * 1.5, 1.0)
            while not self.stopping and not self.sleep(self.pause_now()):
                self.tick()
            # The last of it, of a program that was quickly done the first as well.
            if self.process.torch.cuda.is_initialized():
                self.tick()
        except BaseException:
            pass
        finally:
            self.ended.release()

    def pause_now(self):
        if self.process.wire.is_connected():
            return self.interval
        return min(max(self.next_attempt - time.monotonic(), 0.0), LONGEST_PAUSE)

    def sleep(self, seconds):
        """True where the process is to end."""
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
            # Nothing of this is worth a word in the program's output; the next tick tries again.
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
        """A new connection knows nothing yet: everything is sent again."""
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
        self.process.steps.report(wire, self.stopping)
        for structure in self.process.structure.take():
            wire.put(structure)
        now = time.monotonic()
        for device in range(len(self.process.allocator.devices())):
            self.gather_device(wire, device, now)
        if self.process.recording is not None and not self.stopping:
            self.process.recording.look(self.process.steps.count, self.uses)

    def gather_patches(self, wire):
        if self.process.patches is not None:
            for line in self.process.patches.take(self.process.pid, self.process.steps.count):
                wire.put(line)

    def gather_device(self, wire, device, now):
        last_sent, last_line = self.last.get(device, (0.0, None))
        if last_line is None and now - self.looked.get(device, -IDLE_LOOK) < IDLE_LOOK:
            return
        self.looked[device] = now
        allocator = self.process.allocator
        reading = allocator.read(device)
        if last_line is None and not (reading.reserved or reading.peak):
            return
        due = now - last_sent >= KEEP_ALIVE
        if due:
            self.limits[device] = allocator.limit(device)
        self.uses[device] = allocator.use(device, reading, self.limits.get(device))
        line = allocator.sample(self.process.pid, device, reading, self.limits.get(device))
        if due or line != last_line:
            wire.put(line)
            self.last[device] = (now, line)
