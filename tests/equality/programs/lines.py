"""Lines of several processes into one stream: none may be torn. The order of processes is nobody's, so lines are counted."""
import os
import sys

children = []
for rank in range(4):
    pid = os.fork()
    if pid == 0:
        for step in range(int(sys.argv[1])):
            print("rank %d step %05d loss %s" % (rank, step, "x" * (step % 40)), flush=True)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
