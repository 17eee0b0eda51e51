"""``python -m fgrad.torch train.py`` runs a program written for PyTorch unchanged: ``torch`` means this package."""

import os
import runpy
import sys

from fgrad.torch.installation import install


def main(arguments: list[str]) -> None:
    """Run the program that the first argument names with the other arguments, as ``python`` does."""
    if not arguments or arguments[0].startswith("-"):
        raise SystemExit("usage: python -m fgrad.torch PROGRAM.py [ARGUMENTS OF THE PROGRAM]")
    program = arguments[0]
    if not os.path.isfile(program):
        raise SystemExit(f"python -m fgrad.torch: there is no file {program!r}")
    install()
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
