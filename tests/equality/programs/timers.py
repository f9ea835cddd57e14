"""Timers of all three kinds, SIGALRM's default beside a sleep, and a handler that raises."""
import signal
import time

rung = []
signal.signal(signal.SIGALRM, lambda *_: rung.append("alarm"))
signal.signal(signal.SIGVTALRM, lambda *_: rung.append("virtual"))
signal.signal(signal.SIGPROF, lambda *_: rung.append("prof"))
signal.setitimer(signal.ITIMER_REAL, 0.02)
signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)
signal.setitimer(signal.ITIMER_PROF, 0.02)
while len(set(rung)) < 3:
    sum(range(1000))
print(sorted(rung))


def late(*_):
    raise TimeoutError("late")


signal.signal(signal.SIGALRM, late)
signal.alarm(1)
try:
    time.sleep(30)
except TimeoutError as error:
    print("caught", error)
