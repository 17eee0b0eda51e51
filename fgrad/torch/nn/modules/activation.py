"""Activation functions of each element by itself."""

from typing import Any

from fgrad.deferred import deferred
from fgrad.mutable.context.warning import warn
from fgrad.torch import ops
from fgrad.torch.nn import functional as F, init as initial
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.parameter import Parameter

# PyTorch has these in one file
__getattr__, __dir__ = deferred(
    __name__,
    {
        "fgrad.torch.nn.modules.attention": "MultiheadAttention",
        "fgrad.torch.nn.modules.softmax": "LogSoftmax Softmax Softmax2d Softmin",
    },
)


class _InPlace(Module):
    """An activation whose only setting is whether it overwrites its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


def _and_inplace(module: Any) -> str:
    return ", inplace=True" if module.inplace else ""


class Threshold(Module):
    """``x`` where it is larger than ``threshold``, else ``value``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Threshold(1.0, 9.0)(torch.tensor([0.0, 2.0]))
    tensor([9., 2.])

    Source: `torch.nn.Threshold <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Threshold.html>`_.
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}{_and_inplace(self)}"


class ReLU(_InPlace):
    """``max(x, 0)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])

    Source: `torch.nn.ReLU <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ReLU.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.relu(input, inplace=self.inplace)


class RReLU(Module):
    """A leaky rectifier whose slope is drawn for each element while training, and is the mean slope otherwise.

    >>> import fgrad.torch as torch
    >>> torch.nn.RReLU(0.25, 0.75).eval()(torch.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])

    Source: `torch.nn.RReLU <https://docs.pytorch.org/docs/2.13/generated/torch.nn.RReLU.html>`_.
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}{_and_inplace(self)}"


class Hardtanh(Module):
    """``x`` clipped to the range from ``min_val`` to ``max_val``.

    Raises:
      AssertionError: the range is empty.

    >>> import fgrad.torch as torch
    >>> torch.nn.Hardtanh()(torch.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])

    Source: `torch.nn.Hardtanh <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Hardtanh.html>`_.
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("min", min_value), ("max", max_value)):
            if value is not None:
                warn(
                    f"keyword argument `{name}_value` is deprecated and renamed to `{name}_val`",
                    FutureWarning,
                )
        self.min_val: float = min_val if min_value is None else min_value
        self.max_val: float = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Any) -> Any:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}{_and_inplace(self)}"


class ReLU6(Hardtanh):
    """``x`` clipped to the range from 0 to 6.

    >>> import fgrad.torch as torch
    >>> torch.nn.ReLU6()(torch.tensor([-1.0, 7.0]))
    tensor([0., 6.])

    Source: `torch.nn.ReLU6 <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ReLU6.html>`_.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Sigmoid()(torch.zeros(1))
    tensor([0.5000])

    Source: `torch.nn.Sigmoid <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Sigmoid.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return ops.sigmoid(input)


class Hardsigmoid(Module):
    """A piecewise linear sigmoid: ``relu6(x + 3) / 6``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Hardsigmoid()(torch.tensor([-3.0, 0.0, 3.0]))
    tensor([0.0000, 0.5000, 1.0000])

    Source: `torch.nn.Hardsigmoid <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Hardsigmoid.html>`_.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.hardsigmoid(input, self.inplace)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> import fgrad.torch as torch
    >>> torch.nn.Tanh()(torch.zeros(1))
    tensor([0.])

    Source: `torch.nn.Tanh <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Tanh.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return ops.tanh(input)


class SiLU(_InPlace):
    """``x * sigmoid(x)``, also called swish.

    >>> import fgrad.torch as torch
    >>> torch.nn.SiLU()(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7311])

    Source: `torch.nn.SiLU <https://docs.pytorch.org/docs/2.13/generated/torch.nn.SiLU.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.silu(input, inplace=self.inplace)


class Mish(_InPlace):
    """``x * tanh(softplus(x))``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Mish()(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8651])

    Source: `torch.nn.Mish <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Mish.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.mish(input, inplace=self.inplace)


class Hardswish(Module):
    """``x * relu6(x + 3) / 6``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Hardswish()(torch.tensor([-3.0, 3.0]))
    tensor([-0., 3.])

    Source: `torch.nn.Hardswish <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Hardswish.html>`_.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.hardswish(input, self.inplace)


class _Alpha(Module):
    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{_and_inplace(self)}"


class ELU(_Alpha):
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.ELU()(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])

    Source: `torch.nn.ELU <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ELU.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Alpha):
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.CELU(alpha=2.0)(torch.tensor([-1.0, 2.0]))
    tensor([-0.7869,  2.0000])

    Source: `torch.nn.CELU <https://docs.pytorch.org/docs/2.13/generated/torch.nn.CELU.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.celu(input, self.alpha, self.inplace)


class SELU(_InPlace):
    """The scaled exponential linear unit of self-normalising networks (Klambauer et al., 2017).

    >>> import fgrad.torch as torch
    >>> torch.nn.SELU()(torch.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])

    Source: `torch.nn.SELU <https://docs.pytorch.org/docs/2.13/generated/torch.nn.SELU.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.selu(input, self.inplace)


class GLU(Module):
    """The first half of a dimension times the sigmoid of the second.

    >>> import fgrad.torch as torch
    >>> torch.nn.GLU()(torch.tensor([2.0, 0.0]))
    tensor([1.])

    Source: `torch.nn.GLU <https://docs.pytorch.org/docs/2.13/generated/torch.nn.GLU.html>`_.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class GELU(Module):
    """``x`` times the normal distribution function of ``x``, or its approximation by ``"tanh"``.

    >>> import fgrad.torch as torch
    >>> torch.nn.GELU()(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])

    Source: `torch.nn.GELU <https://docs.pytorch.org/docs/2.13/generated/torch.nn.GELU.html>`_.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class _Lambda(Module):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Lambda):
    """``x`` where it is larger than ``lambd`` in magnitude, else 0.

    >>> import fgrad.torch as torch
    >>> torch.nn.Hardshrink()(torch.tensor([-1.0, 0.2]))
    tensor([-1.,  0.])

    Source: `torch.nn.Hardshrink <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Hardshrink.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Lambda):
    """``x`` moved by ``lambd`` towards 0, and 0 where that is past it.

    >>> import fgrad.torch as torch
    >>> torch.nn.Softshrink()(torch.tensor([-1.0, 0.2]))
    tensor([-0.5000,  0.0000])

    Source: `torch.nn.Softshrink <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Softshrink.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.softshrink(input, self.lambd)


class LeakyReLU(Module):
    """``x`` where it is positive, else ``negative_slope * x``.

    >>> import fgrad.torch as torch
    >>> torch.nn.LeakyReLU(0.5)(torch.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])

    Source: `torch.nn.LeakyReLU <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LeakyReLU.html>`_.
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}{_and_inplace(self)}"


class LogSigmoid(Module):
    """``log(sigmoid(x))``.

    >>> import fgrad.torch as torch
    >>> torch.nn.LogSigmoid()(torch.zeros(1))
    tensor([-0.6931])

    Source: `torch.nn.LogSigmoid <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LogSigmoid.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.logsigmoid(input)


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, and ``x`` where ``beta * x`` is larger than ``threshold``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Softplus()(torch.zeros(1))
    tensor([0.6931])

    Source: `torch.nn.Softplus <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Softplus.html>`_.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Any:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """A leaky rectifier whose slope, one or one for each channel, is learnt.

    >>> import fgrad.torch as torch
    >>> torch.nn.PReLU()(torch.tensor([-1.0, 2.0])).detach()
    tensor([-0.2500,  2.0000])

    Source: `torch.nn.PReLU <https://docs.pytorch.org/docs/2.13/generated/torch.nn.PReLU.html>`_.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight: Any = Parameter(ops.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make all slopes what they were at first."""
        initial.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softsign(Module):
    """``x / (1 + abs(x))``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Softsign()(torch.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])

    Source: `torch.nn.Softsign <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Softsign.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Tanhshrink()(torch.zeros(1))
    tensor([0.])

    Source: `torch.nn.Tanhshrink <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Tanhshrink.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.tanhshrink(input)
