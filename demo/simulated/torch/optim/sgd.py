"""SGD: no state without momentum, one per parameter with it."""
from .optimizer import Optimizer


class SGD(Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0.0, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    def step(self, closure=None):
        for parameter in self.with_gradients():
            if self.defaults["momentum"] and "momentum_buffer" not in self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = parameter._sibling(parameter.shape, parameter.dtype)
            parameter._touch(parameter.grad)
