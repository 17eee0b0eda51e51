"""XLA's program of a captured call, which takes over the memory of what it overwrites.

NOTE [Donated arrays]
A step overwrites its parameters and what its optimiser keeps.  The program is given the memory of their old arrays for
the new ones, so that no second copy of them is made.  Such an array is gone as soon as the program runs, and two things
must not happen:

- Somebody else holds it: a tensor that was cloned, a saved value, the user.  Who holds an array is counted
  (``unshared``), and one with other holders is copied first.  NumPy's views and DLPack's hold the memory, and XLA looks
  after these itself.
- The program has run, and a signal comes before its results are where the old arrays were.  So the results go there in
  one call of C's, from inside of which no function of Python's is called (``Execution.into``).  That holds once JAX has
  met arguments of such classes under such settings; before, it looks for its program in Python.  Then the call is made
  in a thread of its own, since signals are handled in the main one only, and is waited for.

A call of which not all values are read from its own last outputs holds views of all arrays while it runs, so that none
of them is gone: XLA copies them.  Where that happens again and again, because somebody reads gradients after each step,
the program is compiled once more, and donates nothing.

NOTE [Out of memory]
XLA runs out of memory when the donated arrays are gone, and gives arrays that are errors.  But a program says what it
needs before it runs: beside its inputs the outputs that take over no memory, and one block for all that is between.  So
one that needs more than can be allocated is refused, in PyTorch's words, while everything is as before the call; a step
can be tried again with a smaller batch.  A program that needs little is not asked about.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import starmap
from sys import getrefcount
from threading import Thread
from typing import Any

import jax
import numpy as np
from jax import jit

from fgrad.graph.graph import Graph, evaluate
from fgrad.jaxcore import checks_each_primitive, copied, is_array, with_x64
from fgrad.mutable.values.capacity import check_room, room

#: a program that needs fewer bytes is not asked whether there are so many
_LITTLE = 1 << 26
#: so many calls of a program that donates are worth their copies more than another compilation
_PATIENCE = 16
#: the references that are counted of an array in a tuple
_ALONE = next(map(getrefcount, (np.empty(1),)))


class Execution:
    """A graph as XLA's program.

    Arguments:
      graph: what it computes.
      written: the arrays that it overwrites, each by the input that reads it, or None: their new values are its first
        outputs.
      gradients: outputs that are given together, too.
    """

    def __init__(self, graph: Graph, written: Sequence[int | None] = (), gradients: Sequence[int] = ()):
        count = len(written)
        rest = [i for i in range(count, len(graph.outputs)) if i not in set(gradients)]
        inputs = {read: i for i, read in enumerate(written) if read is not None}
        others = iter(range(count, count + len(graph.in_types)))
        order = [inputs[i] if i in inputs else next(others) for i in range(len(graph.in_types))]

        def run(written: Sequence[Any], others: Sequence[Any]) -> Any:
            values = (*written, *others)
            outs = evaluate(graph, [values[i] for i in order])
            return tuple(outs[:count]), tuple([outs[i] for i in gradients]), tuple([outs[i] for i in rest])

        wide = graph.wide
        self._keeping: _Compiled = _Compiled(jit(run), wide)
        self._donating: _Compiled = self._keeping
        if written:
            self._donating = _Compiled(jit(run, donate_argnums=(0,), keep_unused=True), wide)
        #: so many calls more copy what they are given, before the program is compiled once more for such calls
        self._patience: int = _PATIENCE if written else 0
        places = {output: i for i, output in enumerate((*range(count), *gradients, *rest))}
        self._flat: Sequence[int] = [places[i] for i in range(len(graph.outputs))]
        #: the places of outputs among those that are not given together
        self.rest: dict[int, int] = {output: i for i, output in enumerate(rest)}

    def __call__(self, written: Sequence[Any], others: Sequence[Any]) -> Sequence[Any]:
        """The outputs for arrays that stay as they are, and that one other holds each.

        Raises:
          RuntimeError: it needs more memory than there is.
        """
        if not self._patience:
            self._keeping.check(written, others)
            return self.flat(self._keeping.call(self._keeping.function, written, others))
        self._patience -= 1
        outs: deque[Any] = deque(maxlen=1)
        written = self.unshared(written, 1)
        views = [np.asarray(x) for x in written]
        self.into(outs, 0, written, others)
        del views
        return self.flat(outs[0][0])

    def flat(self, outs: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """What ``into`` gives as the outputs of the graph."""
        written, gradients, rest = outs
        both = (*written, *gradients, *rest)
        return [both[i] for i in self._flat] if gradients else both

    def unshared(self, arrays: Sequence[Any], holders: int = 0) -> Sequence[Any]:
        """Arrays that a tuple and so many others hold; copies of those that anybody else holds too."""
        counts = [*map(getrefcount, arrays)]
        if max(counts, default=0) <= _ALONE + holders and all(map(is_array, arrays)):
            return arrays
        return self._donating.call(_copies, arrays, counts, _ALONE + holders)

    def into(self, latest: deque[Any], calls: int, written: Sequence[Any], others: Sequence[Any]) -> None:
        """Run, and put what it gives into ``latest``, with a number: both are done or, where a signal comes, neither.

        It gives the new values of the written arrays, the gradients, and the rest.  The written arrays are gone then,
        but for those of which somebody holds a view.

        Raises:
          RuntimeError: it needs more memory than there is; nothing has changed.
        """
        views = [np.asarray(x) for x in written] if checks_each_primitive() else ()  # JAX runs it again then
        program = self._donating
        runs = zip(starmap(program.function, ((written, others),)), (calls,), strict=False)
        if program.check(written, others):
            program.call(latest.extend, runs)
        else:
            _uninterrupted(lambda: program.call(latest.extend, runs))
        del views


class _Compiled:
    """A function under ``jit``, and what it needs.

    Attributes:
      call: calls a function with the types that JAX has to have for it.
    """

    def __init__(self, function: Any, wide: bool):
        self.function: Any = function
        self.call: Callable[..., Any] = with_x64 if wide else _called
        #: in bytes, by the settings and the classes of the arguments
        self._needs: dict[Any, int] = {}

    def check(self, written: Sequence[Any], others: Sequence[Any]) -> bool:
        """Whether it was checked with arguments of such classes under such settings before.

        Raises:
          RuntimeError: it needs more memory than there is once the calls before have ended (NOTE [Out of memory]).
        """
        met = _settings(), *map(type, others)
        known = self._needs.get(met)
        need = self.call(self._need, written, others) if known is None else known
        if need > _LITTLE and need > room():
            jax.block_until_ready(written)
            check_room(need, room())
        self._needs[met] = need
        return known is not None

    def _need(self, written: Sequence[Any], others: Sequence[Any]) -> int:
        """How many bytes it allocates when it runs; it is compiled for that, and JAX keeps what it has compiled."""
        sizes = self.function.lower(written, others).compile().memory_analysis()
        if sizes is None:  # this back end does not say
            return 0
        return sizes.temp_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes


def _called(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def _copies(arrays: Sequence[Any], counts: Sequence[int], most: int) -> Sequence[Any]:
    both = zip(arrays, counts, strict=True)
    return tuple([x if count <= most and is_array(x) else copied(np.asarray(x)) for x, count in both])


def _settings() -> Any:
    """JAX's settings of this thread, which another one does not have."""
    config: Any = jax.config
    return config.jax_enable_x64, config.jax_default_device, config.jax_default_matmul_precision


def _uninterrupted(function: Callable[[], Any]) -> None:
    """Call a function where no signal is handled, with JAX's settings of this thread.

    Raises:
      BaseException: what it raises.
    """
    wide, device, precision = _settings()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with jax.default_device(device), jax.default_matmul_precision(precision), jax.enable_x64(wide):
                function()
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, name="fgrad runs")
    thread.start()
    _ended(thread)
    if errors:
        raise errors.pop()


def _ended(thread: Thread) -> None:
    """Wait for a thread, through signals too."""
    try:
        thread.join()
    except BaseException:
        _ended(thread)
        raise
