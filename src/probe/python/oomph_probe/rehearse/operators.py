"""What operators of torch's own returned for tensors of such sizes, so that FakeTensorMode, which takes some 150 µs for
each, is asked once: blocks are repeated, and so are steps.

Remembered is what returns tensors only: new ones, views of an argument, or an argument itself. Whatever is not plainly
one of these is asked for each time, and where torch is not as it is expected to be, everything is.
"""

from __future__ import annotations

from ..common import errors
from . import compilations, flops, reduced
from .accumulation import Accumulation
from .rules import NEW, NONE, RULES, SAME, VIEW, Kinds
from .rules import natural as natural_strides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Args, Kwargs, Torch

# Plain arguments whose values say all of them.
PLAIN = frozenset(("int", "float", "bool", "str", "NoneType", "dtype", "device", "memory_format", "layout"))
# What changes the size of a tensor that is there, or whose result follows from more than sizes.
NEVER = frozenset(
    "set_ resize_ as_strided_ resize_as_ _resize_output_ as_strided lift_fresh lift_fresh_copy lift".split()
)
# These return a view without saying so.
VIEWS = ("_unsafe_view", "_reshape_alias")


class Unknown(Exception):
    """What an operator was given or returned is not told by sizes."""


class Facts:
    """What is known of an operator whatever its arguments are."""

    __slots__ = ("name", "namespace", "is_mutable", "may_be_known", "is_view", "rule")

    def __init__(self, func: Any) -> None:
        self.namespace = func.namespace
        self.name = func.name().partition("::")[2].partition(".")[0]
        self.is_mutable = func._schema.is_mutable
        self.may_be_known = (
            self.namespace == "aten"
            and self.name not in NEVER
            and (not self.is_mutable or is_in_place(func._schema))
            and not any("inplace_view" in str(tag) for tag in func.tags)
        )
        self.is_view = self.name in VIEWS or is_view(func._schema)
        self.rule = RULES.get(func.name()) if self.may_be_known else None


def is_in_place(schema: Any) -> bool:
    """Whether it changes its first argument and returns that."""
    changed = [each.alias_info is not None and each.alias_info.is_write for each in schema.arguments]
    return bool(changed) and changed[0] and not any(changed[1:]) and len(schema.returns) == 1


def is_view(schema: Any) -> bool:
    """Whether it returns views of its first argument alone."""
    shared = [each.alias_info is not None and not each.alias_info.is_write for each in schema.arguments]
    return bool(shared) and shared[0] and not any(shared[1:]) and all(each.alias_info for each in schema.returns)


class Known:
    """The answers of one call's rehearsals, each of which has its own FakeTensorMode."""

    def __init__(self) -> None:
        self.facts: dict[Any, Facts] = {}
        # By operator and arguments: (outputs, whether they are a sequence and of which kind, operations).
        self.answers: dict[Any, Any] = {}
        # Of losses over memory of all their elements (reduced.py): that memory, and the bytes that they take beside it.
        self.losses: dict[Any, Any] = {}
        self.is_off = False
        # What torch.compile has made of the program's functions.
        self.compiled: Any = None
        self.accumulation: Accumulation | None = None
        # The mean, the longest and the spread of packed sequences' lengths, by where they were packed (packing.py).
        self.lengths: dict[Any, tuple[int, int, float]] = {}

    def accumulation_of(self, torch: Torch) -> Accumulation:
        if self.accumulation is None:
            self.accumulation = Accumulation(torch)
        return self.accumulation

    def compiled_of(self, torch: Torch) -> compilations.Known:
        if self.compiled is None:
            self.compiled = compilations.Known(torch)
        known: compilations.Known = self.compiled
        return known

    def of(self, func: Any) -> Facts:
        facts = self.facts.get(func)
        if facts is None:
            facts = self.facts[func] = Facts(func)
        return facts


class Operators:
    """The operators of one rehearsal."""

    def __init__(self, torch: Torch, mode: Any, known: Known) -> None:
        self.torch = torch
        self.mode = mode
        self.known = known
        # What a fake of this mode's has as attributes when it is new, by its device.
        self.states: dict[Any, dict[str, Any]] = {}
        # Classes of plain arguments that were met.
        self.plain: set[type] = set()
        try:
            from torch._subclasses.fake_tensor import FakeTensor

            self.kind: Any = FakeTensor
            self.kinds = Kinds(torch, FakeTensor)
            self.make_subclass = torch.Tensor._make_subclass
            self.empty, self.meta = torch.empty_strided, torch.device("meta")
            self.plainly = torch._C._DisableTorchDispatch
            is_unsafe = mode._allow_unsafe_data_ptr_access
            self.mark = getattr(
                torch._C,
                "_set_warn_deprecated_on_mutable_data_ptr" if is_unsafe else "_set_throw_on_mutable_data_ptr",
            )
            self.default_dtype = torch.get_default_dtype
            self.is_inference = torch.is_inference_mode_enabled
            is_as_expected = mode.shape_env is None
        except Exception:
            errors.foreseen("remember operators")
            is_as_expected = False
        if not is_as_expected:
            known.is_off = True
        elif not known.is_off:
            # Its own memory takes as long as most operators, and outlives the rehearsal.
            mode.cache_enabled = False

    def key(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """The same for calls of the same answer; None where that is not to be told."""
        parts: list[Any] = [func, self.default_dtype(), self.is_inference()]
        if not self.add(parts, args):
            return None
        for name, value in kwargs.items():
            parts.append(name)
            if not self.add(parts, (value,)):
                return None
        return tuple(parts)

    def add(self, parts: list[Any], values: Any) -> bool:
        kind, mode, plain = self.kind, self.mode, self.plain
        for value in values:
            each = type(value)
            if each is kind:
                dtype = value.dtype
                if value.fake_mode is not mode or value.constant is not None:
                    return False
                if dtype.is_complex or value.is_neg() or value.is_sparse:
                    # They have flags that no size says, or parts.
                    return False
                # Where it begins in its storage is left out: the frames of a video have an answer in common.
                parts += value.shape, value.stride(), dtype, value.fake_device, value.requires_grad
            elif each in plain:
                # 1, 1.0 and True are equal.
                parts += each, value
            elif each is list or each is tuple:
                parts.append(len(value))
                if not self.add(parts, value):
                    return False
            elif each.__name__ in PLAIN:
                plain.add(each)
                parts += each, value
            else:
                return False
        return True

    def answer(self, key: Any, func: Any, facts: Facts, args: Args, kwargs: Kwargs) -> Any:
        """What is known of a call, from an earlier one or by its sizes; None where torch has to be asked."""
        found = self.known.answers.get(key)
        if found is None and facts.may_be_known:
            if facts.rule is not None:
                outputs = facts.rule(self.kinds, args, kwargs)
                if outputs is not None:
                    found = outputs, tuple if len(outputs) > 1 else None, flops.of(facts.name, args)
            elif facts.is_view:
                found = self.viewed(func, args, kwargs)
            if found is not None:
                self.known.answers[key] = found
        return found

    def viewed(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """The answer of an operator that returns views, from torch's own on a tensor that is nothing but sizes."""
        first = args[0]
        if type(first) is not self.kind or first.dtype.is_complex or first.device.type == "meta":
            return None
        if any(isinstance(each, self.torch.Tensor) for each in args[1:]) or kwargs and "dtype" in kwargs:
            return None
        with self.plainly():
            plain = self.empty(first.shape, first.stride(), dtype=first.dtype, device=self.meta)
            try:
                returned = func(plain, *args[1:], **kwargs)
            except Exception:
                # It will say so itself.
                errors.foreseen("a view that cannot be had")
                return None
            kind = type(returned)
            several = returned if kind in (list, tuple) else [returned]
            if any(each.dtype != first.dtype for each in several):
                return None
            outputs = [
                (VIEW, 0, each.shape, each.stride(), each.dtype, first.fake_device, each.storage_offset())
                for each in several
            ]
        return outputs, kind if kind in (list, tuple) else None, 0

    def made(self, outputs: Any, args: Args) -> list[Any] | None:
        """The tensors that an operator returned before; None where none of its device was met yet."""
        states, result = self.states, []
        empty, meta, make, kind, mark = self.empty, self.meta, self.make_subclass, self.kind, self.mark
        for each in outputs:
            if each[0] in (NEW, VIEW) and each[5] not in states:
                return None
        with self.plainly():
            for how, place, shape, stride, dtype, device, offset in outputs:
                if how == NEW:
                    inner = empty(shape, stride, dtype=dtype, device=meta)
                elif how == VIEW:
                    inner = empty((), (), dtype=dtype, device=meta)
                    of = args[place]
                    inner.set_(of.untyped_storage(), of.storage_offset() + offset, shape, stride)
                else:
                    result.append(args[place] if how == SAME else None)
                    continue
                # As in `tensor`.
                made = make(kind, inner, False, dispatch_device=True, device_for_backend_keys=device)
                mark(made)
                made.__dict__.update(states[device])
                result.append(made)
        return result

    def reduced_loss(self, key: Any, asked: Callable[[], Any], name: str, args: Args) -> tuple[Any, int]:
        """What a loss returns, and the bytes that it takes for a moment; torch is asked where that is not known."""
        found = None if key is None else self.known.losses.get(key)
        over = None if found is None else self.made([found[0]], ())
        if found is not None and over is not None:
            number = self.made([(VIEW, 0, (), (), *found[0][4:])], tuple(over))
            assert number is not None
            return number[0], found[1]
        returned, taken = reduced.over_all_elements(self.torch, name, args, asked())
        if key is not None and type(returned) is self.kind and not returned.dim():
            self.states.setdefault(returned.fake_device, dict(returned.__dict__))
            shape = self.torch.broadcast_shapes(args[0].shape, args[1].shape)
            over_all = NEW, 0, tuple(shape), natural_strides(shape), returned.dtype, returned.fake_device, 0
            self.known.losses[key] = over_all, taken
        return returned, taken

    def new(self, shape: Any, stride: Any, dtype: Any, device: Any) -> Any:
        """A fake that is no operator's."""
        if device in self.states:
            with self.plainly():
                return self.tensor(self.empty(shape, stride, dtype=dtype, device=self.meta), device)
        with self.mode:
            made = self.torch.empty_strided(shape, stride, dtype=dtype, device=device)
        if not self.known.is_off and made.fake_device == device:
            self.states[device] = dict(made.__dict__)
        return made

    def columns(self, rows: Any) -> list[Any]:
        """Views of what has two dimensions."""
        (count, width), step, device = rows.shape, rows.stride(), rows.device
        views = [(VIEW, 0, (count,), step[:1], rows.dtype, device, at * step[1]) for at in range(width)]
        made = self.made(views, (rows,))
        return list(rows.unbind(1)) if made is None else made

    def tensor(self, inner: Any, device: Any) -> Any:
        """A fake on a device as FakeTensor's constructor makes it, which looks for a GPU each time."""
        made = self.make_subclass(self.kind, inner, False, dispatch_device=True, device_for_backend_keys=device)
        self.mark(made)
        made.__dict__.update(self.states[device])
        return made

    def remember(self, key: Any, returned: Any, args: Args, flops: int) -> None:
        """Notes an answer, if it is one of those that are made again by sizes."""
        kind = type(returned)
        several = returned if kind in (list, tuple) else [returned]
        storages: list[Any] = [
            each.untyped_storage()._cdata if type(each) is self.kind else None for each in args
        ]
        outputs: list[Any] = []
        made: set[Any] = set()
        try:
            for each in several:
                outputs.append(self.told(each, args, storages, made))
        except Unknown:
            return
        self.known.answers[key] = outputs, kind if kind in (list, tuple) else None, flops

    def told(self, value: Any, args: Args, storages: list[Any], made: set[Any]) -> Any:
        if value is None:
            return NONE, 0, (), (), None, None, 0
        if type(value) is not self.kind or value.constant is not None or value.dtype.is_complex or value.is_neg():
            raise Unknown
        for place, each in enumerate(args):
            if each is value:
                return SAME, place, (), (), None, None, 0
        self.states.setdefault(value.fake_device, dict(value.__dict__))
        if value.layout != self.torch.strided:
            raise Unknown
        storage = value.untyped_storage()
        what = value.shape, value.stride(), value.dtype, value.fake_device, value.storage_offset()
        if storage._cdata in storages:
            if storages.count(storage._cdata) > 1:
                raise Unknown
            place = storages.index(storage._cdata)
            of = args[place]
            if value.dtype != of.dtype:
                # Its elements are counted otherwise.
                raise Unknown
            return (VIEW, place, *what[:4], what[4] - of.storage_offset())
        if storage._cdata in made or what[4] or storage.nbytes() != natural(self.torch, what):
            raise Unknown
        made.add(storage._cdata)
        return (NEW, 0, *what)


def natural(torch: Torch, what: Any) -> int:
    """The bytes of a storage that just holds such a tensor."""
    shape, stride, dtype = what[:3]
    if 0 in shape:
        return 0
    return (1 + sum((size - 1) * step for size, step in zip(shape, stride))) * size_of(torch, dtype)


def size_of(torch: Torch, dtype: Any) -> int:
    size = getattr(dtype, "itemsize", None)
    return int(size if size is not None else torch.empty((), dtype=dtype, device="meta").element_size())
