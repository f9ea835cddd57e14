"""For a training that may run behind oomph: which session it is in, and marks for what happens in it.

    import oomph

    oomph.session()          # "20260301-233000-python3", or None where oomph is not in front
    oomph.mark("epoch 3")    # stands in the session's events; does nothing where oomph is not in front

Nothing here raises, prints, starts a thread or depends on a package, and a mark takes microseconds (50 ms at the most, once,
where oomph does not listen any more). oomph itself is a program: `oomph python train.py`, or `python -m oomph`.
"""
import json
import os
import socket
import time

__all__ = ["mark", "session"]

# A longer text is cut.
_LONGEST = 200
# Seconds that a mark may take at the most, and in which there is none after one that was not taken.
_PATIENCE = 0.05
_PAUSE = 60.0

_silent_until = 0.0


def session():
    """The name of the session that this process is part of, for `oomph report` and the like; None without one."""
    return os.environ.get("OOMPH_SESSION") or None


def mark(text):
    """Writes a line into the session's events. Whether oomph took it."""
    global _silent_until
    try:
        path = os.environ.get("OOMPH_PROBE_SOCKET")
        if not path or session() is None or time.monotonic() < _silent_until:
            return False
        words = "".join(c if c.isprintable() else " " for c in str(text))[:_LONGEST].strip()
        line = {"ns": time.monotonic_ns(), "event": "note", "level": "info", "about": "mark", "text": "mark: " + words}
        data = json.dumps(line).encode("ascii") + b"\n"
    except Exception:
        return False
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_PATIENCE)
            connection.connect(path)
            connection.sendall(data, socket.MSG_NOSIGNAL)
        finally:
            connection.close()
        return True
    except Exception:
        _silent_until = time.monotonic() + _PAUSE
        return False
