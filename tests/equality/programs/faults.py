"""faulthandler, in the way that is named."""
import ctypes
import faulthandler
import os
import resource
import signal
import sys
import time

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
faulthandler.enable()
how = sys.argv[1]
print("before", flush=True)
if how == "segv":
    ctypes.string_at(0)
elif how == "abort":
    os.abort()
elif how == "later":
    faulthandler.dump_traceback_later(0.05, exit=True)
    time.sleep(10)
elif how == "register":
    faulthandler.register(signal.SIGUSR1, chain=False)
    os.kill(os.getpid(), signal.SIGUSR1)
    print("after")
