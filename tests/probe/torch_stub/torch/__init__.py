"""A stand-in for torch with just what the probe touches, for the probe's own tests.

Memory is a number: `torch.empty(n)` is a tensor of n bytes on device 0, capacity 1 GiB (each device),
blocks of exactly that size. What a program may set, beside torch's own names:

    STUB_TORCH_VERSION   what `torch.__version__` says
    STUB_TORCH_FAILS     the import fails: "import" by an ImportError, "crash" by a RuntimeError
    STUB_BACKEND         what `get_allocator_backend` says
    STUB_ENTRY           what the C++ entry is called that records the history
    STUB_LOSSES          whether there are losses that a backward begins from (numbers.py)
"""
import os

__version__ = os.environ.get("STUB_TORCH_VERSION", "2.11.0+cu130")

if os.environ.get("STUB_TORCH_FAILS") == "import":
    raise ImportError("libcudart.so.12: cannot open shared object file")
if os.environ.get("STUB_TORCH_FAILS") == "crash":
    raise RuntimeError("the stand-in was asked to fail")

from . import _C
from ._C import OutOfMemoryError, Tensor, empty, is_grad_enabled, no_grad
from . import cuda, nn, optim, autograd, utils


def __getattr__(name):
    if name in ("_dynamo", "_inductor", "_export", "onnx"):
        # torch imports these when somebody asks for them, which takes seconds and reads the program's variables early.
        os.write(2, b"the probe asked torch for %s\n" % name.encode())
        os._exit(99)
    raise AttributeError(name)


if "STUB_LOSSES" in os.environ:
    from . import numbers

    numbers.install()
