"""The graph of recorded operations and the engine that runs it backwards.

A node refers to the storages that its backward needs: these are the activations. The engine releases them node by node,
which is why memory falls during backward. Nodes refer to storages, never to tensors, so no cycle keeps memory alive.
"""
import heapq
import itertools

from ..cuda import _runtime
from . import grad_mode
from .saved import SavedTensor

_sequence = itertools.count(1)


class Node:
    """One operation. `edges` lead to the inputs' nodes; `inputs` are (shape, dtype, device, needs a gradient)."""

    __slots__ = ("name", "sequence", "edges", "inputs", "saved", "rule", "outputs", "leaf", "__weakref__")

    def __init__(self, name, rule, tensors, saved, outputs=1):
        self.name = name
        self.sequence = next(_sequence)
        self.rule = rule
        self.edges = [tensor._edge() for tensor in tensors]
        self.inputs = [(tensor.shape, tensor.dtype, tensor.device, tensor.requires_grad) for tensor in tensors]
        self.saved = saved
        self.outputs = outputs
        self.leaf = None

    @property
    def next_functions(self):
        return tuple((None, 0) if edge is None else edge for edge in self.edges)

    @property
    def _raw_saved_tensors(self):
        return tuple(SavedTensor(storage) for storage in self.saved or ())

    def _sequence_nr(self):
        return self.sequence

    def release(self):
        """Drops what backward needed; a rule may refer to tensors, too."""
        self.saved = self.rule = None


class AccumulateGrad(Node):
    """The end of the graph: adds the gradient to `tensor.grad`."""

    __slots__ = ()

    def __init__(self, tensor):
        self.name = "AccumulateGrad"
        self.sequence = 1 << 62
        self.edges = []
        self.inputs = []
        self.saved = ()
        self.rule = None
        self.outputs = 1
        self.leaf = tensor

    def release(self):
        """Nothing was saved."""


def _engine_run_backward(root, gradient, retain_graph):
    """Runs the graph behind `root`, latest operation first.

    An OutOfMemoryError is raised without the engine's own frames: the real engine is C++ and has none.
    """
    enabled = grad_mode._mode.enabled
    outer = _runtime.history.in_backward
    grad_mode._mode.enabled = False
    _runtime.history.in_backward = True
    try:
        _run(root, gradient, retain_graph)
    except Exception as error:
        raise error.with_traceback(None)
    finally:
        grad_mode._mode.enabled = enabled
        _runtime.history.in_backward = outer


def _run(root, gradient, retain_graph):
    waiting_for = _dependencies(root[0])
    gradients = {root[0]: {root[1]: gradient}}
    del gradient
    ready = [(-root[0].sequence, id(root[0]), root[0])]
    while ready:
        _, _, node = heapq.heappop(ready)
        incoming = gradients.pop(node)
        if node.leaf is not None:
            _accumulate(node.leaf, incoming.pop(0))
            continue
        if node.saved is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
                "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or "
                "if you need to access saved tensors after calling backward."
            )
        outgoing = node.rule(node, incoming)
        del incoming
        if not retain_graph:
            node.release()
        for position, edge in enumerate(node.edges):
            if edge is None:
                continue
            target, output = edge
            slots = gradients.setdefault(target, {})
            if outgoing[position] is not None and output not in slots:
                # A second gradient for the same output is added in place and takes no memory of its own.
                slots[output] = outgoing[position]
            waiting_for[target] -= 1
            if not waiting_for[target]:
                heapq.heappush(ready, (-target.sequence, id(target), target))
        del outgoing
        slots = None


def _dependencies(root):
    """How many gradients each node waits for."""
    count = {root: 0}
    stack = [root]
    while stack:
        for edge in stack.pop().edges:
            if edge is None:
                continue
            target = edge[0]
            if target not in count:
                count[target] = 0
                stack.append(target)
            count[target] += 1
    return count


def _accumulate(leaf, gradient):
    """The first gradient is stored as it is; later ones are added in place."""
    if gradient is None:
        return
    if leaf.grad is None:
        leaf.grad = gradient
    else:
        leaf.grad._touch(gradient)
