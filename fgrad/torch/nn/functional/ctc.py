"""Connectionist temporal classification (Graves and others, 2006).

NOTE [The gradient of CTC]
PyTorch's backward differentiates the loss as a function of logits: the gradient with respect to ``log_probs`` has an
extra term ``exp(log_probs)``.  Through ``log_softmax`` the term vanishes; elsewhere it does not.  To match, a zero with
that derivative is added to the loss.
"""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor, new_tensor, to_device_of
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.types.dtypes import bool_, int64
from fgrad.mutable.values.evaluation import concrete, constant
from fgrad.torch import ops
from fgrad.torch.nn.functional.reduction import MEAN, NONE, number, reduced_tensor
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.kernels import check_wide, functional, kernel
from fgrad.torch.ops.table.table import Array, Fixed, composite, operation_of


def _log_add(*terms: Any) -> Any:
    """The logarithm of a sum of exponentials, with no derivative where all are zero."""
    highest = lax.stop_gradient(jnp.maximum(jnp.maximum(terms[0], terms[1]), terms[2]))
    none = highest == -jnp.inf
    base = choose(none, 0, highest)
    total = sum(jnp.exp(choose(none, -jnp.inf, t) - base) for t in terms)
    return choose(none, -jnp.inf, jnp.log(choose(none, 1, total)) + base)


def _probability_slope(log_probs: Any, counted: Any, impossible: Any) -> Any:
    """Zero for each sequence, with the derivative ``exp(log_probs)``: see NOTE [The gradient of CTC].

    Of a sequence that has no alignment the derivative is not a number.
    """

    def vjp(ct: Any, out: Any, x: Any, counted: Any, impossible: Any) -> tuple[Any, None, None]:
        slope = choose(impossible[:, None], jnp.nan, jnp.exp(x) * ct[:, None])
        return choose(counted[:, :, None], slope, 0), None, None

    zero = define_rule(lambda x, counted, impossible: jnp.zeros(x.shape[1], x.dtype), vjp=vjp)
    return zero(log_probs, counted, impossible)


@kernel(
    "CtcLossBackward0", saved=("log_probs", "targets", "positions", "input_lengths", "target_lengths"),
    outputs=("result0",),
    always_saved=("log_probs", "targets", "result0"),
)  # fmt: skip
def _ctc_loss(
    log_probs: Array, targets: Fixed, positions: Fixed, input_lengths: Fixed, target_lengths: Fixed, blank: int,
    zero_infinity: bool,
) -> Any:  # fmt: skip
    check_wide("ctc_loss_cpu", log_probs)
    steps, batch, _ = log_probs.shape
    width = positions.shape[1]
    target_labels = jnp.take(targets.reshape(-1), positions, mode="clip").astype(np.int64)
    labels = jnp.full((batch, 2 * width + 1), blank, np.int64).at[:, 1::2].set(target_labels)
    before = jnp.pad(labels, ((0, 0), (2, 0)), constant_values=-1)[:, :-2]
    skips = labels != before
    emitted = jnp.take_along_axis(log_probs, jnp.broadcast_to(labels, (steps, *labels.shape)), 2)
    states = np.arange(2 * width + 1)
    used = states < 2 * target_lengths[:, None] + 1
    first = choose((states < 2) & used, emitted[0], -jnp.inf)

    def step(alpha: Any, inputs: Any) -> tuple[Any, None]:
        time, emission = inputs
        one = jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=-np.inf)[:, :-1]
        two = choose(skips, jnp.pad(alpha, ((0, 0), (2, 0)), constant_values=-np.inf)[:, : alpha.shape[1]], -jnp.inf)
        moved = choose(used, _log_add(alpha, one, two) + emission, -jnp.inf)
        return choose((time < input_lengths)[:, None], moved, alpha), None

    last, _ = lax.scan(step, first, (jnp.arange(1, steps), emitted[1:]))
    ends = 2 * target_lengths[:, None]
    final = jnp.take_along_axis(last, ends, 1)
    label = choose(ends > 0, jnp.take_along_axis(last, jnp.maximum(ends - 1, 0), 1), -jnp.inf)
    losses = -_log_add(final, label, jnp.full_like(final, -jnp.inf))[:, 0]
    losses = choose(input_lengths > 0, losses, choose(target_lengths == 0, 0, jnp.inf))
    impossible = jnp.zeros(batch, bool) if zero_infinity else losses == jnp.inf
    losses = losses + _probability_slope(log_probs, np.arange(steps)[:, None] < input_lengths, impossible)
    return choose(losses == jnp.inf, 0, losses) if zero_infinity else losses


def _lengths(lengths: Any, name: str) -> np.ndarray:
    """Lengths that were given as a tensor or as a sequence of integers."""
    if isinstance(lengths, Tensor):
        if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype is bool_:
            raise RuntimeError(f"{name} must be integral")
        return concrete(lengths._value()).astype(np.int64).reshape(-1)
    array = np.asarray(lengths)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"ctc_loss(): argument '{name}' must be a tensor or a tuple of ints, not {lengths!r}")
    return array.astype(np.int64).reshape(-1)


def _refused(problem: str) -> RuntimeError:
    return RuntimeError(f"{problem} (while checking arguments for ctc_loss_allocate_outputs)")


def _check_lengths(log_probs: Tensor, lengths: dict[str, np.ndarray]) -> None:
    for name, each in lengths.items():
        if len(each) != log_probs.size(1):
            raise RuntimeError(f"{name} must be of size batch_size")
    for name, each in reversed(lengths.items()):
        if each.min(initial=0) < 0:
            raise _refused(f"Expected {name} to have value at least 0, but got value {each[each < 0][0]}")


def _starts(targets: Tensor, lengths: np.ndarray) -> np.ndarray:
    """Where the labels of each sequence begin in the flattened targets."""
    if targets.dim() not in (1, 2):
        raise _refused(
            f"Expected 1 to 2 dimensions, but got {targets.dim()}-dimensional tensor for argument #2 'targets'"
        )
    concatenated = targets.dim() == 1
    wanted, found = int(lengths.sum()) if concatenated else len(lengths), targets.size(0)
    if found != wanted:
        raise _refused(
            f"Expected tensor to have size {wanted} at dimension 0, but got size {found} for argument #2 'targets'"
        )
    if concatenated:
        return np.cumsum(lengths) - lengths
    width, row = lengths.max(initial=0), targets.size(1)
    if width > row:
        raise _refused(
            f"Expected tensor to have size at least {width} at dimension 1, but got size {row} for argument "
            "#2 'targets'"
        )
    return np.arange(len(lengths)) * row


def _tensor(array: np.ndarray) -> Tensor:
    return new_tensor(constant(array), tensor_type(int64, array.shape))


@composite(method=False, name="ctc_loss", autocast="fp32")
def _torch_ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = NONE,
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """``torch.nn.functional.ctc_loss`` with the reduction as a number."""
    batched = log_probs.dim() == 3
    x = log_probs if batched else log_probs.unsqueeze(1)
    if x.dim() != 3:
        raise _refused(
            f"Expected 3-dimensional tensor, but got {x.dim()}-dimensional tensor for argument #1 'log_probs'"
        )
    if not x.numel():
        raise RuntimeError("log_probs tensor must not be empty")
    if not 0 <= blank < x.size(2):
        raise RuntimeError("blank must be in label range")
    inputs, wanted = _lengths(input_lengths, "input_lengths"), _lengths(target_lengths, "target_lengths")
    _check_lengths(x, {"input_lengths": inputs, "target_lengths": wanted})
    starts, steps = _starts(targets, wanted), x.size(0)
    if inputs.max(initial=0) > steps:
        raise _refused(
            f"Expected input_lengths to have value at most {steps}, but got value {inputs[inputs > steps][0]}"
        )
    positions = starts[:, None] + np.arange(wanted.max(initial=0))
    operands = (x, targets, _tensor(positions), _tensor(inputs), _tensor(wanted))
    losses = apply(operation_of(_ctc_loss), operands, (blank, bool(zero_infinity)))
    if zero_infinity:
        losses = ops.where(losses == math.inf, ops.zeros_like(losses), losses)
    if not batched:
        losses = losses.squeeze(0)
    if reduction == MEAN:
        lengths = np.maximum(wanted, 1).astype(x.dtype.numpy)
        divisor = to_device_of(losses, new_tensor(constant(lengths.reshape(tuple(losses.shape))), losses._type))
        return (losses / divisor).mean()
    return reduced_tensor(losses, reduction)


@functional(autocast="fp32")
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Minus the log-probability of label sequences, over all their alignments with the input.

    Arguments:
      log_probs: of shape (time, N, classes).
      targets: labels, padded in rows, or concatenated.
      input_lengths, target_lengths: how much of each counts.
      blank: the blank label.
      zero_infinity: count sequences that have no alignment as zero.

    Source: `torch.nn.functional.ctc_loss
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.ctc_loss.html>`_.
    """
    return _torch_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, number(reduction), zero_infinity)
