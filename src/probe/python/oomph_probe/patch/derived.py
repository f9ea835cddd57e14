"""What stays uncomputed of logits that are not computed (unmade.py): of which rows of the hidden states they are the
logits after a view, a slice or a permutation, and what is done to the logits of a row (another precision, a factor).

The result's sizes and strides are those that torch itself gives a tensor without memory.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Rules:
    """What of an operator on such logits stays uncomputed: each is given the tensor, the operator and its further
    arguments, and returns what it makes of them, or None where they have to be computed."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        aten = torch.ops.aten
        self.select, self.slice = aten.select.int, aten.slice.Tensor
        named: dict[str, Any] = {
            "view.default": self.shaped, "_unsafe_view.default": self.shaped, "_reshape_alias.default": self.shaped,
            "slice.Tensor": self.cut, "select.int": self.chosen, "unsqueeze.default": self.unsqueezed,
            "squeeze.dim": self.squeezed, "transpose.int": self.turned, "permute.default": self.turned,
            "t.default": self.turned, "clone.default": self.same, "alias.default": self.same,
            "detach.default": self.same,
            "_to_copy.default": self.cast, "div.Tensor": self.scaled, "mul.Tensor": self.scaled,
            "tanh.default": self.bent, "unbind.int": self.unbound, "split.Tensor": self.split,
            "split_with_sizes.default": self.split, "index.Tensor": self.indexed,
        }
        self.of = {}
        for name, rule in named.items():
            packet, _, overload = name.partition(".")
            func = getattr(getattr(aten, packet, None), overload, None)
            if func is not None:
                self.of[func] = rule

    def like(self, given: Any) -> Any:
        """Of the same sizes and strides, without memory."""
        return self.torch.empty_strided(given.size(), given.stride(), dtype=given.dtype, device="meta")

    def derived(
        self, given: Any, func: Any, args: Any, kwargs: Any, at: int, row: Any = None, change: Any = None
    ) -> Any:
        """`at`: the classes' dimension; `row`: the same of hidden states; `change`: the same of the logits of rows."""
        made = func(self.like(given), *args, **{name: each for name, each in kwargs.items() if name != "device"})
        rows = given._rows if row is None else (*given._rows, row)
        changes = given._changes if change is None else (*given._changes, change)
        return type(given)(given._call, made, at, rows, changes, given, (func, args, kwargs))

    def same(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        return self.derived(given, func, args, kwargs, given._at)

    def shaped(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        """The classes stay the last dimension."""
        shape, last = list(args[0]), given.dim() - 1
        classes = given.size(last)
        if given._at != last or not shape or shape[-1] not in (classes, -1) or given.numel() == 0:
            return None
        others = given.numel() // classes
        if -1 in shape[:-1]:
            known = 1
            for each in shape[:-1]:
                known *= each if each != -1 else 1
            shape[shape.index(-1)] = others // max(known, 1)
        counted = 1
        for each in shape[:-1]:
            counted *= each
        if counted != others:
            return None
        shape[-1] = classes
        size = tuple(shape[:-1])

        def row(rows: Any) -> Any:
            return rows.reshape(*size, rows.shape[-1])

        return self.derived(given, func, (shape, *args[1:]), kwargs, len(shape) - 1, row)

    def cut(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        dim, start, end, step = (list(args) + [0, None, None, 1][len(args) :])[:4]
        dim %= given.dim()
        if dim == given._at:
            is_whole = (start or 0) == 0 and (end is None or end >= given.size(dim)) and step == 1
            return self.same(given, func, args, kwargs) if is_whole else None
        place = dim - (dim > given._at)
        return self.derived(given, func, args, kwargs, given._at, lambda rows: func(rows, place, start, end, step))

    def chosen(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        dim, index = args
        dim %= given.dim()
        if dim == given._at:
            return None
        place, at = dim - (dim > given._at), given._at - (dim < given._at)
        return self.derived(given, func, args, kwargs, at, lambda rows: func(rows, place, index))

    def unsqueezed(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        dim = args[0] % (given.dim() + 1)
        at = given._at + (dim <= given._at)
        place = dim - (dim > at)
        return self.derived(given, func, args, kwargs, at, lambda rows: func(rows, place))

    def squeezed(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        dim = args[0] % given.dim()
        if given.size(dim) != 1 or dim == given._at:
            return None if dim == given._at and given.size(dim) == 1 else self.same(given, func, args, kwargs)
        place, at = dim - (dim > given._at), given._at - (dim < given._at)
        return self.derived(given, func, args, kwargs, at, lambda rows: func(rows, place))

    def turned(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        order = list(range(given.dim()))
        if len(args) == 2:
            one, other = (each % given.dim() for each in args)
            order[one], order[other] = other, one
        elif args:
            order = [each % given.dim() for each in args[0]]
        elif len(order) == 2:
            order.reverse()
        at, was = order.index(given._at), given._at
        places = [each - (each > was) for each in order if each != was]
        return self.derived(given, func, args, kwargs, at, lambda rows: rows.permute(*places, len(places)))

    def cast(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        dtype, device = kwargs.get("dtype") or given.dtype, kwargs.get("device")
        is_plain = all(kwargs.get(name) in (None, False, self.torch.strided) for name in ("layout", "pin_memory"))
        if args or not is_plain or not dtype.is_floating_point or device not in (None, given.device):
            return None
        return self.derived(given, func, args, kwargs, given._at, None, lambda logits: logits.to(dtype))

    def scaled(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        """By a number."""
        if kwargs or len(args) != 1 or type(args[0]) not in (int, float):
            return None
        return self.derived(given, func, args, kwargs, given._at, None, lambda logits: func(logits, *args))

    def bent(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        return self.derived(given, func, args, kwargs, given._at, None, func)

    def unbound(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        dim = args[0] % given.dim() if args else 0
        if dim == given._at:
            return None
        return [self.chosen(given, self.select, (dim, index), {}) for index in range(given.size(dim))]

    def split(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        dim = args[1] % given.dim() if len(args) > 1 else 0
        if dim == given._at:
            return None
        length, at, parts = given.size(dim), 0, []
        if isinstance(args[0], int):
            sizes = [args[0]] * -(-length // args[0]) if args[0] > 0 else [length]
        else:
            sizes = list(args[0])
        for size in sizes:
            parts.append(self.cut(given, self.slice, (dim, at, min(at + size, length)), {}))
            at += size
        return parts

    def indexed(self, given: Any, func: Any, args: Any, kwargs: Any) -> Any:
        """Rows by a mask or by their places."""
        indices, last = args[0], given.dim() - 1
        if given._at != last or any(each is None or type(each) is type(given) for each in indices):
            return None
        if sum(each.dim() if each.dtype in (self.torch.bool, self.torch.uint8) else 1 for each in indices) > last:
            return None
        with self.torch.no_grad():
            picked = func(rows_of(given), indices)
        size = tuple(picked.shape[:-1]) + (given.size(last),)
        made = self.torch.empty(size, dtype=given.dtype, device="meta")
        rows = (*given._rows, lambda rows: func(rows, indices))
        return type(given)(given._call, made, len(size) - 1, rows, given._changes, given, (func, args, kwargs))


def rows_of(given: Any) -> Any:
    """The hidden states of these logits, one row each, with the graph that leads there."""
    rows = given._call.hidden
    for each in given._rows:
        rows = each(rows)
    return rows
