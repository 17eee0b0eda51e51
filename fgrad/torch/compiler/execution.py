"""The XLA program of a captured call, which reuses the memory of the arrays that it overwrites.

NOTE [Donated arrays]
A step overwrites its parameters and its optimiser's state.  The old arrays are donated to the program, which reuses
their memory for the new ones; so are the gradients of the last call, which each call makes anew and nobody has read.  A
donated array is deleted as soon as the program runs, so two things must not happen:

- Something else holds it: a cloned tensor, a saved value, the user.  So the references to each array are counted
  (``unshared``), and one with other holders is copied first.  NumPy and DLPack views hold the memory, and XLA itself
  respects these on the CPU.  On an accelerator they hold copies.
- A signal arrives after the program has run, but before its results have replaced the old arrays.  So both happen in
  one C call, during which no Python function is called (``Execution.run_into``).  This holds once JAX has seen
  arguments of these classes under these settings; before, it looks for its program in Python.  Then the call is made in
  a thread of its own, which is waited for: signals are handled in the main thread only.

A call that does not read all values from its own last outputs holds views of all arrays while it runs, so that none is
deleted: XLA copies them.  Its gradients get new memory.  If that happens repeatedly, because gradients are read after
each step, the program is compiled again, without donation.

NOTE [Out of memory]
When XLA runs out of memory the donated arrays are already deleted, and the results are errors.  But the memory that a
program needs is known before it runs: besides its inputs, the outputs that reuse no memory, and one block of temporary
memory.  If that cannot be allocated, PyTorch's error is raised while everything is as before the call; so the step can
be retried with a smaller batch.  Small programs are not checked.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress, starmap
from sys import getrefcount
from threading import Thread
from typing import Any

import jax
import numpy as np
from jax import jit, numpy as jnp

from fgrad.graph.graph import Graph, evaluate
from fgrad.jaxcore import checks_each_primitive, copied, is_array, restoring_trace, with_x64
from fgrad.mutable.values.capacity import check_room, room
from fgrad.mutable.values.device_of_value import accelerator_of, at
from fgrad.torch.compiler.placement import HERE, Placement

#: programs that need fewer bytes are not checked
_SMALL = 1 << 26
#: so many calls with copies cost less than another compilation
_PATIENCE = 16
#: what ``getrefcount`` returns for an array that only a tuple holds
_TUPLE_REFERENCES = next(map(getrefcount, (np.empty(1),)))


class Execution:
    """A graph compiled by XLA.

    Arguments:
      graph: what it computes.
      written: for each array that it overwrites, the input that reads it, or None; the graph's first outputs are the
        new values.
      gradients: outputs that are returned as a group of their own.
      placement: where it runs.
      expected: the output without which the new values are the old ones.
    """

    def __init__(
        self,
        graph: Graph,
        written: Sequence[int | None] = (),
        gradients: Sequence[int] = (),
        placement: Placement = HERE,
        expected: int | None = None,
    ):
        count = len(written)
        rest = [i for i in range(count, len(graph.outputs)) if i not in set(gradients)]
        inputs = {read: i for i, read in enumerate(written) if read is not None}
        others = iter(range(count, count + len(graph.in_types)))
        order = [inputs[i] if i in inputs else next(others) for i in range(len(graph.in_types))]

        def run(written: Sequence[Any], replaced: Sequence[Any], others: Sequence[Any]) -> Any:
            values = (*written, *others)
            outs = evaluate(graph, [values[i] for i in order])
            if expected is not None:
                outs = [*map(partial(jnp.where, outs[expected]), outs[:count], written), *outs[count:]]
            return tuple(outs[:count]), tuple([outs[i] for i in gradients]), tuple([outs[i] for i in rest])

        self._keeping: _Compiled = _Compiled(jit(run), graph.wide, placement)
        self._donating: _Compiled = self._keeping
        if written:
            self._donating = _Compiled(jit(run, donate_argnums=(0, 1), keep_unused=True), graph.wide, placement)
        self._accelerator: Any = placement.accelerator
        #: the indices of the other inputs, and of all outputs, that are on the CPU beside an accelerator
        self._inputs_on_cpu: Sequence[int] = [order[i] - count for i in placement.inputs if order[i] >= count]
        self._outputs_on_cpu: Sequence[int] = placement.outputs
        #: how many more calls copy their arguments, before the program is compiled without donation
        self._patience: int = _PATIENCE if written else 0
        indices = {output: i for i, output in enumerate((*range(count), *gradients, *rest))}
        self._flat: Sequence[int] = [indices[i] for i in range(len(graph.outputs))]
        #: the indices of the other outputs in their group
        self.rest: dict[int, int] = {output: i for i, output in enumerate(rest)}
        #: the types of the gradients whose memory is reused; where the old values may stay, so may the old gradients
        self._replaced: Sequence[jax.ShapeDtypeStruct] = (
            tuple([jax.ShapeDtypeStruct(t.shape, t.dtype) for t in (graph.out_types[i] for i in gradients)])
            if written and expected is None
            else ()
        )
        #: the index of the expected output in its group
        self._expected: int | None = None if expected is None else self.rest[expected]

    def __call__(self, written: Sequence[Any], others: Sequence[Any]) -> Sequence[Any]:
        """The outputs for arrays that are not overwritten, each with one other holder.

        Raises:
          RuntimeError: it needs more memory than there is.
        """
        if not self._patience:
            others = self._moved(others)
            self._keeping.check(written, (), others)
            return self.flat(self._keeping.call(self._keeping.function, written, (), others))
        self._patience -= 1
        outs: deque[Any] = deque(maxlen=1)
        if self._accelerator is None:
            written = self.unshared(written, 1)
            views = [np.asarray(x) for x in written]
        else:  # no view keeps an accelerator's memory
            written = views = self._donating.call(_copies, written)
        self.run_into(outs, 0, written, (), others)
        del views
        return self.flat(outs[0][0])

    def flat(self, outs: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """The groups of outputs in the order of the graph's outputs."""
        written, gradients, rest = outs
        both = (*written, *gradients, *rest)
        ordered = [both[i] for i in self._flat] if gradients else both
        return _with_on_cpu(ordered, self._outputs_on_cpu) if self._outputs_on_cpu else ordered

    def is_usual(self, outs: Sequence[Sequence[Any]]) -> bool:
        """Whether the groups of outputs are those of the usual case."""
        return self._expected is None or bool(outs[-1][self._expected])

    def returned(self, rest: Sequence[Any]) -> Sequence[Any]:
        """The group of the other outputs, each on its device."""
        return _with_on_cpu(rest, [self.rest[i] for i in self._outputs_on_cpu if i in self.rest])

    def _moved(self, others: Sequence[Any]) -> Sequence[Any]:
        """The other inputs; NumPy arrays for those on the CPU, which JAX copies to the program's device."""
        if not self._inputs_on_cpu:
            return others
        moved = [*others]
        for i in self._inputs_on_cpu:
            moved[i] = np.asarray(moved[i])
        return moved

    def unshared(self, arrays: Sequence[Any], holders: int = 0) -> Sequence[Any]:
        """A tuple of arrays; those with more than so many other holders are copied."""
        counts = [*map(getrefcount, arrays)]
        if max(counts, default=0) <= _TUPLE_REFERENCES + holders and all(map(is_array, arrays)):
            return arrays
        return self._donating.call(_unshared, arrays, counts, _TUPLE_REFERENCES + holders)

    def run_into(
        self,
        latest: deque[Any],
        calls: int,
        written: Sequence[Any],
        replaced: Sequence[Any],
        others: Sequence[Any],
        stores: Sequence[Any] = (),
    ) -> None:
        """Run, and append the outputs, with a number, to ``latest``; if a signal interrupts, neither happens.

        Nor do the stores, iterators of one element that set something without a Python function.

        The outputs are the new values of the written arrays, the gradients, and the others.  The written arrays are
        deleted, except those with views, and so are the replaced ones, which are gradients of the last call; there may
        be none.

        Raises:
          RuntimeError: it needs more memory than there is; nothing has changed.
        """
        program, others = self._donating, self._moved(others)
        if len(replaced) == len(self._replaced):
            seen = program.check(written, replaced, others)
        else:
            seen = program.check(written, self._replaced, others, sum(map(_bytes, self._replaced)))
            replaced = program.call(_blank, self._replaced)
        # JAX runs it again then
        views = [np.asarray(x) for x in (*written, *replaced)] if checks_each_primitive() else ()
        number = compress((calls,), zip(*stores, strict=False)) if stores else (calls,)
        runs = zip(starmap(program.function, ((written, replaced, others),)), number, strict=False)
        if seen:
            program.call(latest.extend, runs)
        else:
            _uninterrupted(lambda: program.call(latest.extend, runs))
        del views


class _Compiled:
    """A function under ``jit``, and the memory it needs.

    Attributes:
      call: calls a function under the settings that it needs: of 64 bits and of the device.
    """

    def __init__(self, function: Any, wide: bool, placement: Placement):
        self.function: Any = function
        self.call: Callable[..., Any] = with_x64 if wide else _called
        device = placement.device
        if device is not None:
            self.call = partial(_on_device, device, self.call)
        self._accelerator: Any = placement.accelerator
        #: bytes, by JAX's settings and the classes of the arguments
        self._needs: dict[Any, int] = {}

    def check(self, written: Sequence[Any], replaced: Sequence[Any], others: Sequence[Any], blank: int = 0) -> bool:
        """Check that there is enough memory; returns whether that was done before for such arguments and settings.

        So many bytes are allocated for arguments, too.

        Raises:
          RuntimeError: there is not, even after earlier calls have ended (NOTE [Out of memory]).
        """
        key = _settings(), *map(type, others)
        cached = self._needs.get(key)
        need = self.call(restoring_trace, self._need, written, replaced, others) if cached is None else cached
        if need + blank > _SMALL and need + blank > room(self._accelerator):
            jax.block_until_ready(written)
            check_room(need + blank, room(self._accelerator))
        self._needs[key] = need
        return cached is not None

    def _need(self, written: Sequence[Any], replaced: Sequence[Any], others: Sequence[Any]) -> int:
        """How many bytes it allocates when it runs; this compiles it, and JAX caches the program."""
        sizes = self.function.lower(written, replaced, others).compile().memory_analysis()
        if sizes is None:  # unknown for this back end
            return 0
        return sizes.temp_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes


def _called(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def _on_device(device: Any, call: Callable[..., Any], function: Callable[..., Any], *args: Any) -> Any:
    with jax.default_device(device):
        return call(function, *args)


def _with_on_cpu(values: Sequence[Any], indices: Sequence[int]) -> list[Any]:
    """Some values, those with these indices on the CPU."""
    moved = [*values]
    for i in indices:
        moved[i] = at(moved[i], None)
    return moved


def _unshared(arrays: Sequence[Any], counts: Sequence[int], most: int) -> Sequence[Any]:
    both = zip(arrays, counts, strict=True)
    return tuple([x if count <= most and is_array(x) else _copy(x) for x, count in both])


def _copies(arrays: Sequence[Any]) -> Sequence[Any]:
    return tuple(map(_copy, arrays))


def _bytes(type: Any) -> int:
    return type.size * type.dtype.itemsize


def _blank(types: Sequence[Any]) -> Sequence[Any]:
    """Arrays on JAX's default device that hold any numbers."""
    return tuple([copied(np.empty(each.shape, each.dtype)) for each in types])


def _copy(array: Any) -> Any:
    """A copy on JAX's default device."""
    return copied(np.asarray(array) if accelerator_of(array) is None else array)


def _settings() -> Any:
    """JAX's thread-local settings."""
    config: Any = jax.config
    return config.jax_enable_x64, config.jax_default_device, config.jax_default_matmul_precision


def _uninterrupted(function: Callable[[], Any]) -> None:
    """Call a function in a thread, where no signal is handled, with this thread's JAX settings.

    Raises:
      BaseException: whatever the function raises.
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
    _join(thread)
    if errors:
        raise errors.pop()


def _join(thread: Thread) -> None:
    """Wait for a thread, through signals too."""
    try:
        thread.join()
    except BaseException:
        _join(thread)
        raise
