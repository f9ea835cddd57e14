"""AdamW: two states per parameter, created in the first step, and one temporary of the parameters' size in each
step."""
from .._storage import CPU
from .._tensor import Tensor
from .._types import float32
from .optimizer import Optimizer


class AdamW(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def step(self, closure=None):
        parameters = self.with_gradients()
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["step"] = Tensor._empty((), float32, CPU)
                state["exp_avg"] = parameter._sibling(parameter.shape, parameter.dtype)
                state["exp_avg_sq"] = parameter._sibling(parameter.shape, parameter.dtype)
        # The multi-tensor form, the real one's default on CUDA, has the square roots of all parameters live at once.
        roots = [parameter._sibling(parameter.shape, parameter.dtype) for parameter in parameters]
        for parameter in parameters:
            state = self.state[parameter]
            parameter._touch(parameter.grad, state["exp_avg"], state["exp_avg_sq"])
        del roots


class Adam(AdamW):
    """Uses the same memory."""
