"""Settings shared by all tests: eight host devices, 64-bit where a test asks for it, quiet progress.

Nearly all of a test's time is XLA's, compiling what runs once: so it is told not to try hard.
"""

import importlib.metadata
import os
import pathlib

os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true"
    # the older emitters compile in a third of the newer ones' time; later versions of XLA are without them
    + (" --xla_cpu_use_fusion_emitters=false" if importlib.metadata.version("jaxlib").startswith("0.10.") else ""),
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

from fgrad.graph.check import check
from fgrad.graph.graph import Builder
from fgrad.run import stretches

if "emitters=false" in os.environ["XLA_FLAGS"]:
    # with fusion switched off, the older emitters compute a transpose followed by a reshape wrongly
    stretches.UNFUSED["xla_cpu_use_fusion_emitters"] = True


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Under ``-m fast`` files without a fast test are not even imported: that takes as long as to run the fast ones."""
    test = collection_path.suffix == ".py" and config.option.markexpr == "fast"
    return True if test and "pytest.mark.fast" not in collection_path.read_text() else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every", type=int, default=1, metavar="N", help="run every Nth test of each file only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    every = config.option.every
    seen: dict[pathlib.Path, int] = {}
    left: list[pytest.Item] = []
    for item in items if every > 1 else ():
        seen[item.path] = place = seen.get(item.path, -1) + 1
        if place % every:
            left.append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]


@pytest.fixture
def x64():
    """64-bit types within one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def checked_passes(monkeypatch):
    """Every graph that a pass makes is looked at by ``Graph.check``."""
    finish = Builder.finish
    monkeypatch.setattr(Builder, "finish", lambda *args: check(finish(*args)))
