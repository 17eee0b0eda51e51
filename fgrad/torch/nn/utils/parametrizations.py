"""Ready-made parametrizations: weights normalised by their norm, or by their largest singular value."""

from typing import Any

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.utils.orthogonal import orthogonal as orthogonal
from fgrad.torch.nn.utils.parametrize import register_parametrization


class _WeightNorm(Module):
    """A magnitude times a direction; norms are over all dimensions but ``dim`` (-1: over all)."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return ops._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        return ops.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Parametrise a weight by its norm and its direction (Salimans and Kingma, 2016); returns the module.

    Arguments:
      module: the module.
      name: of the weight.
      dim: the dimension that keeps a norm for each of its indices; None for one norm.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([3, 1])

    Source: `torch.nn.utils.parametrizations.weight_norm
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.parametrizations.weight_norm.html>`_.
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def from_older(state_dict: Any, prefix: str, *_: Any) -> None:
        """Read state dicts of PyTorch's former ``weight_norm``."""
        older = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in older):
            for i, key in enumerate(older):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(from_older)
    return module


class _SpectralNorm(Module):
    """The weight divided by its largest singular value, from power iteration while training."""

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight)
            for name, size in zip(("_u", "_v"), matrix.size(), strict=True):
                start = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(name, F.normalize(start, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Any) -> Any:
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    def _iterate(self, matrix: Any, times: int) -> None:
        with no_grad():
            for _ in range(times):
                # by out=, as buffers are captured where torch.func differentiates the module, and may not be copied to
                F.normalize(ops.mv(matrix, self._v), dim=0, eps=self.eps, out=self._u)
                F.normalize(ops.mv(matrix.H, self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # copies, because the next call writes the buffers that backward would read
        u, v = self._u.clone(), self._v.clone()
        return weight / ops.vdot(u, ops.mv(matrix, v))

    def right_inverse(self, value: Any) -> Any:
        # like PyTorch, accept any weight as normalised
        return value


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a weight by its largest singular value (Miyato et al., 2018); returns the module.

    Arguments:
      module: the module.
      name: of the weight.
      n_power_iterations: how often power iteration is run in each call while training.
      eps: keeps norms from being zero.
      dim: the dimension of the outputs; 0, or 1 for transposed convolutions.

    Raises:
      ValueError: the weight does not exist.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(2, 3))
    >>> [name for name, _ in layer.named_buffers()]
    ['parametrizations.weight.0._u', 'parametrizations.weight.0._v']

    Source: `torch.nn.utils.parametrizations.spectral_norm
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.parametrizations.spectral_norm.html>`_.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d) else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
