"""How the functions of ``torch.nn.functional`` and their operations are entered in the table."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Unpack

from attrs import evolve

from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.torch_function.protocol import plain
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.write.inplace import apply_inplace
from fgrad.torch.ops.table.kinds import check_floating as check_floating, check_wide as check_wide, single as single
from fgrad.torch.ops.table.table import RowOptions, composite, operation, operation_of

NAMESPACE = "nn.functional"


def functional(public: Callable[..., Any] | None = None, **options: Unpack[RowOptions]) -> Callable[..., Any]:
    """Enter a function of tensors in ``torch.nn.functional``; ``options`` as in ``composite``."""
    enter = composite(method=False, function=False, namespace=NAMESPACE, **options)
    return enter if public is None else enter(public)


def kernel(node: Any, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function of arrays as an operation without a public name; ``settings`` as in ``operation``."""

    def enter(array_function: Callable[..., Any]) -> Callable[..., Any]:
        error_name = array_function.__name__.removeprefix("_").removesuffix("_written")
        return operation(node, error_name=error_name, method=False, function=False, **settings)(array_function)

    return enter


def by_rank(name: str, parameter: str) -> Callable[..., str]:
    """The name of a node, with {} replaced by the number of elements of a parameter."""
    return lambda types, params: name.format(len(params[parameter]))


def run_inplace(kernel: Callable[..., Any], *args: Any) -> Tensor:
    """Run an operation in place of its first argument."""
    return apply_inplace(operation_of(kernel), *kernel.split(args))  # type: ignore[attr-defined]


def refusing(kernel: Callable[..., Any], problem: str) -> Callable[..., Tensor]:
    """``run_inplace`` of an operation with settings for which PyTorch's backward raises an error."""
    op = operation_of(kernel)

    def refuse(*saved: Any, **static: Any) -> None:
        raise RuntimeError(problem)

    op = evolve(op, gradients=evolve(op.gradients, refuse=refuse))
    return lambda *args: apply_inplace(op, *kernel.split(args))  # type: ignore[attr-defined]


def takes(kernel: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function raise PyTorch's error for arguments that are not tensors.

    Arguments:
      kernel: the name of PyTorch's kernel and its parameters, in its order: ``"embedding(weight, indices=input)"``.
        "_" stands for a parameter that is not a tensor, "?" ends one that may be None, and the function's own name of
        one follows "=".
    """
    error_name, _, parameters = kernel.removesuffix(")").partition("(")

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        names = list(inspect.signature(function).parameters)
        tensors = []
        for position, parameter in enumerate(parameters.split(", "), 1):
            if parameter != "_":
                name, _, parameter_name = parameter.removesuffix("?").partition("=")
                tensors.append(
                    (names.index(parameter_name or name), parameter_name or name, parameter[-1] == "?", name, position)
                )

        #: the classes of arguments that have passed the check
        passed: set[tuple[type, ...]] = set()

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            classes = tuple(map(type, args))
            if not kwargs and classes in passed:
                return function(*args)
            count = len(args)
            for index, parameter_name, optional, name, position in tensors:
                value = args[index] if index < count else kwargs.get(parameter_name, _MISSING)
                if isinstance(value, Tensor) or value is _MISSING or (optional and value is None):
                    continue
                raise TypeError(
                    f"{error_name}(): argument '{name}' (position {position}) must be Tensor, not {type_name(value)}"
                )
            if not kwargs and plain.issuperset(classes):
                passed.add(classes)
            return function(*args, **kwargs)

        return checked

    return enter


_MISSING = inspect.Parameter.empty


def check_constant(function: str, **tensors: Any) -> None:
    """Raise PyTorch's error for a tensor that requires grad where no derivative is known."""
    for name, tensor in tensors.items():
        if tensor is not None and modes.grad and is_tracked(tensor):
            raise RuntimeError(
                f"The function '{function}' is not differentiable with respect to argument '{name}'. This input cannot "
                "have requires_grad True."
            )


def check_real_gradient(function: str, input: Tensor) -> None:
    """Raise PyTorch's error for a complex tensor that requires grad where the derivative is of real numbers only."""
    if input._type.dtype.is_complex and modes.grad and is_tracked(input):
        raise RuntimeError(f"{function} does not support automatic differentiation for outputs with complex dtype.")
