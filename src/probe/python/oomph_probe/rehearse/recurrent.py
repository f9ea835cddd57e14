"""nn.LSTM, nn.GRU and nn.RNN in a rehearsal: what cuDNN allocates for them, without cuDNN, which would be asked for
real by torch's own code even on fake tensors.

Measured in 27 trainings and, layer by layer, of 22 shapes (torch 2.11, cuDNN 9, H100; 1 to 3 layers, one and two
directions, fp32 and bf16; hidden states of 32 to 650): what forward keeps for backward is exact to 256 bytes, a
workspace 4 % less to 14 % more. In fp32 a narrow layer takes four times as much for a hidden state as a wider one.
"""

from __future__ import annotations

from .effects import Stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Module, Tensor, Torch
    from .packing import Sequences

# By kind: what is kept for backward of a layer and token, in hidden states (the first layer keeps one less), and
# what a workspace has for a token beside its input: usually, and of a narrow layer in fp32.
KEPT = {"LSTM": 6, "GRU": 7, "RNN_TANH": 2, "RNN_RELU": 2}
WORKSPACE = {"LSTM": (5.4, 21.3), "GRU": (4.7, 18.7), "RNN_TANH": (4.7, 15.1), "RNN_RELU": (4.7, 15.1)}
# The widest one of those, in hidden states: 128 was, 200 was not.
NARROW = 128
# For the second direction.
BACKWARDS = 9.3
# And for a layer and direction, beside a copy of the weights.
WORKSPACE_OF_LAYER = 8 << 20


def replace(torch: Torch, module: Module, sequences: Sequences, count: Callable[[int], None]) -> None:
    """Every recurrent layer within, a copy, calls `Layer` from now on; `count` is told operations."""
    for each in module.modules():
        if isinstance(each, torch.nn.RNNBase):
            each.forward = Layer(torch, each, sequences, count)


class Layer:
    """The forward of one such module."""

    def __init__(self, torch: Torch, module: Any, sequences: Sequences, count: Callable[[int], None]) -> None:
        if module.mode not in KEPT or module.proj_size:
            raise Stopped("a recurrent layer with projections was not measured")
        self.torch = torch
        self.module = module
        self.sequences = sequences
        self.count = count
        self.run = function_of(torch)
        self.directions = 2 if module.bidirectional else 1
        # Its parameters in order, as they are now: a copy's are others than when it was made.
        self.names = [name for name, _ in module.named_parameters(recurse=False)]

    def __call__(self, given: Any, state: Any = None) -> Any:
        if type(given).__name__ == "PackedSequence":
            return self.packed(given, state)
        if not isinstance(given, self.torch.Tensor) or given.dim() != 3:
            raise Stopped("a recurrent layer of a single sequence was not measured")
        batch_first = bool(self.module.batch_first)
        made, is_several = self.computed(given, state, batch_first)
        output = made[0].transpose(0, 1) if batch_first else made[0]
        return output, made[1:] if is_several else made[1]

    def packed(self, given: Any, state: Any) -> Any:
        """Of packed sequences, which are read as if all were as long as they are in the mean."""
        batch = self.sequences.batch_of(given.batch_sizes)
        if state is not None and given.sorted_indices is not None:
            states = state if isinstance(state, tuple) else (state,)
            state = tuple(each.index_select(1, given.sorted_indices) for each in states)
        by_time = given.data.view(-1, batch, given.data.shape[-1])
        made, is_several = self.computed(by_time, state, False)
        last = made[1:]
        if given.unsorted_indices is not None:
            last = tuple(each.index_select(1, given.unsorted_indices) for each in last)
        output = type(given)(made[0].flatten(0, 1), *given[1:])
        return output, last if is_several else last[0]

    def computed(self, given: Any, state: Any, batch_first: bool) -> tuple[Any, bool]:
        """Its output, time first, and last states; whether there are several of these."""
        torch, module = self.torch, self.module
        batch = given.shape[0 if batch_first else 1]
        weights = [getattr(module, name) for name in self.names]
        device, dtype = given.device.type, given.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        if state is None:
            shape = module.num_layers * self.directions, batch, module.hidden_size
            state = tuple(given.new_zeros(shape) for _ in range(self.states()))
        elif not isinstance(state, (tuple, list)):
            state = (state,)
        cast = [each.to(dtype) for each in (given, *state)]
        return self.run.apply(self, dtype, batch_first, len(state), *cast, *weights), len(state) > 1

    def states(self) -> int:
        return 2 if self.module.mode == "LSTM" else 1

    def kept(self, output: Any) -> Any:
        """Bytes for backward; a multiple of the batch, so that they grow with it."""
        module, batch = self.module, output.shape[1]
        per_sample = output.numel() // batch
        layers = KEPT[module.mode] * module.num_layers - 1
        dropped = per_sample * self.directions * (module.num_layers - 1) // 8 if module.dropout else 0
        return batch * (layers * per_sample * output.element_size() + dropped)

    def workspaces(self, output: Any, weights: Any) -> Any:
        """Two, while it computes: one of a size of its own, one that grows with the batch."""
        module, batch, size = self.module, output.shape[1], output.element_size()
        own = WORKSPACE_OF_LAYER * module.num_layers * self.directions + weights * size
        usual, narrow = WORKSPACE[module.mode]
        states = narrow if size == 4 and module.hidden_size <= NARROW else usual
        # An input that is wider than the hidden states is there three times.
        wide = module.input_size / module.hidden_size
        states += max(wide, 3 * wide - 2) + BACKWARDS * (self.directions - 1)
        each = int(states * module.hidden_size * output.shape[0]) * size
        return [self.bytes_like(output, own), self.bytes_like(output, batch * each)]

    def bytes_like(self, tensor: Tensor, size: int) -> Tensor:
        return tensor.new_empty((size,), dtype=self.torch.uint8)


def by_time(given: Any, batch_first: bool) -> Any:
    """As cuDNN wants it: time first, without gaps."""
    return given.transpose(0, 1).contiguous() if batch_first else given


def function_of(torch: Torch) -> Any:
    """The step of one layer, forward and backward, in the order in which cuDNN's takes and gives back memory."""

    class Recurrent(torch.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, layer: Any, dtype: Any, batch_first: bool, states: Any, *tensors: Any) -> Any:
            given, state, weights = tensors[0], tensors[1 : 1 + states], tensors[1 + states :]
            ctx.layer, ctx.dtype, ctx.batch_first = layer, dtype, batch_first
            ctx.shapes = [each.shape for each in weights], weights[0].dtype
            count = sum(each.numel() for each in weights)
            # Cast all at once, and kept so.
            flat = given.new_empty((count,)) if weights[0].dtype != dtype else None
            inner = by_time(given, batch_first)
            hidden = layer.module.hidden_size * layer.directions
            output = inner.new_empty((inner.shape[0], inner.shape[1], hidden))
            last = [torch.empty_like(each) for each in state]
            workspaces = layer.workspaces(output, count)
            kept = layer.bytes_like(output, layer.kept(output))
            del workspaces, inner
            layer.count(2 * count * (output.numel() // hidden))
            ctx.save_for_backward(given, output, kept, *state, *([flat] if flat is not None else []))
            return (output, *last)

        @staticmethod
        def backward(ctx: Any, of_output: Any, *states: Any) -> Any:
            layer = ctx.layer
            given, output, kept, *_ = ctx.saved_tensors
            shapes, dtype = ctx.shapes
            sizes = [shape.numel() for shape in shapes]
            count = sum(sizes)
            inner, of_output = by_time(given, ctx.batch_first), of_output.contiguous()
            of_inner = torch.empty_like(inner)
            of_states = [torch.empty_like(each) for each in states]
            workspaces = layer.workspaces(output, count)
            del workspaces
            flat = given.new_empty((count,))
            workspaces = layer.workspaces(output, count)
            del workspaces, inner, kept
            layer.count(4 * count * (output.shape[0] * output.shape[1]))
            of_weights = [part.view(shape) for part, shape in zip(flat.split(sizes), shapes)]
            if dtype != ctx.dtype:
                of_weights = [each.to(dtype) for each in of_weights]
            del flat
            of_given = of_inner.transpose(0, 1).contiguous() if ctx.batch_first else of_inner
            return (None, None, None, None, of_given, *of_states, *of_weights)

    return Recurrent
