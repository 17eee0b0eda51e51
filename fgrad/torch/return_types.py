"""Results with named fields: tuples that print like PyTorch's.

Source: PyTorch's ``torch.return_types``.
"""

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from jax import tree_util


class Result(tuple[Any, ...]):
    """A tuple whose entries have names."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, values: Iterable[Any]) -> "Result":
        return tuple.__new__(cls, values)

    def __repr__(self) -> str:
        fields = ",\n".join([f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)])
        return f"torch.return_types.{type(self).__name__}(\n{fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


def _result(name: str, *fields: str) -> Any:
    entries = {field: property(itemgetter(i)) for i, field in enumerate(fields)}
    kind: Any = type(name, (Result,), {"__slots__": (), "_fields": fields, "__module__": __name__, **entries})
    keys = [tree_util.GetAttrKey(field) for field in fields]
    # JAX would take it for a named tuple, which is made of its entries one by one
    tree_util.register_pytree_with_keys(
        kind, lambda x: (tuple(zip(keys, x, strict=True)), None), lambda _, children: kind(children)
    )
    return kind


def _is_kind(name: str, kind: Any) -> bool:
    """Whether a class is the type of results that may be written to ``out=``."""
    return isinstance(kind, type) and issubclass(kind, Result) and name not in ("Result", "histogramdd")


max: Any = _result("max", "values", "indices")
min: Any = _result("min", "values", "indices")
aminmax: Any = _result("aminmax", "min", "max")
median: Any = _result("median", "values", "indices")
nanmedian: Any = _result("nanmedian", "values", "indices")
mode: Any = _result("mode", "values", "indices")
kthvalue: Any = _result("kthvalue", "values", "indices")
topk: Any = _result("topk", "values", "indices")
sort: Any = _result("sort", "values", "indices")
cummax: Any = _result("cummax", "values", "indices")
cummin: Any = _result("cummin", "values", "indices")
frexp: Any = _result("frexp", "mantissa", "exponent")
histogram: Any = _result("histogram", "hist", "bin_edges")
histogramdd: Any = _result("histogramdd", "hist", "bin_edges")
slogdet: Any = _result("slogdet", "sign", "logabsdet")
qr: Any = _result("qr", "Q", "R")
svd: Any = _result("svd", "U", "S", "V")
triangular_solve: Any = _result("triangular_solve", "solution", "cloned_coefficient")
lu_unpack: Any = _result("lu_unpack", "P", "L", "U")
geqrf: Any = _result("geqrf", "a", "tau")
linalg_cholesky_ex: Any = _result("linalg_cholesky_ex", "L", "info")
linalg_eig: Any = _result("linalg_eig", "eigenvalues", "eigenvectors")
linalg_eigh: Any = _result("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_inv_ex: Any = _result("linalg_inv_ex", "inverse", "info")
linalg_ldl_factor: Any = _result("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex: Any = _result("linalg_ldl_factor_ex", "LD", "pivots", "info")
linalg_lstsq: Any = _result("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
linalg_lu: Any = _result("linalg_lu", "P", "L", "U")
linalg_lu_factor: Any = _result("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex: Any = _result("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_qr: Any = _result("linalg_qr", "Q", "R")
linalg_slogdet: Any = _result("linalg_slogdet", "sign", "logabsdet")
linalg_solve_ex: Any = _result("linalg_solve_ex", "result", "info")
linalg_svd: Any = _result("linalg_svd", "U", "S", "Vh")

#: the types of results written to ``out=``
_OF_OUT = {
    kind: _result(f"{name}_out", *kind._fields) for name, kind in list(globals().items()) if _is_kind(name, kind)
}

globals().update({kind.__name__: kind for kind in _OF_OUT.values()})


def written(results: tuple[Any, ...], outs: Iterable[Any]) -> tuple[Any, ...]:
    """The tensors of ``out=``, as the named tuple of the results."""
    kind = type(results)
    return _OF_OUT.get(kind, kind)(outs)
