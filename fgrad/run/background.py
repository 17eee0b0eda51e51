"""Compiling in a background thread, while the program continues.

NOTE [Compiling in the background]
XLA releases the GIL while it compiles.  So a graph that can run on another back end meanwhile does not wait: a thread
compiles one graph after the other, and an executable switches to its program at the first call after it is ready.  JAX
finds what the thread has compiled when the function is called with the same types and settings; some settings are
thread-local, so they are copied.  With other settings JAX compiles at the call, and if compiling in the thread failed,
the call raises the same error.

A thread that is inside XLA when the interpreter exits or the process forks leaves locks held forever.  So both wait
for the one graph that is being compiled.  Queued graphs are dropped on exit and in the forked process, which continues
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
    """A function returned by ``jax.jit``, and whether it is ready to be called: compiled, or failed.

    Attributes:
      seconds: the time that compiling it in the background took.
    """

    __slots__ = ("program", "ready", "seconds")

    def __init__(self, program: Any):
        self.program: Any = program
        self.ready: bool = False
        self.seconds: float | None = None


#: starts the compilation of a function for arguments of some types
Compile = Callable[[Any, Sequence[ShapedArray]], Compilation]


def when_called(program: Any, types: Sequence[ShapedArray]) -> Compilation:
    """Compile at the first call, which waits for it."""
    compilation = Compilation(program)
    compilation.ready = True
    return compilation


def in_background(program: Any, types: Sequence[ShapedArray]) -> Compilation:
    """Compile in the background thread: see NOTE [Compiling in the background]."""
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
    """The compilation already started, or a new one, outside the background's queue."""
    if running is None or (compile is when_called and not running.ready):
        return compile(program(), types)
    return running


def wait_for_compilations() -> None:
    """Wait until everything submitted to the background so far is compiled."""
    reached = threading.Event()
    if _worker.submit(reached.set):
        reached.wait()


class _Worker:
    """The thread, started on first use."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.thread: threading.Thread | None = None
        #: held while it works
        self.busy = threading.Lock()
        self.ended = False

    def submit(self, work: Callable[[], None]) -> bool:
        """Append work to the queue; False if no thread can be started any more."""
        if self.ended:
            return False
        self.queue.put(work)
        if self.thread is None:
            thread = threading.Thread(target=self._run, name="fgrad compiles", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is exiting, or the system is out of threads
                self.ended = True
                return False
            self.thread = thread  # a signal before this line leads to a second thread, which is harmless
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
