"""Calls of the users' rules, with errors that say what a rule takes and returns."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from jax import tree_util

from fgrad.graph.source import Source, is_hidden
from fgrad.graph.text import type_text
from fgrad.jaxcore import typeof

#: what the rules of each kind take and return
_FORMS = {
    "vjp": ("ct, out, *args, **params", "a tuple with a cotangent, or None for zero, for each argument"),
    "jvp": (
        "tangents, out, *args, **params",
        "the tangent of the output; tangents is a tuple with one for each argument",
    ),
    "transpose": ("ct, *args, **params", "a tuple with a cotangent, or None, for each argument"),
    "batching": ("axis_size, in_batched, *args, **params", "(out, out_batched)"),
}


class RuleCallError(TypeError, ValueError):
    """A rule defined with ``define_rule`` does not accept its arguments, or returns something of the wrong form."""

    #: the message names the rule
    in_rule: bool = True


def explained(kind: str, name: str, rule: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """A rule whose type and value errors name the rule, the line, and the arguments."""
    if rule is None:
        return None

    @functools.wraps(rule)
    def called(*args: Any, **params: Any) -> Any:
        try:
            return rule(*args, **params)
        except (TypeError, ValueError) as error:
            if type(error) not in (TypeError, ValueError):  # a subclass with a message of its own
                raise
            source = _innermost_source(error)
            if source is None and error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise
            raise wrong_call(kind, name, rule, args, params, source, str(error)) from error

    return called


def _innermost_source(error: BaseException) -> Source | None:
    """The user's innermost line in an error's traceback."""
    traceback = error.__traceback__
    innermost = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_hidden(code):
            innermost = Source(code, traceback.tb_lasti)
        traceback = traceback.tb_next
    return innermost


def wrong_call(
    kind: str, name: str, rule: Any, args: Sequence[Any], params: dict[str, Any], source: Source | None, text: str
) -> RuleCallError:
    takes, returns = _FORMS[kind]
    first = takes.split(", *")[0].split(", ")
    names = [*first, *(f"args[{i}]" for i in range(len(args) - len(first)))]
    arguments = [f"  {n}: {_shown(x)}" for n, x in zip(names, args, strict=False)]
    arguments += [f"  {n}={x!r}" for n, x in params.items()]
    location = f"It is {_defined(rule)}." if source is None else f"At {_line(source)}"
    return RuleCallError(
        f"The {kind} rule of {name!r} fails on its arguments: {text}\n{location}\nIt was called with\n"
        + "\n".join(arguments)
        + f"\nA {kind} rule takes ({takes}) and returns {returns}."
    )


def wrong_result(kind: str, name: str, rule: Any, text: str) -> RuleCallError:
    return RuleCallError(
        f"The {kind} rule of {name!r}, {_defined(rule)}, {text}.\nA {kind} rule returns {_FORMS[kind][1]}."
    )


def check_count(kind: str, name: str, rule: Any, cts: Sequence[Any], args: Sequence[Any]) -> None:
    """Refuse more or fewer cotangents than there are arguments: a forgotten one would silently be zero."""
    if len(cts) != len(args):
        returned = _count(len(cts), "cotangent")
        raise wrong_result(kind, name, rule, f"returns {returned} for {_count(len(args), 'argument')}")


def check_cotangents(kind: str, name: str, rule: Any, cts: Sequence[Any], args: Sequence[Any]) -> None:
    """Refuse cotangents with another structure or shape than the arguments."""
    check_count(kind, name, rule, cts, args)
    for i, (ct, arg) in enumerate(zip(cts, args, strict=False)):
        if ct is None:
            continue
        try:
            fits = tree_util.tree_map(_fits, ct, arg, is_leaf=lambda x: x is None)
        except (TypeError, ValueError):
            fits = "structure"
        if "structure" in tree_util.tree_leaves(fits):
            text = f"returns {_shown(ct)} as the cotangent of argument {i}, which is {_shown(arg)}"
            raise wrong_result(kind, name, rule, text)
        if "shape" in tree_util.tree_leaves(fits):
            text = f"returns a cotangent of type {_shown(ct)} for argument {i}, which is {_shown(arg)}"
            raise wrong_result(kind, name, rule, text)


def _fits(ct: Any, arg: Any) -> str:
    """What is wrong with one cotangent, if anything."""
    if ct is None:
        return ""
    if not tree_util.all_leaves([arg]):
        return "structure"
    return "" if typeof(ct).shape == typeof(arg).shape else "shape"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _shown(tree: Any) -> str:
    """A pytree with its leaves replaced by their types."""

    class Type:
        def __init__(self, x: Any):
            self.x = x

        def __repr__(self) -> str:
            try:
                return type_text(typeof(self.x))
            except Exception:  # not an array
                return type(self.x).__name__

    return repr(tree_util.tree_map(Type, tree))


def _line(source: Source) -> str:
    return f"{source.file}:{source.line}" + (f": {source.text}" if source.text else "")


def _defined(rule: Any) -> str:
    code = getattr(inspect.unwrap(rule), "__code__", None)
    return "which is no plain function" if code is None else f"defined at {code.co_filename}:{code.co_firstlineno}"
