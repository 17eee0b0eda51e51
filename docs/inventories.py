"""Inventories of what the pages name of Python, NumPy, JAX and PyTorch, made from the installed packages.

Sphinx links a name by an inventory of the site that documents it.  These sites are not asked, so that the pages build
without a network: their addresses follow from the names.  PyTorch need not be installed, for ``fgrad.torch`` has its
names.
"""

import builtins
import importlib
import inspect
import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import fgrad.torch

#: the sites, by the names of their inventories
SITES = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "jax": "https://docs.jax.dev/en/latest",
    "torch": "https://docs.pytorch.org/docs/2.13",
}
#: the namespaces of which every name has a page of its own
JAX = ("jax", "jax.numpy", "jax.numpy.linalg", "jax.lax", "jax.nn", "jax.tree", "jax.tree_util", "jax.random")
NUMPY = ("numpy", "numpy.linalg", "numpy.random")
TORCH = ("torch", "torch.autograd", "torch.func", "torch.linalg", "torch.nn", "torch.optim", "torch.nn.functional")


def public(module: ModuleType) -> Iterator[str]:
    """The names of a module's functions and classes."""
    for name in dir(module):
        value = getattr(module, name)
        if not name.startswith("_") and callable(value) and not inspect.ismodule(value):
            yield name


def python() -> Iterator[tuple[str, str]]:
    """Python's exceptions."""
    for name in public(builtins):
        value = getattr(builtins, name)
        if inspect.isclass(value) and issubclass(value, BaseException):
            yield name, f"library/exceptions.html#{name}"


def pages(namespaces: tuple[str, ...], page: str) -> Iterator[tuple[str, str]]:
    """Each name of some namespaces, with its address; ``page`` says how the address follows from the name."""
    for namespace in namespaces:
        for name in public(importlib.import_module(namespace)):
            full = f"{namespace}.{name}"
            yield full, page.format(full)


def torch() -> Iterator[tuple[str, str]]:
    for namespace in TORCH:
        module = importlib.import_module(f"fgrad.{namespace}")
        for name in public(module):
            full = f"{namespace}.{name}"
            yield full, f"generated/{full}.html#{full}"
    for name in dir(fgrad.torch.Tensor):
        if not name.startswith("_"):
            yield f"torch.Tensor.{name}", f"generated/torch.Tensor.{name}.html#torch.Tensor.{name}"


def inventory(project: str, kind: str, entries: Iterator[tuple[str, str]]) -> bytes:
    """The text of an inventory, in the second version of Sphinx's format."""
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
    body = "".join(f"{name} py:{kind} 1 {place} -\n" for name, place in sorted(entries))
    return (head + "# The remainder of this file is compressed using zlib.\n").encode() + zlib.compress(body.encode())


def write(folder: Path) -> None:
    """The four inventories, as ``python.inv`` and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = {
        "python": python(),
        "numpy": pages(NUMPY, "reference/generated/{0}.html#{0}"),
        "jax": itertools.chain(pages(JAX, "_autosummary/{0}.html#{0}"), pages(("jax.errors",), "errors.html#{0}")),
        "torch": torch(),
    }
    for project, each in entries.items():
        kind = "exception" if project == "python" else "function"
        (folder / f"{project}.inv").write_bytes(inventory(project, kind, each))
