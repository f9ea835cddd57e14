"""Arguments of DataLoaders that decide how much of the host's memory they take: fewer workers, fewer batches fetched in
advance, no pinned copies, no workers kept between epochs; and the way in which workers share tensors.

The samples and their order stay as they are. A number is a bound, so that a loader which a framework makes from
another is not changed twice; what torch takes only with workers goes with the last of them. The workers of an
IterableDataset are left alone: it divides its data by their number.
"""

from __future__ import annotations

import functools
import sys

from ..common import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Args, Kwargs
    from .outcomes import Outcomes

# The patches, and the argument of DataLoader that each is about.
ARGUMENTS = {
    "workers": "num_workers",
    "prefetch": "prefetch_factor",
    "pin_memory": "pin_memory",
    "persistent_workers": "persistent_workers",
}
SHARING = "sharing"
STRATEGIES = ("file_system", "file_descriptor")
# DataLoader(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last,
# timeout, worker_init_fn, multiprocessing_context, …) since 1.0; what came later is only given by name.
PLACES = {"num_workers": 5, "pin_memory": 7, "timeout": 9, "multiprocessing_context": 11}
# What torch refuses without workers, and what stands for its absence.
ONLY_WITH_WORKERS = {
    "prefetch_factor": None,
    "persistent_workers": False,
    "timeout": 0,
    "multiprocessing_context": None,
}
# Where the program says nothing.
USUAL_PREFETCH = 2


class Given:
    """The arguments of one call."""

    def __init__(self, args: Args, kwargs: Kwargs) -> None:
        self.args, self.kwargs = args, kwargs

    def get(self, name: str, default: Any) -> Any:
        place = PLACES.get(name)
        if place is not None and len(self.args) > place:
            return self.args[place]
        return self.kwargs.get(name, default)

    def put(self, name: str, value: Any) -> None:
        place = PLACES.get(name)
        if place is not None and len(self.args) > place:
            self.args = self.args[:place] + (value,) + self.args[place + 1 :]
        else:
            self.kwargs = dict(self.kwargs, **{name: value})

    def drop(self, name: str, default: Any) -> None:
        place = PLACES.get(name)
        if place is not None and len(self.args) > place:
            self.put(name, default)
        elif name in self.kwargs:
            self.kwargs = {known: value for known, value in self.kwargs.items() if known != name}


class LoaderArguments:
    """These patches of this process."""

    def __init__(self, outcomes: Outcomes) -> None:
        self.outcomes = outcomes
        # By patch: the bound, or False for what is switched off.
        self.bounds: dict[str, Any] = {}
        self.counts: dict[str, int] = {}

    def choose(self, name: str, value: str) -> None:
        if name in ("workers", "prefetch"):
            bound = int(value)
            if bound < (1 if name == "prefetch" else 0):
                raise ValueError("%s is no number of this" % value)
            self.bounds[name] = bound
        elif value == "off":
            self.bounds[name] = False
        else:
            raise ValueError("%s can only be switched off" % name)

    def nothing_found(self, name: str) -> str:
        if name == "workers":
            return "no DataLoader with more than %d workers was made" % self.bounds[name]
        if name == "prefetch":
            return "no DataLoader that fetches more than %d batches a worker in advance was made" % self.bounds[name]
        return "no DataLoader with %s was made" % ARGUMENTS[name]

    def install(self) -> None:
        cls = sys.modules["torch.utils.data.dataloader"].DataLoader
        original = cls.__init__
        change = self.change

        @functools.wraps(original)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            args, kwargs = change(args, kwargs)
            original(self, *args, **kwargs)

        cls.__init__ = __init__

    def change(self, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """The loader's arguments to use."""
        try:
            given = Given(args, kwargs)
            said = [words for words in map(self.changed, [given] * len(ARGUMENTS), ARGUMENTS) if words]
            for name, words in said:
                self.counts[name] = count = self.counts.get(name, 0) + 1
                self.outcomes.apply(name, "%s in %d DataLoader%s" % (words, count, "" if count == 1 else "s"))
            return given.args, given.kwargs
        except BaseException:
            errors.refused("change a DataLoader")
            return args, kwargs

    def changed(self, given: Given, name: str) -> tuple[str, str] | None:
        """Changes one argument; the patch's name and what it did, or None."""
        bound = self.bounds.get(name)
        workers = given.get("num_workers", 0)
        if bound is None or isinstance(workers, bool) or not isinstance(workers, int):
            return None
        if name == "workers":
            return self.fewer_workers(given, workers, bound)
        if name == "prefetch":
            asked = given.get("prefetch_factor", None)
            each = USUAL_PREFETCH if asked is None else asked
            if workers == 0 or not isinstance(each, int) or each <= bound:
                return None
            given.put("prefetch_factor", bound)
            return name, "prefetch_factor %d instead of %d" % (bound, each)
        argument = ARGUMENTS[name]
        if not given.get(argument, False):
            return None
        given.put(argument, False)
        return name, "%s=False" % argument

    def fewer_workers(self, given: Given, workers: int, bound: int) -> tuple[str, str] | None:
        if workers <= bound:
            return None
        dataset = given.args[0] if given.args else given.kwargs.get("dataset")
        if is_iterable(dataset):
            if "workers" not in self.counts:
                self.outcomes.decline("workers", "an IterableDataset divides its data by the number of workers")
            return None
        given.put("num_workers", bound)
        if bound == 0:
            for argument, default in ONLY_WITH_WORKERS.items():
                given.drop(argument, default)
        return "workers", "%d workers instead of %d" % (bound, workers)


def is_iterable(dataset: Any) -> bool:
    kinds = getattr(sys.modules["torch.utils.data.dataloader"], "IterableDataset", None)
    return isinstance(kinds, type) and isinstance(dataset, kinds)


def share_by(outcomes: Outcomes, strategy: str) -> None:
    """How workers pass tensors on: by files with names, which take no descriptor, or by descriptors."""
    if strategy not in STRATEGIES:
        raise ValueError("there is no sharing strategy %s" % strategy)
    sharing: Any = sys.modules["torch.multiprocessing"]
    before = sharing.get_sharing_strategy()
    if before == strategy:
        return outcomes.decline(SHARING, "%s is torch's own choice here" % strategy)
    sharing.set_sharing_strategy(strategy)
    outcomes.apply(SHARING, "tensors are shared by %s instead of %s" % (strategy, before))
