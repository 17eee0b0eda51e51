"""Ranges of numbers: ``arange``, ``linspace``, ``logspace``."""

import math
from typing import Any

import numpy as np

from fgrad.mutable.context.warning import warn
from fgrad.mutable.operation.operands import number_of
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype, get_default_dtype
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.capacity import LARGEST, check_storage
from fgrad.mutable.write.copying import resized
from fgrad.torch.ops.creation.making import tensor_from_array, wants_grad
from fgrad.torch.ops.creation.spacing import complex_evenly_spaced, evenly_spaced, rounded, stepped
from fgrad.torch.ops.examples import each_example
from fgrad.torch.ops.table.dispatch import UNLISTED
from fgrad.torch.ops.table.kinds import is_complex
from fgrad.torch.ops.table.numbers import CPP_NAMES, check_number
from fgrad.torch.ops.table.overloads import no_match, types_of
from fgrad.torch.ops.table.table import composite
from fgrad.torch.random import libm
from fgrad.torch.random.scalars import not_implemented

_ARANGE_SIGNATURES = tuple(
    f"{bounds}, *, {out}torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, "
    "bool pin_memory = False, bool requires_grad = False"
    for bounds, out in (
        ("Number end", "Tensor out = None, "),
        ("Number start, Number end", ""),
        ("Number start, Number end, Number step = 1", "Tensor out = None, "),
    )
)


def _spaced_signatures(function: str) -> list[str]:
    """How PyTorch lists the overloads of ``linspace`` and ``logspace``."""
    base = "float base = 10.0, " if function == "logspace" else ""
    return [
        f"{start} start, {end} end, int steps, {base}*, Tensor out = None, torch.dtype dtype = None, torch.layout "
        "layout = None, torch.device device = None, bool pin_memory = False, bool requires_grad = False"
        for start, end in (("Tensor", "Tensor"), ("Number", "Tensor"), ("Tensor", "Number"), ("Number", "Number"))
    ]


@composite(method=False, dispatch=UNLISTED)
def arange(
    *bounds: Any,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **named: Any,
) -> Tensor:
    """Numbers from ``start`` to below ``end`` in steps.

    >>> import fgrad.torch as torch
    >>> torch.arange(4), torch.arange(1, 2, 0.5)
    (tensor([0, 1, 2, 3]), tensor([1.0000, 1.5000]))

    Source: `torch.arange <https://docs.pytorch.org/docs/stable/generated/torch.arange.html>`_.
    """
    start, end, step = _range_bounds(bounds, named)
    requires_grad = wants_grad(requires_grad, "arange")
    integers = all(isinstance(x, int) for x in (start, end, step))
    if dtype is not None:
        element_type = dtypes.argument(dtype, "arange")
    elif out is not None:
        element_type = out._type.dtype
    else:
        element_type = dtypes.int64 if integers else get_default_dtype()
    _check_type(element_type, out)
    if not math.isfinite(start) or not math.isfinite(end):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    _check_steps(start, end, step)
    if element_type is dtypes.bool_ or element_type.is_complex:
        raise not_implemented("arange_cpu", element_type.numpy)
    discrete = element_type.numpy.kind in "iu"
    if element_type is dtypes.int64:
        start, end, step = int(start), int(end), int(step)
        if not step:
            raise ValueError("step must be nonzero")
    count = max(0, math.ceil((end - start) / step))
    if count > LARGEST:
        raise RuntimeError("invalid size, possible overflow?")
    check_storage((count,), element_type.itemsize)
    if out is not None and out._type.numel not in (0, count):
        warn(
            f"The number of elements in the out tensor of shape {list(out._type.shape)} is {out._type.numel} which "
            f"does not match the computed number of elements {count}. Note that this may occur as a result of rounding "
            f"error. The out tensor will be resized to a tensor of shape ({count},).",
        )
    if discrete or integers:
        numbers = int(start) + np.arange(count) * int(step)
    else:
        numbers = stepped(start, step, count, element_type.numpy)
    return _written_to(tensor_from_array(numbers, element_type, device, requires_grad), out)


def _range_bounds(bounds: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """``start``, ``end`` and ``step`` from the arguments of ``arange``."""
    if len(bounds) > 3 or (not bounds and "end" not in named):
        raise TypeError(no_match("arange", types_of(bounds), _ARANGE_SIGNATURES))
    for i, x in enumerate(bounds):
        if not isinstance(x, int | float | np.number | Tensor):
            name = "end" if len(bounds) == 1 else ("start", "end", "step")[i]
            raise TypeError(f"arange(): argument '{name}' (position {i + 1}) must be Number, not {type_name(x)}")
    names = ("end",) if len(bounds) == 1 else ("start", "end", "step")
    numbers = [number_of("arange", name, x) for name, x in zip(names, bounds, strict=False)]
    named = {name: number_of("arange", name, x) for name, x in named.items()}
    start, end, step = 0, named.get("end"), named.get("step", 1)
    if len(numbers) == 1:
        start, end = (numbers[0], end) if "end" in named else (start, numbers[0])
    elif numbers:
        start, end, step = (*numbers, step)[:3]
    return named.get("start", start), end, step


def _written_to(numbers: Tensor, out: Tensor | None) -> Tensor:
    """A vector of numbers; or ``out`` with these written to it, resized unless it has as many elements."""
    if out is None:
        return numbers
    if out._type.numel != numbers._type.numel:
        resized(out, numbers._type.shape)
    return out.copy_(numbers.reshape(out._type.shape))


def _check_type(dtype: Dtype, out: Tensor | None) -> None:
    if out is not None and out._type.dtype is not dtype:
        raise RuntimeError(
            f"dtype {dtype.scalar_name} does not match dtype of out parameter ({out._type.dtype.scalar_name})"
        )


def _check_steps(start: Any, end: Any, step: Any) -> None:
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (step > 0 and start > end) or (step < 0 and start < end):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


@composite(method=False, name="range", dispatch=UNLISTED)
def inclusive_range(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from ``start`` to ``end``, inclusive, in steps; deprecated in favour of ``arange``.

    Source: `torch.range <https://docs.pytorch.org/docs/stable/generated/torch.range.html>`_.
    """
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
    )
    _check_steps(start, end, step)
    element_type = get_default_dtype() if dtype is None else dtypes.argument(dtype, "range")
    count = int((end - start) / step) + 1
    check_storage((count,), element_type.itemsize)
    values = start + np.arange(count) * step
    return _written_to(tensor_from_array(values, element_type, device, requires_grad), out)


@composite(method=False, dispatch=UNLISTED)
@each_example()
def linspace(
    start: Any,
    end: Any,
    steps: Any,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both included."""
    element_type = _spaced_dtype("linspace", start, end, steps, dtype, out)
    start, end, steps = _spacing(start, end, steps)
    if steps > 1:
        start, end = _bounds(start, end, element_type)
    elif steps:
        check_number(start, element_type)
    if element_type.is_complex:
        numbers = complex_evenly_spaced(start, end, steps, element_type.numpy)
    elif element_type.is_floating_point:
        numbers = evenly_spaced(start, end, steps, element_type.numpy)
    else:
        numbers = _even_integers(start, end, steps)
    return _written_to(tensor_from_array(numbers, element_type, device, requires_grad), out)


def _spaced_dtype(function: str, start: Any, end: Any, steps: Any, dtype: Any, out: Tensor | None) -> Dtype:
    """The type of evenly spaced numbers, after checks of the arguments."""
    ranks = {name: len(x._type.shape) for name, x in (("start", start), ("end", end)) if isinstance(x, Tensor)}
    if any(ranks.values()):
        text = " and ".join([f"{name} with {rank} dimension(s)" for name, rank in ranks.items()])
        raise RuntimeError(f"{function} only supports 0-dimensional start and end tensors, but got {text}.")
    complex_given = is_complex(start) or is_complex(end)
    if dtype is not None:
        element_type = dtypes.argument(dtype, function)
        if complex_given and not element_type.is_complex:
            inferred = CPP_NAMES[dtypes.default_complex_dtype().name]
            raise RuntimeError(
                f"torch.{function}(): inferred dtype {inferred} can't be safely cast to passed dtype "
                f"{element_type.scalar_name}"
            )
    elif out is not None:
        element_type = out._type.dtype
    else:
        element_type = dtypes.default_complex_dtype() if complex_given else get_default_dtype()
    _check_type(element_type, out)
    if not (_is_number(start) and _is_number(end) and _is_count(steps)):
        raise TypeError(no_match(function, types_of((start, end, steps)), _spaced_signatures(function)))
    # a comparison with the tensor would be in its type, which may not hold the bound
    steps = int(steps.item() if isinstance(steps, Tensor) else steps)
    if not -LARGEST - 1 <= steps <= LARGEST:
        raise ValueError("Overflow when unpacking long long")
    check_storage((max(steps, 0),), element_type.itemsize)
    if element_type in _WITHOUT_LOOP and steps > 1:
        raise not_implemented(f"{function}_cpu", element_type.numpy)
    return element_type


#: the types that PyTorch's kernel lacks
_WITHOUT_LOOP = (dtypes.bool_, dtypes.uint16, dtypes.uint32, dtypes.uint64)


def _is_number(bound: Any) -> bool:
    """Whether a bound is a number or a tensor.

    Raises:
      OverflowError: it is an integer that does not fit into 64 bits.
    """
    if isinstance(bound, int) and not -LARGEST - 1 <= bound <= 2 * LARGEST + 1:
        raise OverflowError("int too big to convert")
    return isinstance(bound, Tensor | int | float | complex | np.number | np.bool_)


def _is_count(steps: Any) -> bool:
    """Whether a number of steps is an integer; booleans are not."""
    if not isinstance(steps, Tensor):
        return isinstance(steps, int | np.integer) and not isinstance(steps, bool)
    dtype = steps._type.dtype
    return not (steps.dim() or dtype.is_floating_point or dtype.is_complex or dtype is dtypes.bool_)


def _even_integers(start: Any, end: Any, steps: int) -> np.ndarray:
    """Evenly spaced integers, each half counted from its own end.

    PyTorch's step is a double, and it multiplies and adds with one rounding, as does the quotient of Python integers
    here.  A second rounding could reach a whole number that PyTorch stays below, which truncates to another integer.
    """
    if steps == 1:
        return np.full((1,), start)
    start, end = int(float(start)), int(float(end))
    step, denominator = ((end - start) / max(steps - 1, 1)).as_integer_ratio()
    half = steps // 2
    low = [start * denominator + step * i for i in range(half)]
    high = [end * denominator - step * i for i in reversed(range(steps - half))]
    return np.array([math.trunc(x / denominator) for x in low + high], np.int64)


def _spacing(start: Any, end: Any, steps: Any) -> tuple[Any, Any, int]:
    """The bounds as Python numbers, and the number of steps."""
    if int(steps) < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = (x.item() if isinstance(x, Tensor) else x for x in (start, end))
    return start, end, int(steps)


def _bounds(start: Any, end: Any, dtype: Dtype) -> tuple[Any, Any]:
    """The bounds, converted if the type is an integer type: -1 is 255 for uint8.

    Raises:
      RuntimeError: the type cannot hold one of them.
    """
    for bound in (start, end):
        check_number(bound, dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return start, end
    bounds = np.array([math.trunc(start), math.trunc(end)]).astype(dtype.numpy).tolist()
    return bounds[0], bounds[1]


@composite(method=False, dispatch=UNLISTED)
@each_example()
def logspace(
    start: Any,
    end: Any,
    steps: Any,
    base: float = 10.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """``base`` to the power of ``steps`` evenly spaced numbers."""
    element_type = _spaced_dtype("logspace", start, end, steps, dtype, out)
    kind = np.dtype(np.complex128 if element_type.is_complex else np.float64)
    start, end, steps = _spacing(start, end, steps)
    if steps > 1:
        start, end = _bounds(start, end, element_type)
        if element_type.is_floating_point:
            start, end = (float(element_type.numpy.type(x)) for x in (start, end))
    exponents = evenly_spaced(start, end, steps, kind, rounded)
    with np.errstate(all="ignore"):
        powers = np.power(base, exponents) if element_type.is_complex else libm.powers(base, exponents)
    if steps == 1 and not (
        element_type.is_floating_point and element_type.itemsize == 2
    ):  # half precision computes infinity
        check_number(powers.item(), element_type)
    return _written_to(tensor_from_array(powers, element_type, device, requires_grad), out)
