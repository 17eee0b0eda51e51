"""A linear layer and the cross entropy of its output, in one."""

import math
import re
from typing import Any

from attrs import field, frozen

from fgrad.mutable.types import dtypes
from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.linear import Linear
from fgrad.torch.nn.modules.loss.base import _WeightedLoss

_POLICIES = ("auto", "accurate", "balanced", "compact")


def _check_policy(_: Any, __: Any, policy: Any) -> None:
    if policy not in _POLICIES:
        raise ValueError(f"invalid acc_policy: {policy!r}")


def _check_method(_: Any, __: Any, method: Any) -> None:
    match = None if method is None else re.fullmatch(r"auto|aspect_ratio(?::(\d+))?", method)
    if method is not None and (match is None or int(match[1] or 1) == 0):
        raise ValueError(f"invalid chunking_method: {method!r}")


def _check_chunk(_: Any, __: Any, size: Any) -> None:
    if size is not None and not (isinstance(size, int) and size > 0):
        raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")


def _check_dtype(_: Any, __: Any, dtype: Any) -> None:
    if dtype not in (None, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
        raise ValueError(
            "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, got "
            f"{dtype!r}. Pass acc_dtype=None to let the op pick automatically."
        )


@frozen
class LinearCrossEntropyOptions:
    """PyTorch's chunk sizes and precision of accumulation; here they are checked and change nothing.

    Raises:
      ValueError: an unknown option.

    >>> import fgrad.torch as torch
    >>> torch.nn.LinearCrossEntropyOptions(batch_chunk_size=4).batch_chunk_size
    4

    Source: `torch.nn.LinearCrossEntropyOptions
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LinearCrossEntropyLoss.html>`_.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = field(default=None, validator=_check_chunk)
    chunking_method: str | None = field(default="auto", validator=_check_method)
    acc_policy: str = field(default="auto", validator=_check_policy)
    acc_dtype: Any = field(default=None, validator=_check_dtype)


class LinearCrossEntropyLoss(_WeightedLoss):
    """A ``Linear`` layer and the cross entropy of what it gives, in one.

    Arguments:
      in_features: of the layer.
      num_classes: the number of classes.
      out_features: further dimensions of the target.
      bias: whether the layer adds one.
      weight, ignore_index, label_smoothing: as for ``CrossEntropyLoss``.
      options: how to divide the work; it changes no value.

    Raises:
      RuntimeError: ``weight`` does not have one number for each class, or ``label_smoothing`` is not between 0 and 1.

    >>> import fgrad.torch as torch
    >>> loss = torch.nn.LinearCrossEntropyLoss(2, 3)
    >>> loss(torch.zeros(1, 2), torch.tensor([1])).detach()
    tensor(1.0986)

    Source: `torch.nn.LinearCrossEntropyLoss
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LinearCrossEntropyLoss.html>`_.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and weight.shape != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        outputs = math.prod(out_features, start=num_classes)
        self.linear: Linear = Linear(in_features, outputs, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Any, target: Any) -> Any:
        outputs = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*outputs, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(outputs),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
