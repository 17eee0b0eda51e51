"""``torch.utils.tensorboard`` is written by the package ``tensorboard``; ``tests/real`` compares what it writes."""

import importlib
import sys

import pytest


def test_without_the_package_the_import_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for name in [name for name in sys.modules if name.startswith("fgrad.torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match="tensorboard"):
        importlib.import_module("fgrad.torch.utils.tensorboard")
