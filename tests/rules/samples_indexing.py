"""Samples of reading and writing at computed places.

``BEYOND_JAX`` holds those for which JAX has no derivative, or a wrong one: finite differences are their oracle.
"""

from typing import Any

import numpy as np
from jax import lax

from tests.rules.samples import Sample

_rng = np.random.default_rng(5)

MODES = ("fill", "clip", "promise_in_bounds")


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _places(*rows: Any) -> Any:
    return np.array(rows, "int32")


# Rows of a matrix: x[i], and x.at[i].op(rows).
_ROWS = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
_TO_ROWS = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)
# Windows of a matrix that start at (column, row).
_WINDOWS = lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(1, 0))
_TO_WINDOWS = lax.ScatterDimensionNumbers(
    update_window_dims=(1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(1, 0)
)
# One entry of each row, by batching: x[b, i[b]].
_BATCHED = lax.GatherDimensionNumbers(
    offset_dims=(), collapsed_slice_dims=(1,), start_index_map=(1,),
    operand_batching_dims=(0,), start_indices_batching_dims=(0,),
)  # fmt: skip
_TO_BATCHED = lax.ScatterDimensionNumbers(
    update_window_dims=(), inserted_window_dims=(1,), scatter_dims_to_operand_dims=(1,),
    operand_batching_dims=(0,), scatter_indices_batching_dims=(0,),
)  # fmt: skip
# Entries of a vector.
_ENTRIES = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
_TO_ENTRIES = lax.ScatterDimensionNumbers(
    update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)

_ROW_ONCE = _places([3], [0], [2])
_ROW_TWICE = _places([3], [0], [3], [3])
_ROW_OUTSIDE = _places([3], [7], [-2])
_WINDOW_ONCE = _places([2, 0], [0, 2])
_WINDOW_TWICE = _places([1, 0], [0, 1], [1, 0])
_WINDOW_OUTSIDE = _places([3, 0], [0, 2])
_BATCH = _places([1], [0], [1])
_BATCH_OUTSIDE = _places([1], [5], [-1])


def _dynamic_slice(*sizes: int) -> Any:
    return lambda x, *starts: lax.dynamic_slice_p.bind(x, *starts, slice_sizes=sizes)


def _gather(dims: Any, sizes: tuple[int, ...], **how: Any) -> Any:
    return lambda x, i: lax.gather(x, i, dims, sizes, **how)


def _gathers() -> list[Sample]:
    samples = [
        Sample("gather", _gather(_ROWS, (1, 2), mode=mode, fill_value=fill), (x, i), f"{mode} {fill} {label}")
        for mode in MODES
        for fill in ((None, 3.0) if mode == "fill" else (None,))
        for x, i, label in (
            (_real(4, 2), _ROW_ONCE, ""),
            (_real(4, 2), _ROW_TWICE, "twice"),
            (_complex(4, 2), _ROW_OUTSIDE, "outside, complex"),
        )
        # What is read out of bounds is then undefined, and the gradient need not agree with it.
        if not (mode == "promise_in_bounds" and i is _ROW_OUTSIDE)
        # nan - nan says nothing in finite differences
        if not (mode == "fill" and fill is None and i is _ROW_OUTSIDE)
    ]
    return [
        *samples,
        Sample("gather", _gather(_ROWS, (1, 2), mode="fill"), (_real(4, 2), _ROW_OUTSIDE), "nan outside", smooth=False),
        Sample("gather", _gather(_ROWS, (1, 2), unique_indices=True), (_real(4, 2), _ROW_ONCE), "unique"),
        Sample(
            "gather", _gather(_ROWS, (1, 2), indices_are_sorted=True), (_real(4, 2), _places([0], [0], [1])), "sorted"
        ),
        Sample("gather", _gather(_WINDOWS, (2, 2)), (_real(4, 3), _WINDOW_TWICE), "windows overlap"),
        Sample("gather", _gather(_WINDOWS, (2, 2), mode="clip"), (_real(4, 3), _WINDOW_OUTSIDE), "windows, clip"),
        Sample(
            "gather",
            _gather(_WINDOWS, (2, 2), mode="fill", fill_value=0),
            (_real(4, 3), _WINDOW_OUTSIDE),
            "windows, fill",
        ),
        Sample("gather", _gather(_BATCHED, (1, 1)), (_complex(3, 2), _BATCH), "batched"),
        Sample("gather", _gather(_BATCHED, (1, 1), mode="clip"), (_real(3, 2), _BATCH_OUTSIDE), "batched, clip"),
        Sample(
            "gather",
            _gather(_BATCHED, (1, 1), mode="fill", fill_value=0),
            (_real(3, 2), _BATCH_OUTSIDE),
            "batched, fill",
        ),
        Sample("gather", _gather(_ENTRIES, (1,)), (_real(3), _places(1)), "to 0-d"),
        Sample("gather", _gather(_ENTRIES, (1,)), (_real(3), np.zeros((0, 1), "int32")), "no places"),
        Sample("gather", _gather(_ROWS, (1, 0)), (_real(4, 0), _ROW_ONCE), "empty"),
    ]


def _scatter(op: Any, dims: Any, **how: Any) -> Any:
    return lambda x, i, u: op(x, i, u, dims, **how)


def _scatters(name: str, op: Any, repeated: bool = True) -> list[Sample]:
    """Samples that each scatter shares; ``repeated`` if JAX knows its derivative where a place occurs twice."""
    once = {"unique_indices": True}

    def sample(dims: Any, x: Any, i: Any, u: Any, label: str, **how: Any) -> Sample:
        return Sample(name, _scatter(op, dims, **how), (x, i, u), label)

    samples = [
        sample(_TO_ROWS, _real(4, 2), _ROW_ONCE, _real(3, 2), f"unique, {mode}", mode=mode, **once) for mode in MODES
    ]
    samples += [
        sample(_TO_ROWS, _real(4, 2), _ROW_OUTSIDE, _real(3, 2), "unique, fill, outside", **once),
        sample(_TO_WINDOWS, _real(4, 3), _places([0, 0], [1, 2]), _real(2, 2, 2), "unique windows", **once),
        sample(_TO_WINDOWS, _real(4, 3), _WINDOW_OUTSIDE, _real(2, 2, 2), "unique windows, outside", **once),
        sample(_TO_BATCHED, _real(3, 2), _BATCH, _real(3), "unique batched", **once),
        sample(_TO_BATCHED, _real(3, 2), _BATCH_OUTSIDE, _real(3), "unique batched, outside", **once),
        sample(_TO_ENTRIES, _real(3), _places(1), _real(), "unique 0-d", **once),
        sample(_TO_ENTRIES, _real(3), np.zeros((0, 1), "int32"), _real(0), "unique, no places", **once),
    ]
    if op not in (lax.scatter_min, lax.scatter_max):
        samples += [
            sample(_TO_ROWS, _complex(4, 2), _ROW_ONCE, _complex(3, 2), "unique, complex", **once),
            sample(_TO_ROWS, _real(5, 2), _places([3], [9]), _real(2, 2), "unique, clip, outside", mode="clip", **once),
        ]
    if repeated:
        samples += [
            sample(_TO_ROWS, _real(4, 2), _ROW_TWICE, _real(4, 2), f"twice, {mode}", mode=mode) for mode in MODES
        ]
        samples += [
            sample(_TO_ROWS, _real(4, 2), _ROW_OUTSIDE, _real(3, 2), "outside"),
            sample(_TO_WINDOWS, _real(4, 3), _WINDOW_ONCE, _real(2, 2, 2), "windows"),
            sample(_TO_WINDOWS, _real(4, 3), _WINDOW_TWICE, _real(3, 2, 2), "windows overlap"),
            sample(_TO_BATCHED, _real(3, 2), _BATCH, _real(3), "batched"),
            sample(_TO_ENTRIES, _real(3), _places(1), _real(), "0-d"),
        ]
    if repeated and op not in (lax.scatter_min, lax.scatter_max):
        samples.append(sample(_TO_ROWS, _complex(4, 2), _ROW_TWICE, _complex(4, 2), "twice, complex"))
    return samples


def _ties(name: str, op: Any) -> list[Sample]:
    ties = np.array([1.0, 2.0, 0.5]), _places([0], [1], [0], [0], [1]), np.array([1.0, 2.0, 1.0, 0.5, 2.0])
    nans = np.array([1.0, np.nan, 0.5]), _places([0], [1], [2]), np.array([1.0, 2.0, np.nan])
    return [
        Sample(name, _scatter(op, _TO_ENTRIES), ties, "ties", smooth=False),
        Sample(name, _scatter(op, _TO_ENTRIES), nans, "nan", smooth=False),
    ]


SAMPLES: list[Sample] = [
    Sample("dynamic_slice", _dynamic_slice(2, 1), (_real(4, 3), np.int32(1), np.int32(2))),
    Sample("dynamic_slice", _dynamic_slice(2), (_complex(4), np.int32(3)), "clamped, complex"),
    Sample("dynamic_slice", _dynamic_slice(2), (_real(4), np.int64(-3)), "clamped below"),
    Sample("dynamic_slice", _dynamic_slice(), (_real(),), "0-d"),
    Sample("dynamic_slice", _dynamic_slice(0), (_real(3), np.int32(1)), "empty"),
    Sample(
        "dynamic_update_slice", lax.dynamic_update_slice_p.bind, (_real(4, 3), _real(2, 1), np.int32(1), np.int32(2))
    ),
    Sample(
        "dynamic_update_slice", lax.dynamic_update_slice_p.bind, (_complex(4), _complex(2), np.int32(3)),
        "clamped, complex",
    ),
    Sample("dynamic_update_slice", lax.dynamic_update_slice_p.bind, (_real(4), _real(2), np.int64(-3)), "from below"),
    Sample("dynamic_update_slice", lax.dynamic_update_slice_p.bind, (_real(), _real()), "0-d"),
    Sample("dynamic_update_slice", lax.dynamic_update_slice_p.bind, (_real(3), _real(0), np.int32(1)), "empty"),
    *_gathers(),
    *_scatters("scatter", lax.scatter),
    *_scatters("scatter-add", lax.scatter_add),
    *_scatters("scatter-sub", lax.scatter_sub),
    *_scatters("scatter-mul", lax.scatter_mul, repeated=False),
    *_scatters("scatter-min", lax.scatter_min),
    *_scatters("scatter-max", lax.scatter_max),
    *_ties("scatter-min", lax.scatter_min),
    *_ties("scatter-max", lax.scatter_max),
]  # fmt: skip


_OPS = {
    "scatter": lax.scatter,
    "scatter-add": lax.scatter_add,
    "scatter-sub": lax.scatter_sub,
    "scatter-mul": lax.scatter_mul,
    "scatter-min": lax.scatter_min,
    "scatter-max": lax.scatter_max,
}

BEYOND_JAX: list[Sample] = [
    # JAX numbers the updates in one mode and scatters them in another (so does 0.10 for the extrema).
    *[
        Sample(name, _scatter(_OPS[name], _TO_ROWS, mode="clip"), (_real(4, 2), _ROW_OUTSIDE, _real(3, 2)), "clip")
        for name in ("scatter", "scatter-min", "scatter-max")
    ],
    # JAX reads the updates' places from nothing.
    *[
        Sample(name, _scatter(op, _TO_ENTRIES), (_real(0), _places([1], [1]), _real(2)), "into nothing")
        for name, op in _OPS.items()
    ],
    # JAX: "scatter_mul gradients are only implemented if `unique_indices=True`".
    *[
        Sample("scatter-mul", _scatter(lax.scatter_mul, dims, mode=mode), args, f"{label}, {mode}")
        for mode in MODES
        for dims, args, label in (
            (_TO_ROWS, (_real(4, 2), _ROW_TWICE, _real(4, 2)), "twice"),
            (_TO_WINDOWS, (_real(4, 3), _WINDOW_TWICE, _real(3, 2, 2)), "windows overlap"),
            (_TO_ENTRIES, (_real(2), _places([0], [0], [1], [0]), np.array([0.0, 2.0, 0.0, 0.0])), "zeros"),
            (_TO_ENTRIES, (_complex(2), _places([0], [0], [1]), _complex(3)), "complex"),
            (_TO_ENTRIES, (_real(3), np.zeros((0, 1), "int32"), _real(0)), "no places"),
        )
    ],
    Sample("scatter-mul", _scatter(lax.scatter_mul, _TO_ROWS), (_real(4, 2), _ROW_OUTSIDE, _real(3, 2)), "outside"),
]
