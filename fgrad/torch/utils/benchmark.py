"""``torch.utils.benchmark``: how long a statement takes, by Python's ``timeit``.

Source: `torch.utils.benchmark <https://docs.pytorch.org/docs/2.13/benchmark_utils.html>`_.
"""

import importlib
import statistics
import textwrap
import time
import timeit
from collections.abc import Callable
from typing import Any

from attrs import frozen

from fgrad.torch.refused import HERE, refusal, refused

Compare: Any = refused("utils.benchmark")["Compare"]

#: names of units of time, and how many of each are a second, the largest first
_UNITS = (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9))


@frozen(eq=False, repr=False)
class Measurement:
    """What runs of a statement took.

    Attributes:
      number_per_run: how often each run executes the statement.
      raw_times: what each run took, in seconds.
      title: what was measured.
    """

    number_per_run: int
    raw_times: list[float]
    title: str

    @property
    def times(self) -> list[float]:
        """The seconds that one execution took, in each run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """The mean of ``times``."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """The median of ``times``."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance of the quartiles of ``times``; 0 of a single run."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __repr__(self) -> str:
        unit, per_second = next((each for each in _UNITS if self.median * each[1] >= 1), _UNITS[-1])
        value, count = f"{self.median * per_second:.2f} {unit}", len(self.raw_times)
        if count == 1:
            lines = [value, f"1 measurement, {self.number_per_run} runs"]
        else:
            lines = [
                f"Median: {value}",
                f"IQR:    {self.iqr * per_second:.2f} {unit}",
                f"{count} measurements, {self.number_per_run} runs per measurement",
            ]
        return f"{self.title}\n" + textwrap.indent("\n".join(lines), "  ")


class Timer:
    """Measures how long a statement takes.

    Arguments:
      stmt: the Python source of the statement.
      setup: source that is executed once before each run.
      timer: a clock, in seconds.
      globals: the names that the statement reads; ``torch`` is among them.
      label, sub_label, description: what the measurement is called.
      num_threads: accepted as PyTorch accepts it; the threads are those of JAX and NumPy.

    Raises:
      SyntaxError: ``stmt`` or ``setup`` is no Python.

    >>> from fgrad.torch.utils.benchmark import Timer
    >>> Timer("x + 1", globals={"x": 1}, label="a sum").timeit(10).number_per_run
    10

    Source: `Timer <https://docs.pytorch.org/docs/2.13/benchmark_utils.html#torch.utils.benchmark.Timer>`_.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = time.perf_counter,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: str = "python",
    ):
        if str(language).lower() not in ("python", "py"):
            raise refusal("torch.utils.benchmark.Timer of C++")
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._title = ": ".join([name for name in (label or stmt, sub_label, description) if name])
        names_read = {"torch": importlib.import_module(HERE.rstrip(".")), **(globals or {})}
        self._timer = timeit.Timer(stmt, setup, timer, names_read)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Execute the statement ``number`` times, after some that are not measured."""
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], self._title)

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Execute the statement in runs of at least a thousandth of ``min_run_time`` seconds, until that has passed.

        ``callback`` is called with the number of executions and the seconds of each run.
        """
        number = 1
        while (elapsed := self._timer.timeit(number)) < min_run_time / 1000:
            number *= 10
        times: list[float] = []
        while sum(times) < min_run_time:
            elapsed = self._timer.timeit(number)
            times.append(elapsed)
            if callback is not None:
                callback(number, elapsed)
        return Measurement(number, times, self._title)
