"""Tensor: a shape, a dtype and a storage, but no numbers."""
import weakref

from . import _types
from ._operation import added, operation, selection, split, view
from ._storage import CPU, Storage
from ._types import Size, float32, promoted
from .autograd.graph import AccumulateGrad
from .cuda import _runtime


def broadcast(first, second):
    """The shape of an operation on both."""
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    padded = (1,) * (len(longer) - len(shorter)) + tuple(shorter)
    for one, other in zip(longer, padded):
        if one != other and 1 not in (one, other):
            raise RuntimeError(
                "The size of tensor a (%d) must match the size of tensor b (%d) (simulated)" % (one, other)
            )
    return Size(max(one, other) for one, other in zip(longer, padded))


class Tensor:
    """As much of torch.Tensor as a one-page training needs."""

    __slots__ = ("shape", "dtype", "_storage", "requires_grad", "grad", "_node", "_output", "_accumulate", "_start",
                 "__weakref__")

    def __init__(self, shape, dtype, storage, requires_grad=False):
        self.shape = shape
        self.dtype = dtype
        self._storage = storage
        self.requires_grad = requires_grad
        self.grad = None
        self._node = None
        self._output = 0
        self._accumulate = None
        self._start = None

    # Creation, used by the package.

    @classmethod
    def _empty(cls, shape, dtype, device):
        shape = Size(shape)
        return Tensor(shape, dtype, Storage(shape.numel() * dtype.itemsize, device))

    @classmethod
    def _bytes(cls, size, device):
        return Tensor._empty((size,), _types.uint8, device)

    def _sibling(self, shape, dtype):
        """A new tensor on the same device."""
        return Tensor._empty(shape, dtype, self._storage._device)

    def _alias(self, shape):
        if shape.numel() > self.shape.numel():
            raise RuntimeError("shape '%s' is invalid for input of size %d" % (list(shape), self.numel()))
        return Tensor(shape, self.dtype, self._storage)

    def _record(self, node, output=0):
        self.requires_grad = True
        self._node = node
        self._output = output

    def _edge(self):
        """Where this tensor's gradient goes: (node, index of its output), or None if it needs no gradient."""
        if self._node is not None:
            return self._node, self._output
        if not self.requires_grad:
            return None
        node = self._accumulate() if self._accumulate is not None else None
        if node is None:
            node = AccumulateGrad(self)
            self._accumulate = weakref.ref(node)
        return node, 0

    def _touch(self, *others):
        """Advances time as a kernel writes this tensor and reads the others."""
        if self._storage._device.type == "cuda":
            touched = self.nbytes
            for other in others:
                touched += other.nbytes
            _runtime.gpu().touch(touched)

    # Properties.

    @property
    def device(self):
        return self._storage._device

    @property
    def is_cuda(self):
        return self._storage._device.type == "cuda"

    @property
    def grad_fn(self):
        return self._node

    @property
    def is_leaf(self):
        return self._node is None

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def nbytes(self):
        return self.shape.numel() * self.dtype.itemsize

    @property
    def data(self):
        return self.detach()

    def numel(self):
        return self.shape.numel()

    def element_size(self):
        return self.dtype.itemsize

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return len(self.shape)

    def stride(self, dim=None):
        strides = []
        step = 1
        for extent in reversed(self.shape):
            strides.insert(0, step)
            step *= max(1, extent)
        return tuple(strides) if dim is None else strides[dim]

    def storage_offset(self):
        return 0

    def data_ptr(self):
        return self._storage.data_ptr()

    def untyped_storage(self):
        return self._storage

    def is_floating_point(self):
        return self.dtype.is_floating_point

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return "tensor(simulated, size=%s, dtype=%r, device='%s')" % (tuple(self.shape), self.dtype, self.device)

    def item(self):
        """A made-up number: a decaying loss for a loss, 0.0 for anything else."""
        if self.numel() != 1:
            raise RuntimeError("a Tensor with %d elements cannot be converted to Scalar" % self.numel())
        if self.is_cuda:
            _runtime.gpu().wait()
        return 0.0 if self._start is None else _runtime.loss.value(self._start)

    def __float__(self):
        return self.item()

    # Gradients.

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        from . import autograd

        autograd.backward(self, gradient, retain_graph, create_graph)

    def requires_grad_(self, requires_grad=True):
        self.requires_grad = requires_grad
        return self

    def detach(self):
        alias = self._alias(self.shape)
        alias._start = self._start
        return alias

    # Shapes.

    def _resolved(self, shape):
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = shape[0]
        known = 1
        for extent in shape:
            known *= extent if extent != -1 else 1
        shape = Size(self.numel() // known if extent == -1 else extent for extent in shape)
        if shape.numel() != self.numel():
            raise RuntimeError("shape '%s' is invalid for input of size %d" % (list(shape), self.numel()))
        return shape

    def view(self, *shape):
        return view("ViewBackward0", self, self._resolved(shape))

    def reshape(self, *shape):
        """Always a view: the layouts of this package's operations allow it."""
        return view("ViewBackward0", self, self._resolved(shape))

    def flatten(self, start_dim=0, end_dim=-1):
        end = end_dim % self.ndim
        start = start_dim % self.ndim
        merged = Size(self.shape[start : end + 1]).numel()
        return view("ViewBackward0", self, self.shape[:start] + (merged,) + self.shape[end + 1 :])

    def transpose(self, dim0, dim1):
        shape = list(self.shape)
        shape[dim0], shape[dim1] = shape[dim1], shape[dim0]
        return view("TransposeBackward0", self, shape)

    def unsqueeze(self, dim):
        shape = list(self.shape)
        shape.insert(dim if dim >= 0 else dim + self.ndim + 1, 1)
        return view("UnsqueezeBackward0", self, shape)

    def squeeze(self, dim):
        shape = list(self.shape)
        if shape[dim] == 1:
            del shape[dim]
        return view("SqueezeBackward1", self, shape)

    def contiguous(self):
        return self

    def split(self, split_size, dim=0):
        dim %= self.ndim
        shapes = []
        left = self.shape[dim]
        while left > 0:
            shapes.append(self.shape[:dim] + (min(split_size, left),) + self.shape[dim + 1 :])
            left -= split_size
        return split("SplitBackward0", self, shapes)

    def chunk(self, chunks, dim=0):
        return self.split(-(-self.shape[dim] // chunks), dim)

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(one, Tensor) for one in keys):
            shape = Size(())
            for one in keys:
                shape = broadcast(shape, one.shape if isinstance(one, Tensor) else Size(()))
            saved = [one for one in keys if isinstance(one, Tensor)]
            return operation("IndexBackward0", [self], shape + self.shape[len(keys) :], self.dtype, saved=saved)
        shape = []
        rest = list(self.shape)
        for one in keys:
            if one is None:
                shape.append(1)
            elif isinstance(one, slice):
                shape.append(len(range(*one.indices(rest.pop(0)))))
            elif isinstance(one, int):
                rest.pop(0)
            else:
                raise TypeError("indexing with %r is not simulated" % (one,))
        return selection("SliceBackward0", self, shape + rest)

    # Copies.

    def clone(self):
        return operation("CloneBackward0", [self], self.shape, self.dtype)

    def to(self, *args, **kwargs):
        dtype, device = kwargs.get("dtype"), kwargs.get("device")
        for argument in args:
            if isinstance(argument, _types.dtype):
                dtype = argument
            elif isinstance(argument, (str, int, _types.device)):
                device = argument
        dtype = dtype or self.dtype
        device = self.device if device is None else _types.device(device)
        if dtype is self.dtype and device == self.device:
            return self
        if device != self.device:
            moved = Tensor._empty(self.shape, dtype, device)
            moved._touch(self)
            moved.requires_grad = self.requires_grad and self.is_leaf
            return moved
        return operation("ToCopyBackward0", [self], self.shape, dtype)

    def cuda(self, device=None, non_blocking=False):
        return self.to("cuda" if device is None else device)

    def cpu(self):
        return self.to(CPU)

    def long(self):
        return self.to(_types.int64)

    def float(self):
        return self.to(float32)

    def bfloat16(self):
        return self.to(_types.bfloat16)

    # Arithmetic.

    def _elementwise(self, name, other, saves):
        if isinstance(other, Tensor):
            shape = broadcast(self.shape, other.shape)
            dtype = promoted(self.dtype, other.dtype)
            if not saves:
                return added(name, [self, other], shape, dtype)
            return operation(name, [self, other], shape, dtype, saved=[self, other])
        dtype = self.dtype if self.is_floating_point() or isinstance(other, int) else float32
        output = operation(name, [self], self.shape, dtype)
        output._start = self._start
        if self._start is not None and name == "DivBackward0":
            output._start = self._start / other
        return output

    def __add__(self, other):
        return self._elementwise("AddBackward0", other, saves=False)

    def __sub__(self, other):
        return self._elementwise("SubBackward0", other, saves=False)

    def __mul__(self, other):
        return self._elementwise("MulBackward0", other, saves=True)

    def __truediv__(self, other):
        return self._elementwise("DivBackward0", other, saves=True)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self):
        return operation("NegBackward0", [self], self.shape, self.dtype)

    def sin(self):
        return operation("SinBackward0", [self], self.shape, self.dtype, saved=[self])

    def relu(self):
        return operation("ReluBackward0", [self], self.shape, self.dtype, save_output=True)

    def _reduced(self, name, dim, keepdim):
        if dim is None:
            shape = Size(())
        else:
            dims = {one % self.ndim for one in ((dim,) if isinstance(dim, int) else dim)}
            shape = Size(
                1 if position in dims else extent
                for position, extent in enumerate(self.shape)
                if keepdim or position not in dims
            )
        output = operation(name, [self], shape, self.dtype)
        output._start = self._start
        return output

    def mean(self, dim=None, keepdim=False):
        return self._reduced("MeanBackward1", dim, keepdim)

    def sum(self, dim=None, keepdim=False):
        return self._reduced("SumBackward1", dim, keepdim)


def is_tensor(candidate):
    return isinstance(candidate, Tensor)

