"""Instance normalisation: each channel of each sample by its own statistics."""

from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.batchnorm import _LazyNormBase, _NormBase


class _InstanceNorm(_NormBase):
    """Instance normalisation: what the dimensions have in common.

    Arguments:
      num_features: the number of channels.
      eps: added to the variance.
      momentum: the weight of a new batch in the running statistics.
      affine: whether to scale and shift each channel by learnt numbers.
      track_running_stats: whether to keep running statistics and use them in evaluation.
      bias: whether to shift.

    Raises:
      ValueError: at the call, an input of another number of dimensions, or of channels if ``affine``.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            keys = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if keys:
                error_msgs.append(_old_statistics(keys, type(self).__name__))
            for key in keys:
                del state_dict[key]
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        batched = input.dim() == self._input_dims[1]
        channels = 1 if batched else 0
        if input.size(channels) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channels} to match num_features ({self.num_features}), but got: "
                    f"{input.size(channels)}."
                )
            warn(
                f"input's size at dim={channels} does not match num_features. You can silence this warning by not "
                "passing in num_features, which is not used because affine=False",
            )
        if batched:
            return self._apply_instance_norm(input)
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _apply_instance_norm(self, input: Any) -> Any:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )


def _old_statistics(keys: list[str], name: str) -> str:
    quoted = " and ".join(f'"{key}"' for key in keys)
    return (
        f"Unexpected running stats buffer(s) {quoted} for {name} with track_running_stats=False. If state_dict is a "
        f"checkpoint saved before 0.4.0, this may be expected because {name} does not track running stats by default "
        "since 0.4.0. Please remove these keys from state_dict. If the running stats are actually needed, instead set "
        f"track_running_stats=True in {name} to enable them. See the documentation of {name} for details."
    )


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of ``(N, C, L)`` or ``(C, L)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.InstanceNorm1d(1)(torch.tensor([[1.0, 3.0]]))
    tensor([[-1.0000,  1.0000]])

    Source: `torch.nn.InstanceNorm1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.InstanceNorm1d.html>`_.
    """

    _input_dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of ``(N, C, H, W)`` or ``(C, H, W)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.InstanceNorm2d(3)
    InstanceNorm2d(3, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=False)

    Source: `torch.nn.InstanceNorm2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.InstanceNorm2d.html>`_.
    """

    _input_dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.InstanceNorm3d(1)(torch.ones(1, 1, 1, 2)).shape
    torch.Size([1, 1, 1, 2])

    Source: `torch.nn.InstanceNorm3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.InstanceNorm3d.html>`_.
    """

    _input_dims = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An ``InstanceNorm1d`` that takes ``num_features`` from the input of its first call.

    Source: `torch.nn.LazyInstanceNorm1d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyInstanceNorm1d.html>`_.
    """

    cls_to_become: type[Any] = InstanceNorm1d
    _input_dims = InstanceNorm1d._input_dims


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An ``InstanceNorm2d`` that takes ``num_features`` from the input of its first call.

    Source: `torch.nn.LazyInstanceNorm2d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyInstanceNorm2d.html>`_.
    """

    cls_to_become: type[Any] = InstanceNorm2d
    _input_dims = InstanceNorm2d._input_dims


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An ``InstanceNorm3d`` that takes ``num_features`` from the input of its first call.

    Source: `torch.nn.LazyInstanceNorm3d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyInstanceNorm3d.html>`_.
    """

    cls_to_become: type[Any] = InstanceNorm3d
    _input_dims = InstanceNorm3d._input_dims
