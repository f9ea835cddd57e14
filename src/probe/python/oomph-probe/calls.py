"""Notices the calls of models, and stands around calls of single modules.

Everything goes through `__call__` of classes: no hook (torch.compile warns of global ones, and those
of a module are pickled with it), no `forward` (a deep copy of a module would go on calling the
original's, and scripting would read ours). A class keeps its one `__call__` of ours for good; which
modules it means is marked on the modules themselves, so that a copy of one is treated as it is.
"""
import os
import sys
import threading
import weakref

# Calls after which a program that never trains a model is left in peace.
ENOUGH = 100000
# Models are looked for until so many calls of known ones have been seen.
SETTLED = 8


class Calls:
    """Looks for the models of a program: the outermost modules called with gradients."""

    def __init__(self, torch):
        self.torch = torch
        self.module = self.original = None
        self.tell = None
        self.inside = threading.local()
        self.roots = weakref.WeakSet()
        self.known = weakref.WeakSet()
        self.calls = 0
        self.again = 0

    def watch(self, tell):
        """Calls `tell` with each model before it is called for the first time; what it returns makes
        this first call, if it is a function of torch's own call, the model, and the arguments."""
        if self.tell is not None:
            return
        self.module = self.torch.nn.Module
        self.original = original = self.module.__call__
        self.tell = tell
        is_compiling = is_compiling_of(self.torch)
        look, calls = self.look, self

        def __call__(self, *args, **kwargs):
            # The call that a class was just given is not the one that runs now.
            call = None if is_compiling() or calls.tell is None else look(self)
            if call is not None:
                return call(original, self, args, kwargs)
            return original(self, *args, **kwargs)

        self.ours = as_if_torchs_own(__call__, original)
        self.module.__call__ = self.ours

    def rest(self):
        """Enough has been seen; but what torch.compile may have traced stays as it traced it."""
        self.tell = None
        if "torch._dynamo" not in sys.modules and self.module.__call__ is self.ours:
            self.module.__call__ = self.original

    def look(self, module):
        try:
            tell = self.tell
            if tell is None or is_inside(self.inside) or not self.torch.is_grad_enabled():
                return None
            if module in self.known:
                if module in self.roots:
                    self.again += 1
                    if self.again >= SETTLED:
                        self.rest()
                return None
            self.calls += 1
            if self.calls > ENOUGH:
                self.rest()
                return None
            self.known.add(module)
            if not any(parameter.requires_grad for parameter in module.parameters()):
                return None
            # What is part of it is called inside it, and by a recomputation of its own outside it.
            self.known.update(module.modules())
            self.roots.add(module)
            return tell(module)
        except Exception:
            self.rest()
        return None


def is_inside(local):
    return getattr(local, "depth", 0) > 0


class Inside:
    """Modules called inside are parts of what is being called; also where a recomputation calls them."""

    def __init__(self, local):
        self.local = local

    def __enter__(self):
        self.local.depth = getattr(self.local, "depth", 0) + 1

    def __exit__(self, *error):
        self.local.depth -= 1


def is_compiling_of(torch):
    """The function that is True where torch.compile traces instead of running."""
    for owner in (getattr(torch, "compiler", None), getattr(torch, "_dynamo", None)):
        function = getattr(owner, "is_compiling", None)
        if function is not None:
            return function
    return lambda: False


def as_if_torchs_own(function, original):
    """torch.compile passes over frames of torch's own call of a module, by the file's name, and
    begins with `forward`: so it does with ours."""
    try:
        code, theirs = function.__code__, original.__code__
        function.__code__ = code.replace(
            co_filename=theirs.co_filename, co_firstlineno=theirs.co_firstlineno
        )
    except Exception:
        pass
    return function


# torch.compile passes over frames whose file begins so (trace_rules.py, SKIP_DIRS), in all versions.
PASSED_OVER = "<frozen importlib> oomph-probe/"


def keep_from_compiling(modules):
    """Has torch.compile leave the functions of these modules to Python: it would compile every frame
    that runs between the graphs of a model, ours too. What they call it still sees. A `__call__`
    among them is one that it is to look into."""
    for module in modules:
        for value in list(vars(module).values()):
            inside = list(vars(value).values()) if isinstance(value, type) else []
            for function in [value] + inside:
                code = getattr(function, "__code__", None)
                if code is not None and code.co_filename == module.__file__:
                    function.__code__ = passed_over(code, PASSED_OVER + os.path.basename(module.__file__))


def passed_over(code, name):
    inner = tuple(
        passed_over(each, name)
        if isinstance(each, type(code)) and each.co_name != "__call__"
        else each
        for each in code.co_consts
    )
    return code.replace(co_filename=name, co_consts=inner)
