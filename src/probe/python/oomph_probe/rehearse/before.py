"""What a program had before a rehearsal began: all else is the rehearsal's own."""

from __future__ import annotations

import gc
import itertools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Container

# So many objects are searched for among all others.
MOST = 30
# After so many it is noted at once what all others refer to, which takes as long as seven searches.
FEW = 3
# So many are looked for among the youngest before the addresses of the older ones are noted, which takes as long.
LOOKED_FOR = 40


class Before:
    """The objects that are there when it is made, by address. The collector rests from then on, so those made later are
    among its youngest: of the older ones, which are many, the addresses are noted when they are asked for first. What
    was noted is kept until the rehearsals are over: nothing of theirs comes to lie where it was."""

    def __init__(self) -> None:
        self.kept: list[Any] = gc.get_objects(0)
        self.youngest = frozenset(map(id, self.kept))
        self.older: frozenset[int] | None = None
        self.searches = self.looked_for = 0
        # Addresses of what the rehearsal has made, copies of the program's objects first.
        self.ours: set[int] = set()
        # What the collector does not know and an object that was there refers to.
        self.held: frozenset[int] | None = None

    def forget(self) -> None:
        """Nobody asks any more."""
        self.kept = []

    def has_copies(self, copies: dict[int, Any]) -> None:
        """The copies of the program's objects, by the addresses of these, some of which are taken as they are."""
        self.ours.update(id(each) for each in copies.values() if copies.get(id(each)) is not each)

    @property
    def addresses(self) -> Container[int]:
        if self.older is None:
            older = gc.get_objects(1) + gc.get_objects(2)
            self.kept += older
            self.older = self.youngest.union(map(id, older))
        return self.older

    def has(self, value: object) -> bool:
        if id(value) in self.ours:
            return False
        # The collector does not know a dict of plain values, an array or bytes; but those who have them.
        if gc.is_tracked(value):
            if self.is_plainly_ours(value):
                return False
        elif self.searches >= FEW and not self.may_be_held(value):
            # It may be one of many that are made in a loop: they have no address that is worth a note.
            return False
        self.searches += 1
        if self.searches > MOST:
            return False
        referrers = gc.get_referrers(value)
        if any(id(each) in self.addresses for each in referrers) or self.is_of_older(referrers):
            return True
        self.ours.add(id(value))
        return False

    def is_plainly_ours(self, value: object) -> bool:
        """Whether it was made since."""
        if self.older is None and self.looked_for < LOOKED_FOR:
            self.looked_for += 1
            if self.is_young(value):
                self.ours.add(id(value))
                return True
        return id(value) not in self.addresses

    def may_be_held(self, value: object) -> bool:
        """Whether something that was there had what the collector does not know, or something else at its address."""
        if self.held is None:
            addresses = self.addresses
            there = [each for each in gc.get_objects(0) if id(each) in self.youngest]
            referred = gc.get_referents(*there, *gc.get_objects(1), *gc.get_objects(2))
            # As in `is_of_older`.
            made = [each for each in referred if type(each) is dict and id(each) not in addresses]
            referred += gc.get_referents(*made)
            self.held = frozenset(map(id, itertools.filterfalse(gc.is_tracked, referred)))
        return id(value) in self.held

    def is_of_older(self, referrers: list[Any]) -> bool:
        """Whether one of them holds the attributes of an object that was there. Python makes that dict when it is asked
        for first, which a copy of the object does; until then the object itself refers to what it has."""
        made = [each for each in referrers if type(each) is dict]
        owners = gc.get_referrers(*made) if made else []
        return any(type(each).__dictoffset__ and id(each) in self.addresses for each in owners)

    def is_young(self, value: object) -> bool:
        """Whether the collector, which rests meanwhile, has it among its youngest, where it was not. What was made last
        is the last of them, and mostly what is asked for."""
        return id(value) not in self.youngest and any(each is value for each in reversed(gc.get_objects(0)))
