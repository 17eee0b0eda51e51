"""Layers that multiply by a weight matrix."""

import math
from typing import Any

from fgrad.mutable.context.modes import no_grad
from fgrad.torch import ops
from fgrad.torch.nn import functional as F, init
from fgrad.torch.nn.modules.lazy import LazyModuleMixin
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.parameter import Parameter, UninitializedParameter

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input; any arguments are accepted and ignored.

    >>> import fgrad.torch as torch
    >>> torch.nn.Identity(54, unused=True)(torch.ones(1))
    tensor([1.])

    Source: `torch.nn.Identity <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Identity.html>`_.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """``x @ weight.T + bias``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Linear(2, 3)(torch.ones(5, 2)).shape
    torch.Size([5, 3])

    Source: `torch.nn.Linear <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Linear.html>`_.
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight: Any = Parameter(ops.empty((out_features, in_features), device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(ops.empty(out_features, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, uniform from ``-1 / sqrt(in_features)`` to ``1 / sqrt(in_features)``."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of ``MultiheadAttention``; PyTorch gives it a class, which its ``repr`` shows."""


class Bilinear(Module):
    """``x1 @ weight @ x2 + bias``.

    Raises:
      ValueError: ``in1_features`` is not positive.

    >>> import fgrad.torch as torch
    >>> torch.nn.Bilinear(2, 3, 4)(torch.ones(5, 2), torch.ones(5, 3)).shape
    torch.Size([5, 4])

    Source: `torch.nn.Bilinear <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Bilinear.html>`_.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(ops.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(ops.empty(out_features, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, uniform from ``-1 / sqrt(in1_features)`` to ``1 / sqrt(in1_features)``."""
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={self.in1_features})")
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A ``Linear`` that takes ``in_features`` from the input of its first call.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.LazyLinear(3)
    >>> layer(torch.ones(5, 2)).shape
    torch.Size([5, 3])
    >>> layer
    Linear(in_features=2, out_features=3, bias=True)

    Source: `torch.nn.LazyLinear <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyLinear.html>`_.
    """

    cls_to_become: type[Any] = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        # PyTorch too first makes an empty weight; it draws nothing
        super().__init__(0, 0, False)
        self.weight: Any = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias: Any = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Infer the number of features from ``input``."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from "
                    f"self.weight: {self.weight.shape[-1]}"
                )
            self.in_features: Any = input.shape[-1]
