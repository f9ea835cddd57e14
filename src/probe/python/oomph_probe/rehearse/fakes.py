"""Copies of a model and of the arguments of a call in which every tensor is fake: a shape, a dtype and
strides, no memory. The originals are only read.

Copied are modules, tensors, plain containers and, one level deep, plain objects (a model's config); what
else hangs on a module (a trainer, a dataset) is shared, since a rehearsal is stopped before it could write
or send anything. What it was stopped before changing is copied in the next attempt (outside.py).
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, deque

from ..knobs import search
from ..knobs.names import BATCH
from . import compiling, flat_shards, outside, shards
from .inputs import MOST_VALUES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FunctionType
    from typing import Any

    from ..common.protocols import Module, Tensor, Torch
    from .operators import Operators

# Objects in one model; more are no model that can be copied in time.
MOST = 200000
# Numbers of a parameter whose values are read where a forward asks for them.
SMALL = 16
PLAIN = (int, float, bool, str)
IMMUTABLE = frozenset((int, float, bool, str, bytes, complex))
CONTAINERS = (list, tuple, dict, set, frozenset)
# Most hooks are the program's own, beside the model: they would run with their effects.
HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)
# Lightning's Fabric hangs a hook on what its wrapper returns, which refuses a backward that `fabric.backward` did not
# begin.
ASKED_BY_FABRIC = "_register_backward_hook"
# What torch divides a tensor among ranks as; FSDP's own are known by shards.py.
DIVIDED = "DTensor"


class CannotCopy(Exception):
    """Why, in words that a person reads."""


class Copier:
    """Copies under one FakeTensorMode; the same object gives the same copy."""

    def __init__(
        self, torch: Torch, operators: Operators, device: Any, gathered_in: Any = None,
        batch: tuple[int, int] | None = None, changed: outside.Outside | None = None, with_hooks: bool = False,
    ) -> None:
        self.torch = torch
        # What the step changes outside of the model, and functions that find it by a global.
        self.outside = changed
        self.views = outside.Views(changed, self.of) if changed is not None else None
        # Whether the program's own forward hooks are called, and whether there are any.
        self.with_hooks = with_hooks
        self.has_hooks = False
        # The batch of the call, and the one that is rehearsed.
        self.batch = batch
        self.operators = operators
        self.device = device
        self.memo: dict[Any, Any] = {}
        # What any module has of torch's own.
        self.of_modules = frozenset(torch.nn.Identity().__dict__)
        self.kept: list[Any] = []
        self.tensors: list[Any] = []
        # Those of them that have as many samples as are rehearsed.
        self.of_the_batch: list[Any] = []
        # Sizes on the device of all tensors, and of the trained parameters, in bytes.
        self.weights: list[int] = []
        self.trained: list[int] = []
        # Where the size of a parameter stands in these, by the address of its copy.
        self.place_of: dict[int, int] = {}
        self.flags = Flags()
        # Parameters of a few numbers, and masks and indices that a model keeps, by which a forward may cut its sizes
        # (how far each head looks back, which rows a mask selects).
        self.small: list[tuple[Any, Any]] = []
        # Copies of modules that the program has compiled, with these.
        self.compiled: list[tuple[Any, Any]] = []
        self.memory = shards.Memory(torch)
        self.shards = shards.Shards(torch, self.memory, gathered_in)
        self.flat_shards = flat_shards.FlatShards(torch, self.memory, gathered_in)

    def begin(self, trace: Any) -> None:
        """What is gathered and reduced enters this trace from now on; nothing of an earlier one is there."""
        self.memory.trace = trace
        self.shards.begin()
        self.flat_shards.begin()

    def fixed_sizes(self) -> set[int]:
        """The sizes in bytes of what a model has whatever the batch is."""
        scaled = {id(each) for each in self.of_the_batch}
        return {each.untyped_storage().nbytes() for each in self.tensors if id(each) not in scaled} | self.memory.sizes

    def is_divided(self) -> bool:
        """Whether parameters are divided among ranks."""
        return bool(self.shards.groups or self.flat_shards.units)

    def of(self, value: Any) -> Any:
        if value is None or type(value) in IMMUTABLE:
            return value
        key = id(value)
        if key in self.memo:
            return self.memo[key]
        if len(self.memo) > MOST:
            raise CannotCopy("the model has too many modules")
        written = compiling.as_written(value)
        # Where `fully_shard` was called on what torch.compile returns, its hooks are on that.
        sharded = None if written is value or not shards.is_sharded(value) else self.sharded(value)
        copy = self.make(value) if written is value else self.of(written)
        if sharded is not None:
            self.shards.attach(copy, sharded)
        if written is not value and isinstance(copy, self.torch.nn.Module):
            self.compiled.append((copy, written))
        self.memo[key] = copy
        # An id is only good while its object lives.
        self.kept.append(value)
        return copy

    def make(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, self.torch.Tensor):
            return self.tensor(value)
        if isinstance(value, self.torch.nn.Module):
            return self.module(value)
        if kind in CONTAINERS or isinstance(value, CONTAINERS):
            return self.container(value)
        if kind is deque:
            return deque([self.of(each) for each in self.items(value)], value.maxlen)
        if kind is types.MethodType:
            return types.MethodType(self.of(value.__func__), self.of(value.__self__))
        if kind is functools.partial:
            arguments = [self.of(each) for each in value.args]
            named = {name: self.of(each) for name, each in value.keywords.items()}
            return functools.partial(self.of(value.func), *arguments, **named)
        if kind is types.FunctionType:
            return self.function(value)
        return self.plain(value)

    def tensor(self, tensor: Tensor) -> Tensor:
        torch = self.torch
        sharded = self.shards.parameter(tensor)
        if sharded is not None:
            return self.whole(sharded)
        if self.flat_shards.hides(tensor):
            # Its place is a view's.
            nothing: Tensor = self.operators.new((0,), (1,), tensor.dtype, tensor.device)
            return nothing
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and not is_buffer(torch, tensor):
            name = type(tensor).__name__
            if name == DIVIDED:
                raise CannotCopy("its parameters are divided among ranks by tensor parallelism, which is not rehearsed")
            raise CannotCopy("%s is a tensor subclass" % name)
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise CannotCopy("it has sparse or quantized tensors")
        copy = self.operators.new(tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device)
        self.tensors.append(copy)
        # What has a graph was made by a step of others (a weight that is computed before each call), and will be again.
        if tensor.device == self.device and tensor.grad_fn is None:
            self.weights.append(copy.untyped_storage().nbytes())
        if isinstance(tensor, torch.nn.Parameter):
            parameter = as_parameter(torch, copy, tensor.requires_grad)
            if tensor.device == self.device and tensor.requires_grad:
                self.place_of[id(parameter)] = len(self.trained)
                self.trained.append(copy.untyped_storage().nbytes())
            if tensor.numel() <= SMALL:
                self.small.append((parameter, tensor))
            # What the model has noted on it; a tensor there is of the step that did not end.
            for name, noted in tensor.__dict__.items():
                if noted is None or type(noted) in PLAIN or is_tensors(torch, noted):
                    setattr(parameter, name, None if is_tensors(torch, noted) else noted)
            return parameter
        if tensor.requires_grad:
            if tensor.is_leaf and tensor.device == self.device:
                self.trained.append(copy.untyped_storage().nbytes())
            return copy.requires_grad_(True)
        if tensor.numel() == 1:
            self.flags.note(copy, tensor)
        elif is_of_whole_numbers(tensor) and tensor.numel() <= MOST_VALUES:
            self.small.append((copy, tensor))
        return copy

    def whole(self, parameter: shards.Parameter) -> Tensor:
        """A parameter of which this rank has a piece, as it is gathered."""
        if parameter.copy is None:
            copy = self.operators.new(parameter.size, parameter.stride, parameter.dtype, self.device)
            self.tensors.append(copy)
            if not parameter.is_on_host:
                self.weights.append(parameter.kept)
                if parameter.requires_grad:
                    self.trained.append(parameter.trained)
            parameter.copy = as_parameter(self.torch, copy, parameter.requires_grad)
        made: Tensor = parameter.copy
        return made

    def module(self, module: Module) -> Module:
        torch = self.torch
        if isinstance(module, torch.jit.ScriptModule):
            raise CannotCopy("%s is compiled by TorchScript" % type(module).__name__)
        if flat_shards.is_wrapper(module):
            return self.flattened(module)
        if hasattr(type(module), "__del__"):
            # It would run for the copy, too.
            raise CannotCopy("%s has a destructor of its own" % type(module).__name__)
        # Some classes construct a module of their own in `__new__` (FSDP2's).
        copy = object.__new__(type(module))
        self.memo[id(module)] = copy
        sharded = self.sharded(module)
        state = copy.__dict__
        for name, value in list(module.__dict__.items()):
            if name == compiling.IN_PLACE:
                if value is not None:
                    self.compiled.append((copy, module))
                continue
            if name in self.of_modules and type(value) in (dict, set, OrderedDict) and not value:
                # Most of what torch has in each module: one of its own at once.
                state[name] = type(value)()
                continue
            state[name] = self.hooks(name, value) if name in HOOKS else self.of(self.rehearsed(module, name, value))
        if self.views is not None:
            self.views.give_methods(copy)
        if is_fabrics(module):
            state[ASKED_BY_FABRIC] = as_it_is
        if sharded is not None:
            self.shards.attach(copy, sharded)
        return copy

    def rehearsed(self, module: Module, name: str, value: Any) -> Any:
        """A number that is the batch, and is called so (`max_batch_len`), is the rehearsed one. A tensor that the model
        keeps of its first call (a padding, a mask) has as many samples as are rehearsed."""
        if self.batch is None:
            return value
        if type(value) is self.torch.Tensor:
            if self.is_of_the_batch(module, name, value):
                self.memo[id(value)] = self.resized(value)
                self.kept.append(value)
            return value
        if type(value) is not int or value != self.batch[0]:
            return value
        if not search.words(name) & BATCH:
            return value
        return self.batch[1]

    def is_of_the_batch(self, module: Module, name: str, tensor: Tensor) -> bool:
        """Whether a call has made it, for as many samples as the call had: a new process makes it anew."""
        if self.batch is None or tensor.dim() < 2 or tensor.shape[0] != self.batch[0] or self.batch[0] < 2:
            return False
        is_plain = tensor.layout == self.torch.strided and not (tensor.is_quantized or tensor.requires_grad)
        return is_plain and is_assigned_by_a_call(type(module), name)

    def resized(self, tensor: Tensor) -> Tensor:
        assert self.batch is not None
        shape = (self.batch[1],) + tuple(tensor.shape[1:])
        strides = [1] * len(shape)
        for place in range(len(shape) - 2, -1, -1):
            strides[place] = strides[place + 1] * max(shape[place + 1], 1)
        copy: Tensor = self.operators.new(shape, tuple(strides), tensor.dtype, tensor.device)
        self.tensors.append(copy)
        self.of_the_batch.append(copy)
        if tensor.device == self.device:
            self.weights.append(tensor.untyped_storage().nbytes())
        return copy

    def hooks(self, name: str, hooks: Any) -> Any:
        """Of a module's hooks those that compute one of its weights from others (weight_norm, spectral_norm, pruning):
        without them it has the weight of before it was moved to the GPU. And those that are methods of the model
        itself, which its forward and backward are made of (a gradient for each sample). Others of the program's (they
        keep features for a loss) where `with_hooks` says so."""
        own = type(hooks)()
        if isinstance(hooks, dict):
            for key, hook in hooks.items():
                # `True` says of one that it is given keywords, or always called.
                if hook is True or type(hook).__module__.startswith("torch.nn.utils."):
                    own[key] = hook
                elif self.is_of_the_model(hook):
                    own[key] = self.of(hook)
                elif self.with_hooks and "forward" in name and self.is_the_programs(hook):
                    self.has_hooks = True
                    own[key] = self.of(hook)
        return own

    def is_the_programs(self, hook: Any) -> bool:
        function = hook.func if type(hook) is functools.partial else hook
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        return code is not None and self.outside is not None and self.outside.is_own(code.co_filename)

    def is_of_the_model(self, hook: Any) -> bool:
        method = hook.func if type(hook) is functools.partial else hook
        owner = method.__self__ if type(method) is types.MethodType else None
        return isinstance(owner, self.torch.nn.Module) and id(owner) in self.memo

    def flattened(self, module: Any) -> Module:
        """What stands in for a wrapper of FullyShardedDataParallel."""
        try:
            unit = self.flat_shards.add(module)
        except (shards.Unknown, AttributeError) as error:
            raise CannotCopy("its parameters are sharded in a way that is not known") from error
        if unit is not None:
            flat = self.operators.new((unit.elements,), (1,), unit.dtype, self.device)
            self.tensors.append(flat)
            if not unit.is_on_host:
                self.weights.append(unit.kept)
                self.trained += unit.trained if unit.requires_grad else []
            unit.copy = as_parameter(self.torch, flat, unit.requires_grad)
        copy: Module = self.flat_shards.standing_in()
        self.memo[id(module)] = copy
        copy.train(module.training)
        self.flat_shards.attach(copy, self.of(module._fsdp_wrapped_module), unit, self.of)
        return copy

    def sharded(self, module: Module) -> Any:
        if not shards.is_sharded(module):
            return None
        try:
            return self.shards.add(module)
        except (shards.Unknown, AttributeError) as error:
            raise CannotCopy("its parameters are sharded in a way that is not known") from error

    def items(self, value: Any) -> Any:
        """Of a container that the step changes what was there before it."""
        is_changed = self.outside is not None and self.outside.has(value)
        return outside.without_left_over(self.torch, value) if is_changed else value

    def container(self, value: Any) -> Any:
        kind: Any = type(value)
        if isinstance(value, dict):
            if kind not in (dict,) and not hasattr(value, "copy"):
                raise CannotCopy("%s cannot be copied" % kind.__name__)
            copy = value.copy() if kind is not dict else {}
            self.memo[id(value)] = copy
            items = self.items(value)
            for key in list(value):
                if key in items:
                    copy[key] = self.of(items[key])
                else:
                    copy.pop(key, None)
            return copy
        items = [self.of(each) for each in self.items(value)]
        if kind in CONTAINERS:
            return kind(items)
        if hasattr(value, "_fields"):
            return kind(*items)
        if isinstance(value, list):
            made = value.copy() if kind is list else kind.__new__(kind)
            made[:] = items
            return made
        return value

    def function(self, function: FunctionType) -> FunctionType:
        """With cells that hold copies, where they hold a model's parts."""
        function = function if self.views is None else self.views.function(function)
        if not function.__closure__:
            return function
        cells, is_same = [], True
        for cell in function.__closure__:
            try:
                held = cell.cell_contents
            except ValueError:
                cells.append(cell)
                continue
            wanted = (self.torch.nn.Module, types.MethodType, types.FunctionType, functools.partial)
            copy = self.of(held) if isinstance(held, wanted) else held
            is_same = is_same and copy is held
            cells.append(types.CellType(copy))
        if is_same:
            return function
        copy = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells)
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__dict__.update(function.__dict__)
        return copy

    def plain(self, value: Any) -> Any:
        """An object of the program's own whose state is its attributes: a copy that shares them."""
        kind: Any = type(value)
        if not outside.is_plain(value):
            return value
        copy = object.__new__(kind)
        self.memo[id(value)] = copy
        if self.outside is not None and self.outside.leads(value):
            copy.__dict__.update({name: self.changed(each) for name, each in value.__dict__.items()})
        else:
            copy.__dict__.update(value.__dict__)
        if self.views is not None:
            self.views.give_methods(copy)
        return copy

    def changed(self, value: Any) -> Any:
        """An attribute of an object that the step changes, or that leads to one."""
        assert self.outside is not None
        is_copied = isinstance(value, self.torch.Tensor) or outside.is_short(value)
        return self.of(value) if is_copied or self.outside.leads(value) else value


class Flags:
    """Buffers of a single number, by which a forward goes one way or another (`if self.initialized.item() == 0`): as
    long as the rehearsal has not changed the copy, the original says its value."""

    def __init__(self) -> None:
        self.noted: dict[int, Any] = {}
        self.values: dict[int, Any] = {}

    def note(self, copy: Tensor, original: Tensor) -> None:
        self.noted[id(copy)] = copy, copy._version, original

    def has(self, copy: Tensor) -> bool:
        noted = self.noted.get(id(copy))
        return noted is not None and noted[0]._version == noted[1]

    def value(self, copy: Tensor, plainly: Any) -> Any:
        """Reads it once; `plainly` enters a context in which no mode sees that."""
        key = id(copy)
        if key not in self.values:
            with plainly():
                self.values[key] = self.noted[key][2].item()
        return self.values[key]


def is_assigned_by_a_call(kind: type, name: str) -> bool:
    """Whether a method of a module's class other than its constructor assigns this attribute."""
    import dis

    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == "torch":
            break
        for method in list(vars(base).values()):
            code = getattr(method, "__code__", None)
            if code is None or code.co_name == "__init__" or name not in code.co_names:
                continue
            if any(each.opname == "STORE_ATTR" and each.argval == name for each in dis.get_instructions(code)):
                return True
    return False


def as_parameter(torch: Torch, made: Tensor, requires_grad: bool) -> Any:
    """What nothing else holds, as a parameter: torch's constructor would detach it first, which takes a fake 0.3 ms."""
    made.requires_grad_(requires_grad)
    setattr(made, "_is_param", True)
    return made if isinstance(made, torch.nn.Parameter) else torch.nn.Parameter(made.detach(), requires_grad)


def is_tensors(torch: Torch, value: Any) -> bool:
    values = value if type(value) is list else [value]
    return all(isinstance(each, torch.Tensor) for each in values)


def is_fabrics(module: Module) -> bool:
    kind = type(module)
    return kind.__name__ == "_FabricModule" and kind.__module__.replace("_", ".").startswith("lightning.fabric.")


def as_it_is(output: Any) -> Any:
    return output


def is_of_whole_numbers(tensor: Tensor) -> bool:
    """Whether it can be read as it lies there: what is not contiguous would be put together on the GPU first."""
    return not (tensor.dtype.is_floating_point or tensor.dtype.is_complex) and bool(tensor.is_contiguous())


def is_buffer(torch: Torch, tensor: Tensor) -> bool:
    kind = getattr(torch.nn, "Buffer", None)
    return kind is not None and type(tensor) is kind
