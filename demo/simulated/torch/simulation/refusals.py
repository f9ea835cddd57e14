"""The exceptions that reach the program, by the names under which tracebacks print them."""


class OutOfMemoryError(RuntimeError):
    """Exception raised when device is out of memory. Carries no numbers, as the real one."""


class AcceleratorError(RuntimeError):
    """A CUDA runtime error outside the caching allocator (since torch 2.8)."""

    error_code = 2


for _class in (OutOfMemoryError, AcceleratorError):
    _class.__module__ = "torch"
