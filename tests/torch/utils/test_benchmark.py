"""Timers: what they measure is right within wide bounds, and they fail as PyTorch's do."""

import time

import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch.utils.benchmark")


@pytest.mark.parametrize("benchmark", [ours.utils.benchmark, theirs])
def test_timers(benchmark):
    timer = benchmark.Timer
    measured = timer("sleep(t)", setup="t = 0.002", globals={"sleep": time.sleep}, label="a nap").timeit(4)
    assert measured.number_per_run == 4 and len(measured.times) == 1 and measured.iqr == 0
    assert 0.002 <= measured.median == measured.mean == measured.times[0] < 1
    assert "a nap" in repr(measured) and " ms" in repr(measured) and "1 measurement, 4 runs" in repr(measured)
    # torch is known
    runs = timer("torch.ones(3) + 1").blocked_autorange(min_run_time=0.02)
    assert sum(runs.raw_times) >= 0.02 and min(runs.times) <= runs.median <= max(runs.times)
    with pytest.raises(SyntaxError):
        timer("1 +")
    with pytest.raises(NameError):
        timer("unknown").timeit(1)


def test_several_runs():
    measured = ours.utils.benchmark.Measurement(2, [2e-6, 4e-6, 8e-6], "three")
    assert measured.times == [1e-6, 2e-6, 4e-6] and measured.median == 2e-6
    assert repr(measured) == "three\n  Median: 2.00 us\n  IQR:    1.50 us\n  3 measurements, 2 runs per measurement"


def test_what_is_refused():
    with pytest.raises(NotImplementedError, match=r"Timer of C\+\+"):
        ours.utils.benchmark.Timer("1;", language="cpp")
    with pytest.raises(NotImplementedError, match="Compare"):
        ours.utils.benchmark.Compare([])
