"""What may come of a call with a bad value: ``fault`` says what is wrong with an outcome, or None."""

import linecache
import re
import signal
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from attrs import frozen

HERE = Path(__file__).parent
PACKAGE = HERE.parent.parent / "fgrad"

#: no call may take longer, of the processor's time
SECONDS = 5

#: what nobody should see, whatever was handed over
INSIDE = (RecursionError, AssertionError, SystemError, UnboundLocalError, StopIteration, MemoryError)
#: what users catch; of JAX's and PyTorch's errors that are none of these, ours may be of any class
CAUGHT = (
    TypeError,
    ValueError,
    RuntimeError,
    IndexError,
    KeyError,
    OverflowError,
    NotImplementedError,
    OSError,
    NameError,
)


#: which of these is raised for what is no array depends on who looks at it first
ALIKE = {TypeError, ValueError, OverflowError}


class HangError(BaseException):
    """A call took too long."""


@frozen
class Outcome:
    """What came of one call: a value, or what was raised."""

    value: Any = None
    error: BaseException | None = None


def outcome(call: Callable[[], Any]) -> Outcome:
    """Call, for some seconds at most."""

    def ring(number: int, frame: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Outcome(value=call())
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Outcome(error=error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome_apart(call: Callable[[], Any]) -> Outcome:
    """Call in a thread of its own, for some seconds at most."""
    found: list[Outcome] = []

    def run() -> None:
        try:
            found.append(Outcome(value=call()))
        except BaseException as error:
            found.append(Outcome(error=error))

    thread = threading.Thread(target=run, daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thread.start()
        thread.join(4 * SECONDS)
    return found[0] if found else Outcome(error=HangError())


def raw(error: BaseException) -> str | None:
    """Where an error came about that no statement of ours raised, though it is our code that failed."""
    frames = list(traceback.walk_tb(error.__traceback__))
    while frames and "importlib" in frames[-1][0].f_code.co_filename:
        frames.pop()
    if not frames or Path(frames[-1][0].f_code.co_filename).is_relative_to(HERE):
        return None  # raised by the value itself
    if isinstance(error, OSError) or re.match(r"[\w.<>]+\(\) (takes|missing|got)", str(error)):
        return None  # or by the system, or by a call that the user's function does not fit
    frame, line = frames[-1]
    file = Path(frame.f_code.co_filename)
    if not file.is_relative_to(PACKAGE) or linecache.getline(str(file), line).strip().startswith("raise"):
        return None
    return f"{file.relative_to(PACKAGE)}:{line}"


def kind(error: BaseException) -> type | None:
    """The class that users catch."""
    return None if type(error) in INSIDE else next((k for k in type(error).__mro__ if k in CAUGHT), None)


def differ(ours: Any, theirs: Any) -> bool:
    """Whether two results that can be compared are different."""
    try:
        a, b = jax.tree.leaves(ours), jax.tree.leaves(theirs)
        if not all(isinstance(x, jax.Array | np.ndarray | float | int) for x in [*a, *b]):
            return False
        return len(a) != len(b) or not all(
            np.allclose(np.asarray(x), np.asarray(y), 1e-4, 1e-5, equal_nan=True) for x, y in zip(a, b, strict=True)
        )
    except (TypeError, ValueError, OverflowError, RuntimeError, SystemError):
        return False


def fault(ours: Outcome, theirs: Outcome | None) -> str | None:
    """What is wrong with an outcome; ``theirs`` is that of JAX or PyTorch, where they have the entry."""
    error, peer = ours.error, theirs.error if theirs is not None else None
    if error is None:
        if theirs is not None and peer is None and differ(ours.value, theirs.value):
            return f"gives {ours.value!r} and not {theirs.value!r}"
        return None
    said = f"{type(error).__name__}: {error}"[:300]
    if peer is not None and type(peer) is type(error):
        return None  # raised by the value itself, or by JAX or PyTorch in both
    if isinstance(error, HangError):
        return f"takes longer than {SECONDS} s"
    if type(error).__module__.startswith("fgrad"):
        pass
    elif type(error) in INSIDE:
        return said
    if (place := raw(error)) is not None:
        return f"{place}: {said}"
    if theirs is not None and peer is None:
        return f"refused: {said}"
    if peer is not None:
        wanted = kind(peer)
        if wanted is not None and not isinstance(error, wanted) and {wanted, kind(error)} - ALIKE:
            return f"not {wanted.__name__}: {said}  |  {peer}"[:500]
    return None
