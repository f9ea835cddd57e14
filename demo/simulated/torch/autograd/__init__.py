"""Recording operations and running them backwards."""
from . import grad_mode, graph
from .grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False):
    """Computes the gradients of one scalar (or of a tensor with its gradient given) for all leaves."""
    tensor = tensors[0] if isinstance(tensors, (tuple, list)) else tensors
    given = grad_tensors[0] if isinstance(grad_tensors, (tuple, list)) else grad_tensors
    edge = tensor._edge()
    if edge is None:
        raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
    if given is None:
        if tensor.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        given = tensor._sibling(tensor.shape, tensor.dtype)
    graph._engine_run_backward(edge, given, bool(retain_graph))
