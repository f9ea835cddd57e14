"""Stops a rehearsal before it has an effect: a print, a write, a message, a change to an object that is not its own.

Every call on the rehearsal's thread is judged before it is made, by the module of the function and the type it is bound
to, never by its name alone: `os.remove` is an effect, a list's `remove` or a method of the program's own is not. A
function of Python's own code is looked at where it calls one in C, but for a few that have changed something by then.
Assignments are judged by changes.py. From Python 3.12 on this takes `sys.monitoring`, before it a profile and a trace
function of that thread.
"""

from __future__ import annotations

import dis
import functools
import gc
import linecache
import os
import sys
import types
from _thread import get_ident

from ..common import frames
from . import unseen
from .changes import Changes
from .randoms import is_generator, is_shared_generator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Callable

    from ..common.frames import Owners

NAME = "oomph rehearsal"
ALL = None
GROUPS = "torch._C._distributed_c10d"
# Functions in C, by their module; of `posix` all but those that only look.
FUNCTIONS: dict[str, frozenset[str] | None] = {
    "builtins": frozenset(("print", "input", "breakpoint")),
    "time": frozenset(("sleep",)),
    "_signal": frozenset(
        "signal alarm setitimer raise_signal pthread_kill pthread_sigmask set_wakeup_fd sigwait sigtimedwait".split()
    ),
    "_thread": frozenset("start_new_thread start_new start_joinable_thread interrupt_main exit".split()),
    "sys": frozenset("settrace setprofile setrecursionlimit setswitchinterval".split()),
    "gc": frozenset("collect enable disable freeze unfreeze set_threshold set_debug".split()),
    "atexit": frozenset(("register", "unregister")),
    "resource": frozenset(("setrlimit", "prlimit")),
    # These write to a file, or read from it, without a call that is told of.
    "_pickle": frozenset(("dump", "load")),
    "marshal": frozenset(("dump", "load")),
    "numpy": frozenset(("fromfile",)),
    "_socket": ALL,
    "select": ALL,
    "fcntl": ALL,
    "mmap": ALL,
    "termios": ALL,
    "syslog": ALL,
    "faulthandler": ALL,
    "_posixsubprocess": ALL,
    "_posixshmem": ALL,
    "_multiprocessing": ALL,
    "_ctypes": ALL,
    "_sqlite3": ALL,
    "_winapi": ALL,
    "msvcrt": ALL,
    "torch._C": frozenset(
        "_cuda_emptyCache _cuda_resetPeakMemoryStats _cuda_resetAccumulatedMemoryStats _cuda_setMemoryFraction"
        " _cuda_record_memory_history _cuda_synchronize _cuda_ipc_collect _set_default_dtype"
        " _set_default_tensor_type _set_deterministic_algorithms".split()
    ),
    GROUPS: ALL,
}
LOOKS = frozenset(
    "stat lstat fstat getcwd getcwdb listdir scandir access readlink getpid getppid getpgid getpgrp getuid geteuid"
    " getgid getegid getlogin uname times cpu_count urandom getrandom get_terminal_size isatty sched_getaffinity"
    " getloadavg sysconf confstr pathconf fspath strerror get_blocking get_inheritable statvfs getxattr listxattr"
    " register_at_fork _path_normpath _path_exists _path_isfile _path_isdir _path_islink _path_splitroot"
    " _path_splitroot_ex fsencode fsdecode WIFEXITED WEXITSTATUS".split()
)
# Modules of which each function opens something; an import does so, too.
OPENS = ("open", "open_code", "FileIO")
READS_SOURCES = OPENS + tuple("read readinto readline readlines seek tell close sleep __enter__ __exit__".split())
# Types written in C, by their module: their methods reach outside of the process, or wait for it.
TYPES: dict[str, frozenset[str] | None] = {
    "_io": ALL,
    "_socket": ALL,
    "_queue": frozenset("put put_nowait get get_nowait".split()),
    "_pickle": frozenset(("dump", "load")),
    "_csv": frozenset("writerow writerows __next__".split()),
    "select": ALL,
    "mmap": ALL,
    "_ssl": ALL,
    "_sqlite3": ALL,
    "sqlite3": ALL,
    "_multiprocessing": ALL,
    GROUPS: ALL,
}
# What only asks a group of processes, as `get_world_size()` does.
ASKS_GROUPS = frozenset("size rank name group_name group_desc _get_backend_name".split())
IN_MEMORY = ("BytesIO", "StringIO", "IncrementalNewlineDecoder")
# What changes a container.
CHANGING: dict[type, frozenset[str]] = {
    list: frozenset("append extend insert remove pop clear sort reverse __setitem__ __delitem__ __iadd__".split()),
    dict: frozenset("update setdefault pop popitem clear __setitem__ __delitem__ __ior__".split()),
    set: frozenset(
        "add discard remove pop clear update difference_update intersection_update"
        " symmetric_difference_update __ior__ __iand__".split()
    ),
    bytearray: frozenset("append extend insert remove pop clear reverse __setitem__ __delitem__".split()),
}
ALL_CHANGING = frozenset().union(*CHANGING.values())
# Of those that are told by their names: numpy's need not be there.
NAMED = {
    "ndarray": frozenset("fill sort partition put resize itemset setfield setflags byteswap __setitem__".split()),
    "array": frozenset("append extend insert remove pop fromlist frombytes fromfile byteswap reverse".split()),
    "lock": frozenset(("acquire", "release")),
    "RLock": frozenset(("acquire", "release")),
    **{
        name: frozenset("write writelines read read1 readinto readline readlines seek truncate close detach".split())
        for name in ("StringIO", "BytesIO")
    },
}
# Of these, what writes to a file in C, or reads from one.
OF_FILES = {"ndarray": frozenset(("tofile", "dump")), "array": frozenset(("tofile", "fromfile"))}
DEQUE = frozenset("append appendleft extend extendleft insert remove pop popleft clear rotate __setitem__".split())
# Functions of Python's own code that have changed something before they come to one in C, by module and class.
PYTHONS = {
    ("queue", "Queue"), ("queue", "PriorityQueue"), ("queue", "LifoQueue"), ("threading", "Event"),
    ("threading", "Thread"), ("threading", "Condition"), ("threading", "Barrier"), ("threading", "Semaphore"),
    ("threading", "BoundedSemaphore"), ("threading", "Timer"), ("subprocess", "Popen"), ("logging", "Logger"),
    ("socket", "socket"),
}
# Of a logger, what only looks.
LOGGER_LOOKS = frozenset(
    "isEnabledFor getEffectiveLevel debug info warning error exception critical log getChild hasHandlers".split()
)
PYTHON_PACKAGES = frozenset(
    "multiprocessing wandb tensorboard tensorboardX mlflow comet_ml neptune clearml tqdm aim swanlab requests urllib3"
    " boto3 botocore visdom".split()
)
PYTHON_MODULES = (
    "torch.utils.tensorboard", "torch.serialization", "torch.hub", "torch.multiprocessing", "torch.utils.data",
    "concurrent.futures", "http.client", "urllib.request", "shutil", "tempfile",
)
# Extensions whose functions compute and nothing else.
HARMLESS = frozenset(
    "torch torchvision torchaudio numpy scipy einops sympy mpmath gmpy2 regex pydantic_core yaml triton".split()
)
# Packages of Python's own code that compute and nothing else.
CACHING = HARMLESS | frozenset("einx opt_einsum jaxtyping beartype torch_einops_utils rotary_embedding_torch".split())
# Before Python 3.12 the arguments of a function in C are not to be seen: then it is taken for one from outside.
UNSEEN: Any = object()
BUILTIN = types.BuiltinFunctionType
LRU_CACHE = type(functools.lru_cache(maxsize=1)(len))
# What a profile function is told of before it happens.
CALLS = frozenset(("call", "c_call"))
# What begins a `try` or a `with` before Python 3.11.
CATCHING = frozenset(dis.opmap[name] for name in ("SETUP_FINALLY", "SETUP_WITH") if name in dis.opmap)
# What each module's call goes through.
CALL = "_call_impl"
# Whose a file is: the probe's, torch's or Python's own, anybody else's.
OURS, TRUSTED, FOREIGN = "ours", "trusted", "foreign"
DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)


class Stopped(BaseException):
    """Why a rehearsal ends early, in words. No `except Exception` of a model's takes it."""


class Guard:
    """While it is entered, this thread has no effect. `looks_up` is called at every place where Python may raise;
    `before` are the objects that are not the rehearsal's own."""

    def __init__(
        self, owners: Owners | None = None, before: Any = None, looks_up: Callable[[FrameType], None] | None = None
    ) -> None:
        self.owners = owners
        self.before = before
        self.looks_up = looks_up
        self.changes = Changes(before) if before is not None else None
        # The object that it was stopped before changing, where that is known, and within how many modules' calls.
        self.outside: Any = None
        self.deep = 0
        self.trusted: dict[str, bool] = {}
        self.computing: dict[str, bool] = {}
        # Whose a file is.
        self.whose: dict[str, str] = {}
        # Functions in C that code of torch's or Python's may call, by what they are bound to; that is kept, so that no
        # other object takes its number.
        self.harmless: dict[tuple[int, str], Any] = {}
        # Whether functions of a module may do something before they call one in C.
        self.acting: dict[str, bool] = {}
        self.caching = homes_of(CACHING)
        # Caches of functions (`functools.lru_cache`) that were called, and how full each was.
        self.caches: dict[int, tuple[Any, int]] = {}
        self.stdlib = frozenset(getattr(sys, "stdlib_module_names", ())) | frozenset(sys.builtin_module_names)

    def __enter__(self) -> Guard:
        self.thread = get_ident()
        self.tool = None
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None:
            # Their calls are not told of.
            for each in gc.get_objects():
                if type(each) is LRU_CACHE:
                    self.note_cache(each)
            sys.setprofile(self.profile)
            if self.changes is not None:
                sys.settrace(self.trace)
            return self
        self.tool = next((each for each in range(5, -1, -1) if monitoring.get_tool(each) is None), None)
        if self.tool is None:
            raise Stopped("other tools are tracing this interpreter")
        events = monitoring.events
        monitoring.use_tool_id(self.tool, NAME)
        monitoring.register_callback(self.tool, events.CALL, self.called)
        if self.changes is not None:
            monitoring.register_callback(self.tool, events.PY_START, self.started)
            monitoring.register_callback(self.tool, events.LINE, self.line)
        monitoring.set_events(self.tool, events.CALL | (events.PY_START if self.changes is not None else 0))
        # What was disabled of an earlier one.
        monitoring.restart_events()
        return self

    def __exit__(self, *error: Any) -> None:
        self.clear_caches()
        if self.tool is None:
            sys.setprofile(None)
            if self.changes is not None:
                sys.settrace(None)
            return
        self.leave_alone()

    def sees_every_call(self) -> bool:
        """Whether it is told of each call again, torch's own too: before Python 3.12."""
        return self.tool is None

    def rest(self) -> None:
        """Nothing is judged until `go_on`, where all calls are told of: that takes twenty times as long as what an
        operator of torch's own does."""
        sys.setprofile(None)
        if self.changes is not None:
            sys.settrace(None)

    def judge_on(self) -> None:
        """Before another attempt: before Python 3.12, what is raised by a profile function ends the profiling."""
        if self.sees_every_call():
            self.go_on()

    def go_on(self) -> None:
        sys.setprofile(self.profile)
        if self.changes is not None:
            sys.settrace(self.trace)

    def note_cache(self, cache: Any) -> None:
        code = getattr(getattr(cache, "__wrapped__", None), "__code__", None)
        if id(cache) not in self.caches and code is not None and not self.is_trusted(code):
            self.caches[id(cache)] = cache, cache.cache_info().currsize

    def clear_caches(self) -> None:
        """A cache that has the rehearsal's tensors would give them to the program."""
        for cache, filled in self.caches.values():
            if cache.cache_info().currsize != filled:
                cache.cache_clear()

    def leave_alone(self) -> None:
        """Nothing is judged any more; from any thread."""
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None or self.tool is None or monitoring.get_tool(self.tool) != NAME:
            return
        events = monitoring.events
        monitoring.set_events(self.tool, 0)
        for code in self.changes.watched if self.changes is not None else ():
            monitoring.set_local_events(self.tool, code, 0)
        for event in (events.CALL, events.PY_START, events.LINE, events.JUMP):
            monitoring.register_callback(self.tool, event, None)
        monitoring.free_tool_id(self.tool)

    def look_everywhere(self) -> None:
        """From another thread: `looks_up` is called at each call and jump from now on, also where nothing was to be
        seen."""
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None or self.tool is None:
            return
        monitoring.register_callback(self.tool, monitoring.events.JUMP, lambda *_: self.look())
        monitoring.set_events(self.tool, monitoring.events.CALL | monitoring.events.JUMP)
        monitoring.restart_events()

    def look(self) -> None:
        if self.looks_up is not None and get_ident() == self.thread:
            self.looks_up(sys._getframe(1))

    def called(self, code: CodeType, offset: int, function: Any, argument: object) -> Any:
        if code.co_filename.startswith(frames.OURS):
            return getattr(sys, "monitoring").DISABLE
        # A call site is seen by all threads, and may call another function the next time.
        is_trusted = self.is_trusted(code)
        if get_ident() != self.thread:
            is_seen = is_trusted and self.why_not(function, None, True) is None
            return getattr(sys, "monitoring").DISABLE if is_seen else None
        why = self.why_not(function, argument, is_trusted or self.fills_a_cache(code, function))
        if why is not None and not is_importing(function, sys._getframe(1)):
            raise Stopped(why)
        if self.looks_up is not None:
            self.looks_up(sys._getframe(1))
        return getattr(sys, "monitoring").DISABLE if is_trusted and why is None else None

    def started(self, code: CodeType, offset: int) -> Any:
        monitoring: Any = getattr(sys, "monitoring")
        if self.is_trusted(code):
            return monitoring.DISABLE
        if get_ident() != self.thread:
            return None
        assert self.changes is not None
        if not self.computes(code) and self.changes.watches(code):
            monitoring.set_local_events(self.tool, code, monitoring.events.LINE)
        return monitoring.DISABLE

    def line(self, code: CodeType, number: int) -> Any:
        assert self.changes is not None
        if not self.changes.is_at(code, number):
            return getattr(sys, "monitoring").DISABLE
        if get_ident() == self.thread:
            self.judge_line(sys._getframe(1), number)

    def judge_line(self, frame: FrameType, number: int) -> None:
        assert self.changes is not None
        why = self.changes.why_not(frame, number)
        if why is not None:
            self.changed(self.changes.outside)
            raise Stopped(why)

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """Before Python 3.12. Called for each call of the thread, and so as short as it can be where there is nothing
        to be seen: it decides how long a rehearsal takes."""
        if event not in CALLS:
            return
        code = frame.f_code
        whose = self.whose.get(code.co_filename) or self.whose_is(code)
        if whose is OURS:
            return
        if self.looks_up is not None:
            self.looks_up(frame)
        if event == "call":
            self.judge_call(frame, code)
        elif whose is TRUSTED:
            # What a site in torch or in Python itself may call is known by the function alone.
            owner = argument.__self__
            owner = owner if isinstance(owner, (types.ModuleType, type)) else type(owner)
            key = id(owner), argument.__name__
            if key not in self.harmless and self.is_harmless(frame, argument, True):
                self.harmless[key] = owner
        elif not (argument.__name__ in unseen.WITHOUT_ARGUMENT and self.is_judged(code, argument)):
            self.is_harmless(frame, argument, self.fills_a_cache(code, argument))

    def is_harmless(self, frame: FrameType, function: Any, is_trusted: bool) -> bool:
        """Whether a function in C does nothing outside; what reads for an import does, and goes on."""
        why = self.why_not(function, UNSEEN, is_trusted)
        if why is not None and not is_importing(function, frame):
            raise Stopped(why)
        return why is None

    def judge_call(self, frame: FrameType, code: CodeType) -> None:
        module = frame.f_globals.get("__name__")
        if type(module) is str:
            acts = self.acting.get(module)
            if acts is None:
                acts = self.acting[module] = may_act(module)
            why = self.of_python(module, qualified(frame), code) if acts else None
            if why is not None:
                raise Stopped(why)
        if code.co_name in ALL_CHANGING and code.co_argcount:
            why = self.of_method_in_python(frame)
            if why is not None:
                raise Stopped(why)

    def whose_is(self, code: CodeType) -> str:
        path = code.co_filename
        is_ours = path.startswith(frames.OURS)
        whose = OURS if is_ours else TRUSTED if self.is_trusted(code) else FOREIGN
        self.whose[path] = whose
        return whose

    def fills_a_cache(self, code: CodeType, function: Any) -> bool:
        """Whether a package that only computes changes a container."""
        return getattr(function, "__name__", "") in ALL_CHANGING and self.computes(code)

    def is_judged(self, code: CodeType, function: Any) -> bool:
        """Whether it was judged with its argument before the line ran, or is of what only computes."""
        return self.computes(code) or self.changes is not None and self.changes.judges(code, function.__name__)

    def of_method_in_python(self, frame: FrameType) -> str | None:
        """One of a class derived from a container's that is Python's own code, as a Counter's `update`."""
        code, caller = frame.f_code, frame.f_back
        value = frame.f_locals.get(code.co_varnames[0], UNSEEN)
        if caller is None or self.is_trusted(caller.f_code) or not self.changes_container(code.co_name, value):
            return None
        return "its forward changes a %s outside of the model" % type(value).__name__

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if (self.whose.get(code.co_filename) or self.whose_is(code)) is not FOREIGN:
            return None
        if self.computes(code) or self.changes is None:
            return None
        if self.changes.watches(code):
            return self.trace_line
        if may_catch(code):
            frame.f_trace_lines = False
            return self.trace_line
        return None

    def trace_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and self.changes is not None and self.changes.is_at(frame.f_code, frame.f_lineno):
            self.judge_line(frame, frame.f_lineno)
        elif event == "exception" and argument[0] is Stopped:
            # A program that catches everything goes on.
            sys.setprofile(self.profile)
        return self.trace_line

    def is_trusted(self, code: CodeType) -> bool:
        """Whether it is torch's, Python's own or ours: what that changes is its own, and its call sites are judged
        once."""
        path = code.co_filename
        known = self.trusted.get(path)
        if known is None:
            known = path.startswith("<frozen")
            if self.owners is not None:
                is_site = any(part in path for part in frames.LIBRARIES) and not path.startswith(self.owners.torch_home)
                known = known or self.owners.of(path) == frames.LIBRARY and not is_site
            self.trusted[path] = known
        return known

    def computes(self, code: CodeType) -> bool:
        """Whether it is of a package that computes and nothing else, wherever that lies: what that changes outside of
        the model is a cache (einops notes the kinds of tensors that it has met)."""
        path = code.co_filename
        known = self.computing.get(path)
        if known is None:
            known = self.computing[path] = path.startswith(self.caching)
        return known

    def why_not(self, function: Any, argument: object, is_trusted: bool) -> str | None:
        """What a call would do outside, in words; None where it is harmless."""
        kind = type(function)
        if kind is types.FunctionType:
            # A method of a class derived from a container's has it as its argument.
            if not is_trusted and self.changes_container(function.__name__, argument):
                return "its forward changes a %s outside of the model" % type(argument).__name__
            return self.of_python(function.__module__, function.__qualname__, function.__code__)
        if kind is types.MethodType:
            return self.why_not(function.__func__, function.__self__, is_trusted)
        if isinstance(function, BUILTIN):
            module, bound = function.__module__, function.__self__
            is_of_generator = bound is not None and is_generator(type(bound))
            if not is_of_generator and (isinstance(bound, types.ModuleType) or module is not None):
                name = module or types.ModuleType.__getattribute__(bound, "__name__")
                return self.of_function(str(name), function.__name__, argument, is_trusted)
            owner = bound if isinstance(bound, type) else type(bound)
            return self.of_method(owner, function.__name__, bound, is_trusted)
        if kind in DESCRIPTORS:
            return self.of_method(function.__objclass__, function.__name__, argument, is_trusted)
        if kind.__name__ == "cython_function_or_method" and is_generator(type(argument)):
            # numpy's generators.
            return self.of_method(type(argument), function.__name__, argument, is_trusted)
        if kind is LRU_CACHE:
            self.note_cache(function)
            return None
        if isinstance(function, type):
            if not is_trusted and function.__name__ in unseen.EXHAUSTING and self.is_iterator_outside(argument):
                return "its forward takes from an iterator outside of the model"
            is_file = function.__module__ == "_io" and function.__name__ == "FileIO"
            return "its forward opens a file" if is_file else self.of_extension(function, is_trusted)
        if any(base.__name__ in ("CFuncPtr", "_CFuncPtr") for base in kind.__mro__):
            return "its forward calls a C library"
        return None if is_trusted else self.of_extension(kind, is_trusted)

    def of_function(self, module: str, name: str, argument: object, is_trusted: bool) -> str | None:
        if module in ("posix", "nt"):
            return None if name in LOOKS else "its forward calls os.%s" % name
        if module in ("_io", "io") and name in OPENS:
            return "its forward opens a file"
        if module == GROUPS and name in ASKS_GROUPS:
            return None
        if module in FUNCTIONS:
            names = FUNCTIONS[module]
            if names is ALL or name in names:
                shown = name if module == "builtins" else "%s.%s" % (module.lstrip("_"), name)
                return "its forward calls %s" % shown
        if not is_trusted:
            if module == "builtins" and name in unseen.WITHOUT_ARGUMENT and self.is_outside(argument):
                return "its forward changes an object outside of the model (%s)" % name
            if module == "builtins" and name in unseen.EXHAUSTING and self.is_iterator_outside(argument):
                return "its forward takes from an iterator outside of the model"
            if not self.is_known(module):
                return "its forward calls %s of an extension (%s)" % (name, module)
        return None

    def of_method(self, owner: type, name: str, bound: object, is_trusted: bool) -> str | None:
        for base in owner.__mro__ if not any(base.__name__ in IN_MEMORY for base in owner.__mro__) else ():
            names = TYPES.get(base.__module__, frozenset())
            if base.__module__ == GROUPS and name in ASKS_GROUPS:
                continue
            if names is ALL or name in names:
                return "its forward calls %s of a %s" % (name, owner.__name__)
        if name in OF_FILES.get(owner.__name__, ()):
            return "its forward calls %s of a %s" % (name, owner.__name__)
        if is_trusted:
            return None
        if is_generator(owner) and not is_shared_generator(bound) and self.is_outside(bound):
            return "its forward draws from a generator of its own (%s)" % owner.__name__
        changing = next((CHANGING[each] for each in owner.__mro__ if each in CHANGING), None)
        if owner.__name__ == "deque":
            changing = DEQUE
        changing = NAMED.get(owner.__name__, changing)
        is_change = name in ("__setattr__", "__delattr__") or changing is not None and name in changing
        if is_change and self.is_outside(bound):
            self.changed(bound)
            return "its forward changes a %s outside of the model" % type(bound).__name__
        return self.of_extension(owner, is_trusted)

    def of_extension(self, kind: type, is_trusted: bool) -> str | None:
        # Classes that Python's own code has made say what they do when they do it.
        if is_trusted or kind.__flags__ & (1 << 9) or self.is_known(kind.__module__):
            return None
        return "its forward calls %s of an extension (%s)" % (kind.__name__, kind.__module__)

    def of_python(self, module: object, name: str, code: CodeType) -> str | None:
        """A function of Python's own code that does something before it calls one in C."""
        if type(module) is not str:
            return None
        owner, _, method = name.partition(".")
        if (module, owner) in PYTHONS:
            if not method:
                # The body of the class: its module is imported for the first time.
                return None
            if owner == "Logger" and method in LOGGER_LOOKS or owner == "Thread" and method != "start":
                return None
            if method in ("empty", "full", "qsize", "is_set", "__init__", "_init", "poll"):
                return None
            return "its forward calls %s of a %s" % (method, owner)
        package = module.partition(".")[0]
        if package in PYTHON_PACKAGES or module.startswith(PYTHON_MODULES):
            return "its forward calls %s of %s" % (name, package if package != "torch" else module)
        return None

    def is_known(self, module: object) -> bool:
        if type(module) is not str:
            return True
        root = module.partition(".")[0]
        # Before 3.10 Python does not say which modules are its own.
        return root in HARMLESS or root in self.stdlib or not hasattr(sys, "stdlib_module_names")

    def changes_container(self, name: str, value: object) -> bool:
        changing = next((CHANGING[base] for base in type(value).__mro__ if base in CHANGING), ())
        is_change = value is not UNSEEN and name in changing and self.is_outside(value)
        if is_change:
            self.changed(value)
        return is_change

    def changed(self, value: Any) -> None:
        self.outside, self.deep = value, 0
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            self.deep += frame.f_code.co_name == CALL
            frame = frame.f_back

    def is_iterator_outside(self, value: object) -> bool:
        is_iterator = value is not UNSEEN and any("__next__" in vars(base) for base in type(value).__mro__)
        return is_iterator and self.is_outside(value)

    def is_outside(self, value: object) -> bool:
        return self.before is not None and (value is UNSEEN or self.before.has(value))


def may_act(module: str) -> bool:
    """Whether a module in Python's own code has functions that do something before they call one in C."""
    is_of_package = module.partition(".")[0] in PYTHON_PACKAGES or module.startswith(PYTHON_MODULES)
    return is_of_package or any(module == name for name, _ in PYTHONS)


@functools.lru_cache(maxsize=4096)
def may_catch(code: CodeType) -> bool:
    """Whether a function, before Python 3.12, has a `try` or a `with`."""
    table = getattr(code, "co_exceptiontable", None)
    return bool(table) if table is not None else not CATCHING.isdisjoint(code.co_code[::2])


def homes_of(packages: frozenset[str]) -> tuple[str, ...]:
    """The directories, with a separator at their ends, of those that are imported."""
    found = [getattr(sys.modules.get(name), "__path__", None) for name in packages]
    # A package without an `__init__.py` has a path that is computed; those of the list have one.
    return tuple(os.path.join(home, "") for each in found if type(each) is list for home in each if type(home) is str)


def qualified(frame: FrameType) -> str:
    code: Any = frame.f_code
    name = getattr(code, "co_qualname", None)
    if name is None:
        # Before 3.11: a method's class is its object's.
        name = code.co_name
        if code.co_argcount and code.co_varnames[0] == "self":
            name = "%s.%s" % (type(frame.f_locals.get("self")).__name__, name)
    return str(name)


def is_importing(function: Any, frame: FrameType | None) -> bool:
    """Whether this reads a source or a library: something is imported for the first time, or torch notes a stack."""
    if getattr(function, "__name__", "") not in READS_SOURCES:
        return False
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith("<frozen importlib") or path == linecache.__file__:
            return True
        frame = frame.f_back
    return False
