"""torch.save and torch.load: files like the real ones, a zip archive with a pickled list of names, of tensors without
numbers. A tensor goes back to the device that it was saved from, unless `map_location` says where to."""
import pickle
import zipfile

from . import _types
from ._tensor import Tensor

NAMES = "archive/data.pkl"


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if isinstance(obj, Tensor):
            return "tensor", tuple(obj.shape), obj.dtype.name, obj.device.type
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, map_location):
        super().__init__(file)
        self.map_location = map_location

    def persistent_load(self, saved):
        _, shape, dtype, device = saved
        return _restored(shape, getattr(_types, dtype), self.map_location or device)


def _restored(shape, dtype, device):
    return Tensor._empty(shape, dtype, _types.device(device))


def save(obj, f):
    with open(f, "wb") as file:
        # A hole as large as the numbers would be, which takes no room on the disk.
        file.seek(sum(_sizes(obj)))
        # Protocol 2, as the real one: names are read by it.
        with zipfile.ZipFile(file, "w") as archive, archive.open(NAMES, "w") as names:
            _Pickler(names, protocol=2).dump(obj)


def _sizes(obj):
    if isinstance(obj, dict):
        return [size for each in obj.values() for size in _sizes(each)]
    return [obj.nbytes] if isinstance(obj, Tensor) else []


def load(f, map_location=None, *, weights_only=True):
    with zipfile.ZipFile(f) as archive, archive.open(NAMES) as names:
        return _Unpickler(names, map_location).load()
