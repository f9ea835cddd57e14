"""Recording an operation: allocate its output, keep what backward needs, and define what backward allocates.

Every operation of this package ends in `operation`, `view` or `split`. Sizes are exact; numbers are not computed.
"""
from ._types import Size
from .autograd import grad_mode
from .autograd.graph import Node


def operation(name, tensors, shape, dtype, saved=(), save_output=False, workspace=0):
    """A new tensor. `saved` are tensors kept for backward; their gradients are new tensors of the inputs' shapes.

    `workspace` bytes are allocated while the operation runs, in forward and in backward.
    """
    from ._tensor import Tensor

    first = tensors[0]
    output = first._sibling(Size(shape), dtype)
    scratch = Tensor._bytes(workspace, first.device) if workspace else None
    output._touch(*tensors)
    del scratch
    if records(tensors):
        kept = [tensor._storage for tensor in saved]
        if save_output:
            kept.append(output._storage)
        rule = _fresh if not workspace else _fresh_with(workspace)
        output._record(Node(name, rule, tensors, kept))
    return output


def added(name, tensors, shape, dtype):
    """A sum: saves nothing, and its gradient passes through to every input of the same shape and dtype."""
    output = tensors[0]._sibling(Size(shape), dtype)
    output._touch(*tensors)
    if records(tensors):
        output._record(Node(name, _through, tensors, ()))
    return output


def view(name, tensor, shape):
    """The same storage in another shape; its backward is a view as well."""
    output = tensor._alias(Size(shape))
    if records((tensor,)):
        output._record(Node(name, _reshaped, (tensor,), ()))
    return output


def selection(name, tensor, shape):
    """A view of a part; its gradient is a whole tensor with zeros elsewhere."""
    output = tensor._alias(Size(shape))
    if records((tensor,)):
        output._record(Node(name, _fresh, (tensor,), ()))
    return output


def split(name, tensor, shapes):
    """Several views of one tensor; their gradients are joined into one new tensor."""
    outputs = [tensor._alias(Size(shape)) for shape in shapes]
    if records((tensor,)):
        node = Node(name, _fresh, (tensor,), (), outputs=len(outputs))
        for position, output in enumerate(outputs):
            output._record(node, position)
    return tuple(outputs)


def records(tensors):
    """Whether an operation on these tensors is recorded in the graph."""
    return grad_mode._mode.enabled and any(tensor.requires_grad for tensor in tensors)


def _new_gradients(node, incoming):
    from ._tensor import Tensor

    gradients = []
    for shape, dtype, device, wanted in node.inputs:
        gradients.append(Tensor._empty(shape, dtype, device) if wanted else None)
    for gradient in gradients:
        if gradient is not None:
            gradient._touch(*incoming.values())
    return gradients


def _fresh(node, incoming):
    return _new_gradients(node, incoming)


def _fresh_with(workspace):
    def rule(node, incoming):
        from ._tensor import Tensor

        scratch = Tensor._bytes(workspace, node.inputs[0][2])
        gradients = _new_gradients(node, incoming)
        del scratch
        return gradients

    return rule


def _through(node, incoming):
    from ._tensor import Tensor

    gradient = incoming[0]
    passed = []
    for shape, dtype, device, wanted in node.inputs:
        if not wanted:
            passed.append(None)
        elif shape == gradient.shape and dtype is gradient.dtype:
            passed.append(gradient)
        else:
            passed.append(Tensor._empty(shape, dtype, device))
            passed[-1]._touch(gradient)
    return passed


def _reshaped(node, incoming):
    return [incoming[0]._alias(node.inputs[0][0])]
