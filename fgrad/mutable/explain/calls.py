"""Errors of operations and modules, with the user's line, the operands' names, and a way out.

NOTE [Errors of calls]
PyTorch says what is wrong with shapes and types, but not whose they are.  Every public function, method and module is
called through one of a few wrappers, which see an error on its way to the user's code and know the arguments.
PyTorch's text comes first, unchanged; below it stand the user's line, the tensors among the arguments under the user's
names, the module with its path and parameters, and what to do.  All of it is worked out when an error is raised, once,
by the wrapper that the user's own code called.  It also removes the library's own frames from the traceback, as JAX
does (``jax_traceback_filtering``).
"""

import copy
import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from attrs import define

from fgrad.mutable.context.modes import modes
from fgrad.mutable.explain.names import location, modules_around, name_of, path_in
from fgrad.mutable.explain.ways_out import way_out
from fgrad.mutable.tensor.node import node_name
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.seam import Source, hide_frames, is_hidden

#: how deep nested lists are searched for tensors
DEEPEST = 4
#: how many tensors are shown
SHOWN = 6


@define(eq=False)
class Explained:
    """What is known about an error so far."""

    text: str
    module: tuple[str, ...] = ()
    finished: bool = False


def at_entrance(error: Exception, args: Iterable[Any], module: Any = None) -> None:
    """Add what a public wrapper knows to an error that is raised through it.

    Arguments:
      error: as it was raised, with PyTorch's class and text.
      args: the arguments of the call.
      module: the module, where it is one that was called.
    """
    frame = sys._getframe(2)
    inside = is_hidden(frame.f_code)
    explained = _explained(error)
    if not inside:
        hide_frames(error)
    if explained is None:
        return
    if module is not None and not explained.module:
        explained.module = tuple(_module(module, args if inside else ()))
    if not inside:
        _finish(error, explained, args, frame)


def at_outermost(error: Exception, args: Iterable[Any]) -> None:
    """As ``at_entrance``, if no other wrapper is further out."""
    explained = _explained(error)
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_hidden(frame.f_code):
        frame = frame.f_back
    if explained is not None and frame is not None:
        _finish(error, explained, args, frame)
    hide_frames(error)


def warning(text: str) -> str:
    """A warning with a way out, if we know one."""
    way = way_out(text)
    return f"{text}\n\nWay out: {way}" if way else text


def _explained(error: Exception) -> Explained | None:
    """What is known of an error that is to be explained further."""
    explained = getattr(error, "explained", None)
    if explained is None:
        notes = getattr(error, "__notes__", None)  # the notes of an error in backward
        if notes or not _is_plain(error) or "\n\n" in error.args[0] or _is_of_user(error):
            return None
        explained = error.explained = Explained(error.args[0])  # type: ignore[attr-defined]
    return None if explained.finished else explained


def _finish(error: Exception, explained: Explained, args: Iterable[Any], frame: FrameType) -> None:
    explained.finished = True
    lines = [explained.text, "", f"Raised at {_line(frame)}", *_operands(args), *explained.module]
    way = way_out(explained.text)
    error.args = ("\n".join([*lines, f"Way out: {way}"] if way else lines),)


def _is_plain(error: Exception) -> bool:
    """Whether an error consists of its text only."""
    return len(error.args) == 1 and isinstance(error.args[0], str) and str(error) == error.args[0]


def _is_of_user(error: Exception) -> bool:
    """Whether it was raised by the user's code, called by the library."""
    traceback = error.__traceback__
    while traceback is not None:
        if not is_hidden(traceback.tb_frame.f_code):
            return True
        traceback = traceback.tb_next
    return False


def _line(frame: FrameType) -> str:
    """The line of a frame; that of its caller's if it is one of ``copy.deepcopy``."""
    while frame.f_code.co_filename == copy.__file__ and frame.f_back is not None:
        frame = frame.f_back
    source = Source(frame.f_code, frame.f_lasti)
    return f"{location((source.code, source.offset))}{f': {source.text}' if source.text else ''}"


def _operands(args: Iterable[Any]) -> Iterator[str]:
    """A line for each tensor among the arguments: its name, its type, and where it was made."""
    for count, tensor in enumerate(_tensors(args)):
        if count == SHOWN:
            yield "  ..."
            return
        node = tensor._node  # as it stands: an error must not renew the node of a view
        origin = (
            "" if node is None or node._source is None else f", made by {node_name(node)} at {location(node._source)}"
        )
        yield f"  {name_of(tensor) or 'a tensor'}: {_type(tensor)}{origin}"


def _tensors(args: Iterable[Any], depth: int = 0) -> Iterator[Tensor]:
    """The tensors among arguments, also in lists nested a few levels deep."""
    for x in args:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, list | tuple) and depth < DEEPEST:
            yield from _tensors(x, depth + 1)


def _type(tensor: Tensor) -> str:
    return f"{str(tensor._type.dtype).removeprefix('torch.')}{list(tensor._type.shape)}"


def _module(module: Any, args: Iterable[Any]) -> Iterator[str]:
    """The module that an error was raised in, its input, and its own parameters."""
    outer = next(modules_around(modes.module), module)
    text = type(module).__name__ if any(True for _ in module.children()) else repr(module)
    where = f"In the module {text}"
    if outer is not module:
        where = f"In the module '{path_in(outer, module)}' of {type(outer).__name__}: {text}"
    types = ", ".join(map(_type, _tensors(args)))
    yield f"{where}, given {types}" if types else where
    for name, parameter in list(module.named_parameters(recurse=False))[:SHOWN]:
        yield f"  {name}: {_type(parameter)}"
