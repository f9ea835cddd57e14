"""What runs at the end: atexit, finally, a thread that is joined, unflushed text, an exception's own."""
import atexit
import sys
import threading

atexit.register(lambda: print("atexit"))
thread = threading.Thread(target=lambda: print("thread"))
thread.start()
thread.join()
sys.stdout.write("without a newline ")
sys.stderr.write("to the error stream ")
try:
    {}["missing"]
finally:
    print("finally")
