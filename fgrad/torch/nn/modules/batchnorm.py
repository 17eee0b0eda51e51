"""Batch normalisation: each channel by its statistics over the batch, or by those it has learnt."""

from typing import Any, ClassVar

from fgrad.mutable.types import dtypes
from fgrad.torch import ops
from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.affine import Affine
from fgrad.torch.nn.modules.lazy import LazyModuleMixin
from fgrad.torch.nn.parameter import UninitializedBuffer, UninitializedParameter


class _NormBase(Affine):
    """A normalisation that may keep running statistics: the parameters and buffers."""

    #: 2: ``num_batches_tracked`` was added
    _version = 2

    #: the numbers of dimensions an input may have; empty for any
    _input_dims: ClassVar[tuple[int, ...]] = ()

    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._make_affine(num_features, affine, bias, device, dtype)
        mean = var = count = None
        if track_running_stats:
            mean = ops.zeros(num_features, device=device, dtype=dtype)
            var = ops.ones(num_features, device=device, dtype=dtype)
            count = ops.tensor(0, dtype=dtypes.int64, device=device)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", var)
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the running statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forget the running statistics, make the scale one and the shift zero."""
        self.reset_running_stats()
        if self.affine:
            super().reset_parameters()

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() not in self._input_dims:
            expected = " or ".join(f"{dim}D" for dim in self._input_dims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any) -> None:
        key = prefix + "num_batches_tracked"
        if local_metadata.get("version") in (None, 1) and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            state_dict[key] = ops.tensor(0, dtype=dtypes.int64) if count is None or count.is_meta else count
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    """Batch normalisation: what the dimensions have in common.

    Arguments:
      num_features: the number of channels.
      eps: added to the variance.
      momentum: the weight of a new batch in the running statistics; None for their average over all batches.
      affine: whether to scale and shift each channel by learnt numbers.
      track_running_stats: whether to keep running statistics; without them, evaluation uses those of the batch too.
      bias: whether to shift.

    Raises:
      ValueError: at the call, an input of another number of dimensions.
    """

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        learning = self.training and self.track_running_stats
        factor = 0.0 if self.momentum is None else self.momentum
        if learning and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        return F.batch_norm(
            input,
            # in training the statistics are written only if they are tracked; in evaluation they are read if there
            self.running_mean if not self.training or learning else None,
            self.running_var if not self.training or learning else None,
            self.weight,
            self.bias,
            self.training or (self.running_mean is None and self.running_var is None),
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of ``(N, C)`` or ``(N, C, L)``.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.BatchNorm1d(1, affine=False)
    >>> layer(torch.tensor([[1.0], [3.0]]))
    tensor([[-1.0000],
            [ 1.0000]])
    >>> layer.running_mean
    tensor([0.2000])

    Source: `torch.nn.BatchNorm1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.BatchNorm1d.html>`_.
    """

    _input_dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of ``(N, C, H, W)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.BatchNorm2d(3)
    BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)

    Source: `torch.nn.BatchNorm2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.BatchNorm2d.html>`_.
    """

    _input_dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of ``(N, C, D, H, W)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.BatchNorm3d(1)(torch.ones(2, 1, 1, 1, 2)).shape
    torch.Size([2, 1, 1, 1, 2])

    Source: `torch.nn.BatchNorm3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.BatchNorm3d.html>`_.
    """

    _input_dims = (5,)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """A normalisation that takes ``num_features`` from its first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight: Any = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias: Any = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean: Any = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var: Any = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked: Any = ops.tensor(0, dtype=dtypes.int64, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Infer the number of channels from ``input``."""
        if not self.has_uninitialized_params():
            return
        self.num_features: Any = input.shape[1]
        waiting = [self.weight, self.bias] if self.affine else []
        waiting += [self.running_mean, self.running_var] if self.track_running_stats else []
        for tensor in waiting:
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A ``BatchNorm1d`` that takes ``num_features`` from the input of its first call.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.LazyBatchNorm1d()
    >>> _ = layer(torch.ones(2, 3))
    >>> layer.num_features
    3

    Source: `torch.nn.LazyBatchNorm1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyBatchNorm1d.html>`_.
    """

    cls_to_become: type[Any] = BatchNorm1d
    _input_dims = BatchNorm1d._input_dims


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A ``BatchNorm2d`` that takes ``num_features`` from the input of its first call.

    Source: `torch.nn.LazyBatchNorm2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyBatchNorm2d.html>`_.
    """

    cls_to_become: type[Any] = BatchNorm2d
    _input_dims = BatchNorm2d._input_dims


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A ``BatchNorm3d`` that takes ``num_features`` from the input of its first call.

    Source: `torch.nn.LazyBatchNorm3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyBatchNorm3d.html>`_.
    """

    cls_to_become: type[Any] = BatchNorm3d
    _input_dims = BatchNorm3d._input_dims


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over several processes; here there is only one.

    >>> import fgrad.torch as torch
    >>> torch.nn.SyncBatchNorm(1, affine=False)(torch.tensor([[1.0], [3.0]]))
    tensor([[-1.0000],
            [ 1.0000]])

    Source: `torch.nn.SyncBatchNorm <https://docs.pytorch.org/docs/2.13/generated/torch.nn.SyncBatchNorm.html>`_.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """``module`` with every batch normalisation in it replaced by one of this class with the same parameters."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked", "training"):
                setattr(converted, name, getattr(module, name))
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
