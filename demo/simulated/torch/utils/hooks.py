"""The handle with which a hook is removed."""
import itertools

_ids = itertools.count()


class RemovableHandle:
    def __init__(self, hooks_dict, extra_dict=()):
        self.id = next(_ids)
        self._dicts = [hooks_dict] + list(extra_dict)

    def remove(self):
        for hooks in self._dicts:
            hooks.pop(self.id, None)
