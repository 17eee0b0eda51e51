"""The parametrization of a matrix whose columns, or whose rows if it is wide, are orthonormal."""

from collections.abc import Callable
from typing import Any

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.limits import finfo
from fgrad.torch import linalg, ops
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.utils.parametrize import register_parametrization


def _skew(x: Any, n: int, k: int) -> Any:
    """The skew-Hermitian matrix with ``n`` rows whose lower triangle begins with that of ``x``."""
    x = x.tril()
    if n != k:
        x = ops.cat([x, x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)], dim=-1)
    return x - x.mH


def _matrix_exp(x: Any) -> Any:
    n, k = x.shape[-2:]
    return ops.matrix_exp(_skew(x, n, k))[..., :k]


def _cayley(x: Any) -> Any:
    """(I + A/2) (I - A/2)^-1 of the skew matrix A."""
    n, k = x.shape[-2:]
    skew = _skew(x, n, k)
    identity = ops.eye(n, dtype=skew.dtype, device=skew.device)
    return linalg.solve(ops.add(identity, skew, alpha=-0.5), ops.add(identity, skew, alpha=0.5))[..., :k]


def _householder(x: Any) -> Any:
    """The product of the reflections below the diagonal; the diagonal itself holds the signs of the columns."""
    reflectors = x.tril(diagonal=-1)
    tau = 2.0 / (1.0 + (reflectors * reflectors).sum(dim=-2))
    # as integers the signs have no derivative
    signs = x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
    return linalg.householder_product(reflectors, tau) * signs


_MAPS: dict[str, Callable[[Any], Any]] = {
    "matrix_exp": _matrix_exp,
    "cayley": _cayley,
    "householder": _householder,
}


def _is_orthogonal(q: Any) -> bool:
    n, k = q.shape[-2:]
    identity = ops.eye(k, dtype=q.dtype, device=q.device)
    return ops.allclose(q.mH @ q, identity, atol=10.0 * n * finfo(q.dtype).eps)


def _orthogonalized(a: Any) -> Any:
    """The factor Q of a tall matrix, with signs for which the diagonal of R is not negative."""
    x, tau = ops.geqrf(a)
    return linalg.householder_product(x, tau).mul_(x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2))


class _Orthogonal(Module):
    """An orthogonal matrix from an arbitrary one, by a map and, if ``trivialized``, times a fixed ``base``."""

    base: Any

    def __init__(self, weight: Any, orthogonal_map: str, *, trivialized: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.trivialized = trivialized
        if trivialized:
            self.register_buffer("base", None)

    def forward(self, x: Any) -> Any:
        wide = x.size(-2) < x.size(-1)
        q = _MAPS[self.orthogonal_map](x.mT if wide else x)
        if self.trivialized:
            q = self.base @ q
        return q.mT if wide else q

    @no_grad()
    def right_inverse(self, weight: Any) -> Any:
        if weight.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {weight.shape}."
            )
        wide = weight.size(-2) < weight.size(-1)
        q = weight.mT if wide else weight
        if not self.trivialized:
            reflections = self._reflections(q)
            return reflections.mT if wide else reflections
        n, k = q.shape[-2:]
        if n != k:
            q = _orthogonalized(
                ops.cat([q, ops.randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)], dim=-1)
            )
        else:
            q = q.clone() if _is_orthogonal(q) else _orthogonalized(q)
        self.base = q
        # every map takes this to the identity
        start = ops.zeros_like(weight)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start

    def _reflections(self, q: Any) -> Any:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        a, tau = ops.geqrf(q)
        signs = a.diagonal(dim1=-2, dim2=-1)
        signs.sign_()
        signs[tau == 0.0] *= -1  # LAPACK omits this reflection
        return a


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Any:
    """Keep a weight orthogonal (unitary if it is complex): its columns, or its rows if it is wide, are orthonormal.

    Arguments:
      module: the module, which is returned.
      name: of the weight, a matrix or a batch of matrices.
      orthogonal_map: "matrix_exp", "cayley" or "householder"; by default the first for square and complex matrices, the
        last for others.
      use_trivialization: whether the result is a fixed orthogonal matrix times that of the map (Lezcano Casado, 2019).

    Raises:
      ValueError: the weight or the map does not exist, or the weight is not a matrix.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(2, 2))
    >>> torch.allclose(layer.weight @ layer.weight.T, torch.eye(2), atol=1e-6)
    True

    Source: `torch.nn.utils.parametrizations.orthogonal
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.parametrizations.orthogonal.html>`_.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, trivialized=use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)
