"""stdout and stderr in turn, by every road."""
import os
import subprocess
import sys

for number in range(200):
    print("out", number, flush=True)
    print("err", number, file=sys.stderr, flush=True)
    if number % 50 == 0:
        subprocess.run(["sh", "-c", "echo child out %d; echo child err %d >&2" % (number, number)])
os.write(2, b"end of err\n")
os.write(1, b"end of out")
