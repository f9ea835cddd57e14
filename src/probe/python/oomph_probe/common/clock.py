"""The clock as it was when torch was imported: the program may put something else in its place before it uses a GPU
(a test's clock that stands still, say), when the rest of the probe is loaded.
"""

from time import monotonic_ns

__all__ = ["monotonic_ns"]
