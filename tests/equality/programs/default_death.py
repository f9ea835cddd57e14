"""Waits to be ended by a signal that it takes as the kernel does; without a core."""
import os
import resource
import signal

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.signal(signal.SIGINT, signal.SIG_DFL)
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
open(os.path.join(os.environ["EQUALITY_CONTROL"], "ready"), "w").close()
while True:
    signal.pause()
