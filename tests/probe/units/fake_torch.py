"""As much of torch as the patches touch, in memory alone: modules, tensors that count their changes,
a checkpoint that can be made to recompute, autocast that is only a flag."""
import types


class Dtype(str):
    pass


float32, bfloat16, float16 = Dtype("torch.float32"), Dtype("torch.bfloat16"), Dtype("torch.float16")


class Tensor:
    is_cuda = True

    def __init__(self, value=0.0, dtype=float32, requires_grad=False, device="cuda"):
        self.value, self.dtype, self.requires_grad = value, dtype, requires_grad
        self.device = types.SimpleNamespace(type=device, index=0)
        self._version = 0

    def add_(self, more):
        self.value += more
        self._version += 1
        return self

    def float(self):
        return Tensor(self.value, float32)

    def detach(self):
        return self

    def clone(self):
        return Tensor(self.value, self.dtype)

    def is_floating_point(self):
        return True


class Parameter(Tensor):
    def __init__(self, value=0.0, **how):
        super().__init__(value, requires_grad=True, **how)


class Module:
    """Calls like torch's: by the class's `__call__`, to `_call_impl`, to `forward`."""

    def __init__(self):
        for name in ("_parameters", "_buffers", "_modules"):
            object.__setattr__(self, name, {})
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            object.__setattr__(self, name, {})
        self.training = True

    def __setattr__(self, name, value):
        if isinstance(value, Parameter):
            self._parameters[name] = value
        elif isinstance(value, Module):
            self._modules[name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name):
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(kind, {}):
                return self.__dict__[kind][name]
        raise AttributeError(name)

    def register_buffer(self, name, tensor):
        self._buffers[name] = tensor

    def children(self):
        return iter(self._modules.values())

    def modules(self):
        yield self
        for child in self.children():
            yield from child.modules()

    def parameters(self):
        for module in self.modules():
            yield from module._parameters.values()

    def eval(self):
        for module in self.modules():
            module.training = False
        return self

    def _call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    __call__ = _call_impl


class ModuleList(Module):
    def __init__(self, modules):
        super().__init__()
        for at, module in enumerate(modules):
            self._modules[str(at)] = module

    def __iter__(self):
        return self.children()


class Sequential(ModuleList):
    def forward(self, x):
        for module in self.children():
            x = module(x)
        return x


class Linear(Module):
    def __init__(self, weight=1.0):
        super().__init__()
        self.weight = Parameter(weight)

    def forward(self, x):
        return Tensor(x.value * self.weight.value, flags.autocast or x.dtype)


class _BatchNorm(Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("running_mean", Tensor(0.0))

    def forward(self, x):
        if self.training:
            self._buffers["running_mean"].add_(x.value)
        return x


class Flags:
    grad = True
    autocast = None
    cuda_autocast_entered = 0
    is_compiling = False


flags = Flags()


class no_grad:
    def __enter__(self):
        self.before, flags.grad = flags.grad, False

    def __exit__(self, *error):
        flags.grad = self.before


class autocast:
    def __init__(self, device, dtype=None, enabled=True):
        self.device, self.fast_dtype, self._enabled = device, dtype or float16, enabled

    def __enter__(self):
        self.before, flags.autocast = flags.autocast, self.fast_dtype if self._enabled else None

    def __exit__(self, *error):
        flags.autocast = self.before


class GradScaler:
    def __init__(self, enabled=True):
        self.enabled = enabled

    def is_enabled(self):
        return self.enabled


class Checkpoint:
    """Runs a function and keeps it; `backward` runs all that were kept once more."""

    def __init__(self):
        self.kept = []
        self.broken = False

    def checkpoint(self, function, *args, use_reentrant, **kwargs):
        assert use_reentrant is False
        if self.broken:
            raise TypeError("this checkpoint takes nothing")
        result = function(*args, **kwargs)
        self.kept.append((function, args, kwargs, result))
        return result

    def backward(self):
        kept, self.kept = self.kept, []
        return [(function(*args, **kwargs), result) for function, args, kwargs, result in kept]


def make(checkpoint=None, version="2.11.0"):
    """A fresh `torch`, with a `Module` of its own, since patches change classes."""
    torch = types.ModuleType("torch")
    for name in ("Tensor", "no_grad", "autocast", "float32", "bfloat16", "float16"):
        setattr(torch, name, globals()[name])
    torch.__version__ = version
    torch.nn = types.SimpleNamespace(Module=Module, Parameter=Parameter)
    torch.amp = types.SimpleNamespace(
        GradScaler=GradScaler, autocast_mode=types.SimpleNamespace(autocast=autocast)
    )
    torch.cuda = types.SimpleNamespace(
        is_initialized=lambda: False, get_device_capability=lambda: (9, 0), amp=None
    )
    torch.version = types.SimpleNamespace(hip=None)
    torch.jit = types.SimpleNamespace(is_tracing=lambda: False)
    torch.compiler = types.SimpleNamespace(is_compiling=lambda: flags.is_compiling)
    torch._C = types.SimpleNamespace(
        _autograd=types.SimpleNamespace(_saved_tensors_hooks_is_enabled=lambda: True),
        _functorch=types.SimpleNamespace(peek_interpreter_stack=lambda: None),
    )
    torch.is_grad_enabled = lambda: flags.grad
    torch.is_autocast_enabled = lambda device=None: flags.autocast is not None
    torch.get_default_dtype = lambda: float32
    torch.utils = types.SimpleNamespace(checkpoint=checkpoint or Checkpoint())
    return torch
