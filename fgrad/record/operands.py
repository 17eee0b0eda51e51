"""Errors of JAX and NumPy inside a recorded function, with the user's line and the names of the operands.

NOTE [Operands from the traceback]
``dot_general requires contracting dimensions to have the same shape`` says neither which product nor of what.  The
traceback knows: below the user's last frame is the call of a function of JAX, whose locals are the operands.  They are
named after arguments of the recorded function, or variables of the user's frame.  This costs nothing until an error is
raised.
"""

import dis
import re
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

import jax
import numpy as np
from jax import tree_util

from fgrad.graph.names import stored_name
from fgrad.graph.source import Source, is_hidden
from fgrad.jaxcore import typeof
from fgrad.record.origin import argument_name
from fgrad.record.tracer import Tracer

#: the most operands that are shown, and the most variables of a frame that are searched for one
SHOWN = 6
SEARCHED = 1000

_RAISING = frozenset(dis.opmap[name] for name in ("RAISE_VARARGS", "RERAISE"))


def explain(error: Exception) -> None:
    """Add the user's line, the operands and a way out to an error that a library raised in the user's function."""
    if getattr(error, "located", False) or type(error).__module__.startswith("fgrad.") or not _is_plain(error):
        return
    failing_call = _call(error.__traceback__)
    if failing_call is None:
        return
    user, offset, callee = failing_call
    lines = [str(error), "", f"It was raised by {_line(user, offset)}"]
    if callee is not None:
        shown = (_shown(value, name, user) for name, value in _operands(callee))
        lines += [f"  {text}" for text in shown if not text.startswith("self: ")]
    cause = error.__cause__
    if type(cause).__module__.startswith("fgrad."):
        lines.append(str(cause))
    lines += [f"Way out: {way}" for pattern, way in _WAYS_OUT if pattern.search(str(error))]
    error.args = ("\n".join(lines),)
    error.located = True  # type: ignore[attr-defined]


def _is_plain(error: Exception) -> bool:
    """Whether an error consists of its text alone."""
    return len(error.args) == 1 and isinstance(error.args[0], str) and str(error) == error.args[0]


def _call(traceback: TracebackType | None) -> tuple[FrameType, int, FrameType | None] | None:
    """The user's innermost frame with its offset, and the frame of the library function that it called.

    None if the user's own code raised.  A C function has no frame.
    """
    frames = []
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lasti))
        traceback = traceback.tb_next
    own = [i for i, (frame, _) in enumerate(frames) if not is_hidden(frame.f_code)]
    if not own:
        return None
    frame, offset = frames[own[-1]]
    if own[-1] + 1 < len(frames):
        return frame, offset, frames[own[-1] + 1][0]
    return None if _raises(frame, offset) else (frame, offset, None)


def _raises(frame: FrameType, offset: int) -> bool:
    """Whether a frame is at a ``raise``."""
    return frame.f_code.co_code[offset] in _RAISING


def _line(frame: FrameType, offset: int) -> str:
    source = Source(frame.f_code, offset)
    return f"{source.file}:{source.line} (in {source.function})" + (f": {source.text}" if source.text else "")


# -- operands --------------------------------------------------------------------------------------------------------


def _operands(callee: FrameType) -> Iterator[tuple[str, Any]]:
    """The arrays among the arguments of a call, each once, with the parameters' names."""
    code = callee.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    seen: set[int] = set()
    for name in code.co_varnames[:count]:
        for path, value in _leaves(callee.f_locals.get(name)):
            if _is_array(value) and id(value) not in seen and len(seen) < SHOWN:
                seen.add(id(value))
                yield name + path, value


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array | np.ndarray)


def _leaves(value: Any) -> list[tuple[str, Any]]:
    """The arrays in a value with their paths; for a class that JAX does not know, those among its attributes."""
    if _is_array(value):
        return [("", value)]
    try:
        leaves = [(tree_util.keystr(path), x) for path, x in tree_util.tree_flatten_with_path(value)[0][:SEARCHED]]
    except Exception:  # not a pytree; an error about a name must not hide the original one
        return []
    if len(leaves) == 1 and leaves[0][1] is value:
        return [(f".{name}", x) for name, x in getattr(value, "__dict__", {}).items() if _is_array(x)]
    return leaves


def _shown(value: Any, parameter: str, user: FrameType) -> str:
    """One operand: the user's name for it, its type, and the argument that it is."""
    variable = _variable(value, user)
    argument = argument_name(value) if type(value) is Tracer else None
    source = value.source if type(value) is Tracer else None
    name = variable or argument or (source and stored_name(source)) or parameter
    text = f"{name}: {typeof(value).str_short()}"
    if argument is not None and argument != name:
        return f"{text}, the argument {argument} of {value._trace.call.function.__name__}"
    if source is not None and source.code is not user.f_code:
        return f"{text}, made at {source.file}:{source.line} (in {source.function})"
    return text


def _variable(value: Any, frame: FrameType) -> str | None:
    """The variable of a frame that is a value or contains it."""
    scope = frame.f_locals
    for name, candidate in list(scope.items())[:SEARCHED]:
        if candidate is value:
            return name
    for name, candidate in list(scope.items())[:SEARCHED]:
        for path, leaf in _leaves(candidate):
            if leaf is value:
                return name + path
    return next((name for name, candidate in frame.f_globals.items() if candidate is value), None)


# -- ways out --------------------------------------------------------------------------------------------------------

_WAYS_OUT: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), way)
    for pattern, way in {
        r"contracting dimensions to have the same shape|core dimension|matmul": "the last axis of the first factor "
        "must be as long as the last but one of the second; x.T or jnp.swapaxes turns axes, jnp.einsum names them.",
        r"Incompatible shapes for broadcasting|got incompatible shapes": "shapes are compared from the last axis on, "
        "and each pair of sizes must be equal or have a 1; b[:, None] gives b an axis of size 1.",
        r"Size of label": "a label of einsum stands for one size; give axes of different sizes different labels.",
        r"Cannot concatenate": "all axes but the one that is joined must agree; axis= chooses it.",
        r"cannot reshape array": "the sizes must multiply to the number of elements; a -1 among them is worked out.",
        r"Slice entries must be static|slice indices must have static": "jax.lax.dynamic_slice_in_dim(x, start, size) "
        "takes a start that is traced and a size that is not; for a size that is traced, mask: "
        "jnp.where(jnp.arange(len(x)) < n, x, 0).",
        r"boolean indices must be concrete": "keep the shape and mask, jnp.where(mask, x, 0.0), or sum with "
        "where=mask; jnp.nonzero(mask, size=n) gives n indices.",
        r"Shapes must be 1D sequences": "a shape is part of the program: compute it from x.shape, or make the argument "
        "that it depends on static (static_argnames).",
        r"oolean conversion of traced": "jnp.where(x > 0, a, b) or jax.lax.cond(x > 0, f, g, x) instead of Python's "
        "if.",
        r"are immutable": "assign what .at returns to the name: x = x.at[i].set(y).",
    }.items()
)
