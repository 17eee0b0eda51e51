"""One call of a user's function on tracers: its outputs as flat values, its auxiliary data, and the way back."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from attrs import frozen
from jax import tree_util

from fgrad.api.arguments import Leaves, flattened, leaves
from fgrad.api.recorded import Recorded, close, record
from fgrad.graph.graph import Builder
from fgrad.graph.op import intern
from fgrad.graph.regions import is_inexact
from fgrad.jaxcore import ShapedArray, primitive, typeof
from fgrad.record.origin import Call


@frozen(eq=False)
class Called:
    """A recorded call: the outputs of ``recorded`` are those of the function and then the traced leaves of ``aux``."""

    recorded: Recorded
    out: Leaves
    aux: Any
    #: which leaves of aux are outputs of the recording
    traced: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many outputs the function has."""
        return len(self.out.values)

    @property
    def kind(self) -> tuple[int, int]:
        """What a program made from this recording depends on, beside the tape."""
        return (self.count, len(self.recorded.recorder.inputs))

    def outputs(self, values: Sequence[Any]) -> tuple[Any, Any]:
        """The function's output and its auxiliary data, from the values of the recording's outputs."""
        flat, tree = tree_util.tree_flatten(self.aux)
        for i, x in zip(self.traced, values[self.count :], strict=False):
            flat[i] = x
        return self.out.unflatten(values[: self.count]), tree_util.tree_unflatten(tree, flat)


def call(fun: Callable[..., Any], inputs: Sequence[Any], has_aux: bool, of: Call) -> Called:
    """Record ``fun(tracers)`` for tracers of the flat ``inputs``; ``of`` says which call that is.

    Raises:
      TypeError: the function returned no pair with ``has_aux``, or something that is not made of arrays.
    """
    what = of.what
    recorder, result = record(fun, inputs, of)
    try:
        result, aux = split_aux(result, has_aux, what)
        out = leaves(result, "output", f"{what}: the function's output")
        aux_flat, _ = flattened(aux, "aux", what)
        traced = tuple([i for i, x in enumerate(aux_flat) if recorder.records((x,))])
        return Called(close(recorder, [*out.values, *(aux_flat[i] for i in traced)]), out, aux, traced)
    finally:
        recorder.open = False


def _kind(result: Any) -> str:
    if isinstance(result, tuple | list):
        return f"{type(result).__name__} of length {len(result)}"
    return f"an array {typeof(result).str_short()}" if isinstance(result, jax.Array) else type(result).__name__


def split_aux(result: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    """``(output, aux)`` of what a function returned.

    Raises:
      TypeError: with ``has_aux``, it is no pair.
    """
    if not has_aux:
        return result, None
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise TypeError(
            f"{what} with has_aux=True: the function must return a pair (value, aux), got {_kind(result)}.\n"
            "Way out: return value, aux; or leave has_aux out."
        )
    value, aux = result
    return value, aux


def inexact_inputs(types: Sequence[ShapedArray], count: int) -> list[int]:
    """Which of the first ``count`` inputs have derivatives; the inputs after them are values that were closed over."""
    return [i for i in range(count) if is_inexact(types[i])]


def weak_as(builder: Builder, number: int, type: ShapedArray) -> int:
    """A derivative that belongs to a weakly typed value (a Python number) is weakly typed, as in JAX."""
    if not type.weak_type or builder.types[number].weak_type:
        return number
    op = intern(primitive("convert_element_type"), weak_params(type), (builder.types[number],))
    return builder.emit(op, (number,))


def weak_params(type: ShapedArray) -> dict[str, Any]:
    return {"new_dtype": type.dtype, "weak_type": type.weak_type, "sharding": None}


def with_weakness(value: Any, type: ShapedArray) -> Any:
    """``value`` with the dtype and weakness of ``type``."""
    got = typeof(value)
    if got.dtype == type.dtype and got.weak_type == type.weak_type:
        return value
    return primitive("convert_element_type").bind(value, **weak_params(type))
