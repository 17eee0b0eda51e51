"""Samples of ``dot_general`` and ``ragged_dot_general``."""

from typing import Any

import numpy as np
from jax import lax

from tests.rules.samples import Sample

_rng = np.random.default_rng(11)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _dot(label: str, x: Any, y: Any, contract: Any, batch: Any = ((), ()), **options: Any) -> Sample:
    return Sample("dot_general", lambda x, y: lax.dot_general(x, y, (contract, batch), **options), (x, y), label)


def _halves(x: Any, y: Any) -> Any:
    """A product of bfloat16 factors with a float32 result."""
    x, y = lax.convert_element_type(x, "bfloat16"), lax.convert_element_type(y, "bfloat16")
    return lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=np.float32)


def _mixed(x: Any, y: Any) -> Any:
    """A product of factors of unlike dtypes."""
    return lax.dot_general(lax.convert_element_type(x, np.float32), y, (((1,), (0,)), ((), ())))


def _ragged(
    label: str, x: Any, y: Any, sizes: Any, contract: Any, batch: Any, ragged: int, groups: tuple[int, ...]
) -> Sample:
    numbers = lax.RaggedDotDimensionNumbers(
        dot_dimension_numbers=(contract, batch), lhs_ragged_dimensions=(ragged,), rhs_group_dimensions=groups
    )
    sizes = np.asarray(sizes, np.int32)
    return Sample("ragged_dot_general", lambda x, y, g: lax.ragged_dot_general(x, y, g, numbers), (x, y, sizes), label)


def _scaled(x: Any, y: Any, x_scale: Any, y_scale: Any) -> Any:
    """A product of blockwise scaled factors, which JAX computes in bfloat16 and does not differentiate."""
    x, y, x_scale, y_scale = (lax.convert_element_type(v, "bfloat16") for v in (x, y, x_scale, y_scale))
    return lax.scaled_dot(x, y, lhs_scale=x_scale, rhs_scale=y_scale, preferred_element_type=np.float32)


_MATRICES = ((1,), (0,))

SAMPLES: list[Sample] = [
    _dot("matrices", _real(2, 3), _real(3, 4), _MATRICES),
    _dot("vectors", _real(3), _real(3), ((0,), (0,))),
    _dot("0-d", _real(), _real(), ((), ())),
    _dot("outer", _real(2), _real(3), ((), ())),
    _dot("matrix and vector", _real(2, 3), _real(3), _MATRICES),
    _dot("stack", _real(2, 3, 4), _real(2, 4, 2), ((2,), (1,)), ((0,), (0,))),
    _dot("first dimensions", _real(3, 2), _real(3, 4), ((0,), (0,))),
    _dot("batch in the middle", _real(3, 2, 4), _real(4, 5, 2), ((2,), (0,)), ((1,), (2,))),
    _dot("two of each", _real(2, 3, 4, 2, 3), _real(3, 2, 3, 2, 4), ((4, 2), (0, 4)), ((3, 1), (1, 2))),
    _dot("elementwise", _real(2, 3), _real(3, 2), ((), ()), ((0, 1), (1, 0))),
    _dot("empty", _real(2, 0), _real(0, 3), _MATRICES),
    _dot("no rows", _real(0, 2), _real(2, 3), _MATRICES),
    _dot("complex", _complex(2, 3), _complex(3, 2), _MATRICES),
    _dot("real times complex", _real(2, 3), _complex(3, 2), _MATRICES),
    _dot("complex times real", _complex(2, 3), _real(3, 2), _MATRICES),
    _dot("precision", _real(2, 3), _real(3, 2), _MATRICES, precision=lax.Precision.HIGHEST),
    _dot("precisions", _real(2, 3), _real(3, 2), _MATRICES, precision=("highest", "default")),
    _dot("preferred", _real(2, 3), _real(3, 2), _MATRICES, preferred_element_type=np.float64),
    Sample("dot_general", _halves, (_real(2, 3), _real(3, 2)), "bfloat16", smooth=False, tolerance=5e-2),
    Sample("dot_general", _mixed, (_real(2, 3), _real(3, 2)), "mixed dtypes", smooth=False, tolerance=1e-5),
    _ragged("rows", _real(5, 3), _real(2, 3, 2), [2, 3], ((1,), (1,)), ((), ()), 0, (0,)),
    _ragged("rows left over", _real(5, 3), _real(2, 3, 2), [1, 2], ((1,), (1,)), ((), ()), 0, (0,)),
    _ragged("groups in the middle", _real(5, 3), _real(3, 2, 2), [0, 5], ((1,), (0,)), ((), ()), 0, (1,)),
    _ragged("stack", _real(2, 4, 3), _real(2, 2, 3, 2), [1, 3], ((2,), (2,)), ((0,), (1,)), 1, (0,)),
    _ragged("sizes per stack", _real(3, 4, 2), _real(2, 3, 2, 2), [[1, 3], [2, 0], [4, 0]],
            ((2,), (2,)), ((0,), (1,)), 1, (0,)),
    _ragged("sizes per row", _real(2, 4, 2), _real(2, 2, 2), [[1, 3], [2, 0]], ((2,), (1,)), ((), ()), 1, (0,)),
    _ragged("contracted", _real(2, 5), _real(5, 3), [2, 3], _MATRICES, ((), ()), 1, ()),
    _ragged("contracted, stack", _real(2, 3, 4), _real(3, 4, 2), [[1, 2], [4, 0]], ((2,), (1,)), ((0,), (2,)), 2, ()),
    _ragged("contracted twice", _real(2, 4), _real(4, 2, 3), [[2, 1], [0, 4]], ((0, 1), (1, 0)), ((), ()), 1, ()),
    _ragged("batch", _real(4, 2, 3), _real(4, 3, 2), [3, 1], ((2,), (1,)), ((0,), (0,)), 0, ()),
    Sample("scaled_dot", _scaled, (_real(3, 4), _real(4, 2), _real(3, 2), _real(2, 2)), "", False, 1, 5e-2, in_jax=False),
]  # fmt: skip
