"""Where a walk ends: at modules whose globals hold none of the user's tensors."""

import functools
import importlib
import json
import sys

import pytest

import fgrad.torch as torch
from fgrad.mutable.capture.libraries import is_foreign
from fgrad.torch.compiler.reachable import snapshot_of


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """A package of two modules, of which one uses tensors; installed, or else a project's own."""

    def make(name, installed):
        package = tmp_path / name / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "plain.py").write_text("TABLE = {'rate': 1}\ndef look_up(x):\n    return TABLE, x\n")
        (package / "tensors.py").write_text(
            "from fgrad.torch import ones\nSTATE = [ones(1)]\ndef read():\n    return STATE\n"
        )
        if installed:
            (package.parent / f"{name}-1.0.dist-info").mkdir()
        monkeypatch.syspath_prepend(package.parent)
        modules = [importlib.import_module(f"{name}.{each}") for each in ("plain", "tensors")]
        added.extend([name, *[x.__name__ for x in modules]])
        return modules

    added: list[str] = []
    yield make
    for name in added:
        del sys.modules[name]


def test_installed_modules_are_followed_where_they_use_tensors(imported):
    plain, tensors = imported("a_library_for_capture", installed=True)
    assert is_foreign(plain.__name__) and not is_foreign(tensors.__name__)
    found = snapshot_of(lambda: (plain.look_up(1), tensors.read()), (), {})
    assert id(plain.TABLE) not in found.objects
    assert tensors.STATE[0] in found.tensors


def test_a_projects_modules_are_followed(imported):
    plain, _ = imported("a_project_for_capture", installed=False)
    assert not is_foreign(plain.__name__)
    assert id(plain.TABLE) in snapshot_of(lambda: plain.look_up(1), (), {}).objects


def test_a_modules_later_imports_count(imported):
    plain, _ = imported("a_lazy_library_for_capture", installed=True)
    assert is_foreign(plain.__name__)
    plain.torch = torch
    assert not is_foreign(plain.__name__)


def test_the_standard_library_is_not_followed_but_its_wrappers_are():
    weight = torch.ones(1)

    @functools.singledispatch
    def multiplied(x):
        return x * weight

    found = snapshot_of(lambda x: (multiplied(x), json.dumps([]), sys.modules), (torch.ones(1),), {})
    assert weight in found.tensors
    assert id(json.dumps.__globals__["_default_encoder"]) not in found.objects
    assert id(sys.modules) not in found.objects
