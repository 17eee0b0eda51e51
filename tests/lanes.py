"""The lanes: each way in which a graph can run, forced by a policy.

``python -m tests.lanes 20000`` plays that many random programs in every lane, against real torch and against JAX.
"""

import sys
from typing import Any

import numpy as np

import fgrad
from fgrad.run.policy import POLICIES

#: the policies under which a program must show what it shows under the default one
LANES: tuple[str, ...] = tuple(name for name in POLICIES if name != "default")


def in_lane(lane: str) -> Any:
    """A block in which everything runs in one lane."""
    return fgrad.policy(lane)


def lane_of(number: int) -> str:
    """Tests that are too many to run in every lane take turns."""
    return LANES[number % len(LANES)]


def main(arguments: list[str]) -> None:
    import torch as theirs  # noqa: PLC0415

    import fgrad.torch as ours  # noqa: PLC0415
    from tests.torch import mirror, shapes  # noqa: PLC0415

    count, first = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 0
    lanes = arguments[2:] or LANES
    different = 0
    for seed in range(first, first + count):
        lane = lanes[seed % len(lanes)]
        with in_lane(lane):
            found = [mirror.difference(mirror.random_program(seed, 8), ours, theirs)]
            try:
                shapes.check(seed, ours, theirs)
            except AssertionError as error:
                found.append(f"shapes: {error}")
        for text in filter(None, found):
            different += 1
            sys.stdout.write(f"--- seed {seed}, lane {lane}: {text}\n")
    sys.stdout.write(f"{different} of {count} programs differ\n")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main(sys.argv[1:])
