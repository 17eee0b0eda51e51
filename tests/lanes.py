"""The lanes: each way in which a graph can run, forced by a policy.

``python -m tests.lanes 20000`` plays that many random programs in every lane, against real torch; the seed of the first
and names of lanes may follow.  With ``--without-xla`` NumPy computes what XLA would: how programs go through a lane is
seen ten times as fast.
"""

import importlib
import inspect
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

import fgrad
from fgrad.graph.graph import Graph
from fgrad.jaxcore import Tracer
from fgrad.run import executable, stretches
from fgrad.run.interpreter import as_arrays, interpret
from fgrad.run.kernels.kernel import kernel
from fgrad.run.policy import POLICIES

#: how many programs a campaign plays before everything is new again
AT_ONCE = 50

#: the policies under which a program must show what it shows under the default one
LANES: tuple[str, ...] = tuple(name for name in POLICIES if name != "default")


def in_lane(lane: str) -> Any:
    """A block in which everything runs in one lane."""
    return fgrad.policy(lane)


def lane_of(number: int) -> str:
    """Tests that are too many to run in every lane take turns."""
    return LANES[number % len(LANES)]


def differences(seed: int, ours: Any, theirs: Any) -> Iterator[str]:
    """Where the programs of a seed show under the policy in force what torch does not show."""
    from tests.torch import mirror, shapes  # noqa: PLC0415

    found = mirror.difference(mirror.random_program(seed, 8), ours, theirs)
    if found is not None:
        yield found
    try:
        shapes.check(seed, ours, theirs)
    except Exception as error:
        yield f"shapes: {type(error).__name__}: {error}"


class NumPyProgram:
    """What stands in for a function that XLA has compiled: its graph, run by NumPy's kernels where there are some."""

    def __init__(self, function: Callable[..., Any], **options: Any):
        self.traced = jax.jit(function, **options)
        self.graph: Graph = inspect.getclosurevars(function).nonlocals["graph"]

    def __call__(self, *args: Any) -> Sequence[Any]:
        if any(isinstance(x, Tracer) for x in args):
            return self.traced(*args)
        return as_arrays(interpret(self.graph, args, kernel), self.graph.out_types)

    def lower(self, *types: Any) -> "NumPyProgram":
        return self

    def compile(self) -> None:
        pass


def main(arguments: list[str]) -> None:
    importlib.import_module("tests.conftest")  # XLA compiles as in the tests, in a third of the time
    import torch as theirs  # noqa: PLC0415

    import fgrad.torch as ours  # noqa: PLC0415

    theirs.set_num_threads(1)
    if "--without-xla" in arguments:
        arguments.remove("--without-xla")
        for module in (executable, stretches):
            module.jax = types.SimpleNamespace(**vars(jax) | {"jit": NumPyProgram})  # type: ignore[attr-defined]
    count, first = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 0
    different, start = 0, time.process_time()
    # a change of policies makes all that was met new; it takes the longer, the more that is
    for block in range(first, first + count, AT_ONCE):
        seeds = range(block, min(block + AT_ONCE, first + count))
        for lane in arguments[2:] or LANES:
            with in_lane(lane):
                for seed in seeds:
                    for text in differences(seed, ours, theirs):
                        different += 1
                        print(f"--- seed {seed}, lane {lane}: {text}", flush=True)
        print(f"{seeds.stop - first}: {different} differ, {time.process_time() - start:.0f} s of CPU", flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main(sys.argv[1:])
