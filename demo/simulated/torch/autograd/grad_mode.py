"""Whether operations are recorded: per thread, on by default, as in the real torch."""
import functools
import threading


class _Mode(threading.local):
    enabled = True


_mode = _Mode()


def is_grad_enabled():
    return _mode.enabled


class set_grad_enabled:
    """Takes effect at once; as a context manager or decorator it restores the mode at the end."""

    def __init__(self, mode):
        self.mode = mode
        self.before = _mode.enabled
        _mode.enabled = mode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _mode.enabled = self.before


class _Switch:
    enabled = False

    def __enter__(self):
        self.before = _mode.enabled
        _mode.enabled = self.enabled

    def __exit__(self, *_):
        _mode.enabled = self.before

    def __call__(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with type(self)():
                return function(*args, **kwargs)

        return wrapped


def _as_decorator(cls, function):
    return cls()(function) if function is not None else object.__new__(cls)


class no_grad(_Switch):
    """`with no_grad():`, `@no_grad()` and `@no_grad`."""

    def __new__(cls, function=None):
        return _as_decorator(cls, function)

    def __init__(self, function=None):
        pass


class inference_mode(no_grad):
    """Like no_grad; what the real one saves beyond that is not simulated."""


class enable_grad(_Switch):
    """The opposite of no_grad."""

    enabled = True

    def __new__(cls, function=None):
        return _as_decorator(cls, function)

    def __init__(self, function=None):
        pass
