"""Names for the arguments and results of a function: ``params['w'][0]``, ``d loss / d params['w'][0]``."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen
from jax import tree_util

from fgrad.graph.source import is_hidden

#: the attribute of a derived function with its ``Differentiation``
_MARK = "__differentiation__"
Path = tuple[Any, ...]


@frozen
class Differentiation:
    """What a derived function differentiates, and the layout of its result.

    Attributes:
      fun: the function that is differentiated.
      argnums: the positions of the arguments it is differentiated in.
      single: whether ``argnums`` was one position, so the derivative is not a tuple.
      has_aux: ``fun`` also returns auxiliary data.
      with_value: the value comes first.
    """

    fun: Callable[..., Any]
    argnums: tuple[int, ...]
    single: bool
    has_aux: bool
    with_value: bool = False


def marked(derived: Callable[..., Any], differentiation: Differentiation) -> Callable[..., Any]:
    """The derived function, marked with what it differentiates."""
    derived.__dict__[_MARK] = differentiation
    return derived


def differentiation_of(fun: Callable[..., Any]) -> Differentiation | None:
    """What a function differentiates; a mark that ``functools.wraps`` copied to a user's function does not count."""
    code = getattr(fun, "__code__", None)
    return getattr(fun, _MARK, None) if code is None or is_hidden(code) else None


# --------------------------------------------------------------------------------------------------------------------
# arguments


def argument_names(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[list[str]]:
    """The readable path of every leaf, argument by argument, keywords last: ``x``, ``params['w'][0]``, ``args[2]``."""
    names = _graph_input_names(fun, args)
    if names is None:
        try:
            parameters = list(inspect.signature(fun).parameters.values())
        except (TypeError, ValueError):  # a builtin, or a callable that hides its parameters
            parameters = []
        named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        starred = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
        bases = [named[i] if i < len(named) else f"{starred}[{i - len(named)}]" for i in range(len(args))]
        names = [_paths(x, name) for x, name in zip(args, bases, strict=True)]
    return names + [_paths(kwargs[name], name) for name in sorted(kwargs)]


def _graph_input_names(fun: Callable[..., Any], args: Sequence[Any]) -> list[list[str]] | None:
    """The names of a graph's inputs, argument by argument, if ``fun`` is a graph or a derivative of one."""
    while (differentiation := differentiation_of(fun)) is not None:
        fun = differentiation.fun
    names = getattr(fun, "names", None)
    counts = [len(tree_util.tree_leaves(x)) for x in args]
    if not hasattr(fun, "in_tree") or names is None or sum(counts) > len(names):
        return None
    rest = iter(names)
    return [[next(rest) for _ in range(count)] for count in counts]


def _paths(tree: Any, name: str) -> list[str]:
    return [name + tree_util.keystr(path) for path, _ in tree_util.tree_flatten_with_path(tree)[0]]


# --------------------------------------------------------------------------------------------------------------------
# results


def result_names(fun: Callable[..., Any], args: Sequence[Any], tree: Any) -> tuple[str, ...]:
    """The name of every leaf of a function's result of the structure ``tree``.

    >>> import fgrad, jax
    >>> def loss(params, x):
    ...     return params["w"] * x
    >>> args = ({"w": 1.0}, 2.0)
    >>> result_names(loss, args, jax.tree.structure(0.0))
    ('loss',)
    >>> result_names(fgrad.grad(loss), args, jax.tree.structure(args[0]))
    ("d loss / d params['w']",)
    """
    leaves = tree_util.tree_flatten_with_path(tree_util.tree_unflatten(tree, range(tree.num_leaves)))[0]
    return tuple(_named(fun, args, [path for path, _ in leaves]))


def _named(fun: Callable[..., Any], args: Sequence[Any], paths: Sequence[Path]) -> list[str]:
    differentiation = differentiation_of(fun)
    if differentiation is None:
        return _plain(fun, paths)
    try:
        return _derivatives(differentiation, args, paths)
    except (AttributeError, IndexError, TypeError, ValueError):  # not the derivative's own result
        return _plain(fun, paths)


def _plain(fun: Callable[..., Any], paths: Sequence[Path]) -> list[str]:
    out_names = getattr(fun, "out_names", None)
    if out_names is not None and len(out_names) == len(paths):
        return list(out_names)
    name = getattr(fun, "__name__", "output")
    name = name if name.isidentifier() else "output"
    return [name + tree_util.keystr(path) for path in paths]


def _derivatives(of: Differentiation, args: Sequence[Any], paths: Sequence[Path]) -> list[str]:
    """Names of the leaves of a derived function's result: the input leaves repeat for each output leaf."""
    positions = [i % len(args) for i in of.argnums]
    inputs = [
        (path if of.single else (i, *path), name)
        for i, p in enumerate(positions)
        for path, name in _leaves(of, args, p)
    ]
    parts = [_part(of, path) for path in paths]
    derivative_paths = [path for kind, path in parts if kind == "derivative"]
    inner = [inputs[k % len(inputs)] for k in range(len(derivative_paths))]
    outer = [path[: len(path) - len(within)] for path, (within, _) in zip(derivative_paths, inner, strict=True)]
    values = list(dict.fromkeys(outer))
    value_of = dict(zip(values, _named(of.fun, args, values), strict=True))
    derivatives = iter([_derivative(value_of[path], name) for path, (_, name) in zip(outer, inner, strict=True)])
    return [next(derivatives) if kind == "derivative" else _other(of, kind, path) for kind, path in parts]


def _derivative(value: str, name: str) -> str:
    return f"d {f'({value})' if ' / ' in value else value} / d {name}"


def _other(of: Differentiation, kind: str, path: Path) -> str:
    return "aux" + tree_util.keystr(path) if kind == "aux" else _plain(of.fun, [path])[0]


def _leaves(of: Differentiation, args: Sequence[Any], position: int) -> list[tuple[Path, str]]:
    names = argument_names(of.fun, args, {})[position]
    paths = [path for path, _ in tree_util.tree_flatten_with_path(args[position])[0]]
    return list(zip(paths, names, strict=True))


def _part(of: Differentiation, path: Path) -> tuple[str, Path]:
    """Which part of a derived function's result a leaf belongs to, and its path there."""
    if of.with_value and path[0].idx == 0:
        path = path[1:]
        return ("value", path) if not of.has_aux else ("aux" if path[0].idx else "value", path[1:])
    if of.with_value or of.has_aux:
        return "derivative" if of.with_value or not path[0].idx else "aux", path[1:]
    return "derivative", path
