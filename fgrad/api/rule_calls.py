"""Calls of the rules that users give: what a rule was given and what it should return, where it goes wrong."""

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
    """A rule given to ``define_rule`` does not take what it is called with, or returns something of another form."""

    #: that the message says which rule it was
    in_rule: bool = True


def explained(kind: str, name: str, rule: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """A rule whose own errors on what it was given name the rule, the line, and what that was."""
    if rule is None:
        return None

    @functools.wraps(rule)
    def called(*args: Any, **params: Any) -> Any:
        try:
            return rule(*args, **params)
        except (TypeError, ValueError) as error:
            if type(error) not in (TypeError, ValueError):  # it says for itself what is wrong
                raise
            place = _place(error)
            if place is None and error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise
            raise wrong_call(kind, name, rule, args, params, place, str(error)) from error

    return called


def _place(error: BaseException) -> Source | None:
    """The innermost line of the user's that an error comes from, in the rule or below it."""
    traceback = error.__traceback__
    innermost = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_hidden(code):
            innermost = Source(code, traceback.tb_lasti)
        traceback = traceback.tb_next
    return innermost


def wrong_call(
    kind: str, name: str, rule: Any, args: Sequence[Any], params: dict[str, Any], place: Source | None, text: str
) -> RuleCallError:
    takes, returns = _FORMS[kind]
    first = takes.split(", *")[0].split(", ")
    named = [*first, *(f"args[{i}]" for i in range(len(args) - len(first)))]
    given = [f"  {n}: {_shown(x)}" for n, x in zip(named, args, strict=False)]
    given += [f"  {n}={x!r}" for n, x in params.items()]
    at = f"It is {_defined(rule)}." if place is None else f"At {_line(place)}"
    return RuleCallError(
        f"The {kind} rule of {name!r} fails on what it is given: {text}\n{at}\nIt was called with\n"
        + "\n".join(given)
        + f"\nA {kind} rule takes ({takes}) and returns {returns}."
    )


def wrong_result(kind: str, name: str, rule: Any, text: str) -> RuleCallError:
    return RuleCallError(
        f"The {kind} rule of {name!r}, {_defined(rule)}, {text}.\nA {kind} rule returns {_FORMS[kind][1]}."
    )


def check_count(kind: str, name: str, rule: Any, cts: Sequence[Any], args: Sequence[Any]) -> None:
    """Refuse more or fewer cotangents than there are arguments: a forgotten one would silently be zero."""
    if len(cts) != len(args):
        given = _count(len(cts), "cotangent")
        raise wrong_result(kind, name, rule, f"returns {given} for {_count(len(args), 'argument')}")


def check_cotangents(kind: str, name: str, rule: Any, cts: Sequence[Any], args: Sequence[Any]) -> None:
    """Refuse cotangents that are not of the form of the arguments."""
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
    """A pytree with the types of its leaves in their places."""

    class Type:
        def __init__(self, x: Any):
            self.x = x

        def __repr__(self) -> str:
            try:
                return type_text(typeof(self.x))
            except Exception:  # not an array
                return type(self.x).__name__

    return repr(tree_util.tree_map(Type, tree))


def _line(place: Source) -> str:
    return f"{place.file}:{place.line}" + (f": {place.text}" if place.text else "")


def _defined(rule: Any) -> str:
    code = getattr(inspect.unwrap(rule), "__code__", None)
    return "which is no plain function" if code is None else f"defined at {code.co_filename}:{code.co_firstlineno}"
