"""Tells of each signal that arrives: its number, where it came from, its value. The words say how they are taken: `handled`,
`waited` (blocked, with sigwaitinfo). SIGRTMAX ends it."""
import ctypes
import os
import signal
import struct
import sys

CONTROL = os.environ["EQUALITY_CONTROL"]
LAST = signal.SIGRTMAX
LIBC = ctypes.CDLL(None, use_errno=True)
every = sorted(set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP})
with open(os.path.join(CONTROL, "pid"), "w") as file:
    file.write(str(os.getpid()))
received = open("received.facts", "a")


def tell(number, code, value):
    # A terminal's window that has changed its size is no message to anybody.
    if number in (signal.SIGWINCH, signal.SIGCONT):
        return
    received.write("%d = code %s value %s\n" % (number, code, value))
    received.flush()
    with open(os.path.join(CONTROL, "received"), "a") as file:
        file.write("x")
    if number == LAST:
        os._exit(42)


def handler(number, frame):
    tell(number, "?", "?")


if sys.argv[1] == "handled":
    for number in every:
        signal.signal(number, handler)
else:
    signal.pthread_sigmask(signal.SIG_BLOCK, every)
open(os.path.join(CONTROL, "ready"), "w").close()
if sys.argv[1] == "handled":
    while True:
        signal.pause()
wanted = (ctypes.c_ulong * 16)(*[~0 & (2**64 - 1)] * 16)
info = ctypes.create_string_buffer(128)
while True:
    number = LIBC.sigwaitinfo(ctypes.byref(wanted), info)
    if number > 0:
        _, _, code = struct.unpack("iii", info.raw[:12])
        value = struct.unpack("q", info.raw[24:32])[0] if code == -1 else "-"
        tell(number, code, value)
