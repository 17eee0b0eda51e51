"""Provenance: the user's line of a node, stored as a code object and an offset until it is needed.

NOTE [Frames that stand for lines]
JAX records the Python stack at each operation that it traces.  When it traces a graph of ours, that stack has the call
of the graph, and not the recorded lines.  So each node is bound inside a frame of a code object with the file, function
and line of its source: JAX's listings, errors and profiles show it, and ``from_traceback`` maps it back to the source.

NOTE [Tracebacks of the user's code]
fgrad's and JAX's own frames are removed from tracebacks when JAX removes its own.  The setting is JAX's:
``jax.config.jax_traceback_filtering`` (or the environment variable ``JAX_TRACEBACK_FILTERING``) with the value ``off``
shows everything.
"""

import functools
import linecache
import os
import sys
from collections.abc import Callable, Sequence
from itertools import count
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, TypeVar
from weakref import finalize

import jax
import numpy as np
import opt_einsum
from attrs import evolve, frozen

Function = TypeVar("Function", bound=Callable[..., Any])

_HIDDEN = tuple(os.path.dirname(os.path.abspath(str(m.__file__))) + os.sep for m in (jax, np, opt_einsum)) + (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    os.path.dirname(os.__file__) + os.sep + "contextlib",
    os.path.dirname(os.__file__) + os.sep + "functools",
    "<attrs generated",
    "<frozen",
)
#: the file name of all code from strings (``exec``, ``python -c``), for which a cached line may be that of other code
_STRING = "<string>"
#: by file name, whether its code is hidden
_hidden_files: dict[str, bool] = {}
_known = _hidden_files.get


@frozen
class Source:
    """A position in the user's code.

    Attributes:
      code: the user's code object.
      offset: of the instruction in it.
      of: for a node of a derivative, the primitive or operation it came from.
      names: the variables to which the statement assigns its value, if read from a file; else the bytecode has them.
      module: the path of the network's module that it is in, or the names of ``jax.named_scope``.
    """

    code: CodeType
    offset: int
    of: str | None = None
    names: tuple[str | None, ...] | None = None
    module: str = ""

    @property
    def file(self) -> str:
        return self.code.co_filename

    @property
    def line(self) -> int:
        best = self.code.co_firstlineno
        for start, end, line in self.code.co_lines():
            if line is not None and start <= self.offset < end:
                return line
        return best

    @property
    def function(self) -> str:
        return self.code.co_qualname

    @property
    def text(self) -> str:
        """The text of the line, stripped; empty if it is not known.

        It is known if the file can be read, in notebooks, and from Python 3.13 on at the prompt.
        """
        if self.file == _STRING:
            return ""
        return linecache.getline(self.file, self.line).strip()

    def derivative_of(self, name: str) -> "Source":
        return Source(self.code, self.offset, name, self.names, self.module)

    def within(self, module: str) -> "Source":
        """The same position with its module inside another one."""
        inner = f"{module}/{self.module}" if self.module else module
        return Source(self.code, self.offset, self.of, self.names, inner)

    def around(self, module: str) -> "Source":
        """The same position in a module inside its own; ``module`` may say its own too."""
        if not module or module == self.module:
            return self
        if self.module and not module.startswith(f"{self.module}/"):
            module = f"{self.module}/{module}"
        return Source(self.code, self.offset, self.of, self.names, module)

    @property
    def scope(self) -> str:
        """Its name in profiles: the module, marked if it is a derivative."""
        return f"derivative({self.module})" if self.of and self.module else self.module

    def __str__(self) -> str:
        where = f"{os.path.basename(self.file)}:{self.line}{', ' if self.module else ''}{self.module}"
        return f"{where}, derivative of {self.of}" if self.of else where


RawSource = tuple[CodeType, int]


def is_hidden(code: CodeType) -> bool:
    """Whether code is fgrad's, JAX's (which includes opt_einsum) or NumPy's own, and not the user's."""
    # by file name, since Python caches the hashes of strings, but not of code objects
    hidden = _hidden_files.get(code.co_filename)
    if hidden is None:
        if len(_hidden_files) > 1 << 16:
            _hidden_files.clear()
        hidden = _hidden_files[code.co_filename] = code.co_filename.startswith(_HIDDEN)
    return hidden


def here(depth: int = 1) -> RawSource | None:
    """The innermost frame of the caller's stack that belongs neither to fgrad nor to JAX or NumPy.

    A bare tuple, since the recorder calls this once per operation; ``Source(*raw)`` makes it readable.
    """
    return visible(sys._getframe(depth))


def visible(frame: FrameType | None) -> RawSource | None:
    """The innermost of the user's frames from this one outwards."""
    while frame is not None:
        code = frame.f_code
        hidden = _known(code.co_filename)
        if not (is_hidden(code) if hidden is None else hidden):
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def from_traceback(traceback: Any, module: str = "") -> Source | None:
    """The innermost of the user's frames in an equation's traceback."""
    if traceback is None:
        return None
    for code, offset in zip(*traceback.raw_frames(), strict=True):
        if not is_hidden(code):
            source = _stood_for.get(id(code))
            return Source(code, offset, module=module) if source is None else evolve(source, module=module)
    return None


def standing_at(source: Source) -> Callable[[Callable[[], Any]], Any]:
    """A caller of functions whose frame stands for a line: see NOTE [Frames that stand for lines]."""
    key = id(source.code), source.offset, source.of
    caller = _standing.get(key)
    if caller is None:
        if len(_standing) > STANDING_KEPT:
            _standing.clear()
            _stood_for.clear()
        code = _call.__code__.replace(
            co_filename=source.file,
            co_name=source.code.co_name,
            co_qualname=source.function,
            co_firstlineno=source.line - 1,  # the line of ``def``
        )
        caller = _standing[key] = FunctionType(code, {})
        _stood_for[id(code)] = source
    return caller


#: the callers by source, and the sources by the callers' code (by identity, since code of different files may be equal)
_standing: dict[tuple[int, int, str | None], Any] = {}
_stood_for: dict[int, Source] = {}
STANDING_KEPT = 1 << 16


def _call(run: Callable[[], Any]) -> Any:
    return run()


# --------------------------------------------------------------------------------------------------------------------
# tracebacks: see NOTE [Tracebacks of the user's code]


def boundary(function: Function) -> Function:
    """``function`` with hidden frames removed from the tracebacks of its errors.

    >>> @boundary
    ... def f():
    ...     raise ValueError("shown as it is")
    >>> f()
    Traceback (most recent call last):
    ValueError: shown as it is
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    return call  # type: ignore[return-value]


def hide_frames(error: Exception) -> None:
    """Remove hidden frames from the traceback of an error."""
    if jax.config.jax_traceback_filtering != "off":  # type: ignore[attr-defined]
        error.__traceback__ = _visible(error.__traceback__)


def _visible(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback without hidden frames; all of it where every frame is hidden."""
    entries = []
    while traceback is not None:
        if not is_hidden(traceback.tb_frame.f_code):
            entries.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for entry in reversed(entries):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


# --------------------------------------------------------------------------------------------------------------------
# generated functions, whose source is registered for tracebacks and profilers

_generated = count()


def function_of(lines: Sequence[str], scope: dict[str, Any], kind: str) -> Callable[..., Any]:
    """The function ``run`` that some lines of source define, with those in ``scope`` as its globals.

    Arguments:
      kind: a description, for its file name.
    """
    names = dict(scope)  # Python looks globals up several times as fast in a plain dict as in one of a subclass
    exec(_compiled("\n".join(lines), kind), names)
    return names.pop("run")  # a function in its own globals would live until a garbage collection


@functools.lru_cache(1 << 12)
def _compiled(text: str, kind: str) -> CodeType:
    """The code of a text, shared by programs that differ in shapes or constants alone."""
    file = f"<{kind} {next(_generated)}>"
    code = compile(text, file, "exec")
    linecache.cache[file] = (0, None, text.splitlines(True), file)
    finalize(code, linecache.cache.pop, file, None)
    return code
