"""The attributes ``_saved_*`` and ``_raw_saved_*`` of nodes, by PyTorch's names."""

from collections.abc import Sequence
from typing import Any

from fgrad.mutable.tensor.node import TWICE
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import NUMBER_TYPES, TensorType
from fgrad.mutable.values.evaluation import constant

#: parameters that PyTorch has as numbers of any kind, not as integers
_SCALARS = ("alpha", "correction", "exponent", "min_val", "max_val", "ord", "p", "special")
#: operands that PyTorch has as integers: places in a tensor
_INTEGERS = ("diagonal", "end", "index", "start", "storage_offset")

_MISSING = object()


#: parameters that PyTorch's operations have not
_OURS = frozenset({"spec", "all_counted"})


def saved_attribute(node: Any, name: str) -> Any:
    """An attribute of an operation's node that is not found on the object.

    Raises:
      AttributeError: it is not one of ``_saved_*`` and ``_raw_saved_*``, or the operation saves nothing of that name.
      RuntimeError: the saved value was freed.
    """
    value = _MISSING
    if name.startswith("_saved_"):
        value = _saved(node, name.removeprefix("_saved_"))
    elif name.startswith("_raw_saved_"):
        value = _raw(node, name.removeprefix("_raw_saved_"))
    if value is _MISSING:
        raise AttributeError(f"'{type(node).__name__}' object has no attribute '{name}'")
    return value


def saved_names(node: Any) -> list[str]:
    """The names of these attributes."""
    operation = node.plan.operation
    tensors = []
    for s in node.saved:
        if isinstance(s, SavedTensor):
            name = s.name.lstrip("*")
            tensors += [f"_saved_{name}", f"_raw_saved_{name}"]
    others = [
        *_numbers(node),
        *(name for name in operation.parameters if name not in _OURS),
        *dict(operation.gradients.constants),
    ]
    return tensors + [f"_saved_{name}" for name in others]


class SavedNothing(SavedTensor):
    """What was saved in the place of an operand that is None."""

    __slots__ = ()

    def __init__(self) -> None:
        """There is nothing to fill in."""

    def register_hooks(self, pack: Any, unpack: Any = None) -> None:
        raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")


def _raw(node: Any, name: str) -> Any:
    """A saved tensor before it is unpacked, those of a variadic operand as a tuple."""
    tensors = _tensors(node, name)
    if tensors and tensors[0].name.startswith("*"):
        return _in_places(node, tensors, SavedNothing())
    return tensors[0] if tensors else _MISSING


def _tensors(node: Any, name: str) -> list[SavedTensor]:
    return [s for s in node.saved if isinstance(s, SavedTensor) and s.name.lstrip("*") == name]


def _numbers(node: Any) -> dict[str, Any]:
    """The operands that are Python numbers; those that have a derivative are tensors to PyTorch."""
    plan = node.plan
    numbers = {}
    for i, x in zip(plan.numbers, node.numbers, strict=False):
        name = plan.operation.operand(i)
        plainly = i in plan.operation.nondiff_operands or name in _SCALARS
        numbers[name] = (_unsigned(x, name) if name in _INTEGERS else x) if plainly else _wrapped(x)
    return numbers


def _wrapped(x: Any) -> Tensor:
    type = NUMBER_TYPES[x.__class__]
    return new_tensor(constant(type.dtype.numpy.type(x)), type)


def _saved(node: Any, name: str) -> Any:
    tensors = _tensors(node, name)
    if tensors and tensors[0].name.startswith("*"):
        return _in_places(node, [s.unpack(node) for s in tensors], None)
    if tensors:
        if node.released:
            raise RuntimeError(TWICE)
        return tensors[0].unpack(node)
    plan = node.plan
    operation = plan.operation
    if name.startswith("scales") and "scales" in operation.parameters:
        return _scales(plan.params[operation.parameters.index("scales")]).get(name, _MISSING)
    if name in operation.parameters:
        return _unsigned(plan.params[operation.parameters.index(name)], name)
    numbers = _numbers(node)
    if name in numbers:
        return numbers[name]
    constants = dict(operation.gradients.constants)
    if name in constants:
        return constants[name]
    sized = name.removesuffix("_opt").removesuffix("_sym_sizes")
    if sized != name and sized in operation.operands:
        type = plan.types[operation.operands.index(sized)]
        if isinstance(type, TensorType):
            return type.shape
        if type is None and name.endswith("_opt"):
            return (0,)
    return None if name in operation.operands else _MISSING


def _in_places(node: Any, saved: Sequence[Any], nothing: Any) -> tuple[Any, ...]:
    """A variadic operand as a tuple; for an index, ``nothing`` is the item of axes that no tensor indexes."""
    tensors = iter(saved)
    static = node.plan.operation.named(node.plan.params)
    return tuple([next(tensors) if yes else nothing for yes in static.get("spec", [True] * len(saved))])


def _scales(factors: Sequence[float | None]) -> dict[str, float | None]:
    """The factors of resampling: PyTorch has one attribute for each axis."""
    if len(factors) == 1:
        return {"scales": factors[0]}
    return {f"scales_{axis}": factor for axis, factor in zip("dhw"[-len(factors) :], factors, strict=True)}


def _unsigned(value: Any, name: str) -> Any:
    """A static parameter as PyTorch's attribute shows it: negative integers come out as unsigned ones."""
    if isinstance(value, tuple):
        return tuple([_unsigned(x, name) for x in value])
    return value % (1 << 64) if value.__class__ is int and name not in _SCALARS else value
