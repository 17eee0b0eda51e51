"""Schemas: the parameters and results of a ``torch.library`` operator, from the annotations of a function."""

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from types import GenericAlias
from typing import Any

from attrs import evolve, frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.devices import device as Device
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.types.type_names import type_name
from fgrad.torch import types

_ANY_CAST = "(#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)"
#: the types of parameters as errors name them
_WANTED = {"SymInt": "int", "Scalar": "number", "ScalarType": "int"}
_KINDS: dict[str, Any] = {"SymInt": int, "float": (int, float), "bool": bool, "str": str}


def _sequences(item: Any) -> tuple[Any, ...]:
    aliases = GenericAlias(Sequence, (item,)), GenericAlias(list, (item,))
    return typing.Sequence[item], typing.List[item], *aliases  # noqa: UP006


def _parameter_types() -> dict[Any, str]:
    """The annotations that parameters may have, and their types in a schema."""
    names: dict[Any, str] = {}
    # a type, its name, and whether list[type], list[type | None] and list[type] | None exist
    for base, name, lists, of_optional, optional in (
        (Tensor, "Tensor", True, True, False),
        (int, "SymInt", True, False, True),
        (float, "float", True, False, True),
        (bool, "bool", True, False, True),
        (str, "str", False, False, False),
        (types.Number, "Scalar", True, False, False),
        (Dtype, "ScalarType", False, False, False),
        (Device, "Device", False, False, False),
    ):
        names[base] = name
        names[base | None] = f"{name}?"
        if lists:
            names.update(dict.fromkeys(_sequences(base), f"{name}[]"))
        if of_optional:
            names.update(dict.fromkeys(_sequences(base | None), f"{name}?[]"))
        if optional:
            names.update({each | None: f"{name}[]?" for each in _sequences(base)})
    return names


_PARAMETERS = _parameter_types()
_RETURNS: dict[Any, str] = {
    Tensor: "Tensor",
    **dict.fromkeys((typing.List[Tensor], list[Tensor]), "Tensor[]"),  # noqa: UP006
    int: "SymInt",
    float: "float",
    bool: "bool",
    types.Number: "Scalar",
}


@frozen
class Parameter:
    """A parameter of an operator; ``default`` is ``inspect.Parameter.empty`` where there is none."""

    name: str
    kind: str
    default: Any
    keyword_only: bool
    mutated: bool

    def __str__(self) -> str:
        if self.default is inspect.Parameter.empty:
            return f"{self.kind} {self.name}"
        value = self.default
        shown = f'"{value}"' if isinstance(value, str | Device) else str(value).removeprefix("torch.")
        return f"{self.kind} {self.name}={shown}"


@frozen
class Schema:
    """The parameters and results of an operator."""

    parameters: tuple[Parameter, ...]
    returns: str

    def __str__(self) -> str:
        shown = [str(p) for p in self.parameters]
        first = next((i for i, p in enumerate(self.parameters) if p.keyword_only), None)
        if first is not None:
            shown.insert(first, "*")
        return f"({', '.join(shown)}) -> {self.returns}"

    def declaration(self, name: str) -> str:
        """The schema as errors about a call show it."""
        return name + re.sub(r"(=-?\d+\.)0(?=[,)])", r"\1", str(self))

    def bound(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The positional and the keyword arguments of a call, without trailing defaults.

        Raises:
          RuntimeError: the arguments do not fit.
        """
        positional = [p for p in self.parameters if not p.keyword_only]
        declared = self.declaration(name)
        if len(args) > len(positional):
            raise RuntimeError(
                f"{name}() takes {len(positional)} positional argument(s) but {len(args)} was/were given.  "
                f"Declaration: {declared}"
            )
        arguments = dict(zip([p.name for p in positional], args, strict=False))
        for key, value in kwargs.items():
            if all(p.name != key for p in self.parameters):
                raise RuntimeError(f"Unknown keyword argument '{key}' for operator '{name}'. Schema: {declared}")
            arguments[key] = value
        values: dict[str, Any] = {}
        for position, p in enumerate(self.parameters):
            value = arguments.get(p.name, p.default)
            if value is inspect.Parameter.empty:
                raise RuntimeError(f"{name}() is missing value for argument '{p.name}'. Declaration: {declared}")
            values[p.name] = value if value is p.default else _converted(p, position, value, name, declared)
        while positional and _is_default(positional[-1], values[positional[-1].name]):
            positional.pop()
        named = {
            p.name: values[p.name] for p in self.parameters if p.keyword_only and not _is_default(p, values[p.name])
        }
        return [values[p.name] for p in positional], named

    def filled(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments as ``bound`` returns them, the defaults filled in."""
        positional = [p.default for p in self.parameters if not p.keyword_only]
        named = {p.name: kwargs.get(p.name, p.default) for p in self.parameters if p.keyword_only}
        return (*args, *positional[len(args) :]), named


def _is_default(parameter: Parameter, value: Any) -> bool:
    return value is parameter.default or (
        not isinstance(value, Tensor | list | tuple)
        and type(value) is type(parameter.default)
        and value == parameter.default
    )


def _converted(parameter: Parameter, position: int, value: Any, name: str, declared: str) -> Any:
    """An argument as it is passed to the kernel."""
    kind = re.sub(r"\(a\d+!\)", "", parameter.kind)
    base = kind.rstrip("?[]")
    if value is None and (kind.endswith("?") or base == "Tensor"):
        return None
    if "[]" in kind:
        if isinstance(value, list | tuple):
            return [None if v is None else _element(base, v) for v in value]
    elif base == "Tensor":
        if isinstance(value, Tensor):
            return value
    elif base not in _KINDS or (isinstance(value, _KINDS[base]) and (base == "bool" or not isinstance(value, bool))):
        return _element(base, value)
    wanted = _WANTED.get(base, base)
    wanted = f"List[{wanted}]" if "[]" in kind else wanted
    why = (
        f"Unable to cast {value!r} to Tensor"
        if kind == "Tensor"
        else (f"Unable to cast Python instance of type {type(value)} to C++ type '?' {_ANY_CAST}")
    )
    raise RuntimeError(
        f"{name}() Expected a value of type '{wanted}' for argument '{parameter.name}' but instead found type "
        f"'{type_name(value)}'.\nPosition: {position}\nValue: {value!r}\nDeclaration: {declared}\n"
        f"Cast error details: {why}"
    )


def _element(base: str, value: Any) -> Any:
    if base == "float":
        return float(value)
    return Device(value) if base == "Device" else value


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """The schema of an operator, from the annotations of a function.

    Arguments:
      prototype_function: every parameter and the result must be annotated.
      mutates_args: the names of the tensors that it writes, or "unknown".
      op_name: a prefix of the schema.

    Raises:
      ValueError: an annotation is missing or not supported.

    >>> import fgrad.torch as torch
    >>> def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    ...     return x * factor
    >>> torch.library.infer_schema(scaled, mutates_args=())
    '(Tensor x, float factor=2.0) -> Tensor'

    Source: `torch.library.infer_schema <https://docs.pytorch.org/docs/stable/library.html>`_.
    """
    return (op_name or "") + str(schema_of(prototype_function, mutates_args))


def schema_of(function: Callable[..., Any], mutates_args: str | Iterable[str]) -> Schema:
    """The schema that ``infer_schema`` infers."""
    signature = inspect.signature(function)
    mutated = mutates_args if isinstance(mutates_args, str) else tuple(mutates_args)

    def refuse(complaint: str) -> ValueError:
        return ValueError(f"infer_schema(func): {complaint} Got func with signature {signature})")

    parameters = []
    for position, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.annotation is parameter.empty:
            raise refuse(f"Parameter {name} must have a type annotation.")
        kind = _kind(function, name, parameter.annotation, refuse)
        default = parameter.default
        if default is not parameter.empty and not isinstance(default, int | float | str | Device | Dtype | None):
            raise refuse(
                f"Parameter {name} has an unsupported default value type {type(default)}. Please file an issue on "
                "GitHub so we can prioritize this."
            )
        entry = Parameter(name, kind, default, parameter.kind is parameter.KEYWORD_ONLY, False)
        parameters.append(_mutated(entry, position, mutated, refuse))
    unknown = set() if isinstance(mutated, str) else set(mutated) - set(signature.parameters)
    if unknown:
        raise refuse(
            f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args should contain the "
            "names of all args that the custom op mutates, or just the string 'unknown' if you don't know."
        )
    return Schema(tuple(parameters), _returned(_evaluated(function, signature.return_annotation, refuse), refuse))


def _kind(function: Any, name: str, annotation: Any, refuse: Callable[[str], ValueError]) -> str:
    kind = _evaluated(function, annotation, refuse)
    if kind in _PARAMETERS:
        return _PARAMETERS[kind]
    listed = f"The valid types are: {_PARAMETERS.keys()}."
    if typing.get_origin(kind) is tuple:
        example = _as_list(kind)
        hint = f"For example, {example}.\n\n" if example in _PARAMETERS else "\n\n"
        raise refuse(
            f"Parameter {name} has unsupported type {annotation}. We do not support Tuple inputs in schema. As a "
            f"workaround, please try to use List instead. {hint}{listed}"
        )
    raise refuse(f"Parameter {name} has unsupported type {annotation}. {listed}")


def _as_list(kind: Any) -> Any:
    """The list type for a tuple type."""
    items = [each for each in typing.get_args(kind) if each is not ...]
    return list[typing.Union[tuple(items)]] if items else list  # noqa: UP007


def _mutated(
    parameter: Parameter, position: int, mutated: str | tuple[str, ...], refuse: Callable[[str], ValueError]
) -> Parameter:
    """A parameter, marked if it is mutated."""
    tensors = parameter.kind.startswith("Tensor")
    if isinstance(mutated, str):
        if mutated != "unknown":
            raise ValueError(
                "mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
                "'unknown'. "
            )
        is_mutated = tensors
    else:
        is_mutated = parameter.name in mutated
        if is_mutated and not tensors:
            raise refuse(
                f"Parameter {parameter.name} is in mutable_args but only Tensors or collections of Tensors can be "
                "mutated"
            )
    if not is_mutated:
        return parameter
    return evolve(parameter, kind=f"Tensor(a{position}!){parameter.kind.removeprefix('Tensor')}", mutated=True)


def _evaluated(function: Any, annotation: Any, refuse: Callable[[str], ValueError]) -> Any:
    """An annotation as a type; it may be a string, or contain strings."""
    if isinstance(annotation, str):
        try:
            return eval(annotation, function.__globals__)
        except Exception as error:
            hint = (
                f"({error}). If you are using 'from __future__ import annotations', note that annotations are "
                "evaluated lazily as strings; make sure all types referenced in annotations are importable at module "
                "scope, not only inside a local function."
                if isinstance(error, NameError)
                else f"({type(error).__name__}: {error})"
            )
            raise refuse(f"Unsupported type annotation {annotation}. It is not a type. {hint}") from None
    items = typing.get_args(annotation)
    if any(isinstance(each, str) for each in items):
        return GenericAlias(
            typing.get_origin(annotation), tuple([_evaluated(function, each, refuse) for each in items])
        )
    return annotation


def _returned(annotation: Any, refuse: Callable[[str], ValueError]) -> str:
    if annotation is None:
        return "()"
    if annotation is inspect.Parameter.empty:
        raise refuse("No return type annotation was provided. Please add one.")
    several = typing.get_origin(annotation) is tuple
    items = typing.get_args(annotation) if several else (annotation,)
    if any(each not in _RETURNS for each in items):
        raise refuse(f"Return has unsupported type {annotation}. The valid types are: {_RETURNS}.")
    names = ", ".join([_RETURNS[each] for each in items])
    if not several:
        return names
    return f"(({names}))" if len(items) == 1 else f"({names})"
