"""Recurrent layers over whole sequences."""

import math
import numbers
from collections.abc import Sequence
from typing import Any

from fgrad.deferred import deferred
from fgrad.mutable.context.warning import warn
from fgrad.torch import ops
from fgrad.torch.nn import init, recurrence
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.packing import PackedSequence
from fgrad.torch.nn.parameter import Parameter

# PyTorch has these in one file
__getattr__, __dir__ = deferred(
    __name__,
    {
        "fgrad.torch.nn.modules.rnn_cell": "GRUCell LSTMCell RNNCell RNNCellBase",
    },
)

#: by mode: how many gates there are; their weights are stacked
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


#: attributes of PyTorch's layers that are computed here
_COMPUTED = ("_flat_weights_names", "_flat_weights")


class RNNBase(Module):
    """The weights and checks that recurrent layers have in common.

    Arguments:
      input_size, hidden_size: the numbers of features of the input and of the state.
      num_layers: how many layers there are, each fed with the one before.
      bias: whether they add one.
      batch_first: whether inputs are ``(N, L, F)`` rather than ``(L, N, F)``.
      dropout: the probability with which an output of a layer that is not the last is dropped while training.
      bidirectional: whether each layer also runs backwards.
      proj_size: of an ``LSTM``, the size to which its state is projected, if not 0.

    Raises:
      TypeError, ValueError: an argument is invalid.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout: float = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        _check_sizes(self, dropout)
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        gates = _GATES[mode] * hidden_size
        state = proj_size or hidden_size
        directions = ("", "_reverse") if bidirectional else ("",)
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else state * len(directions)
            shapes: dict[str, Any] = {"weight_ih": (gates, inputs), "weight_hh": (gates, state)}
            if bias:
                shapes |= {"bias_ih": gates, "bias_hh": gates}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for direction in directions:
                names = [f"{name}_l{layer}{direction}" for name in shapes]
                for name, shape in zip(names, shapes.values(), strict=True):
                    setattr(self, name, Parameter(ops.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, uniform up to ``1 / sqrt(hidden_size)`` in magnitude."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Do nothing: PyTorch packs the weights in a GPU's memory here."""

    @property
    def all_weights(self) -> list[list[Any]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def __getstate__(self) -> dict[str, Any]:
        """The attributes as PyTorch's layer has them, so that it can read a saved one."""
        return {**super().__getstate__(), **{name: getattr(self, name) for name in _COMPUTED}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: value for name, value in state.items() if name not in _COMPUTED})

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [weight for weights in self.all_weights for weight in weights]

    def check_input(self, input: Any, batch_sizes: Any) -> None:
        """Check the type and the sizes of an input."""
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert input: "
                f"input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 3 if batch_sizes is None else 2
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def check_hidden_size(
        self, hx: Any, expected: tuple[int, ...], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Check the sizes of a state."""
        if hx.size() != expected:
            raise RuntimeError(msg.format(expected, list(hx.size())))

    def _state_sizes(self, batch: int) -> list[tuple[int, int, int]]:
        """The sizes of each tensor of the state, for a number of sequences."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        sizes = [self.proj_size or self.hidden_size]
        if self.mode == "LSTM":
            sizes.append(self.hidden_size)
        return [(layers, batch, size) for size in sizes]

    def _batch_size(self, input: Any) -> int:
        return input.size(0) if self.batch_first else input.size(1)

    def _zero_state(self, input: Any, batch: int) -> list[Any]:
        return [ops.zeros(*sizes, dtype=input.dtype, device=input.device) for sizes in self._state_sizes(batch)]

    def _run(self, layer: Any, input: Any, hx: Any) -> tuple[Any, ...]:
        """Call the operation that runs all layers."""
        return layer(
            input,
            hx,
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            self.batch_first,
        )

    def _run_packed(self, layer: Any, packed: PackedSequence, hx: Any) -> tuple[Any, ...]:
        """Call the operation that runs all layers on packed sequences."""
        output, *state = layer(
            packed.data,
            hx,
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            False,
            sizes=packed.batch_sizes.tolist(),
        )
        return packed._replace(data=output), *self._permuted(state, packed.unsorted_indices)

    @staticmethod
    def _permuted(state: Sequence[Any], order: Any) -> Sequence[Any]:
        """A state with its sequences in another order."""
        return state if order is None else [part.index_select(1, order) for part in state]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
            ("bidirectional", False),
        ):  # fmt: skip
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        return text


def _check_sizes(layer: RNNBase, dropout: Any) -> None:
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:  # type: ignore[operator]
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if layer.dropout > 0 and layer.num_layers == 1:
        warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={layer.num_layers}",
        )
    for name, kind in (("bias", bool), ("batch_first", bool), ("input_size", int), ("hidden_size", int)):
        value: Any = getattr(layer, name)
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
        if kind is int and value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if layer.num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if layer.proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if layer.proj_size >= layer.hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class _OneState(RNNBase):
    """A recurrent layer whose state is one tensor."""

    _name: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__(*args, **kwargs)

    def _operation(self) -> Any:
        raise NotImplementedError

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            tensor = "D tensor instead" if self._name == "RNN" else "D instead"
            raise ValueError(f"{self._name}: Expected input to be 2D or 3D, got {input.dim()}{tensor}")
        batched = input.dim() == 3
        if hx is not None and hx.dim() != input.dim():
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx should also be {input.dim()}-D but got {hx.dim()}-D tensor")
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
            hx = hx if hx is None else hx.unsqueeze(1)
        if hx is None:
            (hx,) = self._zero_state(input, self._batch_size(input))
        self.check_input(input, None)
        (expected,) = self._state_sizes(self._batch_size(input))
        self.check_hidden_size(hx, expected)
        output, hidden = self._run(self._operation(), input, hx)
        return (output, hidden) if batched else (output.squeeze(batch_dim), hidden.squeeze(1))

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> tuple[Any, Any]:
        batch = int(packed.batch_sizes[0])
        if hx is None:
            (hx,) = self._zero_state(packed.data, batch)
        else:
            (hx,) = self._permuted((hx,), packed.sorted_indices)
        self.check_input(packed.data, packed.batch_sizes)
        (expected,) = self._state_sizes(batch)
        self.check_hidden_size(hx, expected)
        output, hidden = self._run_packed(self._operation(), packed, hx)
        return output, hidden


class RNN(_OneState):
    """Elman's recurrent layers: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``, or with ``relu``.

    >>> import fgrad.torch as torch
    >>> output, state = torch.nn.RNN(2, 3)(torch.ones(5, 1, 2))
    >>> output.shape, state.shape
    (torch.Size([5, 1, 3]), torch.Size([1, 1, 3]))

    Source: `torch.nn.RNN <https://docs.pytorch.org/docs/2.13/generated/torch.nn.RNN.html>`_.
    """

    _name = "RNN"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity

    def _operation(self) -> Any:
        return recurrence.rnn_tanh if self.mode == "RNN_TANH" else recurrence.rnn_relu


class GRU(_OneState):
    """Gated recurrent units (Cho et al., 2014).

    >>> import fgrad.torch as torch
    >>> output, state = torch.nn.GRU(2, 3, bidirectional=True)(torch.ones(5, 1, 2))
    >>> output.shape, state.shape
    (torch.Size([5, 1, 6]), torch.Size([2, 1, 3]))

    Source: `torch.nn.GRU <https://docs.pytorch.org/docs/2.13/generated/torch.nn.GRU.html>`_.
    """

    _name = "GRU"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)

    def _operation(self) -> Any:
        return recurrence.gru


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997); the state is the hidden state and the cell's.

    >>> import fgrad.torch as torch
    >>> output, (hidden, cell) = torch.nn.LSTM(2, 3, num_layers=2)(torch.ones(5, 1, 2))
    >>> output.shape, hidden.shape, cell.shape
    (torch.Size([5, 1, 3]), torch.Size([2, 1, 3]), torch.Size([2, 1, 3]))

    Source: `torch.nn.LSTM <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LSTM.html>`_.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, tuple[Any, Any]]:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(f"LSTM: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if hx is not None and (hx[0].dim() != input.dim() or hx[1].dim() != input.dim()):
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {input.dim()}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )
        if not batched:
            input = input.unsqueeze(batch_dim)
            hx = hx if hx is None else tuple(state.unsqueeze(1) for state in hx)
        if hx is None:
            hx = tuple(self._zero_state(input, self._batch_size(input)))
        self.check_input(input, None)
        for i, expected in enumerate(self._state_sizes(self._batch_size(input))):
            self.check_hidden_size(hx[i], expected, f"Expected hidden[{i}] size {{}}, got {{}}")
        output, hidden, cell = self._run(recurrence.lstm, input, hx)
        if not batched:
            output, hidden, cell = output.squeeze(batch_dim), hidden.squeeze(1), cell.squeeze(1)
        return output, (hidden, cell)

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> tuple[Any, tuple[Any, Any]]:
        if hx is None:
            hx = self._zero_state(packed.data, int(packed.batch_sizes[0]))
        else:
            hx = self._permuted(hx, packed.sorted_indices)
        output, hidden, cell = self._run_packed(recurrence.lstm, packed, hx)
        return output, (hidden, cell)
