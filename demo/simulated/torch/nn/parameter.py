"""Parameter: a tensor that a Module registers when it is assigned to it."""
from .._tensor import Tensor


class Parameter(Tensor):
    __slots__ = ()

    def __init__(self, data, requires_grad=True):
        Tensor.__init__(self, data.shape, data.dtype, data._storage, requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + Tensor.__repr__(self)


__all__ = ["Parameter"]
