"""dtype, device and Size: what describes a tensor's extent."""


class dtype:
    """A number format; only its size and whether it is floating point matter here."""

    def __init__(self, name, itemsize, is_floating_point):
        self.name = name
        self.itemsize = itemsize
        self.is_floating_point = is_floating_point

    def __repr__(self):
        return "torch." + self.name


float64 = dtype("float64", 8, True)
float32 = dtype("float32", 4, True)
bfloat16 = dtype("bfloat16", 2, True)
float16 = dtype("float16", 2, True)
int64 = dtype("int64", 8, False)
int32 = dtype("int32", 4, False)
uint8 = dtype("uint8", 1, False)
bool_ = dtype("bool", 1, False)

_PRECEDENCE = (float64, float32, bfloat16, float16, int64, int32, uint8, bool_)


def promoted(first, second):
    """The dtype of an operation on both: the wider one. (bfloat16 with float16 gives float32; that does not occur
    here.)"""
    return min(first, second, key=_PRECEDENCE.index)


class device:
    """`cpu` or `cuda:0`; a bare `cuda` is the first, and only, GPU."""

    def __init__(self, type, index=None):
        if isinstance(type, device):
            type, index = type.type, type.index
        elif isinstance(type, int):
            type, index = "cuda", type
        elif ":" in type:
            type, number = type.split(":", 1)
            index = int(number)
        if type not in ("cpu", "cuda"):
            raise RuntimeError("Expected one of cpu, cuda device type at start of device string: %s (simulated)" % type)
        self.type = type
        self.index = index if type == "cpu" else index or 0

    def __eq__(self, other):
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __str__(self):
        return self.type if self.index is None else "%s:%d" % (self.type, self.index)

    def __repr__(self):
        if self.index is None:
            return "device(type=%r)" % self.type
        return "device(type=%r, index=%d)" % (self.type, self.index)


class Size(tuple):
    """A shape."""

    def numel(self):
        count = 1
        for extent in self:
            count *= extent
        return count

    def __repr__(self):
        return "torch.Size(%s)" % list(self)
