"""Values that outlive their recordings.

NOTE [Kept values]
A mask or a metric that a function under ``grad`` stores somewhere is a tracer, computed when it is read; JAX has it as
a plain array.  Until then it holds its recording, and so the arguments of that call: a list of metrics would hold the
parameters of every step.  So a few recordings after the end of one, if it is still held, and by tracers alone, their
values are computed and the rest of it is dropped.  Nearly all recordings are gone by then.  Who holds the others is
asked for several at once, since the garbage collector looks at all objects for the answer.
"""

import gc
import sys
import weakref

from fgrad.record.recorder import Recorder
from fgrad.record.tracer import Tracer

#: how many recordings end before the first of them is looked at again
_COUNT = 8
_ended: list[weakref.ref[Recorder] | None] = [None] * _COUNT
_next = 0


def note_end(recorder: Recorder) -> None:
    """Note that a recording is over; see NOTE [Kept values]."""
    global _next
    position = _next
    earlier = _ended[position]
    if earlier is not None and earlier() is not None:
        _settle_all()
    _ended[position] = weakref.ref(recorder)
    _next = (position + 1) % _COUNT


def _settle_all() -> None:
    """Settle the noted recordings that only tracers hold."""
    held = [recorder for ended in _ended if ended is not None and (recorder := ended()) is not None]
    _ended[:] = [None] * _COUNT
    # an outer one is held by those inside
    held.sort(key=lambda recorder: recorder.order)
    tracers = [x for x in gc.get_referrers(*held) if type(x) is Tracer]
    while held:
        recorder = held.pop()
        numbers = [x.number for x in tracers if x._trace is recorder]
        if sys.getrefcount(recorder) == len(numbers) + _references_of_a_variable():
            recorder.settle(numbers)


def _references_of_a_variable() -> int:
    """How many references Python counts to what one variable holds; it depends on the version."""
    alone = object()
    return sys.getrefcount(alone)
