"""Flattening and checking the arguments of a transformed function."""

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import jax
import jax.ref
import numpy as np
from attrs import frozen
from jax import tree_util

from fgrad import errors
from fgrad.jaxcore import ShapedArray, Tracer, copied, tangent_dtype, typeof
from fgrad.jaxtypes import is_reference

Argnums = int | Sequence[int]

#: the most leaves that an error names where two structures differ
_SHOWN = 6


def check_function(fun: Any, what: str) -> None:
    """Refuse what is not callable.

    Raises:
      TypeError: ``fun`` is no function.
    """
    if not callable(fun):
        called = f"\nWay out: pass the function itself, {what}(f)(x) and not {what}(f(x))."
        raise TypeError(
            f"{what} takes a function, got {errors.shown(fun)} of type {type(fun).__name__}."
            f"{called if isinstance(fun, jax.Array | np.ndarray | float) else ''}"
        )


@frozen(eq=False)
class Leaves:
    """The flat values of a pytree, their paths, and its structure."""

    values: list[Any]
    paths: list[str]
    tree: Any

    @property
    def types(self) -> list[ShapedArray]:
        return [typeof(x) for x in self.values]

    def unflatten(self, values: Sequence[Any]) -> Any:
        return tree_util.tree_unflatten(self.tree, values)


def leaves(tree: Any, name: str, what: str, names: Sequence[str] | None = None) -> Leaves:
    """Flatten ``tree``, whose leaves must be arrays or numbers; NumPy arrays are copied.

    Raises:
      ArgumentTypeError: a leaf is not an array or number; the message has its name, or its path from ``name``.
    """
    flat, treedef = flattened(tree, name, what)
    values = []
    for i, value in enumerate(flat):
        if isinstance(value, Tracer):
            if is_reference(value.aval):
                raise errors.reference_argument(names[i] if names else path_of(tree, i, name), what)
        elif not isinstance(value, jax.Array):
            value = _as_value(value, lambda i=i: names[i] if names else path_of(tree, i, name), what)
        values.append(value)
    return Leaves(values, _Paths(tree, name, len(flat)), treedef)  # type: ignore[arg-type]


def flattened(tree: Any, name: str, what: str) -> tuple[list[Any], Any]:
    """The leaves of a pytree and its structure.

    Raises:
      PytreeError: it cannot be flattened; the message names it and says why.
    """
    try:
        return tree_util.tree_flatten(tree)
    except (SystemError, RecursionError, ValueError) as error:
        if not isinstance(error, ValueError) or isinstance(error.__cause__, RecursionError):
            raise errors.PytreeError(
                f"{what}: {name} is nested too deeply: a list, tuple or dict contains itself, or thousands of them "
                "are inside each other. Way out: pass the arrays in a flat list."
            ) from error
        if not isinstance(error.__cause__, TypeError):
            raise
        raise errors.PytreeError(
            f"{what}: {name} has a dict whose keys cannot be sorted ({error.__cause__}). "
            "Way out: use keys of one type, for instance strings."
        ) from error


class _Paths(Sequence[str]):
    """Paths of the leaves, computed when an error message needs one."""

    def __init__(self, tree: Any, name: str, count: int):
        self.tree, self.name, self.size = tree, name, count

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: Any) -> Any:
        return path_of(self.tree, i, self.name)


def path_of(tree: Any, i: int, name: str) -> str:
    """The readable path of the ``i``-th leaf: ``args[0]['weights'][2]``."""
    with_paths, _ = tree_util.tree_flatten_with_path(tree)
    return name + tree_util.keystr(with_paths[i][0])


def _as_value(value: Any, path: Callable[[], str], what: str) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype == jax.dtypes.float0:
            return value
        if isinstance(value, np.ma.MaskedArray):
            raise errors.masked_array(path(), what)
        if value.dtype == object or (
            value.dtype.kind in "USV" and value.dtype.names is None and not _known_dtype(value.dtype)
        ):
            raise errors.not_an_array(path(), value, what)
        # a copy, which later writes to the NumPy array do not change
        return copied(value)
    if type(value) is int and not -(1 << 31) <= value < 1 << 31:
        try:
            typeof(value)
        except OverflowError:
            raise OverflowError(
                f"{what}: {path()} is {value}, which does not fit the integers that JAX uses here. Way out: a float, "
                "a NumPy array of another dtype, or 64-bit integers with jax.config.update('jax_enable_x64', True)."
            ) from None
    if isinstance(value, bool | int | float | complex | np.generic):
        return value
    if hasattr(value, "__jax_array__"):
        return value.__jax_array__()
    if isinstance(value, jax.ref.Ref):
        raise errors.reference_argument(path(), what)
    raise errors.not_an_array(path(), value, what)


def _known_dtype(dtype: np.dtype) -> bool:
    return jax.dtypes.issubdtype(dtype, jax.numpy.number)


def normalised(argnums: Any, what: str) -> int | tuple[int, ...]:
    """``argnums`` as an int or a tuple of ints; any other iterable is consumed.

    Raises:
      TypeError: it is neither an int nor several of them.
    """
    try:
        if isinstance(argnums, bool | str):
            raise TypeError
        return _one_or_several(argnums)
    except TypeError:
        raise TypeError(f"{what}: argnums must be an int or a tuple of ints, got {errors.shown(argnums)}.") from None


def argnums_tuple(argnums: Any, what: str) -> tuple[int, ...]:
    """``argnums`` as a tuple of ints.

    Raises:
      TypeError: it is neither an int nor several of them.
    """
    numbers = normalised(argnums, what)
    return (numbers,) if isinstance(numbers, int) else numbers


def positions(argnums: Any, name: str, what: str) -> tuple[int, ...] | None:
    """A parameter such as ``static_argnums`` as a tuple of ints, or None.

    Raises:
      TypeError: it is neither an int nor several of them.
    """
    if argnums is None:
        return None
    try:
        numbers = _one_or_several(argnums)
    except TypeError:
        raise TypeError(f"{what}: {name} must be an int or several of them, got {errors.shown(argnums)}.") from None
    return (numbers,) if isinstance(numbers, int) else numbers


def _one_or_several(argnums: Any) -> int | tuple[int, ...]:
    """An int (an array without axes counts as one), or the ints of an iterable."""
    try:
        return operator.index(argnums)
    except TypeError:
        return tuple([operator.index(i) for i in _entries(argnums)])


def _entries(entries: Iterable[Any]) -> tuple[Any, ...]:
    """The entries of an iterable that names arguments.

    Raises:
      TypeError: it has more entries than any call has arguments, as an endless generator does.
    """
    first = tuple(islice(entries, _MOST + 1))
    if len(first) > _MOST:
        raise TypeError(f"more than {_MOST} entries")
    return first


#: more arguments than any call has
_MOST = 1 << 16


def names(argnames: Any, name: str, what: str) -> tuple[str, ...] | None:
    """A parameter such as ``static_argnames`` as a tuple of strings, or None.

    Raises:
      TypeError: it is neither a string nor several of them.
    """
    if argnames is None:
        return None
    several = isinstance(argnames, Iterable) and not isinstance(argnames, str)
    try:
        as_tuple: tuple[Any, ...] = _entries(argnames) if several else (argnames,)
    except TypeError:
        as_tuple = (None,)
    if not all(isinstance(x, str) for x in as_tuple):
        raise TypeError(f"{what}: {name} must be a string or several of them, got {errors.shown(argnames)}.")
    return as_tuple


def check_reduce_axes(reduce_axes: Sequence[Any], what: str) -> None:
    """Refuse axes to reduce over, as JAX does; the parameter is there for JAX's callers.

    Raises:
      NotImplementedError: there are some.
    """
    if reduce_axes:
        raise NotImplementedError(f"{what}: reduce_axes is not supported (JAX has removed it too); leave it out.")


def resolve(argnums: Sequence[int], count: int, what: str) -> tuple[int, ...]:
    """Non-negative positions for ``argnums`` in a call with ``count`` positional arguments.

    Raises:
      PositionError: a position is out of range or repeated.
    """
    resolved = []
    for i in argnums:
        if not -count <= i < count:
            raise errors.PositionError(
                f"{what} differentiates with respect to positional argument {i} (argnums={tuple(argnums)}), but the "
                f"function was called with {count} positional argument{'s' * (count != 1)}. Arguments to differentiate "
                "must be passed by position."
            )
        resolved.append(i % count)
    if len(set(resolved)) != len(resolved):
        raise errors.PositionError(f"{what}: argnums={tuple(argnums)} names an argument twice.")
    return tuple(resolved)


def with_positions(args: Sequence[Any], positions: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """``args`` with those at ``positions`` replaced."""
    new = list(args)
    for i, value in zip(positions, values, strict=True):
        new[i] = value
    return new


def matching(
    tree: Any, pattern: Any, types: Sequence[ShapedArray], what: str, of: str, integers: str = "float0"
) -> list[Any]:
    """The leaves of ``tree``, which must have the structure ``pattern`` and be (co)tangents of values of ``types``.

    Those of integers have dtype ``float0``; with ``integers="own"`` the same integer dtype, as in the transpose of a
    linear function, and with "any" any dtype, since they are not read.

    Raises:
      MismatchError: the structures differ, or a leaf has another shape or dtype than its counterpart's (co)tangent.
    """
    flat, treedef = flattened(tree, what, f"The derivative of {of}")
    if treedef != pattern:
        raise errors.MismatchError(
            f"The structure of {what} must be that of {of}.\n  expected: {pattern}\n  got:      {treedef}"
            f"{_differences(pattern, treedef)}"
        )
    return [
        _matched(
            x, ShapedArray(t.shape, t.dtype if integers == "own" else tangent_dtype(t.dtype)),
            lambda i=i: path_of(tree, i, what), of, integers == "any",
        )
        for i, (x, t) in enumerate(zip(flat, types, strict=True))
    ]  # fmt: skip


def _differences(pattern: Any, treedef: Any) -> str:
    """A message on the leaves that only one of two structures has."""
    try:
        trees = [t.unflatten(range(t.num_leaves)) for t in (pattern, treedef)]
        expected, got = ({tree_util.keystr(path) for path, _ in tree_util.tree_flatten_with_path(t)[0]} for t in trees)
    except Exception:  # the user's node class does not accept numbers
        return ""
    parts = {"missing": expected - got, "not expected": got - expected}
    return "".join(
        f"\n  {name}: {', '.join(path or 'the bare value' for path in sorted(paths)[:_SHOWN])}"
        for name, paths in parts.items()
        if paths
    )


def sole_cotangent(cts: Sequence[Any], tree: Any, what: str) -> Any:
    """The cotangent with which a pull-back was called.

    Raises:
      TypeError: it was called with none, or with several.
    """
    if len(cts) != 1:
        raise TypeError(
            f"{what} takes one argument, the cotangent of the output, and got {len(cts)}. "
            f"Pass one pytree with the output's structure {tree}."
        )
    return cts[0]


def _matched(x: Any, expected: ShapedArray, path: Callable[[], str], of: str, unread: bool) -> Any:
    if not isinstance(x, Tracer | jax.Array):
        x = _as_value(x, path, "A derivative's argument")
    got = typeof(x)
    if got.shape == expected.shape and (
        got.dtype == expected.dtype or (unread and expected.dtype == jax.dtypes.float0)
    ):
        return x
    raise errors.mismatch(path(), expected.str_short(), got.str_short(), of)


def stripped(x: Any) -> Any:
    """``x`` without its weak type: (co)tangents have strong types inside a program."""
    type = typeof(x)
    return jax.lax.convert_element_type(x, type.dtype) if type.weak_type else x


# --------------------------------------------------------------------------------------------------------------------
# trees of bools beside pytrees: which arguments may be saved, which derivatives are not zero


def flags(prefix: Any, tree: Any, name: str, what: str) -> tuple[bool, ...]:
    """A flag for each leaf of a pytree of structure ``tree``, from its prefix of bools, given as ``name`` to ``what``.

    A container of the prefix may be of another type than that of the pytree, if it has as many children.

    Raises:
      MismatchError: it is no such prefix.
    """
    if isinstance(prefix, bool):
        return (prefix,) * tree.num_leaves
    children, _ = tree_util.tree_flatten(prefix, is_leaf=lambda x: x is not prefix)
    if len(children) == 1 and children[0] is prefix:
        raise errors.MismatchError(
            f"{what}: {name} must be a bool or a tuple of such, got {errors.shown(prefix)} of type "
            f"{type(prefix).__name__}."
        )
    node = tree.node_data()
    if node is None:
        raise errors.MismatchError(f"{what}: {name} is a container where there is one array. Way out: one bool there.")
    parts = tree_util.treedef_children(tree)
    if len(children) != len(parts):
        raise errors.MismatchError(
            f"{what}: {name} must have an entry for each part of the primals, {len(parts)}, and has {len(children)}."
        )
    if type(prefix) is dict and node[0] is dict and sorted(prefix) != list(node[1]):
        raise errors.MismatchError(f"{what}: {name} has the keys {sorted(prefix)}, and the primals {list(node[1])}.")
    each = [flags(p, t, f"{name}[{i}]", what) for i, (p, t) in enumerate(zip(children, parts, strict=True))]
    return tuple([flag for part in each for flag in part])


def as_tree(values: Sequence[bool], tree: Any) -> Any:
    """Flags in the structure ``tree``, with tuples for containers other than tuples, lists and dicts, as in JAX."""
    return _as_tree(iter(values), tree)


def _as_tree(values: Iterator[bool], tree: Any) -> Any:
    node = tree.node_data()
    if node is None:
        return next(values)
    kind, keys = node
    parts = [_as_tree(values, part) for part in tree_util.treedef_children(tree)]
    if kind is dict:
        return dict(zip(keys, parts, strict=True))
    if kind is type(None):
        return None
    return parts if kind is list else tuple(parts)
