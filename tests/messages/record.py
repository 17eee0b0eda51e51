"""``python -m tests.messages.record`` runs every mistake in fgrad and in its peer, and writes what they say.

Look at the difference before you commit it.  With ``functional`` or ``mutable`` it writes that file alone.
"""

import sys
from pathlib import Path

import jax
import torch

import fgrad
import fgrad.torch
from tests.messages import functional, mutable
from tests.messages.mistake import write

LAYERS = {
    "functional": (functional.MISTAKES, {"JAX": jax, "fgrad": fgrad}),
    "mutable": (mutable.MISTAKES, {"PyTorch": torch, "fgrad": fgrad.torch}),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or LAYERS:
        write(Path(__file__).parent / f"{name}.txt", *LAYERS[name])
