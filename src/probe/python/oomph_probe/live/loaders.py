"""How the DataLoaders are set that have started workers. torch tells its SIGCHLD handler which processes those are, by
a function of a module of its own; the loader is in the frame that calls it. Nothing else is looked at, and a
process without workers pays nothing. Before CUDA is initialised it is told at once, over a connection of its own: there
is no other yet, and the kernel may kill the process before there is one.
"""

from __future__ import annotations

import sys

from ..common import errors, frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Line

# Settings that differ, and workers of each, that are told.
MOST, MOST_WORKERS = 8, 256


class Loaders:
    """The loaders of this process that have workers."""

    def __init__(self, tell: Callable[[list[Line]], None] | None = None) -> None:
        self.known: list[Line] = []
        self.unsent = False
        self.tell = tell

    def watch(self) -> None:
        """Called right after `import torch`; a torch that has no such function is left alone."""
        module: Any = sys.modules.get("torch.utils.data._utils.signal_handling")
        original: Callable[..., Any] | None = getattr(module, "_set_worker_pids", None)
        if original is None:
            return
        told = original
        started = self.started

        def _set_worker_pids(key: Any, pids: Any) -> Any:
            result = told(key, pids)
            started(pids)
            return result

        module._set_worker_pids = _set_worker_pids

    def started(self, pids: Any) -> None:
        """Workers were started, by a loader's iterator two frames above."""
        try:
            iterator, loader = frames.read_locals(
                sys._getframe(2), lambda values: (values.get("self"), values.get("loader"))
            )
            self.keep(settings(iterator, loader), [int(pid) for pid in pids][:MOST_WORKERS])
            if self.tell is not None:
                self.tell([dict(known) for known in self.known])
        except Exception:
            errors.foreseen("look at a DataLoader")
        except BaseException:
            errors.refused("look at a DataLoader")

    def keep(self, found: Line, pids: list[int]) -> None:
        for known in self.known:
            if {name: value for name, value in known.items() if name != "pids"} == found:
                known["pids"] = pids
                break
        else:
            self.known = self.known[-(MOST - 1) :] + [dict(found, pids=pids)]
        self.unsent = True

    def take(self) -> list[Line] | None:
        """All of them, where there is anything new; on the sampler's thread."""
        if not self.unsent:
            return None
        self.unsent = False
        return [dict(known) for known in self.known]

    def send_again(self) -> None:
        self.unsent = bool(self.known)


def settings(iterator: Any, loader: Any) -> Line:
    found: Line = {
        "workers": int(iterator._num_workers),
        "pin_memory": bool(loader.pin_memory),
        "persistent": bool(getattr(loader, "persistent_workers", False)),
        # torch's _DatasetKind.Iterable.
        "iterable": getattr(iterator, "_dataset_kind", 0) == 1,
    }
    for name, value in (("prefetch", getattr(iterator, "_prefetch_factor", 2)), ("batch", loader.batch_size)):
        if isinstance(value, int):
            found[name] = value
    return found
