"""``torch.multiprocessing``: Python's ``multiprocessing``, and groups of processes.

Tensors sent to another process arrive as copies; those with ``share_memory_()`` are refused there.

Source: PyTorch's ``torch/multiprocessing/spawn.py``.
"""

import multiprocessing
import multiprocessing.connection
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgrad.mutable.context.warning import warn

__all__ = [
    "set_sharing_strategy", "get_sharing_strategy", "get_all_sharing_strategies", "ProcessContext", "ProcessException",
    "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn", "start_processes",
    *multiprocessing.__all__,  # pyright: ignore[reportUnsupportedDunderAll]
]  # fmt: skip

globals().update({name: getattr(multiprocessing, name) for name in multiprocessing.__all__})

_STRATEGIES = {"file_system"} if sys.platform in ("darwin", "win32") else {"file_descriptor", "file_system"}
_strategy = min(_STRATEGIES)


def get_all_sharing_strategies() -> set[str]:
    """The names of PyTorch's strategies of sharing memory."""
    return _STRATEGIES


def get_sharing_strategy() -> str:
    """The current strategy."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Set the strategy by which memory would be shared.

    Raises:
      AssertionError: the strategy is unknown.
    """
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}, expected one of {_STRATEGIES}")
    _strategy = new_strategy


class ProcessException(Exception):
    """A process failed."""

    def __init__(self, msg: str, error_index: int, error_pid: int):
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process raised an exception."""


class ProcessExitedException(ProcessException):
    """A process was killed by a signal, or exited with an error code."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


class ProcessContext:
    """Processes that were started together; returned by `start_processes`."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]):
        self.processes = processes
        self.error_files = error_files
        self.sentinels: dict[Any, int] = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for one process to end, and end all others if it failed.

        Arguments:
          timeout: how many seconds to wait for one.
          grace_period: how many seconds the others have to end on their own.

        Returns:
          Whether all have ended.

        Raises:
          ProcessRaisedException: one failed by an exception.
          ProcessExitedException: one failed otherwise.
        """
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout) if self.sentinels else ():
            index = self.sentinels.pop(sentinel)  # pyright: ignore[reportArgumentType]
            self.processes[index].join()
            if self.processes[index].exitcode:
                self._end(grace_period)
                self._raise(index)
        return not self.sentinels

    def _end(self, grace_period: float | None) -> None:
        if grace_period is not None:
            self._wait(grace_period)
        for end in ("terminate", "kill"):
            for process in self.processes:
                if process.is_alive():
                    getattr(process, end)()
            self._wait(30 if grace_period is None else grace_period)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))

    def _raise(self, index: int) -> None:
        process, file = self.processes[index], Path(self.error_files[index])
        if file.exists():
            text = f"\n\n-- Process {index:d} terminated with the following error:\n"
            raise ProcessRaisedException(text + pickle.loads(file.read_bytes()), index, process.pid)
        code = process.exitcode
        if code >= 0:
            text = f"process {index:d} terminated with exit code {code:d}"
            raise ProcessExitedException(text, index, process.pid, code)
        known = -code in set(signal.Signals)
        name = signal.Signals(-code).name if known else f"<Unknown signal {-code}>"
        raise ProcessExitedException(
            f"process {index:d} terminated with signal {name}", index, process.pid, code, signal_name=name
        )


class SpawnContext(ProcessContext):
    """The former name of `ProcessContext`."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]):
        warn("SpawnContext is renamed to ProcessContext since 1.4 release.")
        super().__init__(processes, error_files)


def _run(fn: Callable[..., Any], index: int, args: Sequence[Any], error_file: str) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent ended it
    except Exception:
        Path(error_file).write_bytes(pickle.dumps(traceback.format_exc()))
        sys.exit(1)


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run a function in several processes.

    Arguments:
      fn: a function of the process's index and of ``args``, at the top level of a module.
      args: the same for all processes.
      nprocs: how many processes.
      join: whether to wait for all of them.
      daemon: whether they end with this process.
      start_method: as in ``multiprocessing.get_context``.

    Returns:
      The processes, unless they were waited for.

    Raises:
      ProcessException: one of them failed, and the others were ended.
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, error_files = [], []
    for index in range(nprocs):
        with tempfile.NamedTemporaryFile(prefix="pytorch-errorfile-", suffix=".pickle") as file:
            error_files.append(file.name)  # the child recreates it to report an error
        processes.append(context.Process(target=_run, args=(fn, index, args, file.name), daemon=daemon))
        processes[-1].start()
    started = ProcessContext(processes, error_files)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` by the start method ``spawn``."""
    if start_method != "spawn":
        warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
