"""Plays a program and keeps what it leaves: ``python run.py pytorch|fgrad PROGRAM FILE``."""

import importlib
import runpy
import sys
import warnings

import numpy as np


def array(value):
    """A tensor, number or list as an array."""
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


if __name__ == "__main__":
    side, program, file = sys.argv[1:]
    warnings.simplefilter("ignore")
    if side == "fgrad":
        importlib.import_module("fgrad.torch").install()
    outputs = runpy.run_path(program)["outputs"]
    assert type(next(iter(outputs.values()))).__module__.startswith("fgrad") == (side == "fgrad")
    np.savez(file, **{name: array(value) for name, value in outputs.items()})
