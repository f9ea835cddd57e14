"""A rehearsal's thread: started, waited for, given up, and out of the way when the process exits.

It is a thread of its own, so that nothing of the failed call's (excluded dispatch keys, autocast, grad mode) reaches
it. Nobody raises anything in it from outside: it looks at its deadline itself, where Python may raise. Python ends a
thread that it finds in C++ at exit in a way that C++ does not survive (before 3.14), so the exit waits for it, and
one that does not come to an end is stopped in Python's own code for good.
"""

from __future__ import annotations

import atexit
import gc
import sys
import threading
import time
from _thread import allocate_lock, get_ident

from ..common import errors, signals
from ..common.frames import OURS
from .effects import Guard, Stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable

# Seconds that the exit waits for a rehearsal that was given up (mostly for one operation of it), and then for it to
# stand still; and the most of each where the machine is so busy that the process has hardly run meanwhile.
EXIT, STILL = 2.0, 0.3
EXIT_BUSY, STILL_BUSY = 8.0, 4.0
# Seconds for a thread that has answered.
ENDS = 0.1
# The share of that time that the process has to have run.
RAN = 0.5
# A rehearsal nests deeper than the step did: each operation passes through Python.
STACK = 64 << 20
# Errors that led to one.
LONGEST_CHAIN = 16
# Held for good by those that wait for it.
NEVER = allocate_lock()
NEVER.acquire()


class Interrupted(BaseException):
    """A signal's handler has raised this error while the program waited."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        # As if it had been raised where the program called: without our frames.
        trace = error.__traceback__
        while trace is not None and is_ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        error.__traceback__ = trace
        error.__context__ = None


def is_ours(path: str) -> bool:
    return path.startswith(OURS) or path.endswith("threading.py")


class Deadline:
    """Until when a rehearsal may go on."""

    def __init__(self, at: float) -> None:
        self.at = at
        self.is_given_up = False

    def has_come(self) -> bool:
        return self.is_given_up or time.monotonic() > self.at


class Threads:
    """The rehearsals of this process that have not ended."""

    def __init__(self) -> None:
        self.alive: dict[int, Deadline] = {}
        # Set at exit: whoever is still at it stands still.
        self.must_stand = False
        self.standing: set[int] = set()
        self.is_watching = False
        # What keeps them from having an effect.
        self.guards: dict[int, Guard] = {}

    def watch_for_the_exit(self) -> None:
        if not self.is_watching:
            self.is_watching = True
            atexit.register(self.at_exit)

    def at_exit(self) -> None:
        for deadline in list(self.alive.values()):
            deadline.is_given_up = True
        if self.wait(EXIT, EXIT_BUSY):
            return
        self.must_stand = True
        guards = list(self.guards.values())
        for guard in guards:
            guard.look_everywhere()
        self.wait(STILL, STILL_BUSY)
        # Python takes its modules apart now, ours too: nothing may call them any more.
        for guard in guards:
            guard.leave_alone()

    def wait(self, seconds: float, at_most: float) -> bool:
        """Whether all have ended or stand still by then: after `seconds`, or later where the process did not get to
        run."""
        began, ran = time.monotonic(), time.process_time()
        while set(self.alive) - self.standing:
            waited = time.monotonic() - began
            has_run = time.process_time() - ran >= RAN * seconds
            if waited > at_most or waited > seconds and has_run:
                return False
            time.sleep(0.005)
        return True

    def is_in_one(self) -> bool:
        return get_ident() in self.alive

    def is_guarded(self, guard: Guard) -> None:
        self.guards[get_ident()] = guard

    def stand_still(self) -> None:
        """Called by a rehearsal's thread at any place of Python's: never returns once the process exits."""
        if self.must_stand and get_ident() in self.alive:
            self.standing.add(get_ident())
            NEVER.acquire()


here = Threads()


def looks_up(deadline: Deadline) -> Callable[[FrameType], None]:
    """What a rehearsal's thread does wherever Python may raise, between operations too."""

    def look(frame: FrameType) -> None:
        here.stand_still()
        if deadline.is_given_up and not is_in_destructor(frame):
            raise Stopped("it took too long")

    return look


def is_in_destructor(frame: FrameType | None) -> bool:
    """What is raised there is printed, and goes no further."""
    while frame is not None:
        if frame.f_code.co_name in ("__del__", "<lambda>"):
            return True
        frame = frame.f_back
    return False


class Unraisable:
    """Keeps Python from printing what is raised while something of a rehearsal's thread is taken apart: a generator
    that was given up in the middle ends outside of what it was begun in."""

    def __init__(self) -> None:
        original = self.original = sys.unraisablehook

        def hook(unraisable: Any) -> None:
            if not here.is_in_one():
                original(unraisable)

        self.ours = sys.unraisablehook = hook

    def put_back(self) -> None:
        if sys.unraisablehook is self.ours:
            sys.unraisablehook = self.original


def drop_frames(error: BaseException | None) -> None:
    """What its frames hold is gone before the thread ends, and not later on another."""
    for _ in range(LONGEST_CHAIN):
        if error is None:
            return
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def empty_queue() -> None:
    """What a backward that was stopped had yet to do stays in a queue of its thread (torch's engine), and the graph
    with it. At the thread's end C++ takes that apart, each part under Python's lock; where the process exits meanwhile,
    Python ends the thread in the middle of it, and C++ the process (SIGABRT). Another backward drops what is left."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    try:
        number = torch.zeros((), device="cpu", dtype=torch.float32, requires_grad=True)
        torch.autograd.backward(number.clone())
    except Exception:
        errors.foreseen("empty the engine's queue")


def run(work: Callable[[], Any], deadline: Deadline, patience: float) -> tuple[Any, BaseException | None]:
    """Runs `work` on a thread of its own and waits at most `patience` seconds: (result, error). Raises `Interrupted`
    where a signal's handler raises: the rehearsal is given up then."""
    answer: list[tuple[Any, BaseException | None]] = []
    done = allocate_lock()
    done.acquire()

    def body() -> None:
        here.alive[get_ident()] = deadline
        signals.take_none()
        unraisable = Unraisable()
        try:
            answer.append((work(), None))
        except BaseException as error:
            errors.foreseen("rehearse on a thread")
            drop_frames(error)
            answer.append((None, error))
        finally:
            empty_queue()
            unraisable.put_back()
            here.guards.pop(get_ident(), None)
            here.alive.pop(get_ident(), None)
            done.release()

    # The collector would run the program's destructors in a thread that may do nothing.
    is_collecting = gc.isenabled()
    gc.disable()
    thread = threading.Thread(target=body, name="oomph rehearsal", daemon=True)
    try:
        here.watch_for_the_exit()
        start(thread)
        done.acquire(True, patience)
    except BaseException as error:
        if thread.ident is None and isinstance(error, RuntimeError):
            # No further thread can be had.
            return None, error
        deadline.is_given_up = True
        raise Interrupted(error) from None
    finally:
        if is_collecting:
            gc.enable()
    if answer:
        # Its last steps are Python's own.
        thread.join(ENDS)
        return answer[0]
    # It ends at its next operation, which looks at the deadline.
    deadline.is_given_up = True
    return None, Stopped("it did not end in time")


def start(thread: threading.Thread) -> None:
    """With a stack that is large enough, where there is room for one."""
    before = threading.stack_size()
    try:
        threading.stack_size(STACK)
        thread.start()
    except (RuntimeError, ValueError):
        threading.stack_size(before)
        if thread.ident is None:
            thread.start()
    finally:
        threading.stack_size(before)
