"""Compiling in a thread of its own, while the program goes on.

NOTE [Compiling in the background]
XLA lets go of Python's lock while it compiles.  So what can run in another way meanwhile does not wait: a thread takes
one graph after the other, and an executable takes its program over at the first call after it is there.  What the
thread has compiled, JAX finds when the function is called, if types and settings are the same; a thread has some
settings for itself, so they are handed over.  With others JAX compiles at the call, and where the thread met an error,
the call meets it again.

A thread that is inside XLA when the interpreter ends or the process forks leaves locks that nobody opens.  So both wait
for the one graph that is being compiled.  The others are dropped at the end, and in the forked process, which goes on
without their programs.
"""

import atexit
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from time import perf_counter
from typing import Any

import jax

from fgrad.jaxcore import ShapedArray, with_x64


class Compilation:
    """A function that ``jax.jit`` returned, and whether it is ready to be called: compiled, or given up.

    Attributes:
      seconds: what compiling it in the background has taken.
    """

    __slots__ = ("program", "ready", "seconds")

    def __init__(self, program: Any):
        self.program: Any = program
        self.ready: bool = False
        self.seconds: float | None = None


#: how a function comes to be compiled for arguments of some types
Compile = Callable[[Any, Sequence[ShapedArray]], Compilation]


def when_called(program: Any, types: Sequence[ShapedArray]) -> Compilation:
    """Compiled by the first call, which waits for it."""
    compilation = Compilation(program)
    compilation.ready = True
    return compilation


def in_background(program: Any, types: Sequence[ShapedArray]) -> Compilation:
    """By the thread: see NOTE [Compiling in the background]."""
    compilation = Compilation(program)
    shapes = [jax.ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type) for t in types]
    config: Any = jax.config
    wide, device, precision = (
        config.jax_enable_x64,
        config.jax_default_device,
        config.jax_default_matmul_precision,
    )

    def lower() -> None:
        with jax.default_device(device), jax.default_matmul_precision(precision):
            program.lower(*shapes).compile()

    def work() -> None:
        began = perf_counter()
        try:
            if wide:
                with_x64(lower)
            else:
                lower()
            compilation.seconds = perf_counter() - began
        except Exception:
            pass
        compilation.ready = True

    if not _worker.submit(work):
        compilation.ready = True
    return compilation


def begun(
    running: Compilation | None, compile: Compile, program: Callable[[], Any], types: Sequence[ShapedArray]
) -> Compilation:
    """What has been begun already, or begin now; who waits for a program does not wait for the background's turn."""
    if running is None or (compile is when_called and not running.ready):
        return compile(program(), types)
    return running


def wait_for_compilations() -> None:
    """Wait until everything is compiled that has been left to the background so far."""
    reached = threading.Event()
    if _worker.submit(reached.set):
        reached.wait()


class _Worker:
    """The thread, which starts when there is something to do."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.thread: threading.Thread | None = None
        #: held while it works
        self.busy = threading.Lock()
        self.ended = False

    def submit(self, work: Callable[[], None]) -> bool:
        """Put work at the end of the queue; False where there can be no thread any more."""
        if self.ended:
            return False
        self.queue.put(work)
        if self.thread is None:
            thread = threading.Thread(target=self._run, name="fgrad compiles", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter ends, or the system gives no more of them
                self.ended = True
                return False
            self.thread = thread  # a signal before this makes a second thread, which does no harm
        return True

    def _run(self) -> None:
        while True:
            work = self.queue.get()
            with self.busy:
                if self.ended:
                    return
                work()
            del work

    def end(self) -> None:
        """Start no further compilation, and wait for the running one."""
        self.ended = True
        with self.busy:
            pass


_worker = _Worker()


def _in_forked_process() -> None:
    global _worker
    _worker = _Worker()


atexit.register(lambda: _worker.end())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _worker.busy.acquire(),
        after_in_parent=lambda: _worker.busy.release(),
        after_in_child=_in_forked_process,
    )
