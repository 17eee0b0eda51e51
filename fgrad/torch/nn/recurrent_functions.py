"""Recurrent layers as functions of ``torch``, with lists of weights."""

from collections.abc import Callable
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.nn import recurrence
from fgrad.torch.ops.table.table import composite


def _run(run: Callable[..., Any], input: Any, *rest: Any, packed: bool) -> tuple[Any, ...]:
    """Run layers over one batch, or over packed sequences, whose batch sizes come first."""
    if not packed:
        return run(input, *rest)
    sizes, *others = rest
    return run(input, *others, False, sizes=tuple(sizes.tolist()))


@composite(method=False)
def lstm(input: Any, hx: Any, *rest: Any) -> tuple[Any, ...]:
    """Layers of long short-term memory: the outputs, the last hidden states and the last cells.

    Called as ``lstm(input, (h, c), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)``, or
    with packed sequences as ``lstm(data, batch_sizes, (h, c), params, ...)`` without ``batch_first``.

    Source: `torch.nn.LSTM <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LSTM.html>`_.
    """
    return _run(recurrence.lstm, input, hx, *rest, packed=isinstance(hx, Tensor))


@composite(method=False)
def gru(input: Any, hx: Any, *rest: Any) -> tuple[Any, ...]:
    """Layers of gated recurrent units: the outputs and the last states; called as ``lstm`` is, with one state.

    Source: `torch.nn.GRU <https://docs.pytorch.org/docs/2.13/generated/torch.nn.GRU.html>`_.
    """
    return _run(recurrence.gru, input, hx, *rest, packed=isinstance(rest[0], Tensor))


@composite(method=False)
def rnn_tanh(input: Any, hx: Any, *rest: Any) -> tuple[Any, ...]:
    """Recurrent layers with ``tanh``: the outputs and the last states; called as ``gru`` is.

    Source: `torch.nn.RNN <https://docs.pytorch.org/docs/2.13/generated/torch.nn.RNN.html>`_.
    """
    return _run(recurrence.rnn_tanh, input, hx, *rest, packed=isinstance(rest[0], Tensor))


@composite(method=False)
def rnn_relu(input: Any, hx: Any, *rest: Any) -> tuple[Any, ...]:
    """Recurrent layers with ``relu``: the outputs and the last states; called as ``gru`` is.

    Source: `torch.nn.RNN <https://docs.pytorch.org/docs/2.13/generated/torch.nn.RNN.html>`_.
    """
    return _run(recurrence.rnn_relu, input, hx, *rest, packed=isinstance(rest[0], Tensor))


@composite(method=False)
def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> tuple[Any, ...]:
    """One step of ``lstm``: the new hidden state and cell.

    Source: `torch.nn.LSTMCell <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LSTMCell.html>`_.
    """
    return recurrence.lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh)


@composite(method=False)
def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of ``gru``: the new state.

    >>> import fgrad.torch as torch
    >>> torch.gru_cell(torch.zeros(1, 2), torch.ones(1, 1), torch.zeros(3, 2), torch.zeros(3, 1))
    tensor([[0.5000]])

    Source: `torch.nn.GRUCell <https://docs.pytorch.org/docs/2.13/generated/torch.nn.GRUCell.html>`_.
    """
    return recurrence.gru_cell(input, hx, w_ih, w_hh, b_ih, b_hh)


@composite(method=False)
def rnn_tanh_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of ``rnn_tanh``: the new state.

    Source: `torch.nn.RNNCell <https://docs.pytorch.org/docs/2.13/generated/torch.nn.RNNCell.html>`_.
    """
    return recurrence.rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih, b_hh)


@composite(method=False)
def rnn_relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of ``rnn_relu``: the new state.

    Source: `torch.nn.RNNCell <https://docs.pytorch.org/docs/2.13/generated/torch.nn.RNNCell.html>`_.
    """
    return recurrence.rnn_relu_cell(input, hx, w_ih, w_hh, b_ih, b_hh)
