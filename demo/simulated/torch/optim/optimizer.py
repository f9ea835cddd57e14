"""Optimizer: parameter groups, per-parameter state, and the hooks around step(), global ones included."""
from collections import OrderedDict, defaultdict
from functools import wraps

from ..autograd import grad_mode
from ..cuda import _runtime
from ..utils.hooks import RemovableHandle

_global_optimizer_pre_hooks = OrderedDict()
_global_optimizer_post_hooks = OrderedDict()


def register_optimizer_step_pre_hook(hook):
    """hook(optimizer, args, kwargs) before the step of every optimizer."""
    handle = RemovableHandle(_global_optimizer_pre_hooks)
    _global_optimizer_pre_hooks[handle.id] = hook
    return handle


def register_optimizer_step_post_hook(hook):
    """hook(optimizer, args, kwargs) after the step of every optimizer."""
    handle = RemovableHandle(_global_optimizer_post_hooks)
    _global_optimizer_post_hooks[handle.id] = hook
    return handle


class Optimizer:
    def __init__(self, params, defaults):
        groups = list(params)
        if groups and not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.defaults = defaults
        self.param_groups = [dict(defaults, **dict(group, params=list(group["params"]))) for group in groups]
        self.state = defaultdict(dict)
        self._optimizer_step_pre_hooks = OrderedDict()
        self._optimizer_step_post_hooks = OrderedDict()

        # As torch does: the first instance of a class hooks its step.
        if not getattr(type(self).step, "hooked", False):
            type(self).step = _hooked(type(self).step)

    def register_step_pre_hook(self, hook):
        handle = RemovableHandle(self._optimizer_step_pre_hooks)
        self._optimizer_step_pre_hooks[handle.id] = hook
        return handle

    def register_step_post_hook(self, hook):
        handle = RemovableHandle(self._optimizer_step_post_hooks)
        self._optimizer_step_post_hooks[handle.id] = hook
        return handle

    def zero_grad(self, set_to_none=True):
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad._touch()

    def with_gradients(self):
        """The parameters that this step will change."""
        return [p for group in self.param_groups for p in group["params"] if p.grad is not None]


def _hooked(step):
    @wraps(step)
    def wrapped(self, *args, **kwargs):
        for hook in list(_global_optimizer_pre_hooks.values()) + list(self._optimizer_step_pre_hooks.values()):
            hook(self, args, kwargs)
        with grad_mode.no_grad():
            result = step(self, *args, **kwargs)
        _runtime.loss.steps += 1
        for hook in list(self._optimizer_step_post_hooks.values()) + list(_global_optimizer_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    wrapped.hooked = True
    return wrapped
