"""How many of fgrad's functions, in how many files, the shortest programs go through: what a reader has to follow.

The first call records, derives and looks up; a warm one finds all that done.  The bounds are a little above what was
counted when they were set.  Who makes a walk shorter lowers its bound, and nobody raises one without a reason.
"""

import json
import subprocess
import sys

import pytest

from tests.documents import ROOT

#: runs a program often in a fresh Python, and prints the calls and files of the first time and of the fourth
COUNT = """
import json, os, sys
import fgrad, fgrad.torch as torch
import jax, numpy as np

jax.devices()  # JAX looks for plugins as it starts, and asks the finders of modules, of which fgrad.torch is one

{setup}

def walk():
{program}

here = os.path.dirname(fgrad.__file__)
counts = []
for _ in range(4):
    files = []
    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(here):
            files.append(frame.f_code.co_filename)
    sys.setprofile(note)
    walk()
    sys.setprofile(None)
    counts.append((len(files), len(set(files))))
print(json.dumps([counts[0], counts[-1]]))
"""

GRAD = "f = lambda x: fgrad.numpy.sum(fgrad.numpy.sin(x) * x)\nx = np.ones(3, np.float32)\ng = fgrad.grad(f)", "g(x)"
BACKWARD = "w, x = torch.ones(3, requires_grad=True), torch.ones(3)", "(w * x).sum().backward(); w.grad"
WRITE = (
    "a = torch.ones(4, requires_grad=True)",
    "b = a * 1; v = b[1:3]; v.mul_(10); b.sum().backward()",
)


@pytest.mark.parametrize(
    ("program", "first", "warm"),
    [
        pytest.param(GRAD, (1197, 32), (67, 13), id="grad"),
        pytest.param(BACKWARD, (1400, 55), (143, 25), id="backward"),
        pytest.param(WRITE, (5900, 70), (256, 31), id="write into a view"),
    ],
)
def test_walks_are_short(program, first, warm):
    setup, body = program
    code = COUNT.format(setup=setup, program="    " + body)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    for (calls, files), (most_calls, most_files) in zip(json.loads(done.stdout), (first, warm), strict=True):
        assert calls <= most_calls and files <= most_files, (calls, files)
