"""Where a traced value comes from, in words: the function that is being recorded, its arguments, the user's line.

All of it is derived from the tape when an error is raised; a recording only keeps the function that it records.
"""

import inspect
from collections.abc import Callable, Sequence
from types import CellType, FunctionType
from typing import Any

from attrs import define
from jax import tree_util

from fgrad.graph.source import is_hidden
from fgrad.jaxcore import ShapedArray


@define(eq=False, slots=True)
class Call:
    """The call that is being recorded.

    Attributes:
      function: the user's function.
      what: the transformation, as the user wrote it: ``grad``, ``jit``.
      tree: the structure whose leaves are the inputs: a tuple of the arguments at ``positions``, or without these the
        pair of all arguments and keyword arguments.
      positions: the positional arguments that are inputs, or None.
      leaves: which leaves are inputs, or None for all of them.
    """

    function: Callable[..., Any]
    what: str
    tree: Any
    positions: Sequence[int] | None = None
    leaves: Sequence[int] | None = None

    def argument(self, number: int) -> str:
        """The input's path as the user would write it: ``params['w']``."""
        try:
            indices = tree_util.tree_unflatten(self.tree, range(self.tree.num_leaves))
            paths = [path for path, _ in tree_util.tree_flatten_with_path(indices)[0]]
            path = paths[number if self.leaves is None else self.leaves[number]]
            if self.positions is not None:
                return parameter(self.function, self.positions[path[0].idx]) + tree_util.keystr(path[1:])
            if path[0].idx == 1:
                return path[1].key + tree_util.keystr(path[2:])
            return parameter(self.function, path[1].idx) + tree_util.keystr(path[2:])
        except Exception:  # the user's node class does not accept numbers
            return f"number {number + 1}"

    def end(self) -> None:
        """Keep what messages say of the function, and not what it closes over.

        What JAX keeps for as long as a function lives may hold the recording in which JAX has traced it (the rule of a
        custom_jvp does); the function would live for ever if the recording held it.
        """
        function = self.function
        while (inner := getattr(function, "__wrapped__", None)) is not None:
            function = inner
        if type(function) is FunctionType:
            code = function.__code__
            cells = tuple(map(CellType, code.co_freevars))
            self.function = FunctionType(code, {}, function.__name__, closure=cells)

    def __str__(self) -> str:
        code = getattr(_unwrapped(self.function), "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code and not is_hidden(code) else ""
        return f"{function_name(self.function)}{where}"


def function_name(function: Any) -> str:
    """The user's name of a function."""
    return getattr(_unwrapped(function), "__name__", type(function).__name__)


def parameter(function: Any, position: int) -> str:
    """The name of the positional parameter that takes an argument: ``x``, ``rest[1]``, or ``args[2]``.

    >>> parameter(lambda x, *rest: x, 0), parameter(lambda x, *rest: x, 2), parameter(max, 2)
    ('x', 'rest[1]', 'args[2]')
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin, or a callable that hides its parameters
        return f"args[{position}]"
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    starred = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    return named[position] if position < len(named) else f"{starred}[{position - len(named)}]"


def _unwrapped(function: Any) -> Any:
    while True:
        inner = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
        if inner is None:
            return function
        function = inner


# -- of a traced value -----------------------------------------------------------------------------------------------


def origin(tracer: Any) -> str:
    """The line that computed a value, or its argument: ``model.py:3 (in loss)``, ``the argument x of loss``."""
    source = tracer.source
    if source is not None:
        return f"{source.file}:{source.line} (in {source.function})"
    name = argument_name(tracer)
    return "the function's arguments" if name is None else f"the argument {name} of {tracer._trace.call}"


def argument_name(tracer: Any) -> str | None:
    """The path of the argument that a value is, if it is one."""
    call, number = tracer._trace.call, getattr(tracer, "number", None)  # a reference has none
    if call is None or number is None:
        return None
    return call.argument(number) if number in dict(dependencies(tracer._trace, number)) else None


def dependencies(recording: Any, number: int) -> list[tuple[int, ShapedArray]]:
    """The inputs of a recording on which one of its values depends, with their types."""
    inputs: list[tuple[int, ShapedArray]] = []
    steps, first = [], 0
    for op, args, _ in recording.steps():
        steps.append((first, op, args))
        first += len(op.out_types)
        if first > number:
            break
    wanted = {number}
    for first, op, args in reversed(steps):
        if wanted.isdisjoint(range(first, first + len(op.out_types))):
            continue
        if op.name == "input":
            inputs.append((first, op.out_types[0]))
        wanted.update(args)
    return inputs[::-1]


def because(tracer: Any) -> str:
    """Why a value is not known: where it is computed, the function that is traced, the arguments it depends on."""
    call, source = tracer._trace.call, tracer.source
    made = "It" if source is None else f"It is made at {origin(tracer)} and"
    if call is None:
        return f"{made if source else 'The function'} is being {tracer._trace.purpose}."
    traced = f"{call}, which is being traced for {call.what}"
    names = [call.argument(i) for i, _ in dependencies(tracer._trace, tracer.number)]
    if source is None and names:
        return f"It is the argument {names[0]} of {traced}."
    if not names:
        return f"{made} is a value of {traced}."
    return f"{made} depends on the argument{'s' * (len(names) > 1)} {listed(names)} of {traced}."


#: the most arguments that a message names
NAMED = 5


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: ``x``, ``x and y``, ``x, y and z``.

    >>> listed(["x", "y", "z"])
    'x, y and z'
    """
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} others"]
    return " and ".join(names) if len(names) < 3 else ", ".join(names[:-1]) + f" and {names[-1]}"
