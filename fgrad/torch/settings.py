"""Process-wide settings.

XLA chooses its threads and the precision of products on the CPU: these settings can be read back, and change no result.
The number of threads holds for what NumPy computes.
Deterministic algorithms put the reproducible policy in force (NOTE [Back ends in order]).
"""

from typing import NamedTuple

from fgrad.mutable.context.warning import once, warn
from fgrad.run.kernels.blas_threads import limit_threads
from fgrad.run.kernels.helpers import PROCESSORS
from fgrad.run.policy import POLICIES, enforce

_MODES = {"default": 0, "warn": 1, "error": 2}
_PRECISIONS = ("highest", "high", "medium")


class Settings(NamedTuple):
    """The settings of the process."""

    threads: int | None = None
    interop_threads: int | None = None
    deterministic: int = 0
    precision: str = "highest"


class _Process:
    """Holds the settings in force."""

    settings: Settings = Settings()


process: _Process = _Process()


def _set(**values: object) -> None:
    process.settings = process.settings._replace(**values)


def restore_settings(settings: Settings) -> None:
    """Put earlier settings in force again."""
    _set_deterministic(settings.deterministic)
    if settings.threads != process.settings.threads:
        limit_threads(settings.threads or PROCESSORS)
    process.settings = settings


def get_num_threads() -> int:
    """The number of threads of an operation: the number set, else the number of cores."""
    return process.settings.threads or PROCESSORS


def set_num_threads(num_threads: int) -> None:
    """Let so many threads compute an operation that NumPy runs; XLA chose its threads when the process started.

    BLAS keeps the number for what else NumPy multiplies in this process.

    Raises:
      RuntimeError: it is not a positive integer.

    Source: `torch.set_num_threads <https://docs.pytorch.org/docs/2.13/generated/torch.set_num_threads.html>`_.
    """
    count = _positive("set_num_threads", num_threads)
    limit_threads(count)
    _set(threads=count)


def get_num_interop_threads() -> int:
    """The number of threads that run independent operations."""
    return process.settings.interop_threads or PROCESSORS


def set_num_interop_threads(num_threads: int) -> None:
    """Accepted as in PyTorch; see ``set_num_threads``."""
    _set(interop_threads=_positive("set_num_interop_threads", num_threads))


def _positive(function: str, number: int) -> int:
    if not isinstance(number, int):
        raise RuntimeError(f"{function} expects an int, but got {type(number).__name__}")
    if number <= 0:
        raise RuntimeError(f"{function} expects a positive integer")
    return number


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Make results the same, bit for bit, each time: puts fgrad's policy "reproducible" in force.

    Raises:
      TypeError: ``mode`` is not a bool.

    >>> import fgrad.torch as torch
    >>> torch.use_deterministic_algorithms(True)
    >>> torch.are_deterministic_algorithms_enabled()
    True
    >>> torch.use_deterministic_algorithms(False)

    Source: `torch.use_deterministic_algorithms
    <https://docs.pytorch.org/docs/2.13/generated/torch.use_deterministic_algorithms.html>`_.
    """
    if not isinstance(mode, bool):
        name = type(mode).__name__
        raise TypeError(f"_set_deterministic_algorithms(): argument 'mode' (position 1) must be bool, not {name}")
    _set_deterministic((1 if warn_only else 2) if mode else 0)


def _set_deterministic(level: int) -> None:
    if bool(level) != are_deterministic_algorithms_enabled():
        enforce(POLICIES["reproducible" if level else "default"])
    _set(deterministic=level)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether they are enabled."""
    return process.settings.deterministic > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether they are enabled with warnings instead of errors."""
    return process.settings.deterministic == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same as ``use_deterministic_algorithms``, by "default", "warn" or "error", or by 0, 1 or 2.

    Raises:
      TypeError, RuntimeError: it is none of these.
    """
    if not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got " + debug_mode
            )
        debug_mode = _MODES[debug_mode]
    if debug_mode not in _MODES.values():
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    _set_deterministic(debug_mode)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2; see ``set_deterministic_debug_mode``."""
    return process.settings.deterministic


def get_float32_matmul_precision() -> str:
    """The precision of products that was set."""
    return process.settings.precision


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of products to "highest", "high" or "medium"; on the CPU it is always the highest.

    Source: `torch.set_float32_matmul_precision
    <https://docs.pytorch.org/docs/2.13/generated/torch.set_float32_matmul_precision.html>`_.
    """
    if precision in _PRECISIONS:
        _set(precision=precision)
    else:
        warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the currentsetFloat32MatmulPrecision call has "
            "no effect.",
        )


def set_warn_always(b: bool) -> None:
    """Whether warnings that are given once per process are given each time.

    Source: `torch.set_warn_always <https://docs.pytorch.org/docs/2.13/generated/torch.set_warn_always.html>`_.
    """
    once.always = b


def is_warn_always_enabled() -> bool:
    """Whether ``set_warn_always`` is on."""
    return once.always


def set_flush_denormal(mode: bool) -> bool:
    """Flush denormal numbers to zero: whether that was possible.  XLA always does, so only True is."""
    return bool(mode)
