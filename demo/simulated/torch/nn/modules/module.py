"""Module: the tree of parameters, its modes and devices, and the global hooks that tools attach to every call."""
from collections import OrderedDict

from ..._tensor import Tensor
from ...utils.hooks import RemovableHandle
from ..parameter import Parameter

_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()


def register_module_forward_pre_hook(hook):
    """hook(module, args), before every forward of every module."""
    handle = RemovableHandle(_global_forward_pre_hooks)
    _global_forward_pre_hooks[handle.id] = hook
    return handle


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """hook(module, args, output) after every forward; with always_call also when the forward raised."""
    handle = RemovableHandle(
        _global_forward_hooks, extra_dict=[_global_forward_hooks_always_called, _global_forward_hooks_with_kwargs]
    )
    _global_forward_hooks[handle.id] = hook
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


class Module:
    """Parameters and modules assigned as attributes appear in parameters(), to() and train()."""

    def __init__(self):
        object.__setattr__(self, "_parameters", OrderedDict())
        object.__setattr__(self, "_buffers", OrderedDict())
        object.__setattr__(self, "_modules", OrderedDict())
        object.__setattr__(self, "training", True)
        self._forward_pre_hooks = OrderedDict()
        self._forward_hooks = OrderedDict()

    def __setattr__(self, name, value):
        if isinstance(value, Parameter):
            self._parameters[name] = value
        elif isinstance(value, Module):
            self._modules[name] = value
        elif name in self._buffers and isinstance(value, Tensor):
            self._buffers[name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name):
        for kind in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(kind, {})
            if name in found:
                return found[name]
        raise AttributeError("'%s' object has no attribute '%s'" % (type(self).__name__, name))

    def register_buffer(self, name, tensor, persistent=True):
        self._buffers[name] = tensor

    def add_module(self, name, module):
        self._modules[name] = module

    def forward(self, *args, **kwargs):
        raise NotImplementedError('Module [%s] is missing the required "forward" function' % type(self).__name__)

    def register_forward_pre_hook(self, hook):
        handle = RemovableHandle(self._forward_pre_hooks)
        self._forward_pre_hooks[handle.id] = hook
        return handle

    def register_forward_hook(self, hook):
        handle = RemovableHandle(self._forward_hooks)
        self._forward_hooks[handle.id] = hook
        return handle

    def _call_impl(self, *args, **kwargs):
        if not (
            _global_forward_pre_hooks or _global_forward_hooks or self._forward_pre_hooks or self._forward_hooks
        ):
            return self.forward(*args, **kwargs)
        for hook in list(_global_forward_pre_hooks.values()) + list(self._forward_pre_hooks.values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        try:
            output = self.forward(*args, **kwargs)
        except BaseException:
            for number in _global_forward_hooks_always_called:
                _call_hook(number, _global_forward_hooks[number], self, args, kwargs, None)
            raise
        for number, hook in list(_global_forward_hooks.items()):
            changed = _call_hook(number, hook, self, args, kwargs, output)
            output = output if changed is None else changed
        for hook in list(self._forward_hooks.values()):
            changed = hook(self, args, output)
            output = output if changed is None else changed
        return output

    __call__ = _call_impl

    def children(self):
        return iter(list(self._modules.values()))

    def named_children(self):
        return iter(list(self._modules.items()))

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, module in self._modules.items():
            for found in module.named_modules(prefix + ("." if prefix else "") + name):
                yield found

    def modules(self):
        return (module for _, module in self.named_modules())

    def named_parameters(self):
        seen = set()
        for prefix, module in self.named_modules():
            for name, parameter in module._parameters.items():
                if parameter is not None and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield prefix + ("." if prefix else "") + name, parameter

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())

    def buffers(self):
        return (buffer for module in self.modules() for buffer in module._buffers.values())

    def to(self, *args, **kwargs):
        """Moves the storages of the parameters, which remain the same objects."""
        for module in self.modules():
            for parameter in module._parameters.values():
                if parameter is not None:
                    moved = parameter.to(*args, **kwargs)
                    parameter.dtype, parameter._storage = moved.dtype, moved._storage
            for name, buffer in module._buffers.items():
                module._buffers[name] = buffer.to(*args, **kwargs)
        return self

    def cuda(self, device=None):
        return self.to("cuda" if device is None else device)

    def train(self, mode=True):
        for module in self.modules():
            object.__setattr__(module, "training", mode)
        return self

    def eval(self):
        return self.train(False)

    def zero_grad(self, set_to_none=True):
        for parameter in self.parameters():
            parameter.grad = None

    def state_dict(self):
        return OrderedDict(self.named_parameters())

    def load_state_dict(self, state_dict):
        """Copies in place, from wherever the tensors are: nothing is allocated for it."""
        missing = [name for name, _ in self.named_parameters() if name not in state_dict]
        if missing:
            raise RuntimeError("Error(s) in loading state_dict: Missing key(s) in state_dict: %s (simulated)" % missing)


def _call_hook(number, hook, module, args, kwargs, output):
    if number in _global_forward_hooks_with_kwargs:
        return hook(module, args, kwargs, output)
    return hook(module, args, output)
