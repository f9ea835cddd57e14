"""What a program leads, and what comes of making a group or a session of its own."""
import os
import sys

print("leads its group: %s, its session: %s" % (os.getpid() == os.getpgrp(), os.getpid() == os.getsid(0)))
calls = {"setpgrp": os.setpgrp, "setpgid": lambda: os.setpgid(0, 0), "setsid": os.setsid}
try:
    calls[sys.argv[1]]()
    print("%s works" % sys.argv[1])
except OSError as error:
    print("%s: %s" % (sys.argv[1], error.strerror))
print("leads its group: %s, its session: %s" % (os.getpid() == os.getpgrp(), os.getpid() == os.getsid(0)))
