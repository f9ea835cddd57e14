"""A head and its cross-entropy over some rows at a time: of the logits there is never more than a chunk.

Forward keeps each row's loss alone. Backward computes a chunk's logits again, and their gradient by the same operators;
of that come the chunk's hidden states' gradient and its share of the weight's, which is added up in 32 bits and
rounded once. So the head's product is computed twice, a third more than it was. Gradients made in forward would save
that, but the weight's would lie there from the loss on, for each loss that a step has; it would be thrown away where a
checkpoint runs forward again; and in fp16 they would be rounded before the scaler's factor reached them.
"""

from __future__ import annotations

from collections import namedtuple

from . import chunked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What a chunk's logits take at the most, in 32 bits: the weight's gradient is read and written once for each chunk. And
# what one product takes that is added to it.
CHUNK = 128 << 20
PRODUCT = 64 << 20

# How logits are computed: in which precision, what is done to them then, under which autocast the loss is, how many
# rows there are in a chunk.
How = namedtuple("How", "dtype changes autocast rows")


def bent(logits: Any, how: How) -> Any:
    for change in how.changes:
        logits = change(logits)
    return logits


def added_product(torch: Any, total: Any, gradient: Any, hidden: Any, most: int) -> None:
    """Adds `gradientᵀ · hidden` to `total`, some classes at a time where it has to be rounded first."""
    if total.dtype == gradient.dtype:
        total.addmm_(gradient.t(), hidden)
        return
    step = max(most // max(hidden.shape[1] * hidden.element_size(), 1), 1)
    for at in range(0, len(total), step):
        total[at : at + step].add_(torch.mm(gradient[:, at : at + step].t(), hidden))


def made(torch: Any, original: Any) -> Any:
    """The Function, of torch's own cross-entropy."""

    def plainly(kind: str) -> Any:
        return torch.autocast(kind, enabled=False)

    def under(kind: str, how: How) -> Any:
        enabled, dtype, _ = how.autocast
        return torch.autocast(kind, enabled=enabled, dtype=dtype, cache_enabled=False)

    def product(rows: Any, weight: Any, bias: Any, kind: str) -> Any:
        with plainly(kind):
            return torch._C._nn.linear(rows, weight, bias)

    def in_precision(how: How, *tensors: Any) -> Any:
        return [None if each is None else each.to(how.dtype) for each in tensors]

    def forward(ctx: Any, rows: Any, weight: Any, bias: Any, target: Any, asked: Any, how: How) -> Any:
        ctx.asked, ctx.how = asked, how
        ctx.save_for_backward(rows, weight, bias, target)
        kind, each = rows.device.type, {**asked, "reduction": "none"}
        near, shift = in_precision(how, weight, bias)
        losses = []
        for at in range(0, len(rows), how.rows):
            logits = product(rows[at : at + how.rows].to(how.dtype), near, shift, kind)
            with under(kind, how):
                losses.append(original(bent(logits, how), target[at : at + how.rows], **each))
            del logits
        rowwise = torch.cat(losses)
        if asked["reduction"] == "none":
            return rowwise
        # As in torch's kernels at no less than 32 bits.
        total = rowwise.sum(dtype=torch.promote_types(rowwise.dtype, torch.float32))
        if asked["reduction"] == "mean":
            ctx.weights = chunked.counted(torch, target, asked, total)
            total = total / ctx.weights
        return total.to(rowwise.dtype)

    def whole(saved: Any, asked: Any, how: How) -> Any:
        """By torch's own operators all at once, where a graph of the gradient is asked for."""
        rows, weight, bias, target = saved
        kind = rows.device.type
        near, shift = in_precision(how, weight, bias)
        logits = product(rows.to(how.dtype), near, shift, kind)
        with under(kind, how):
            return original(bent(logits, how), target, **asked)

    def backward(ctx: Any, given: Any) -> Any:
        rows, weight, bias, target = ctx.saved_tensors
        asked, how, wanted = ctx.asked, ctx.how, ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            inputs = [each for each, is_wanted in zip((rows, weight, bias), wanted) if is_wanted]
            found = iter(torch.autograd.grad(whole(ctx.saved_tensors, asked, how), inputs, given, create_graph=True))
            return (*[next(found) if is_wanted else None for is_wanted in wanted], None, None, None)
        kind, each = rows.device.type, {**asked, "reduction": "none"}
        if asked["reduction"] == "mean":
            given = given / ctx.weights.to(given.dtype)
        near, shift = in_precision(how, weight, bias)
        of_rows = torch.empty_like(rows) if wanted[0] else None
        summed = {"dtype": torch.promote_types(how.dtype, torch.float32), "device": rows.device}
        of_weight = torch.zeros(weight.shape, **summed) if wanted[1] else None
        of_bias = torch.zeros(bias.shape, **summed) if wanted[2] else None
        for at in range(0, len(rows), how.rows):
            part = rows[at : at + how.rows].to(how.dtype)
            logits = product(part, near, shift, kind).requires_grad_()
            with torch.enable_grad(), under(kind, how):
                losses = original(bent(logits, how), target[at : at + how.rows], **each)
            by = given[at : at + how.rows] if asked["reduction"] == "none" else given.expand(losses.shape)
            (gradient,) = torch.autograd.grad(losses, logits, by)
            del logits, losses
            with plainly(kind):
                if of_rows is not None:
                    of_rows[at : at + how.rows] = torch.mm(gradient, near)
                if of_weight is not None:
                    added_product(torch, of_weight, gradient, part, PRODUCT)
                if of_bias is not None:
                    of_bias += gradient.sum(0, dtype=of_bias.dtype)
            del gradient, part
        del near, shift
        of_weight = None if of_weight is None else of_weight.to(weight.dtype)
        of_bias = None if of_bias is None else of_bias.to(bias.dtype)
        return of_rows, of_weight, of_bias, None, None, None

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("HeadAndCrossEntropy", (torch.autograd.Function,), members)
