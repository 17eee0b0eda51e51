"""Plays programs and keeps what they leave: ``python run.py pytorch|fgrad FILE PROGRAM...``."""

import importlib
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np


def array(value):
    """A tensor, number or list as an array."""
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


if __name__ == "__main__":
    side, file, *programs = sys.argv[1:]
    warnings.simplefilter("ignore")
    if side == "fgrad":
        importlib.import_module("fgrad.torch").install()
    found = {}
    for program in programs:
        outputs = runpy.run_path(program)["outputs"]
        tensor = sys.modules["torch"].Tensor
        assert all(isinstance(x, tensor) for x in outputs.values() if hasattr(x, "detach"))
        found |= {f"{Path(program).stem}:{name}": array(value) for name, value in outputs.items()}
    np.savez(file, **found)
