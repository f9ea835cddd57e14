"""Eight million bytes in one write, to a reader that reads nothing at first; with `alarms`, a timer interrupts all the while."""
import os
import signal
import sys
import threading
import time

control = os.environ["EQUALITY_CONTROL"]
count = [0]


def ring(number, frame):
    count[0] += 1
    if count[0] == 5:
        open(os.path.join(control, "rung"), "w").close()
    if count[0] > 400:
        signal.setitimer(signal.ITIMER_REAL, 0)


with open(os.path.join(control, "pid"), "w") as file:
    file.write(str(os.getpid()))
if "alarms" in sys.argv:
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
open(os.path.join(control, "ready"), "w").close()
if "buffer" in sys.argv:
    sys.stdout.buffer.write(b"0123456789abcdef" * 500000)
elif "raw" in sys.argv:
    block = memoryview(b"0123456789abcdef" * 500000)
    while block:
        block = block[os.write(1, block):]
else:
    print("0123456789abcde\n" * 500000)
signal.setitimer(signal.ITIMER_REAL, 0)
print("written")
