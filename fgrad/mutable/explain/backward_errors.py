"""Errors in backward: below their own text, the forward line of the failing node, the user's rule or hook that ran, and
the call that asked for the gradient.

They are notes (PEP 678): the text of an error stays PyTorch's, or the user's own.
"""

import inspect
from collections.abc import Iterator
from typing import Any

from fgrad.mutable.explain.names import location, name_of
from fgrad.mutable.explain.wording import forward_of, line_of, operation_of, place_of
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.tensor import AccumulateGrad
from fgrad.seam import RawSource, is_hidden


def raised(error: Exception, node: Node, source: RawSource | None) -> None:
    """Add to an error the forward line, the rule and the call that asked for it: once, by the innermost node."""
    if getattr(error, "in_backward", False):
        return
    error.in_backward = True  # type: ignore[attr-defined]
    lines = [*_node(node), *_user_functions(node)]
    if source is not None:
        lines += [f"The gradient was asked for at {location(source)}.", *line_of(source)]
    error.add_note("\n".join(lines))


def _node(node: Node) -> Iterator[str]:
    if isinstance(node, AccumulateGrad):
        name = name_of(node.variable)
        shape = list(node.variable._type.shape)
        yield f"This was at the leaf {name or 'without a name'}, of shape {shape}."
        return
    yield f"This was in the backward of {operation_of(node)}, which ran forward at {place_of(node)}."
    yield from forward_of(node)


def _user_functions(node: Node) -> Iterator[str]:
    rule = node._rule()
    if rule is not None:
        code = getattr(rule, "__code__", None)
        if code is None or not is_hidden(code):  # the error is fgrad's own, not from user code
            yield f"Its rule is {_defined(rule)}."
        names = _taken(node)
        if names:
            yield f"It returns a gradient, or None, for each argument of forward: {', '.join(names)}."
    hooks: list[Any] = []
    if isinstance(node, AccumulateGrad):
        hooks += (node.variable._tensor_hooks or {}).values()
        hooks += (node.variable._post_accumulate_grad_hooks or {}).values()
    if (attached := node._attached) is not None:
        for registered, _ in attached.tensor_hooks or ():
            hooks += registered.values()
        for each in (attached.pre_hooks, attached.post_hooks):
            hooks += (each or {}).values()
    for hook in hooks:
        yield f"A hook that runs there is {_defined(hook)}."


def _defined(function: Any) -> str:
    """A user's function and where it is defined."""
    inner = inspect.unwrap(getattr(function, "__func__", function))
    name = getattr(inner, "__qualname__", repr(inner))
    code = getattr(inner, "__code__", None)
    return f"'{name}', at {code.co_filename}:{code.co_firstlineno}" if code is not None else f"'{name}'"


def _taken(node: Node) -> list[str]:
    """The names of the arguments of a custom Function's forward, without the context."""
    cls: Any = getattr(node, "_forward_cls", None)
    try:
        parameters = list(inspect.signature(cls.forward).parameters.values())
    except (TypeError, ValueError, AttributeError):
        return []
    with_context = (getattr(cls.setup_context, "__module__", None) or "").startswith("fgrad.")
    return [str(p).partition("=")[0].partition(":")[0] for p in parameters[with_context:]]
