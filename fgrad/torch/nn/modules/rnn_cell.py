"""Recurrent cells: one step of a recurrent layer."""

import math
from typing import Any

from fgrad.torch import ops
from fgrad.torch.nn import init, recurrence
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.parameter import Parameter


class RNNCellBase(Module):
    """The weights that recurrent cells have in common."""

    bias_ih: Any
    bias_hh: Any

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih: Any = Parameter(ops.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh: Any = Parameter(ops.empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(ops.empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, uniform up to ``1 / sqrt(hidden_size)`` in magnitude."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _batched(self, input: Any) -> Any:
        if input.dim() not in (1, 2):
            raise ValueError(f"{self._get_name()}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        return input if input.dim() == 2 else input.unsqueeze(0)

    def _zero_state(self, input: Any) -> Any:
        return ops.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)


class _OneStateCell(RNNCellBase):
    """A recurrent cell whose state is one tensor."""

    def _operation(self) -> Any:
        raise NotImplementedError

    def forward(self, input: Any, hx: Any = None) -> Any:
        batched = self._batched(input)
        if hx is not None and hx.dim() not in (1, 2):
            raise ValueError(f"{self._get_name()}: Expected hidden to be 1D or 2D, got {hx.dim()}D instead")
        if hx is None:
            hx = self._zero_state(batched)
        elif batched is not input:
            hx = hx.unsqueeze(0)
        state = self._operation()(batched, hx, *self._weights())
        return state if batched is input else state.squeeze(0)


class RNNCell(_OneStateCell):
    """One step of ``RNN``.

    >>> import fgrad.torch as torch
    >>> torch.nn.RNNCell(2, 3)(torch.ones(4, 2)).shape
    torch.Size([4, 3])

    Source: `torch.nn.RNNCell <https://docs.pytorch.org/docs/2.13/generated/torch.nn.RNNCell.html>`_.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def _operation(self) -> Any:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return recurrence.rnn_tanh_cell if self.nonlinearity == "tanh" else recurrence.rnn_relu_cell


class GRUCell(_OneStateCell):
    """One step of ``GRU``.

    >>> import fgrad.torch as torch
    >>> torch.nn.GRUCell(2, 3)(torch.ones(4, 2)).shape
    torch.Size([4, 3])

    Source: `torch.nn.GRUCell <https://docs.pytorch.org/docs/2.13/generated/torch.nn.GRUCell.html>`_.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def _operation(self) -> Any:
        return recurrence.gru_cell


class LSTMCell(RNNCellBase):
    """One step of ``LSTM``.

    >>> import fgrad.torch as torch
    >>> hidden, cell = torch.nn.LSTMCell(2, 3)(torch.ones(4, 2))
    >>> hidden.shape, cell.shape
    (torch.Size([4, 3]), torch.Size([4, 3]))

    Source: `torch.nn.LSTMCell <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LSTMCell.html>`_.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        batched = self._batched(input)
        for i, state in enumerate(() if hx is None else hx):
            if state.dim() not in (1, 2):
                raise ValueError(f"LSTMCell: Expected hx[{i}] to be 1D or 2D, got {state.dim()}D instead")
        if hx is None:
            zeros = self._zero_state(batched)
            hx = (zeros, zeros)
        elif batched is not input:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        hidden, cell = recurrence.lstm_cell(batched, hx, *self._weights())
        return (hidden, cell) if batched is input else (hidden.squeeze(0), cell.squeeze(0))
