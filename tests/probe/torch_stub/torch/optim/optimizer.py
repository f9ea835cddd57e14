"""The optimizer and the global step hooks."""
from .._C import Tensor

_pre, _post = [], []


def register_optimizer_step_pre_hook(hook):
    _pre.append(hook)


def register_optimizer_step_post_hook(hook):
    _post.append(hook)


class Optimizer:
    def __init__(self, parameters):
        self.param_groups = [{"params": list(parameters)}]
        self.state = {}

    def step(self):
        for hook in _pre:
            assert hook(self, (self,), {}) is None
        self.update()
        for hook in _post:
            assert hook(self, (self,), {}) is None

    def update(self):
        raise NotImplementedError


class Adam(Optimizer):
    def update(self):
        for parameter in self.param_groups[0]["params"]:
            if parameter not in self.state:
                self.state[parameter] = {
                    "step": Tensor(4, is_cuda=False),
                    "exp_avg": Tensor(parameter.size),
                    "exp_avg_sq": Tensor(parameter.size),
                }
