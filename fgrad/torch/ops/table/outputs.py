"""What may be given as ``out=``: the type of its elements, and the memory it may share with the operands.

NOTE [Types of outputs]
PyTorch's elementwise functions, and others that promote their operands, write their result to a tensor of any type that
it can be cast to; the rest only to one of the result's own type.  Where a function has a rule or words of its own,
``RULES`` has them.
"""

from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen

from fgrad.mutable.layout.geometry import overlaps
from fgrad.mutable.operation.operation import Operation
from fgrad.mutable.operation.output_strides import ELEMENTWISE
from fgrad.mutable.operation.overlap import OVERLAP, check_apart, check_partial_overlap
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.types.promotion import can_cast
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.random.scalars import cpp_name


def _same(wanted: Dtype, given: Dtype) -> bool:
    return wanted is given


def _any(wanted: Dtype, given: Dtype) -> bool:
    return True


def _of_kind(wanted: Dtype, given: Dtype) -> bool:
    return wanted.is_complex == given.is_complex and wanted.is_floating_point == given.is_floating_point


def _floating(wanted: Dtype, given: Dtype) -> bool:
    return given.is_floating_point or given.is_complex


def _truth(wanted: Dtype, given: Dtype) -> bool:
    return given.scalar_name in ("Bool", "Byte")


@frozen(eq=False)
class Rule:
    """Which types of outputs a function takes for a type of result, and what it says of others.

    Attributes:
      fits: from (the result's type, the type given) to whether it may be written.
      text: the error's text, in which ``{want}`` and ``{got}`` are the types (``{c_want}`` and ``{c_got}`` as C++ names
        them), ``{name}`` the function and ``{output}`` the name of the output.
      error: the class of the error.
      outputs: the names of the outputs.
    """

    fits: Any
    text: str
    error: type[Exception] = RuntimeError
    outputs: tuple[str, ...] = ("result",)


_CAST = Rule(can_cast, "result type {want} can't be cast to the desired output type {got}")
_EXACT = Rule(_same, "Expected out tensor to have dtype {c_want}, but got {c_got} instead")
_FOUND = Rule(_same, "Found dtype {got} but expected {want}")
_ANY = Rule(_any, "")
_CASTABLE = "Expected {output} to be safely castable from {want} dtype, but got {output} with dtype {got}"
_JOINED = Rule(can_cast, "torch.cat(): input types can't be cast to the desired output type {got}", TypeError)
_SCALAR = Rule(_same, "expected scalar_type {want} but found {got}")
_SCALAR_TYPE = Rule(_same, "expected scalar type {want} but found {got}")
_SCALARS = evolve(_SCALAR, outputs=("values", "indices"))
_NORM = Rule(_same, "{name} expected out tensor dtype {want} but got: {got}")
_MULTIPLIED = Rule(_same, "multi_dot(): expected out tensor to have dtype {c_want} but got {c_got}")
_CONTRACTED = Rule(
    _same, "tensordot: Expected the output tensor to have dtype {want}, but got an output tensor with dtype {got}"
)
_BOOLEAN = Rule(_same, "{name} does not support non-boolean outputs.")
_SELECTED = Rule(_same, "{name}(): self and result must have the same scalar type")
_EXTREME = Rule(
    _same,
    "Expected the dtype for input and out to match, but got {want} for input's dtype and {got} for out's dtype.",
)
_OBJECT = Rule(_same, "Expected object of scalar type {want} but got scalar type {got} for argument 'out'")
_PRODUCT = Rule(_same, "result dtype {got} does not match input dtype {want}")
_QUANTILE = Rule(_same, "quantile() out tensor must be same dtype as the input tensor")
_TESTED = Rule(_truth, "{name} only supports bool tensor for result, got: {got}")


_SEARCHED = Rule(
    _same,
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on "
    "whether out_int32 flag is True, but we got output tensor's dtype {got} and out_int32 flag is {narrow}",
)


def _castable(function: str, *outputs: str) -> Rule:
    return Rule(can_cast, f"{function}: {_CASTABLE}", outputs=outputs or ("result",))


def _transformed(function: str, kind: str) -> dict[str, Rule]:
    """The rules of a transform along one axis and along several, which PyTorch's errors name alike."""
    rules = [
        Rule(_of_kind, f"{each} expects a {kind} output tensor, but got {{got}}") for each in (function, f"{function}n")
    ]
    return {f"fft.{function}": rules[0], f"fft.{function}2": rules[1], f"fft.{function}n": rules[1]}


#: the functions whose rule does not follow from their operation: see NOTE [Types of outputs]
RULES: dict[str, Rule] = {
    **dict.fromkeys(("sum", "prod", "cumsum", "cumprod"), _ANY),
    **dict.fromkeys(("cat", "stack"), _JOINED),
    **dict.fromkeys(("mean", "nansum", "nanmean", "var", "std", "diff", "max", "min"), _CAST),
    **dict.fromkeys(("outer", "ger", "addr", "kron"), _CAST),
    **dict.fromkeys(("abs", "neg", "sign", "sgn", "floor", "ceil", "trunc", "round", "frac", "clamp"), _FOUND),
    **dict.fromkeys(("conj_physical", "bitwise_not", "gelu", "softplus", "hardshrink", "softshrink"), _FOUND),
    **dict.fromkeys(("searchsorted", "bucketize"), _SEARCHED),
    **dict.fromkeys(("all", "any"), _TESTED),
    **dict.fromkeys(("amax", "amin"), _EXTREME),
    **dict.fromkeys(("cummax", "cummin"), _SCALARS),
    **dict.fromkeys(("signbit", "isposinf", "isneginf"), _BOOLEAN),
    **dict.fromkeys(("index_select", "masked_select"), _SELECTED),
    **dict.fromkeys(("linalg.norm", "linalg.matrix_norm"), _NORM),
    **dict.fromkeys(("chain_matmul", "linalg.multi_dot"), _MULTIPLIED),
    **dict.fromkeys(("inner", "tensordot"), _CONTRACTED),
    **dict.fromkeys(("complex", "polar"), _OBJECT),
    **dict.fromkeys(("dot", "vdot"), _PRODUCT),
    **dict.fromkeys(("quantile", "nanquantile"), _QUANTILE),
    **{name: _castable(name) for name in ("cholesky", "cholesky_solve", "cholesky_inverse", "linalg.pinv")},
    **{f"linalg.{name}": _castable(name) for name in ("tensorinv", "tensorsolve", "matrix_power")},
    **_transformed("fft", "complex"),
    **_transformed("ifft", "complex"),
    **{f"fft.ifft{n}": _transformed("fft", "complex")["fft.fftn"] for n in "2n"},
    **_transformed("rfft", "complex"),
    **_transformed("ihfft", "complex"),
    **_transformed("irfft", "floating point"),
    **_transformed("hfft", "floating point"),
    "linalg.cond": _castable("linalg.cond"),
    "linalg.eig": _castable("torch.linalg.eig", "eigenvalues", "eigenvectors"),
    "linalg.eigvals": _castable("torch.linalg.eigvals", "eigenvalues"),
    "linalg.householder_product": _castable("torch.linalg.householder_product"),
    "orgqr": _castable("torch.linalg.householder_product"),
    "geqrf": _castable("torch.geqrf", "a", "tau"),
    "linalg.lstsq": _castable("torch.linalg.lstsq", "solution", "residuals", "rank", "singular_values"),
    "linalg.vecdot": Rule(_same, "linalg.vecdot: Expected out of dtype{want} but found {got}"),
    "linalg.solve_triangular": _SCALAR_TYPE,
    "isin": _EXACT,
    "logcumsumexp": _SCALAR,
    "log_sigmoid": _SCALAR_TYPE,
    "special.ndtr": _CAST,
    "linalg.matrix_rank": _ANY,
    "fft.fftfreq": Rule(_floating, "fftfreq requires a floating point or complex dtype"),
    "fft.rfftfreq": Rule(_floating, "rfftfreq requires a floating point or complex dtype"),
    "ormqr": Rule(
        _same,
        "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{want} and result has dtype "
        "{got}",
    ),
    "logsumexp": Rule(_floating, "logsumexp(): Expected floating point type for result tensor, but got: {got}"),
    "float_power": Rule(
        _same, "the output given to float_power has dtype {got} but the operation's result requires dtype {want}"
    ),
    "frexp": Rule(
        _same,
        "torch.frexp() expects {output} to have dtype {c_want} but got {c_got}",
        outputs=("mantissa", "exponent"),
    ),
    "heaviside": Rule(_same, "heaviside is not yet implemented for tensors with different dtypes."),
    "where": Rule(_same, "Expected out type to be {want} but got {got}"),
    "nan_to_num": Rule(_same, "nan_to_num: dtype of out: {got} should be same as input: {want}"),
    "take": Rule(
        _same,
        "take(): self and out expected to have the same dtype, but got self.dtype = {want} and out.dtype = {got}",
    ),
    "mv": Rule(_same, "addmv input tensors must have the same dtype, but got {got}, {want}, and {want}"),
    "addbmm": Rule(_same, "self and mat2 must have the same dtype, but got {got} and {want}"),
    "nonzero": Rule(_same, "nonzero: Expected out tensor to have scalar type {want} but got scalar type{got}"),
    "multinomial": Rule(_same, "multinomial expects {want} tensor out, got: {got}"),
    "kthvalue": Rule(
        _same,
        "output {output}",
        outputs=("values must be of same type as input", "indices must be of scalar type Long"),
    ),
    "mode": Rule(
        _same, "expected scalar type '{want}' but got '{got}' for {output} output", outputs=("values", "indices")
    ),
    "ldexp": Rule(can_cast, "ldexp can't be cast to the desired output type {got}"),
    "mvlgamma": Rule(can_cast, "mvlgamma: result type {want} can't be cast to the desired output type {got}"),
}  # fmt: skip

#: what is not elementwise and yet may share memory with its operands only if it is the same memory
_BESIDE = frozenset((
    "scatter", "scatter_add", "scatter_reduce", "index_reduce", "index_add", "index_copy", "addmm", "addmv", "addbmm",
    "baddbmm", "addr", "renorm", "msort", "cumsum", "cumprod", "logcumsumexp", "outer", "ger", "kron", "normal",
    "bernoulli",
))  # fmt: skip
#: what may share no memory with its operands
_APART = frozenset((
    "gather", "take_along_dim", "index_select", "take", "masked_select", "nonzero", "cat", "stack", "cross",
    "linalg.cross", "kthvalue",
))  # fmt: skip


#: of these, the tensor of places may be the memory that is written
_OVER_PLACES = frozenset(("gather", "take_along_dim"))


def _rule(name: str, operation: Operation | None, count: int) -> Rule:
    found = RULES.get(name)
    # of ``max`` and others, the overload with several outputs has no rule of its own
    if found is not None and len(found.outputs) == count:
        return found
    cast = operation is not None and (operation.promote is not None or operation.strides in ELEMENTWISE)
    return _CAST if cast else _EXACT


def check_outputs(
    name: str, operation: Operation | None, operands: Sequence[Any], results: Sequence[Tensor], outs: Sequence[Any]
) -> None:
    """Raise PyTorch's error for tensors that the results of a function may not be written to.

    Arguments:
      name: the function's path in ``torch``.
      operation: the operation behind it, None if there are several.
      operands: what it is called with.
      results: what is to be written.
      outs: the tensors that are given for the results.
    """
    if len(outs) != len(results):
        raise TypeError(f"expected tuple of {len(results)} elements but got {len(outs)}")
    rule = _rule(name, operation, len(results))
    for k, (result, out) in enumerate(zip(results, outs, strict=True)):
        if not isinstance(out, Tensor):
            called = name.replace(".", "_")
            raise TypeError(f"{called}(): argument 'out' must be Tensor, not {type_name(out)}")
        wanted, given = result._type.dtype, out._type.dtype
        if not rule.fits(wanted, given):
            words = {"want": wanted.scalar_name, "got": given.scalar_name, "name": name}
            c_names = {"c_want": cpp_name(wanted.numpy), "c_got": cpp_name(given.numpy)}
            output = rule.outputs[min(k, len(rule.outputs) - 1)]
            narrow = wanted.scalar_name == "Int"
            raise rule.error(rule.text.format(**words, **c_names, output=output, narrow=narrow))
        _check_memory(name, operation, operands, out)


def _check_memory(name: str, operation: Operation | None, operands: Sequence[Any], out: Tensor) -> None:
    apart = name in _APART
    if not apart and name not in _BESIDE and (operation is None or operation.strides not in ELEMENTWISE):
        return
    g = out._geometry
    if apart and g is not None and overlaps(g.sizes, g.strides):
        raise RuntimeError(OVERLAP)
    for k, x in enumerate(operands):
        if isinstance(x, Tensor) and x._storage is out._storage:
            (check_apart if apart and not (k and name in _OVER_PLACES) else check_partial_overlap)(out, x)
