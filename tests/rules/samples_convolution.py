"""Samples of ``conv_general_dilated``: one to three dimensions, with every option."""

from typing import Any

import numpy as np
from jax import lax

from tests.rules.samples import Sample

_rng = np.random.default_rng(12)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _conv(label: str, x: Any, w: Any, strides: Any, padding: Any, *, smooth: bool = True, **options: Any) -> Sample:
    def fun(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, strides, padding, **options)

    return Sample("conv_general_dilated", fun, (x, w), label, smooth)


def _halves(x: Any, w: Any) -> Any:
    """A convolution of bfloat16 arrays."""
    x, w = lax.convert_element_type(x, "bfloat16"), lax.convert_element_type(w, "bfloat16")
    return lax.conv_general_dilated(x, w, (1,), "VALID")


def _wider(x: Any, w: Any) -> Any:
    """A convolution of float32 arrays with a float64 result."""
    x, w = lax.convert_element_type(x, np.float32), lax.convert_element_type(w, np.float32)
    return lax.conv_general_dilated(x, w, (1,), [(1, 1)], preferred_element_type=np.float64)


_LAST = ("NHWC", "HWIO", "NHWC")
_ODD = ("WNCH", "WOHI", "WCHN")

SAMPLES: list[Sample] = [
    _conv("plain", _real(2, 2, 5), _real(3, 2, 2), (1,), "VALID"),
    _conv("stride", _real(1, 2, 7), _real(2, 2, 3), (2,), [(0, 0)]),
    _conv("stride leaves a rest", _real(1, 2, 8), _real(2, 2, 3), (3,), [(0, 0)]),
    _conv("padding", _real(1, 1, 4), _real(1, 1, 3), (1,), [(2, 3)]),
    _conv("negative padding", _real(1, 1, 7), _real(1, 1, 2), (1,), [(-1, -2)]),
    _conv("mixed padding", _real(1, 1, 6), _real(1, 1, 3), (2,), [(3, -2)]),
    _conv("lhs dilation", _real(1, 1, 4), _real(1, 1, 3), (1,), [(1, 2)], lhs_dilation=(2,)),
    _conv("rhs dilation", _real(1, 1, 7), _real(1, 1, 3), (1,), [(0, 1)], rhs_dilation=(2,)),
    _conv("stride and dilations", _real(1, 2, 6), _real(2, 2, 3), (3,), [(2, -1)],
          lhs_dilation=(2,), rhs_dilation=(3,)),
    _conv("feature groups", _real(2, 4, 5), _real(6, 2, 2), (1,), "SAME", feature_group_count=2),
    _conv("depthwise", _real(1, 3, 5), _real(6, 1, 3), (2,), [(1, 1)], feature_group_count=3),
    _conv("batch groups", _real(4, 2, 5), _real(4, 2, 2), (1,), [(1, 0)], batch_group_count=2),
    _conv("batch groups alone", _real(3, 2, 4), _real(3, 2, 2), (2,), [(0, 1)], batch_group_count=3),
    _conv("complex", _complex(1, 2, 4), _complex(2, 2, 2), (1,), [(1, 0)]),
    _conv("precision", _real(1, 1, 4), _real(1, 1, 2), (1,), "VALID", precision="highest"),
    _conv("preferred", _real(1, 1, 4), _real(1, 1, 2), (1,), "VALID", preferred_element_type=np.float64),
    _conv("no spatial dimensions", _real(2, 3), _real(2, 3), (), []),
    _conv("empty batch", _real(0, 2, 4), _real(3, 2, 2), (1,), "VALID"),
    _conv("no features", _real(2, 0, 4), _real(3, 0, 2), (1,), "VALID"),
    _conv("empty image", _real(1, 2, 0), _real(3, 2, 2), (1,), [(2, 2)]),
    _conv("no window fits", _real(1, 2, 2), _real(3, 2, 4), (1,), "VALID"),
    _conv("2d", _real(1, 2, 4, 5), _real(2, 2, 2, 3), (1, 2), "SAME"),
    _conv("2d, features last", _real(1, 4, 5, 2), _real(3, 2, 2, 2), (2, 1), "SAME", dimension_numbers=_LAST),
    _conv("2d, odd layout", _real(5, 2, 2, 4), _real(2, 4, 3, 2), (1, 2), "VALID", dimension_numbers=_ODD),
    _conv("2d, odd layout, feature groups", _real(4, 2, 4, 4), _real(2, 4, 2, 2), (1, 2), [(1, 0), (0, 1)],
          dimension_numbers=_ODD, feature_group_count=2),
    _conv("2d, odd layout, batch groups", _real(4, 4, 2, 4), _real(2, 4, 2, 2), (1, 2), [(1, 0), (0, 1)],
          dimension_numbers=_ODD, batch_group_count=2),
    _conv("2d, everything", _real(2, 5, 4, 4), _real(2, 2, 2, 4), (2, 1), [(1, 0), (-1, 2)], dimension_numbers=_LAST,
          feature_group_count=2, lhs_dilation=(1, 2), rhs_dilation=(2, 1)),
    _conv("2d, everything, batch groups", _real(2, 5, 4, 2), _real(2, 2, 2, 4), (1, 2), [(1, 0), (-1, 2)],
          dimension_numbers=_LAST, batch_group_count=2, lhs_dilation=(1, 2), rhs_dilation=(2, 1)),
    _conv("3d", _real(1, 2, 3, 2, 4), _real(2, 2, 2, 2, 2), (1, 2, 1), "SAME"),
    _conv("3d, everything", _real(1, 2, 3, 2, 4), _real(2, 1, 2, 1, 2), (1, 2, 1), [(0, 1), (1, 1), (2, -1)],
          feature_group_count=2, lhs_dilation=(1, 2, 1), rhs_dilation=(1, 1, 2)),
    Sample("conv_general_dilated", _halves, (_real(1, 2, 4), _real(2, 2, 2)), "bfloat16", False, 2, 5e-2),
    Sample("conv_general_dilated", _wider, (_real(1, 2, 4), _real(2, 2, 2)), "wider result", False, 2, 1e-5),
]  # fmt: skip
