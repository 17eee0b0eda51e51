"""How two sides are measured against each other."""

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax

#: seconds for which threads are watched before they count as idle
PAUSE = 0.002
#: the parts into which a round is cut
SHORTER = 5


class Awaited:
    """A tensor as ``jax.block_until_ready`` waits for it."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any):
        self.tensor = tensor

    def block_until_ready(self) -> "Awaited":
        self.tensor.detach().numpy()
        return self


def repeated(call: Callable[[], Any], seconds: float) -> int:
    """How many calls take about ``seconds``, of which the first are not like the others."""
    for _ in range(3):
        jax.block_until_ready(call())
    start = time.perf_counter()
    jax.block_until_ready(call())
    return max(1, int(seconds / max(time.perf_counter() - start, 1e-6)))


def per_call(call: Callable[[], Any], count: int) -> float:
    """Seconds per call, over ``count`` of them."""
    start = time.perf_counter()
    for _ in range(count):
        out = call()
    jax.block_until_ready(out)
    return (time.perf_counter() - start) / count


def await_idle_threads() -> None:
    """Wait until no thread of this process computes any more; a pool's waits in a busy loop for up to 0.2 s."""
    for _ in range(200):
        before = time.process_time()
        time.sleep(PAUSE)
        if time.process_time() - before < PAUSE / 4:
            return


def ratio(
    ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int, seconds: float
) -> tuple[float, float, float]:
    """Median of the rounds' ratios, and the median times of both sides in microseconds.

    Rounds are short and many, and each side is first in every other one: what the machine does besides comes and goes
    within seconds, and weighs on both alike.  A side begins when no thread of the other one is in a busy loop any more,
    and its first calls are not timed: they find the other's arrays in the caches.
    """
    counts = [repeated(call, seconds / SHORTER) for call in (ours, theirs)]
    gc.collect()
    pairs = []
    for turn in range(rounds * SHORTER):
        times = [0.0, 0.0]
        for side in (0, 1) if turn % 2 else (1, 0):
            call = (ours, theirs)[side]
            await_idle_threads()
            per_call(call, 1 + counts[side] // 4)
            times[side] = per_call(call, counts[side])
        pairs.append(times)
    a, b = (statistics.median(p[i] for p in pairs) * 1e6 for i in (0, 1))
    return statistics.median(p[0] / p[1] for p in pairs), a, b
