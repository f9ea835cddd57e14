"""A daemon by two forks, which goes on writing after its parent has ended: to the file, and to the streams that it has."""
import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        # The first program is gone when nobody but init, or whoever adopts, is the parent.
        control = os.environ["EQUALITY_CONTROL"]
        end = time.monotonic() + 5
        while not os.path.exists(os.path.join(control, "parent-ended")) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.3)
        with open("daemon.txt", "w") as file:
            file.write("the daemon lived on\n")
        os.write(1, b"late words of the daemon\n")
        os._exit(0)
    os._exit(0)
os.wait()
print("parent", flush=True)
open(os.path.join(os.environ["EQUALITY_CONTROL"], "parent-ended"), "w").close()
