"""Programs of others, played again and again: what one takes once everything that it does has been met.

``python -m tests.benchmarks.libraries`` measures the programs and tutorials of ``tests/real/torch`` whose libraries
are installed, or those that are named, on both sides, each in a process of its own: the median of the last plays.  A
play makes its modules, optimisers and data anew, as a script does.
"""

import argparse
import importlib
import json
import os
import runpy
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.measured import ROOT, Row, table
from tests.real.torch.test_programs import PROGRAMS, missing

HERE = ROOT / "tests" / "real" / "torch"
#: how often each is played, and how many of the last plays count
PLAYS, LAST = 8, 4
#: the most that a program may take, times PyTorch's time, and that the median of all may
WORST, MEDIAN = 6.0, 2.5
#: an adaptive solution with its adjoint, variational inference, an exact Gaussian process
SOLVERS = dict.fromkeys(("torchdiffeq", "pyro", "gpytorch"), 4.0)


def played(program: Path, side: str, plays: int) -> list[float]:
    """In this process: the seconds of each play."""
    warnings.simplefilter("ignore")
    if side == "fgrad":
        importlib.import_module("fgrad.torch").install()
    times = []
    for _ in range(plays):
        start = time.perf_counter()
        runpy.run_path(str(program))
        times.append(time.perf_counter() - start)
    return times


def in_process(program: Path, side: str, plays: int) -> list[float]:
    command = [sys.executable, "-m", "tests.benchmarks.libraries", str(program), "--side", side, "--plays", str(plays)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def rows(programs: Sequence[Path], plays: int = PLAYS) -> Iterator[Row]:
    """One for each program that PyTorch runs here, and the median of all."""
    ratios = []
    for program in programs:
        try:
            theirs = in_process(program, "pytorch", plays)
        except subprocess.CalledProcessError as error:
            print(f"{program.stem} is left out: {error.stderr.splitlines()[-1]}", file=sys.stderr)
            continue
        a, b = (statistics.median(times[-LAST:]) for times in (in_process(program, "fgrad", plays), theirs))
        ratios.append(a / b)
        detail = f"{a * 1000:.0f} / {b * 1000:.0f} ms"
        yield Row(f"{program.stem}: a play", "PyTorch eager", a / b, SOLVERS.get(program.stem, WORST), detail)
    if ratios:
        yield Row(f"the median of {len(ratios)} programs", "PyTorch eager", statistics.median(ratios), MEDIAN)


def found() -> list[Path]:
    """The tutorials, and the programs whose libraries are installed."""
    programs = [HERE / "programs" / f"{name}.py" for name in PROGRAMS if not missing(name)]
    return [*sorted((HERE / "tutorials").glob("*.py")), *programs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="names of programs, or a file")
    parser.add_argument("--plays", type=int, default=PLAYS)
    parser.add_argument("--side", help="play one file in this process")
    options = parser.parse_args()
    if options.side:
        print("\n" + json.dumps(played(Path(options.names[0]), options.side, options.plays)))
        return
    programs = [each for each in found() if not options.names or each.stem in options.names]
    print(table(list(rows(programs, options.plays))))


if __name__ == "__main__":
    main()
