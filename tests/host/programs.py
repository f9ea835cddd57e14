"""Programs that fill the host's memory, each in its own way: `programs.py KIND`.

    workers   forked workers that keep what they load
    main      the process itself
    shm       files in /dev/shm, as tensors are that workers pass on
    pinned    memory that is locked in RAM (mlock), as pinned memory is
    sleepers  64 workers that hold some memory and do nothing, for what looking costs: `sleepers SECONDS [still]`

No torch: what is told apart here is who holds the memory, not by which library.
"""
import ctypes
import mmap
import os
import random
import sys
import time

PIECE = 8 << 20
PAUSE = 0.05


def fill(keep):
    while True:
        keep(PIECE)
        time.sleep(PAUSE)


def workers():
    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            held = []
            fill(lambda size: held.append(b"x" * size))
        pids.append(pid)
    _, status = os.waitpid(-1, 0)
    for pid in pids:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass
    # As a training fails without its worker, but without torch's words.
    sys.exit(1 if os.WIFSIGNALED(status) else 0)


def main():
    held = []
    fill(lambda size: held.append(b"x" * size))


def shm():
    def keep(size):
        with open(f"/dev/shm/oomph-test-{os.getpid()}", "ab") as file:
            file.write(b"x" * size)

    fill(keep)


def pinned():
    libc = ctypes.CDLL(None, use_errno=True)
    held = []

    def keep(size):
        piece = mmap.mmap(-1, size)
        place = ctypes.addressof(ctypes.c_char.from_buffer(piece))
        if libc.mlock(ctypes.c_void_p(place), ctypes.c_size_t(size)) != 0:
            sys.exit(f"mlock: {os.strerror(ctypes.get_errno())}")
        held.append(piece)

    fill(keep)


def sleepers(seconds, is_still):
    own = [random.random() for _ in range(1_000_000)]
    pids = []
    for _ in range(64):
        pid = os.fork()
        if pid == 0:
            held = bytearray(b"x" * (16 << 20))
            time.sleep(1_000 + len(held) + len(own))
        pids.append(pid)
    until = time.monotonic() + seconds
    held = []
    while time.monotonic() < until:
        # What counts moves by more than a hundredth of a small machine, so that each look reads all.
        if not is_still:
            held = [] if len(held) > 12 else held + [b"x" * (64 << 20)]
        time.sleep(1)
    for pid in pids:
        os.kill(pid, 9)


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind == "sleepers":
        sleepers(float(sys.argv[2]), sys.argv[3:] == ["still"])
    else:
        {"workers": workers, "main": main, "shm": shm, "pinned": pinned}[kind]()
