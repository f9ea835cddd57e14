"""The exceptions that the program sees, with the names that tracebacks print."""


class OutOfMemoryError(RuntimeError):
    """Exception raised when device is out of memory. Has no fields, like the real one."""


class AcceleratorError(RuntimeError):
    """A CUDA runtime error outside the caching allocator (since torch 2.8)."""

    error_code = 2


for _class in (OutOfMemoryError, AcceleratorError):
    _class.__module__ = "torch"
