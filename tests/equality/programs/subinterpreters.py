"""Code in interpreters beside the main one, in those versions that have them."""
import sys

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

CODE = """
import sys, threading
print("in another interpreter", len(sys.argv) >= 0, flush=True)
print(threading.active_count(), sys.stdout.line_buffering, flush=True)
try:
    import json
    print(json.dumps([1]), flush=True)
except ImportError as error:
    print("no json", error, flush=True)
"""
for _ in range(3):
    number = interpreters.create()
    try:
        failure = interpreters.run_string(number, CODE)
        print("said", failure is None)
    finally:
        interpreters.destroy(number)
number = interpreters.create()
try:
    failure = interpreters.run_string(number, "raise ValueError('inside')")
    print("failed", "inside" in str(getattr(failure, "msg", failure)))
except Exception as error:
    print("failed", type(error).__name__, "inside" in str(error))
interpreters.destroy(number)
