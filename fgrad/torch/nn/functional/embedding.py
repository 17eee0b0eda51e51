"""Rows of a matrix by index: ``embedding``, bags of rows, and ``one_hot``."""

from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.mutable.context.modes import modes, no_grad
from fgrad.mutable.context.warning import warn
from fgrad.mutable.operation.capture import expect_within
from fgrad.mutable.operation.operands import float_of
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.types.dtypes import (
    bfloat16,
    dtype as Dtype,
    float16,
    float32,
    float64,
    int32,
    int64,
)
from fgrad.mutable.types.type_names import tensor_type_name
from fgrad.mutable.values.evaluation import concrete, elements, is_abstract
from fgrad.torch import ops
from fgrad.torch.ops.indexing.coordinates import read, scattered
from fgrad.torch.ops.reductions.norms import formula_of, power_norm
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.dispatch import OF_NN
from fgrad.torch.ops.table.kernels import functional, kernel, run_inplace, takes
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.signature import checked_int
from fgrad.torch.ops.table.table import Array, Fixed, Float, SymInt, composite, operation_of

_INDEX_TYPES = (int64, int32)
_SPARSE = (
    "{}: sparse gradients are not supported by fgrad.torch, which has no sparse tensors. "
    "Use sparse=False: the gradient has the same values."
)


def _check_type(tensor: Tensor, name: str, position: int, function: str, allowed: tuple[Dtype, ...]) -> None:
    if tensor.dtype not in allowed:
        names = ", ".join([d.scalar_name for d in allowed])
        shown = tensor_type_name(tensor.dtype.scalar_name)
        raise RuntimeError(
            f"Expected tensor for argument #{position} '{name}' to have one of the following scalar types: {names}; "
            f"but got {shown} instead (while checking arguments for {function})"
        )


def _rows(weight: Any, indices: Any) -> Any:
    return read(weight, (indices,), "clip")


def _frequencies(indices: Any, size: int) -> Any:
    """How often each row is used."""
    return jnp.zeros(size, np.int64).at[indices.reshape(-1)].add(1)


def _scattered(ct: Any, like: Any, indices: Any, padding_idx: SymInt, frequency: Any) -> Any:
    """The gradient of the matrix: each row's gradients added up, none for the padding."""
    rows = ct.reshape(-1, like.shape[-1])
    flat = indices.reshape(-1)
    if frequency is not None:
        rows = rows / frequency[flat][:, None].astype(rows.dtype)
    if padding_idx >= 0:
        rows = choose((flat == padding_idx)[:, None], 0, rows)
    return scattered(lax.scatter_add, jnp.zeros(like.shape, like.dtype), (flat,), rows, mode="drop")


@kernel(
    "EmbeddingBackward0",
    saved=("weight", "indices"),
    always_saved=("indices",),
    backward_node="EmbeddingDenseBackwardBackward0",
)
def _embedding(weight: Array, indices: Fixed, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Any:
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")

    def vjp(ct: Any, out: Any, weight: Any, indices: Any) -> tuple[Any, None]:
        frequency = _frequencies(indices, weight.shape[0]) if scale_grad_by_freq else None
        return _scattered(ct, weight, indices, padding_idx, frequency), None

    # padding and frequencies affect the gradient only
    return define_rule(_rows, vjp=vjp, jvp=lambda tangents, out, weight, indices: _rows(tangents[0], indices))(
        weight, indices
    )


_EMBEDDING = operation_of(_embedding)


@composite(method=False, name="embedding", out=NOT_TAKEN)
def _torch_embedding(
    weight: Any, indices: Any, padding_idx: SymInt = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """``torch.nn.functional.embedding`` with its arguments in another order."""
    _check_type(indices, "indices", 1, "embedding", _INDEX_TYPES)
    if len(weight._type.shape) == 2:
        values = elements(indices._value())
        if values is None:
            expect_within(indices, 0, weight._type.shape[0])
        elif values.size and not (values.min() >= 0 and values.max() < weight._type.shape[0]):
            raise IndexError("index out of range in self")
    if sparse and modes.grad and is_tracked(weight):
        raise NotImplementedError(_SPARSE.format("embedding"))
    return apply(_EMBEDDING, (weight, indices), (padding_idx, bool(scale_grad_by_freq), bool(sparse)))


@kernel("EmbeddingRenormBackward0")
def _embedding_renorm(self: Array, indices: Fixed, max_norm: Float, norm_type: Float, special: Any) -> Any:
    used = _frequencies(indices, self.shape[0]) > 0
    norms = power_norm(self, norm_type, special, (1,), False)
    scale = choose(used & (norms > max_norm), max_norm / (norms + 1e-7), 1)
    return self * scale[:, None].astype(self.dtype)


@composite(method=False)
def embedding_renorm_(input: Any, indices: Any, max_norm: float, norm_type: float) -> Tensor:
    """Scale down, in place, the indexed rows whose norm exceeds ``max_norm``.

    Source: `torch.nn.functional.embedding
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html>`_.
    """
    _check_type(indices, "indices", 2, "embedding_renorm_", _INDEX_TYPES)
    norm_type = float_of("embedding_renorm_", "norm_type", norm_type)
    size = input._type.shape[0]
    values = elements(indices._value())
    if values is None:
        expect_within(indices, 0, size)
    for i in () if values is None else sorted(set(values.reshape(-1).tolist())):
        if not 0 <= i < size:
            raise IndexError(
                f"select(): index {i} out of range for tensor of size {list(input._type.shape)} at dimension 0"
            )
    return run_inplace(_embedding_renorm, input, indices, max_norm, norm_type, formula_of(norm_type))


def _renorm(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    with no_grad():
        embedding_renorm_(weight.detach(), indices, max_norm, norm_type)


@functional
@takes("embedding(weight, indices=input)")
def embedding(
    input: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of ``weight`` at the indices ``input``.

    Arguments:
      padding_idx: a row that gets no gradient.
      max_norm: rows that are used and have a larger norm are first scaled down to it, in place.
      scale_grad_by_freq: divide each row's gradient by how often it was used.
      sparse: refused where gradients are recorded: there are no sparse tensors.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.embedding(torch.tensor([1, 0]), torch.tensor([[1., 2.], [3., 4.]]))
    tensor([[3., 4.],
            [1., 2.]])

    Source: `torch.nn.functional.embedding
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html>`_.
    """
    if padding_idx is None:
        padding_idx = -1
    else:
        if not -weight.size(0) <= padding_idx < weight.size(0):
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx = checked_int(padding_idx, "embedding", "padding_idx", 3) % weight.size(0)
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    return _torch_embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


# -- bags ------------------------------------------------------------------------------------------------------------

SUM, MEAN, MAX = 0, 1, 2
_MODES = {"sum": SUM, "mean": MEAN, "max": MAX}


@kernel(
    "EmbeddingBagBackward0",
    outputs=("result0", "result3"),
    saved=("weight", "per_sample_weights", "indices", "offsets"),
    always_saved=("per_sample_weights", "indices", "offsets"),
    backward_node="EmbeddingBagBackwardBackward0",
)  # fmt: skip
def _embedding_bag(
    weight: Array, per_sample_weights: Array = None, indices: Fixed = None, offsets: Fixed = None, *, mode: int,
    padding_idx: int, scale_grad_by_freq: bool, include_last_offset: bool,
) -> Any:  # fmt: skip
    bags = offsets.shape[0] - (1 if include_last_offset else 0)
    bag = jnp.searchsorted(offsets[:bags], jnp.arange(indices.shape[0], dtype=offsets.dtype), side="right") - 1
    counted = indices != padding_idx

    def vjp(ct: Any, out: Any, weight: Any, indices: Any) -> tuple[Any, None]:
        frequency = _bag_frequency(indices, weight.shape[0]) if scale_grad_by_freq else None
        return _scattered(ct, weight, indices, padding_idx, frequency), None

    rows = define_rule(_rows, vjp=vjp)(weight, indices)
    if mode == MAX:
        return _bag_maxima(rows, bag, counted, bags)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    rows = choose(counted[:, None], rows, 0)
    total = jnp.zeros((bags, weight.shape[1]), weight.dtype).at[bag].add(rows)
    if mode == SUM:
        return total
    sizes = jnp.zeros(bags, weight.dtype).at[bag].add(counted.astype(weight.dtype))
    return total / jnp.maximum(sizes, 1)[:, None]


def _bag_frequency(indices: Any, size: int) -> Any:
    """The divisor of each row's gradient for ``scale_grad_by_freq`` of bags.

    Not how often the row itself is used: the kernel indexes the sorted indices by the row's rank among the distinct
    ones (aten/src/ATen/native/EmbeddingBag.cpp).
    """
    counts = _frequencies(indices, size)
    order = jnp.maximum(jnp.cumsum(counts > 0) - 1, 0)
    return counts[jnp.sort(indices)[order]]


def _bag_maxima(rows: Any, bag: Any, counted: Any, bags: int) -> tuple[Any, Any]:
    """The largest of each column in each bag, the first of several, and its row; zero of bags that are empty."""
    count, width = rows.shape
    if not count:
        return jnp.zeros((bags, width), rows.dtype), jnp.zeros((bags, width), np.int64)
    plain = choose(counted[:, None], lax.stop_gradient(rows), -jnp.inf)
    largest = jnp.full((bags, width), -jnp.inf, rows.dtype).at[bag].max(plain)
    numbers = choose((plain == largest[bag]) & counted[:, None], jnp.arange(count)[:, None], count)
    first = jnp.full((bags, width), count, numbers.dtype).at[bag].min(numbers)
    maxima = jnp.take_along_axis(rows, jnp.minimum(first, count - 1), 0)
    return choose(first < count, maxima, 0), first


_EMBEDDING_BAG = operation_of(_embedding_bag)


def _check_bags(weight: Any, indices: Any, offsets: Any, include_last_offset: bool, general: bool) -> None:
    if not is_abstract(offsets._value()):
        starts = concrete(offsets._value())
        if include_last_offset and not starts.size:
            raise RuntimeError("include_last_offset: number of offset should be at least 1")
        if starts.size and starts[0] != 0:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
                f"However, got {starts[0]}"
            )
        if starts.size and starts[-1] > indices.size(0):
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length {indices.size(0)} but got offsets[-1] of "
                f"{starts[-1]}"
            )
    rows, values = weight.size(0), elements(indices._value())
    if values is None:
        expect_within(indices, 0, rows)
    elif values.size and not (values.min() >= 0 and values.max() < rows):
        values = values.reshape(-1)
        at = int(np.argmax((values < 0) | (values >= rows)))
        if general or weight.dtype is float64:  # in PyTorch the other kernels are those of FBGEMM
            raise RuntimeError(
                f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {values[at]}"
            )
        raise RuntimeError(f"Index {at} of input takes value {values[at]} which is not in the valid range [0, {rows})")


def _check_offsets(input: Any, offsets: Any) -> None:
    rank = input.dim()
    if rank not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {rank}")
    if rank == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
    elif offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    elif offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")


def _check_mode(mode: str, scale_grad_by_freq: bool, sparse: bool) -> None:
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")


@functional
def embedding_bag(
    input: Any, weight: Any, offsets: Any = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or largest of bags of rows of ``weight``.

    Arguments:
      input: the indices of the rows: a bag in each row of it, or all bags concatenated.
      offsets: where each bag starts, if they are concatenated.
      mode: "sum", "mean" or "max".
      per_sample_weights: a factor for each row, for "sum".
      include_last_offset: whether ``offsets`` ends with the end of the last bag.
      padding_idx: a row that does not count.

    Source: `torch.nn.functional.embedding_bag
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding_bag.html>`_.
    """
    if weight.dtype is int64 and input.is_floating_point():
        warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
        )
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    _check_offsets(input, offsets)
    if input.dim() == 2:
        offsets = ops.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        include_last_offset = False
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    _check_mode(mode, scale_grad_by_freq, sparse)
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            f"mode='{mode}'). Please open a feature request on GitHub."
        )
    if sparse and modes.grad and is_tracked(weight):
        raise NotImplementedError(_SPARSE.format("embedding_bag"))
    _check_type(input, "indices", 1, "embedding_bag", _INDEX_TYPES)
    _check_type(weight, "weight", 1, "embedding_bag", (float16, bfloat16, float32, float64))
    if per_sample_weights is not None and per_sample_weights.dtype is not weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type {weight.type()} does not equal {per_sample_weights.type()} (while "
            "checking arguments for embedding_bag)"
        )
    rows = weight.size(0)
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but got {padding_idx}"
        )
    _check_bags(weight, input, offsets, include_last_offset, mode == "max" or padding_idx is not None)
    params = (_MODES[mode], -1 if padding_idx is None else padding_idx % rows, scale_grad_by_freq, include_last_offset)
    results = apply(_EMBEDDING_BAG, (weight, per_sample_weights, input, offsets), params)
    return results[0] if isinstance(results, tuple) else results


# -- one hot ---------------------------------------------------------------------------------------------------------


@kernel("OneHotBackward0")
def _one_hot(tensor: Fixed, num_classes: int) -> Any:
    return (tensor[..., None] == jnp.arange(num_classes)).astype(np.int64)


@functional(dispatch=OF_NN)
@takes("one_hot(input)")
def one_hot(input: Any, num_classes: Any = -1) -> Tensor:
    """For each class, a row of zeros with a one at its index.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.one_hot(torch.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])

    Source: `torch.nn.functional.one_hot
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.one_hot.html>`_.
    """
    if input.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    num_classes = checked_int(num_classes, "one_hot", "num_classes", 2, symbolic=False)
    if not input.numel():
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return _one_hot(input, num_classes)
    if num_classes == -1 and is_abstract(input._value()):
        raise RuntimeError("one_hot() needs num_classes when its input is being recorded: the classes are not known.")
    values = elements(input._value())
    if values is None:
        expect_within(input, 0, num_classes)
    if values is None or not values.size:
        return _one_hot(input, num_classes)
    if values.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = int(values.max()) + 1
    elif num_classes <= values.max():
        raise RuntimeError("Class values must be smaller than num_classes.")
    return _one_hot(input, num_classes)
