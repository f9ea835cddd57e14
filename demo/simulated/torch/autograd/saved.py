"""What a node of the graph saved, to look at without unpacking it. Imports nothing until then: torch._C needs it."""


class SavedTensor:
    def __init__(self, storage):
        self.storage = storage

    @property
    def data(self):
        from .. import _types
        from .._tensor import Tensor

        return Tensor(_types.Size((self.storage.nbytes(),)), _types.uint8, self.storage)
