"""Parameters, types and constants as Python expressions, or entries of a table of constants."""

import enum
import keyword
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax, tree_util

from fgrad.graph.encoding import FUNCTIONS, RECORDS, enums, key_dtypes
from fgrad.graph.graph import Const
from fgrad.jaxcore import Primitive, ShapedArray, Tracer, exported_name, exported_primitives

#: the most elements of an array written in the source; larger ones go to the table of constants
INLINE_ELEMENTS = 12


class Constants:
    """Objects that cannot be written in the source, which reads them as ``constants['name']``.

    ``table`` is the caller's dict; None if there is none.
    """

    def __init__(self, table: dict[str, Any] | None):
        self.table = table
        #: the caller's own entries
        self.existing: frozenset[str] = frozenset(table or ())

    def prune(self, source: str) -> None:
        """Remove entries that the source does not read; they belong to rejected forms."""
        for name in [name for name in self.table or () if name not in self.existing]:
            if f"constants[{name!r}]" not in source:
                del self.table[name]  # type: ignore[attr-defined]

    def __call__(self, name: str, value: Any, what: str) -> str:
        """Add a value to the table; its expression.

        Raises:
          ValueError: there is no table.
        """
        if isinstance(value, Tracer):
            raise ValueError(f"{what} is still being traced, and cannot be part of a program.")
        if self.table is None:
            raise ValueError(
                f"{what} cannot be written as source. Way out: pass a dict for it, graph.to_python(constants=table), "
                "which the source reads: exec(source, {'constants': table})."
            )
        for key, existing in self.table.items():
            if existing is value:
                return f"constants[{key!r}]"
        unique, count = name, 1
        while unique in self.table:
            count += 1
            unique = f"{name}_{count}"
        self.table[unique] = value
        return f"constants[{unique!r}]"


def identifier(name: str) -> str:
    """A name as an identifier: ``params_w`` for ``params['w']``, ``v7`` for ``%7``."""
    text = "".join(c if c.isalnum() and c.isascii() else "_" for c in name.replace("%", "v")).strip("_")
    while "__" in text:
        text = text.replace("__", "_")
    if not text or text[0].isdigit() or keyword.iskeyword(text):
        text = f"v_{text}"
    return text


def type_expression(type: ShapedArray) -> str:
    """The type as an abstract argument of a JAX trace."""
    weak = ", weak_type=True" if type.weak_type else ""
    return f"jax.ShapeDtypeStruct({type.shape!r}, {dtype_expression(type.dtype)}{weak})"


def dtype_expression(dtype: Any) -> str:
    if dtype == jax.dtypes.float0:
        return "jax.dtypes.float0"
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
        _, implementation = key_dtypes()[dtype.name]
        return f"jax.random.key(0, impl={implementation!r}).dtype"
    dtype = np.dtype(dtype)
    return (
        f"jnp.{dtype.name}" if hasattr(jax.numpy, dtype.name) and dtype.name != "bool" else f"jnp.dtype({dtype.name!r})"
    )


def number_expression(value: Any) -> str:
    """A Python number; infinities and nan as calls."""
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    if isinstance(value, complex) and not (math.isfinite(value.real) and math.isfinite(value.imag)):
        return f"complex({number_expression(value.real)}, {number_expression(value.imag)})"
    return repr(value)


def const_expression(const: Const, constants: Constants) -> str:
    """A constant of a graph: a number, a short array, or an entry of the table."""
    value, type = const.value, const.type
    plain = not isinstance(value, Tracer) and not jax.dtypes.issubdtype(type.dtype, jax.dtypes.extended)
    if plain and type.dtype == jax.dtypes.float0:
        return f"np.zeros({type.shape!r}, jax.dtypes.float0)"
    if plain and math.prod(type.shape) <= INLINE_ELEMENTS and np.dtype(type.dtype).kind in "biufc":
        array = np.asarray(value).astype(type.dtype)
        for text in _candidates(array):
            if Const.of(_value_of(text)) == const:
                return text
    return constants("constant", value, f"the constant of type {type.str_short()}")


def _candidates(array: np.ndarray) -> list[str]:
    """Expressions of an array, a Python number first."""
    name = f"np.{array.dtype.name}" if array.dtype.name != "bool" else "np.bool_"
    if array.ndim == 0:
        text = number_expression(array.item())
        return [text, f"{name}({text})"]
    return [f"np.array({_nested(array.tolist())}, {name})" if array.size else f"np.zeros({array.shape!r}, {name})"]


def _value_of(text: str) -> Any:
    """The value of one of these expressions, which for a nan may have other bits than the original."""
    return eval(text, {"np": np})


def _nested(value: Any) -> str:
    return f"[{', '.join(map(_nested, value))}]" if isinstance(value, list) else number_expression(value)


def expression(value: Any, constants: Constants, name: str = "parameter") -> str:
    """A parameter of a primitive."""
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    if type(value) in (float, complex):
        return number_expression(value)
    if type(value) is tuple:
        inner = ", ".join([expression(x, constants, name) for x in value])
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if type(value) is list:
        return f"[{', '.join([expression(x, constants, name) for x in value])}]"
    if type(value) is dict:
        return (
            "{"
            + ", ".join([f"{expression(k, constants)}: {expression(x, constants, name)}" for k, x in value.items()])
            + "}"
        )
    return _object(value, constants, name)


def _object(value: Any, constants: Constants, name: str) -> str:
    """A parameter that is not a plain Python value, in NumPy's or JAX's terms, or as an entry of the table."""
    text = _of_numpy(value) or _of_lax(value, constants)
    return text or constants(identifier(name), value, f"the parameter {name} ({value!r:.60})")


def _of_numpy(value: Any) -> str | None:
    """A dtype, a NumPy number or a short array; None for other values."""
    if isinstance(value, np.dtype):
        return f"jnp.dtype({value.name!r})" if value != jax.dtypes.float0 else "np.dtype(jax.dtypes.float0)"
    if isinstance(value, type) and issubclass(value, np.generic):
        return f"jnp.dtype({np.dtype(value).name!r}).type"
    if not isinstance(value, np.generic | np.ndarray) or value.dtype.kind not in "biufc":
        return None
    if isinstance(value, np.generic):
        return _candidates(np.asarray(value))[1]
    return _candidates(value)[0] if value.ndim and value.size <= INLINE_ELEMENTS else None


def _of_lax(value: Any, constants: Constants) -> str | None:
    """An object that JAX exports: enum members, records, primitives, functions, tree structures, policies."""
    kind = type(value)
    if isinstance(value, enum.Enum) and enums().get(kind.__name__) is kind and hasattr(lax, kind.__name__):
        return f"lax.{kind.__name__}.{value.name}"
    if kind.__name__ in RECORDS and getattr(lax, kind.__name__, None) is kind:
        fields = [f"{k}={expression(getattr(value, k), constants, k)}" for k in RECORDS[kind.__name__]]
        return f"lax.{kind.__name__}({', '.join(fields)})"
    if isinstance(value, Primitive):
        return primitive_expression(value, constants)
    if isinstance(value, tree_util.PyTreeDef):
        tree: Any = value
        text = container(tree, ["0"] * tree.num_leaves)
        return None if text is None else f"jax.tree.structure({text})"
    named = getattr(value, "__name__", None)
    if named in FUNCTIONS and getattr(lax, named) is value:
        return f"lax.{named}"
    policies = jax.checkpoint_policies
    names = [name for name in dir(policies) if name[0] != "_" and getattr(policies, name) is value]
    return f"jax.checkpoint_policies.{names[0]}" if names else None


def primitive_expression(primitive: Any, constants: Constants) -> str:
    """A primitive, by the name under which JAX exports it."""
    if exported_primitives().get(primitive.name) is primitive:
        return exported_name(primitive)
    return constants(f"{identifier(primitive.name)}_p", primitive, f"the primitive {primitive.name}")


_LEAF = object()


def container(tree: Any, leaves: Sequence[str]) -> str | None:
    """A structure of tuples, lists and dicts around expressions; None if it has other containers."""
    rest = iter(leaves)

    def text(x: Any) -> str:
        if x is _LEAF:
            return next(rest)
        if x is None:
            return "None"
        if type(x) is tuple:
            return f"({', '.join(map(text, x))}{',' if len(x) == 1 else ''})"
        if type(x) is list:
            return f"[{', '.join(map(text, x))}]"
        if type(x) is dict and all(type(k) in (str, int, bool) for k in x):
            # the leaves come in the order of sorted keys
            entries = {k: text(x[k]) for k in sorted(x)}
            return "{" + ", ".join(f"{k!r}: {v}" for k, v in entries.items()) + "}"
        raise TypeError

    try:
        return text(tree_util.tree_unflatten(tree, [_LEAF] * tree.num_leaves))
    except TypeError:
        return None
