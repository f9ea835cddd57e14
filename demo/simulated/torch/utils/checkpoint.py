"""Activation checkpointing: a function's activations are dropped after forward and recomputed when backward needs them.

Here because tools apply it as a remedy at runtime; so it has to save memory in the simulated allocator as well.
"""
from .. import amp
from .._tensor import Tensor
from ..autograd import grad_mode, graph
from ..cuda import _runtime


def checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True, **kwargs):
    """`function(*args)`, keeping only `args` for backward. Returns one tensor."""
    if not grad_mode.is_grad_enabled():
        return function(*args, **kwargs)
    with grad_mode.no_grad():
        output = function(*args, **kwargs)
    if not isinstance(output, Tensor):
        raise NotImplementedError("checkpoint of a function that gives %s is not simulated" % type(output).__name__)
    wanted = [position for position, argument in enumerate(args) if _wants_gradient(argument)]
    autocast = amp._state.dtype

    def recompute(node, incoming):
        inputs = [_detached(argument) for argument in args]
        outer = _runtime.history.in_backward
        # Python code runs again: the real autograd thread, too, has frames while it does.
        _runtime.history.in_backward = False
        try:
            with grad_mode.enable_grad(), amp.autocast("cuda", dtype=autocast, enabled=autocast is not None):
                again = function(*inputs, **kwargs)
        finally:
            _runtime.history.in_backward = outer
        edge = again._edge()
        if edge is not None:
            del again
            graph._run(edge, incoming[0], retain_graph=False)
        return [inputs[position].grad for position in wanted]

    output._record(graph.Node("CheckpointBackward", recompute, [args[position] for position in wanted], ()))
    return output


def _wants_gradient(argument):
    return isinstance(argument, Tensor) and argument.requires_grad


def _detached(argument):
    """The same storage at the start of a graph of its own."""
    if not isinstance(argument, Tensor):
        return argument
    return argument.detach().requires_grad_(argument.requires_grad)
