"""What is accepted as ``out=``: the element types, and the memory that may be shared with the operands.

NOTE [Types of outputs]
PyTorch's elementwise functions, and others that promote their operands, accept any type that the result can be cast to;
the rest accept only the result's own type.  A function with a different rule or error has it in its row (``out``).
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from attrs import evolve, frozen

from fgrad.mutable.layout.geometry import Ints, overlaps
from fgrad.mutable.operation.operation import Operation
from fgrad.mutable.operation.output_strides import ELEMENTWISE
from fgrad.mutable.operation.overlap import OVERLAP, check_apart, check_partial_overlap
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.types.promotion import can_cast
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.write.copying import broadcast_error
from fgrad.torch.random.scalars import cpp_name


class Memory(Enum):
    """Which memory an output may share with the operands."""

    #: all the memory of an operand, but no part of it
    SAME = 1
    #: none
    DISJOINT = 2
    #: none but that of the indices, which are not the first operand
    OVER_INDICES = 3


@frozen(eq=False)
class Output:
    """What a function accepts as ``out=``, and its error for other tensors.

    Attributes:
      fits: from the types of the result and of the tensor to whether the one may be written to the other; None if that
        follows from the operation: see NOTE [Types of outputs].
      text: the error's text, in which ``{want}`` and ``{got}`` are the types (``{c_want}`` and ``{c_got}`` their names
        in C++), ``{name}`` the function and ``{output}`` the output's name.
      error: the class of the error.
      names: the names of the outputs.
      memory: the memory that it may share with the operands; None if that follows from the operation.
      computed: whether the function computes in the type of the tensor that it writes to.
      accepted: whether the function accepts ``out=`` at all.
    """

    fits: Callable[[Dtype, Dtype], bool] | None = None
    text: str = ""
    error: type[Exception] = RuntimeError
    names: tuple[str, ...] = ("result",)
    memory: Memory | None = None
    computed: bool = False
    accepted: bool = True


def _same(result: Dtype, out: Dtype) -> bool:
    return result is out


def _any(result: Dtype, out: Dtype) -> bool:
    return True


def exact(text: str, *names: str, memory: Memory | None = None) -> Output:
    """Outputs of exactly the results' types; ``text`` is the error's."""
    return Output(_same, text, names=names or ("result",), memory=memory)


def cast(text: str, *names: str, error: type[Exception] = RuntimeError, memory: Memory | None = None) -> Output:
    """Outputs of the types that the results can be cast to."""
    return Output(can_cast, text, error, names or ("result",), memory)


def safely_cast(function: str, *names: str) -> Output:
    """``cast`` with the error of PyTorch's functions of matrices."""
    text = "Expected {output} to be safely castable from {want} dtype, but got {output} with dtype {got}"
    return cast(f"{function}: {text}", *names)


def of_kind(function: str, kind: str) -> Output:
    """Outputs of the results' kind in any precision, for Fourier transforms."""

    def fits(result: Dtype, out: Dtype) -> bool:
        return result.is_complex == out.is_complex and result.is_floating_point == out.is_floating_point

    return Output(fits, f"{function} expects a {kind} output tensor, but got {{got}}")


def floating(text: str) -> Output:
    """Outputs of any floating-point or complex type."""
    return Output(lambda wanted, given: given.is_floating_point or given.is_complex, text)


FROM_OPERATION: Output = Output()
NOT_TAKEN: Output = Output(accepted=False)
CAST: Output = cast("result type {want} can't be cast to the desired output type {got}")
EXACT: Output = exact("Expected out tensor to have dtype {c_want}, but got {c_got} instead")
FOUND: Output = exact("Found dtype {got} but expected {want}")
SCALAR: Output = exact("expected scalar_type {want} but found {got}")
SCALAR_TYPE: Output = exact("expected scalar type {want} but found {got}")
BOOLEAN: Output = exact("{name} does not support non-boolean outputs.")
ANY: Output = Output(_any)
COMPUTED: Output = evolve(ANY, computed=True, text=EXACT.text)

WITHOUT_NAN: Output = evolve(COMPUTED, text="nansum: provided dtype must match dtype of result. Got {got} and {want}.")

JOINED: Output = cast(
    "torch.cat(): input types can't be cast to the desired output type {got}", error=TypeError, memory=Memory.DISJOINT
)
SCALARS: Output = evolve(SCALAR, names=("values", "indices"))
NORM: Output = exact("{name} expected out tensor dtype {want} but got: {got}")
MULTIPLIED: Output = exact("multi_dot(): expected out tensor to have dtype {c_want} but got {c_got}")
CONTRACTED: Output = exact(
    "tensordot: Expected the output tensor to have dtype {want}, but got an output tensor with dtype {got}"
)
SELECTED: Output = exact("{name}(): self and result must have the same scalar type", memory=Memory.DISJOINT)
EXTREME: Output = exact(
    "Expected the dtype for input and out to match, but got {want} for input's dtype and {got} for out's dtype."
)
OBJECT: Output = exact("Expected object of scalar type {want} but got scalar type {got} for argument 'out'")
PRODUCT: Output = exact("result dtype {got} does not match input dtype {want}")
QUANTILE: Output = exact("quantile() out tensor must be same dtype as the input tensor")
TRUTH: Output = Output(
    lambda wanted, given: given.scalar_name in ("Bool", "Byte"),
    "{name} only supports bool tensor for result, got: {got}",
)
SEARCHED: Output = exact(
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on "
    "whether out_int32 flag is True, but we got output tensor's dtype {got} and out_int32 flag is {narrow}"
)

ONTO_ITSELF: Output = Output(memory=Memory.SAME)
CAST_ONTO_ITSELF: Output = evolve(CAST, memory=Memory.SAME)
COMPUTED_ONTO_ITSELF: Output = evolve(COMPUTED, memory=Memory.SAME)
ONTO_ITSELF: Output = Output(memory=Memory.SAME)
APART: Output = Output(memory=Memory.DISJOINT)
OVER_INDICES: Output = Output(memory=Memory.OVER_INDICES)


def check_accepted(name: str, rule: Output) -> None:
    """Raise PyTorch's error if a function does not accept ``out=``."""
    if not rule.accepted:
        raise TypeError(f"{name}() got an unexpected keyword argument 'out'")


def with_dtype_of(out: Any, name: str, rule: Output, named: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a function, with ``dtype`` that of ``out`` where it computes in that type.

    Raises:
      TypeError: the function does not accept ``out``.
      RuntimeError: another ``dtype`` is given.
    """
    check_accepted(name, rule)
    if not rule.computed or not isinstance(out, Tensor):
        return named
    requested, out_dtype = named.get("dtype"), out._type.dtype
    if requested is not None and requested is not out_dtype:
        c_want, c_got = cpp_name(requested.numpy), cpp_name(out_dtype.numpy)
        words = {"want": requested.scalar_name, "got": out_dtype.scalar_name, "c_want": c_want, "c_got": c_got}
        raise RuntimeError(rule.text.format(**words))
    return {**named, "dtype": out_dtype}


def _types(rule: Output, operation: Operation | None, count: int) -> Output:
    """The rule, or the one that follows from the operation if the rule is not for ``count`` outputs."""
    # the overloads of ``max`` and others with several outputs have no rule of their own
    if rule.fits is not None and len(rule.names) == count:
        return rule
    cast = operation is not None and (
        operation.computing.promote is not None or operation.computing.strides in ELEMENTWISE
    )
    return CAST if cast else EXACT


def check_outputs(
    name: str,
    rule: Output,
    operation: Operation | None,
    operands: Sequence[Any],
    results: Sequence[Tensor],
    outs: Sequence[Any],
) -> None:
    """Raise PyTorch's error for tensors that the results of a function may not be written to.

    Arguments:
      name: the function's path in ``torch``.
      rule: what its row says of outputs.
      operation: the operation behind it; None if there are several.
      operands: its tensor operands.
      results: what is to be written.
      outs: the tensors given as ``out=``.
    """
    if len(outs) != len(results):
        raise TypeError(f"expected tuple of {len(results)} elements but got {len(outs)}")
    types = _types(rule, operation, len(results))
    for k, (result, out) in enumerate(zip(results, outs, strict=True)):
        if not isinstance(out, Tensor):
            called = name.replace(".", "_")
            raise TypeError(f"{called}(): argument 'out' must be Tensor, not {type_name(out)}")
        result_dtype, out_dtype = result._type.dtype, out._type.dtype
        if types.fits is not None and not types.fits(result_dtype, out_dtype):
            words = {"want": result_dtype.scalar_name, "got": out_dtype.scalar_name, "name": name}
            c_names = {"c_want": cpp_name(result_dtype.numpy), "c_got": cpp_name(out_dtype.numpy)}
            output = types.names[min(k, len(types.names) - 1)]
            narrow = result_dtype.scalar_name == "Int"
            raise types.error(types.text.format(**words, **c_names, output=output, narrow=narrow))
        _check_memory(rule.memory, operation, operands, result._type.shape, out)


def _check_memory(
    memory: Memory | None, operation: Operation | None, operands: Sequence[Any], shape: Ints, out: Tensor
) -> None:
    elementwise = operation is not None and operation.computing.strides in ELEMENTWISE
    if elementwise and out._type.shape != shape and any(x is out for x in operands):
        raise broadcast_error(out._type.shape, shape)  # an operand is not resized
    if memory is None:
        if not elementwise:
            return
        memory = Memory.SAME
    disjoint = memory is not Memory.SAME
    geometry = out._geometry
    if disjoint and geometry is not None and overlaps(geometry.sizes, geometry.strides):
        raise RuntimeError(OVERLAP)
    for k, x in enumerate(operands):
        if isinstance(x, Tensor) and x._storage is out._storage:
            is_index = k and memory is Memory.OVER_INDICES
            if disjoint and not is_index:
                check_apart(out, x)
            else:
                check_partial_overlap(out, x, not elementwise)
