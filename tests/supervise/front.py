"""A front of its own process, for what only a real one can show: keys at a terminal, kill -9.

usage: front.py OOMPH IO LOG COMMAND...      IO is "screen" or "pass_through"

Speaks the keeper's socket by hand, and tells every report but output as a line of JSON in LOG.
"""
import json, os, signal, socket, struct, sys, termios

oomph, io, log, *command = sys.argv[1:]


def signal_set(name):
    for line in open("/proc/self/status"):
        if line.startswith(name):
            # Python itself ignores PIPE and XFSZ.
            return int(line.split()[1], 16) & ~(1 << 12 | 1 << 24)


def line_of(fd):
    if not os.isatty(fd):
        return None
    i, o, c, l, ispeed, ospeed, cc = termios.tcgetattr(fd)
    chars = [x if isinstance(x, int) else x[0] for x in cc]
    return dict(input=i, output=o, control=c, local=l, line=0, chars=chars, speed=[ispeed, ospeed])


ours, theirs = socket.socketpair()
theirs.set_inheritable(True)
if os.fork() == 0:
    os.setsid()
    ours.close()
    os.execv(oomph, ["oomph", "__keeper", str(theirs.fileno())])
theirs.close()


def send(value):
    body = json.dumps(value).encode()
    ours.sendall(struct.pack("<IB", len(body) + 1, 1) + body)


times = ["stop", "sweep", "unkillable", "log_retry"]
timing = {name: dict(secs=1, nanos=0) for name in times}
timing.update({name: dict(secs=0, nanos=100_000_000) for name in ["quiet", "drain", "resize"]})
ignored, blocked = signal_set("SigIgn:"), signal_set("SigBlk:")
inherited = dict(ignored=ignored, blocked=blocked)
send(dict(front=os.getpid(), log=None, io=io, timing=timing, inherited=inherited, line=line_of(1)))
launch = dict(run=1, size=None, command=dict(argv=command, cwd=os.getcwd()))
send(dict(launch=launch))
signal.signal(signal.SIGINT, lambda *_: send(dict(forward=2)))
reports = open(log, "w", buffering=1)
print(json.dumps(dict(front=os.getpid())), file=reports)
buffer = b""
while True:
    chunk = ours.recv(65536)
    buffer += chunk
    while len(buffer) >= 5 and len(buffer) >= 4 + struct.unpack("<I", buffer[:4])[0]:
        end = 4 + struct.unpack("<I", buffer[:4])[0]
        kind, body, buffer = buffer[4], buffer[5:end], buffer[end:]
        if kind == 1:
            print(body.decode(), file=reports)
            if b"exited" in body:
                send("finish")
    if not chunk:
        break
