"""Sequences of different lengths as one tensor: padded to the longest, or packed without padding.

NOTE [Packed sequences]
The elements of all sequences are stored time step by time step, longer sequences first: ``batch_sizes`` says how many
sequences still run at each step.  For this they are sorted by length; ``sorted_indices`` is the permutation,
``unsorted_indices`` its inverse.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Self

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import concrete
from fgrad.torch import ops
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, Fixed, Number
from fgrad.torch.ops.views.padding import pad


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Sequences of different lengths without padding, for recurrent layers: see ``pack_sequence``.

    Attributes:
      data: the elements of all sequences, time step by time step.
      batch_sizes: how many sequences still run at each time step.
      sorted_indices: the permutation that sorted the sequences by length; None if they were sorted.
      unsorted_indices: its inverse.

    Source: `torch.nn.utils.rnn.PackedSequence
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.rnn.PackedSequence.html>`_.
    """

    __slots__ = ()

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> Self:
        if batch_sizes is None:
            if not (isinstance(data, list | tuple) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The sequence with its data converted by ``Tensor.to``, the indices moved to the same device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [None if x is None else x.to(data.device) for x in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(data, self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """The sequence on a GPU."""
        return self.to(*args, **{"device": "cuda", **kwargs})

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """The sequence on the CPU."""
        return self.to(*args, **{"device": "cpu", **kwargs})

    def double(self) -> Self:
        """The sequence with elements of float64."""
        return self.to(dtype=dtypes.float64)

    def float(self) -> Self:
        """The sequence with elements of float32."""
        return self.to(dtype=dtypes.float32)

    def half(self) -> Self:
        """The sequence with elements of float16."""
        return self.to(dtype=dtypes.float16)

    def long(self) -> Self:
        """The sequence with elements of int64."""
        return self.to(dtype=dtypes.int64)

    def int(self) -> Self:
        """The sequence with elements of int32."""
        return self.to(dtype=dtypes.int32)

    def short(self) -> Self:
        """The sequence with elements of int16."""
        return self.to(dtype=dtypes.int16)

    def char(self) -> Self:
        """The sequence with elements of int8."""
        return self.to(dtype=dtypes.int8)

    def byte(self) -> Self:
        """The sequence with elements of uint8."""
        return self.to(dtype=dtypes.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether it is in page-locked memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation; None for None.

    >>> import fgrad.torch as torch
    >>> torch.nn.utils.rnn.invert_permutation(torch.tensor([1, 2, 0]))
    tensor([2, 0, 1])
    """
    if permutation is None:
        return None
    positions = ops.arange(0, permutation.numel(), device=permutation.device)
    return ops.empty_like(permutation).scatter_(0, permutation, positions)


@overload("_pack_padded_sequence", "PackPaddedSequenceBackward0")
def _rows(input: Array, rows: Fixed) -> Any:
    """Rows of an array whose first two axes count as one."""
    flat = lax.reshape(input, (input.shape[0] * input.shape[1], *input.shape[2:]))
    return flat.at[rows].get(mode="promise_in_bounds", unique_indices=True)


@overload("_pad_packed_sequence", "PadPackedSequenceBackward0")
def _padded_rows(data: Array, rows: Fixed, padding_value: Number) -> Any:
    """The rows at given indices, and a padding value where the index is -1."""
    values = data.at[jnp.maximum(rows, 0)].get(mode="promise_in_bounds")
    present = lax.expand_dims(rows >= 0, range(rows.ndim, values.ndim))
    return choose(present, values, padding_value.astype(data.dtype))


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences packed.

    Arguments:
      input: of shape (T, B, ...).
      lengths: of the sequences.
      batch_first: whether the input is of shape (B, T, ...).
      enforce_sorted: whether the lengths have to be in descending order; otherwise the sequences are sorted.

    Raises:
      RuntimeError: the lengths do not match the sequences, are not positive, exceed the input, or are not sorted.

    >>> import fgrad.torch as torch
    >>> packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor([[1, 4], [2, 5], [3, 0]]), [3, 2])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))

    Source: `torch.nn.utils.rnn.pack_padded_sequence
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.rnn.pack_padded_sequence.html>`_.
    """
    lengths = lengths.long() if isinstance(lengths, Tensor) else ops.as_tensor(lengths, dtype=dtypes.int64)
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = ops.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    sizes = _batch_sizes(input, lengths, batch_first)
    steps = np.repeat(np.arange(len(sizes)), sizes)
    which = np.concatenate([np.arange(n) for n in sizes])
    rows = which * input.shape[1] + steps if batch_first else steps * input.shape[1] + which
    return PackedSequence(_rows(input, ops.tensor(rows, device=input.device)), ops.tensor(sizes), sorted_indices, None)


def _batch_sizes(input: Tensor, lengths: Tensor, batch_first: bool) -> np.ndarray:
    """The number of sequences that still run at each time step."""
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    batch, longest = (input.size(0), input.size(1)) if batch_first else (input.size(1), input.size(0))
    if lengths.dim() != 1:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device.type} "
            f"{lengths.dtype.scalar_name} tensor"
        )
    if lengths.size(0) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.size(0)} (batch_size={batch})"
        )
    values = np.asarray(concrete(lengths._value()))
    if values[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if (np.diff(values) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    if values[0] > longest:
        raise RuntimeError(f"a length of {values[0]} is more than the {longest} steps that the input has")
    return (np.arange(values[0])[:, None] < values[None, :]).sum(1)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Undo ``pack_padded_sequence``: padded sequences and their lengths.

    Arguments:
      batch_first: whether the result is of shape (B, T, ...) rather than (T, B, ...).
      padding_value: the value after the end of a sequence.
      total_length: to how many steps they are padded; by default those of the longest.

    Raises:
      ValueError: ``total_length`` is less than the longest.

    >>> import fgrad.torch as torch
    >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
    >>> torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))

    Source: `torch.nn.utils.rnn.pad_packed_sequence
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.rnn.pad_packed_sequence.html>`_.
    """
    sizes = np.asarray(concrete(sequence.batch_sizes._value()))
    steps = len(sizes) if total_length is None else total_length
    if steps < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {len(sizes)}"
        )
    running = np.arange(sizes[0])[None, :] < np.pad(sizes, (0, steps - len(sizes)))[:, None]
    rows = np.full(running.shape, -1)
    rows[running] = np.arange(sizes.sum())
    padded = _padded_rows(sequence.data, ops.tensor(rows, device=sequence.data.device), padding_value)
    lengths = ops.tensor(running.sum(0))
    padded = padded.transpose(0, 1) if batch_first else padded
    back = sequence.unsorted_indices
    if back is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences of different lengths in one tensor, padded to the longest.

    Arguments:
      sequences: tensors of shape (length, ...).
      batch_first: whether the result is of shape (B, T, ...) rather than (T, B, ...).
      padding_value: the value where a sequence has no step.
      padding_side: "right", or "left": whether that is after its end or before its beginning.

    Raises:
      RuntimeError: there are no sequences, or their steps differ in shape.

    >>> import fgrad.torch as torch
    >>> torch.nn.utils.rnn.pad_sequence([torch.tensor([1, 2]), torch.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])

    Source: `torch.nn.utils.rnn.pad_sequence
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.rnn.pad_sequence.html>`_.
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    listed: Sequence[Tensor] = tuple(sequences)
    if not listed:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    for i, sequence in enumerate(listed):
        if not isinstance(sequence, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type_name(sequence)}")
    first = listed[0]
    if not first.dim():
        raise RuntimeError("ArrayRef: invalid slice, N = 1; size = 0")
    longest = max(x.size(0) for x in listed)
    padded = []
    for x in listed:
        if x.shape[1:] != first.shape[1:]:
            # other shapes are broadcast as by copy_, if possible
            x = first.new_empty((x.size(0), *first.shape[1:])).copy_(x)
        missing = longest - x.size(0)
        ends = (missing, 0) if padding_side == "left" else (0, missing)
        x = x.to(first.dtype)
        padded.append(pad(x, [0, 0] * (first.dim() - 1) + [*ends], value=padding_value) if missing else x)
    return ops.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Undo ``pad_sequence`` with padding on the right.

    Without ``batch_first`` the first two axes of ``padded_sequences`` are exchanged in place, as PyTorch does.

    >>> import fgrad.torch as torch
    >>> torch.nn.utils.rnn.unpad_sequence(torch.tensor([[1, 2], [3, 0]]), torch.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]

    Source: `torch.nn.utils.rnn.unpad_sequence
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.rnn.unpad_sequence.html>`_.
    """
    if not batch_first:
        padded_sequences.transpose_(0, 1)
    steps = ops.arange(padded_sequences.shape[1], device=lengths.device)
    return [sequence[steps < length] for sequence, length in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Sequences of different lengths packed.

    Arguments:
      sequences: tensors of shape (length, ...).
      enforce_sorted: whether they have to be in order of descending lengths; otherwise they are sorted.

    Raises:
      RuntimeError: they are not in this order.

    >>> import fgrad.torch as torch
    >>> torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).data
    tensor([1, 3, 2])

    Source: `torch.nn.utils.rnn.pack_sequence
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.rnn.pack_sequence.html>`_.
    """
    lengths = ops.as_tensor([x.size(0) for x in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Undo ``pack_sequence``.

    >>> import fgrad.torch as torch
    >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
    >>> torch.nn.utils.rnn.unpack_sequence(packed)
    [tensor([1, 2]), tensor([3])]

    Source: `torch.nn.utils.rnn.unpack_sequence
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.rnn.unpack_sequence.html>`_.
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


def moments(data: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """Packed data split into time steps."""
    return [data.narrow(0, end - n, n) for end, n in zip(accumulate(sizes), sizes, strict=True)]
