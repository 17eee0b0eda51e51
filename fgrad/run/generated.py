"""Functions whose lines are written at run time, kept where tracebacks and profilers look for them."""

import linecache
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any
from weakref import finalize

_numbers = count()


def function_of(lines: Sequence[str], scope: dict[str, Any], kind: str) -> Callable[..., Any]:
    """The function ``run`` that some lines define, with a scope for its globals.

    Arguments:
      kind: what it is, for the name of its file.
    """
    file = f"<{kind} {next(_numbers)}>"
    exec(compile("\n".join(lines), file, "exec"), scope)
    run: Callable[..., Any] = scope.pop("run")  # a function among its own globals would live on until a collection
    linecache.cache[file] = (0, None, [f"{line}\n" for line in lines], file)
    finalize(run, linecache.cache.pop, file, None)
    return run
