"""A sandbox that refuses one system call, as a container's list of those that it knows does.

    python3 refused.py NAME COMMAND…
"""
import ctypes
import os
import struct
import sys

# Of x86-64, and of arm64.
NUMBERS = {
    "faccessat2": (439, 439),
    "epoll_create1": (291, 20),
    "eventfd2": (290, 19),
    "signalfd4": (289, 74),
}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO, EPERM = 0x7FFF0000, 0x00050000, 1


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


number = NUMBERS[sys.argv[1]][os.uname().machine != "x86_64"]
steps = [(LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | EPERM), (RETURN, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = Program(len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None)
libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
    open("no-filter", "w").close()
os.execvp(sys.argv[2], sys.argv[2:])
