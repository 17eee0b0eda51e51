"""The package as one meets it: quick to import, complete, and documented with examples."""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import fgrad
from tests.documents import ROOT

NAMES = [
    "grad",
    "value_and_grad",
    "vjp",
    "jvp",
    "linearize",
    "linear_transpose",
    "jacfwd",
    "jacrev",
    "hessian",
    "hvp",
    "vmap",
    "jit",
    "checkpoint",
    "custom_vjp",
    "custom_jvp",
    "stop_gradient",
    "closure_convert",
    "eval_shape",
    "make_graph",
    "load",
    "Graph",
    "define_rule",
    "cache_info",
    "clear_cache",
    "testing",
]


def seconds(statement: str, pycache: Path) -> float:
    """The least processor time of a statement in fresh Pythons, from the start or from where its ``clock()`` stands.

    They keep compiled files, whatever this process was told: what is measured is a second import, as users meet it.
    """
    code = "import time; clock = time.process_time; start = clock(); " + statement + "; print(clock() - start)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(pycache)
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
        )
        for _ in range(3)
    ]
    return min(float(run.stdout) for run in runs)


def test_importing_costs_little_more_than_importing_jax(tmp_path):
    jax_alone = seconds("import jax", tmp_path)
    more = seconds("import jax; start = clock(); import fgrad", tmp_path)
    assert more < 0.5 * jax_alone


def test_importing_starts_no_computation():
    code = "import fgrad, jax, sys; from jax.extend import backend; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 0, found.stderr
    assert found.stdout == "False\n"


@pytest.mark.parametrize("name", NAMES)
def test_the_public_names_are_there(name):
    assert hasattr(fgrad, name) and name in fgrad.__all__


def test_all_is_sorted_and_complete():
    public = {
        name for name, value in vars(fgrad).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public - {"TYPE_CHECKING"} <= set(fgrad.__all__)
    assert sorted(fgrad.__all__, key=str.casefold) == sorted(set(fgrad.__all__), key=str.casefold)
    for name in fgrad.__all__:
        getattr(fgrad, name)


@pytest.mark.parametrize("name", fgrad.__all__)
def test_what_is_public_has_a_documented_example(name):
    value = getattr(fgrad, name)
    if isinstance(value, ModuleType) or not callable(value):
        assert value.__doc__
        return
    doc = inspect.getdoc(value) or ""
    assert ">>>" in doc, f"fgrad.{name} has no example in its docstring"


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "fgrad" / "py.typed").exists()
