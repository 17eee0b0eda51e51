"""Forward mode of custom functions."""

from typing import Any

from attrs import evolve

from fgrad.mutable.context.modes import modes
from fgrad.mutable.operation.operation_node import zeros
from fgrad.mutable.tensor.tensor import OwnTangent, Tensor
from fgrad.mutable.transforms.forward import set_tangent
from fgrad.mutable.types.type_names import type_name


def push(
    cls: Any,
    ctx: Any,
    args: tuple[Any, ...],
    tensors: list[Tensor],
    tangents: list[Any],
    results: list[Any],
    level: int,
) -> None:
    """Call the user's ``jvp`` and set the tangents of the outputs."""
    by_tensor = {id(x): t for x, t in zip(tensors, tangents, strict=True)}
    arguments = [_tangent(x, by_tensor[id(x)], ctx.materialize_grads) if isinstance(x, Tensor) else None for x in args]
    versions = {key: None if t is None else t._counter.value for key, t in by_tensor.items()}
    innermost, modes.dual_level = modes.dual_level, level - 1
    try:
        returned = cls.jvp(ctx, *arguments)
    finally:
        modes.dual_level = innermost
    pushed = returned if isinstance(returned, tuple) else (returned,)
    if len(pushed) != len(results):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(results)} but got "
            f"{len(pushed)})"
        )
    for i, (out, tangent) in enumerate(zip(results, pushed, strict=True)):
        if not _is_differentiable(ctx, i, out, tangent):
            continue
        input_tangent = by_tensor.get(id(out)) if any(out is x for x in ctx.dirty_tensors) else None
        if input_tangent is not None:
            if tangent is None or tangent is not input_tangent or tangent._counter.value == versions[id(out)]:
                raise RuntimeError(NOT_IN_PLACE)
        elif tangent is not None:
            viewed = _viewed(out, tensors)
            if viewed is not None:
                _check_tangent_of_view(tangent, by_tensor[id(viewed)])
            elif out._view is not None:
                out._view = evolve(out._view, dual=OwnTangent.ITSELF)  # of what is no input: its tangent is no view
            _check_shape(out, tangent)
            set_tangent(out, tangent, level)


def _is_differentiable(ctx: Any, i: int, out: Any, tangent: Any) -> bool:
    """Whether an output has a tangent; raises PyTorch's errors if the returned one is invalid."""
    if tangent is not None and not isinstance(tangent, Tensor):
        raise RuntimeError(f"expected Variable or None (got {type_name(tangent)}) for grad output {i}.")
    if isinstance(out, Tensor) and out._type.inexact and not any(out is x for x in ctx.non_differentiable):
        return True
    if tangent is not None:
        raise RuntimeError(
            f"Function's jvp returned a gradient at position {i}, but  the corresponding forward output is not a "
            "differentiable Tensor.You should return None at that position instead."
        )
    return False


def _tangent(x: Tensor, tangent: Tensor | None, materialize: bool) -> Tensor | None:
    """The tangent of an argument as passed to ``jvp``."""
    return zeros(x._type) if tangent is None and materialize and x._type.inexact else tangent


NOT_IN_PLACE = (
    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying an "
    "input inplace, then the jvp function must modify the corresponding gradient inplace."
)


def _viewed(out: Tensor, inputs: list[Tensor]) -> Tensor | None:
    """The input that an output is a view of."""
    if out._view is None or modes.transforms:
        return None  # inside torch.func no output is a view
    base = out._view.base
    return next((x for x in inputs if base is (x if x._view is None else x._view.base)), None)


def _check_tangent_of_view(tangent: Tensor, input_tangent: Tensor | None) -> None:
    """Raise PyTorch's errors for the tangent of a view that is not a view of the input's."""
    if input_tangent is None:
        return
    if tangent._view is None:
        raise RuntimeError(
            "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
        )
    if input_tangent._view is None and tangent._view.base is not input_tangent:
        raise RuntimeError(
            "A custom Function is returning a view but the jvp is not returning a view of the given grad input."
        )
    if input_tangent._view is not None and tangent._view.base is not input_tangent._view.base:
        raise RuntimeError(
            "A custom Function is returning a view but the jvp is not returning a view of the same base as the given "
            "grad input."
        )


def _check_shape(out: Tensor, tangent: Tensor) -> None:
    if tangent._type.shape != out._type.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(out._type.shape)} while the given forward gradient is of size "
            f"{list(tangent._type.shape)}."
        )
