"""Initial values of parameters, written in place without recording.

Every function draws from the generator as PyTorch's does, call by call, so that the same seed gives the same values.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.context.torch_function.protocol import Rule
from fgrad.mutable.context.torch_function.wrap import overridable
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops

#: activations whose gain is 1
_LINEAR = (
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid",
)  # fmt: skip


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The gain of ``nonlinearity``: the factor for weights before it that keeps the scale of activations.

    Arguments:
      nonlinearity: the name in ``torch.nn.functional``.
      param: the negative slope of ``"leaky_relu"``; 0.01 if left out.

    Raises:
      ValueError: the name is unknown, or the slope is not a number.

    >>> calculate_gain("leaky_relu", 1.0)
    1.0

    Source: `torch.nn.init.calculate_gain <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "selu":
        return 3.0 / 4
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, int | float):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


def _overridable(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let ``__torch_function__`` override a function, as PyTorch does for four of these."""
    return overridable(function, f"torch.nn.init.{function.__name__}", Rule.NAMED)


# --------------------------------------------------------------------------------------------------------------------
# independent of the shape


@_overridable
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill ``tensor`` with numbers drawn uniformly from ``a`` to ``b``.

    >>> import fgrad.torch as torch
    >>> torch.nn.init.uniform_(torch.empty(2), 3.0, 3.0)
    tensor([3., 3.])

    Source: `torch.nn.init.uniform_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


@_overridable
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill ``tensor`` with normally distributed numbers.

    >>> import fgrad.torch as torch
    >>> torch.nn.init.normal_(torch.empty(2), mean=1.0, std=0.0)
    tensor([1., 1.])

    Source: `torch.nn.init.normal_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill ``tensor`` with normally distributed numbers, those outside of ``a`` to ``b`` drawn again.

    >>> import fgrad.torch as torch
    >>> bool((torch.nn.init.trunc_normal_(torch.empty(1000), a=-0.5, b=0.5).abs() <= 0.5).all())
    True

    Source: `torch.nn.init.trunc_normal_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
        )
    inside = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
    with no_grad():
        if inside > 0.3:
            return _redraw_outside(tensor, mean, std, a, b, generator)
        return _reject_uniform(tensor, mean, std, a, b, generator)


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _redraw_outside(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Draw normal numbers until all lie inside; fast where most do."""
    # the bounds in the tensor's own precision
    low, high = (tensor.new_tensor(bound, device="cpu").item() for bound in (a, b))
    result = tensor.normal_(mean, std, generator=generator)
    while (outside := (result < low) | (result > high)).any():
        result = ops.where(outside, ops.empty_like(result).normal_(mean, std, generator=generator), result)
    return tensor if result is tensor else tensor.copy_(result)


def _reject_uniform(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Draw uniform numbers and accept each in proportion to the density there; fast where the interval is a tail."""
    log_peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    candidates, draws = ops.empty_like(tensor), ops.empty_like(tensor)

    def rejected() -> Tensor:
        log_density = candidates.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
        return draws.uniform_(generator=generator).log_().gt(log_density)

    result = tensor.uniform_(a, b, generator=generator)
    candidates.copy_(result)
    pending = rejected()
    while pending.any():
        result = ops.where(pending, candidates.uniform_(a, b, generator=generator), result)
        pending = ops.where(pending, rejected(), pending)
    return tensor if result is tensor else tensor.copy_(result)


@_overridable
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill ``tensor`` with ``val``.

    >>> import fgrad.torch as torch
    >>> torch.nn.init.constant_(torch.empty(2), 0.5)
    tensor([0.5000, 0.5000])

    Source: `torch.nn.init.constant_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill ``tensor`` with ones.

    >>> import fgrad.torch as torch
    >>> torch.nn.init.ones_(torch.empty(2))
    tensor([1., 1.])

    Source: `torch.nn.init.ones_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill ``tensor`` with zeros.

    >>> import fgrad.torch as torch
    >>> torch.nn.init.zeros_(torch.empty(2))
    tensor([0., 0.])

    Source: `torch.nn.init.zeros_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    with no_grad():
        return tensor.zero_()


# --------------------------------------------------------------------------------------------------------------------
# identities


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity.

    Raises:
      ValueError: ``tensor`` does not have two dimensions.

    >>> import fgrad.torch as torch
    >>> torch.nn.init.eye_(torch.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])

    Source: `torch.nn.init.eye_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    _check_matrix(tensor)
    with no_grad():
        ops.eye(*tensor.shape, out=tensor, requires_grad=tensor.requires_grad)
    return tensor


def dirac_(tensor: Any, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution so that it passes through as many channels as possible.

    Raises:
      ValueError: ``tensor`` is not the weight of a convolution, or ``groups`` does not divide its first dimension.

    >>> import fgrad.torch as torch
    >>> torch.nn.init.dirac_(torch.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])

    Source: `torch.nn.init.dirac_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    if tensor.is_meta:
        return tensor
    per_group = sizes[0] // groups
    centre = [size // 2 for size in sizes[2:]]
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, sizes[1])):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


# --------------------------------------------------------------------------------------------------------------------
# scaled by the number of inputs and outputs


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """The number of inputs of each output of a layer with this weight, and of outputs of each input."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    outputs, inputs, *kernel = tensor.shape
    return inputs * math.prod(kernel), outputs * math.prod(kernel)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode, modes = mode.lower(), ["fan_in", "fan_out"]
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str, stacklevel: int) -> float | None:
    """The standard deviation; None, with a warning, for an empty tensor."""
    if not tensor._type.numel:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=stacklevel)
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill a weight with uniform numbers, scaled as by Glorot and Bengio (2010).

    Raises:
      ValueError: ``tensor`` has less than two dimensions.

    >>> import fgrad.torch as torch
    >>> bool((torch.nn.init.xavier_uniform_(torch.empty(3, 3)).abs() <= 1.0).all())
    True

    Source: `torch.nn.init.xavier_uniform_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill a weight with normal numbers, scaled as by Glorot and Bengio (2010).

    Raises:
      ValueError: ``tensor`` has less than two dimensions.

    >>> import fgrad.torch as torch
    >>> torch.nn.init.xavier_normal_(torch.empty(1, 2), gain=0.0)
    tensor([[0., 0.]])

    Source: `torch.nn.init.xavier_normal_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


@_overridable
def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill a weight with uniform numbers, scaled for rectifiers as by He et al. (2015).

    Arguments:
      a: the negative slope of the rectifier after this layer.
      mode: ``"fan_in"`` keeps the scale of activations, ``"fan_out"`` that of gradients.
      nonlinearity: see ``calculate_gain``.

    Raises:
      ValueError: ``tensor`` has less than two dimensions, or ``mode`` or ``nonlinearity`` is unknown.

    >>> import fgrad.torch as torch
    >>> bool((torch.nn.init.kaiming_uniform_(torch.empty(2, 6)).abs() <= 1.0).all())
    True

    Source: `torch.nn.init.kaiming_uniform_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity, 4)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill a weight with normal numbers, scaled for rectifiers as by He et al. (2015).

    The arguments and errors are those of ``kaiming_uniform_``.

    >>> import fgrad.torch as torch
    >>> torch.nn.init.kaiming_normal_(torch.empty(2, 2)).shape
    torch.Size([2, 2])

    Source: `torch.nn.init.kaiming_normal_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity, 3)
    return tensor if std is None else normal_(tensor, 0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill a weight with an orthogonal matrix (Saxe et al., 2013), its trailing dimensions flattened.

    Raises:
      ValueError: ``tensor`` has less than two dimensions.

    >>> import fgrad.torch as torch
    >>> w = torch.nn.init.orthogonal_(torch.empty(2, 3))
    >>> torch.allclose(w @ w.T, torch.eye(2), atol=1e-5)
    True

    Source: `torch.nn.init.orthogonal_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    with no_grad():
        drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator).numpy(force=True)
        q, r = np.linalg.qr(drawn.T if rows < columns else drawn)
        # the signs of r's diagonal make the distribution uniform
        q = q * np.sign(np.diag(r))
        tensor.copy_(ops.tensor(q.T if rows < columns else q).view(tensor.shape))
        return tensor.mul_(gain)


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal numbers and the fraction ``sparsity`` of each column with zeros (Martens, 2010).

    Raises:
      ValueError: ``tensor`` does not have two dimensions.

    >>> import fgrad.torch as torch
    >>> (torch.nn.init.sparse_(torch.empty(4, 2), sparsity=0.5) == 0).sum(0)
    tensor([2, 2])

    Source: `torch.nn.init.sparse_ <https://docs.pytorch.org/docs/2.13/nn.init.html>`_.
    """
    _check_matrix(tensor)
    if tensor.is_meta:
        return tensor
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            # as in PyTorch, the positions come from the default generator
            tensor[ops.randperm(rows)[:zeros], column] = 0
    return tensor


def _check_matrix(tensor: Tensor) -> None:
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")


# --------------------------------------------------------------------------------------------------------------------
# the deprecated names without an underscore


def _deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    name = function.__name__.removesuffix("_")

    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Tensor:
        warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning)
        return function(*args, **kwargs)

    renamed.__name__ = renamed.__qualname__ = name
    renamed.__doc__ = f"The deprecated name of ``{name}_``."
    return renamed


uniform: Callable[..., Tensor] = _deprecated(uniform_)
normal: Callable[..., Tensor] = _deprecated(normal_)
constant: Callable[..., Tensor] = _deprecated(constant_)
eye: Callable[..., Tensor] = _deprecated(eye_)
dirac: Callable[..., Tensor] = _deprecated(dirac_)
xavier_uniform: Callable[..., Tensor] = _deprecated(xavier_uniform_)
xavier_normal: Callable[..., Tensor] = _deprecated(xavier_normal_)
kaiming_uniform: Callable[..., Tensor] = _deprecated(kaiming_uniform_)
kaiming_normal: Callable[..., Tensor] = _deprecated(kaiming_normal_)
orthogonal: Callable[..., Tensor] = _deprecated(orthogonal_)
sparse: Callable[..., Tensor] = _deprecated(sparse_)

# --------------------------------------------------------------------------------------------------------------------
# the names by which libraries import what PyTorch's functions call

_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_
