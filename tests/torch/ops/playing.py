"""Samples played on either library: their tensors, results and gradients, and how results are compared."""

import importlib
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.ops.sample import Sample

FILES = sorted(path.stem for path in Path(__file__).parent.glob("samples_*.py"))
SAMPLES: list[Sample] = [
    sample for name in FILES for sample in importlib.import_module(f"tests.torch.ops.{name}").SAMPLES
]


def function_of(torch: Any, name: str) -> Any:
    found = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found


def tensors_of(torch: Any, sample: Sample) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
    """The sample's arguments with tensors in place of arrays, and those tensors."""
    made: list[Any] = []

    def convert(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            tensor = torch.tensor(x)
            if len(made) not in sample.frozen and (tensor.is_floating_point() or tensor.is_complex()):
                tensor.requires_grad_()
            made.append(tensor)
            return tensor
        if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
            return type(x)(map(convert, x))
        if isinstance(x, ours.dtype):
            return getattr(torch, x.name)
        return x

    args = tuple(map(convert, sample.args))
    return args, {key: convert(value) for key, value in sample.kwargs.items()}, made


def tensors_in(found: Any, torch: Any) -> list[Any]:
    if isinstance(found, torch.Tensor):
        return [found]
    if isinstance(found, dict):
        return [t for x in found.values() for t in tensors_in(x, torch)]
    if isinstance(found, list | tuple):
        return [t for x in found for t in tensors_in(x, torch)]
    return []


def call(torch: Any, sample: Sample) -> tuple[Any, list[Any], list[Any]]:
    """The result (or the error), the tensors in it and the input tensors."""
    args, kwargs, inputs = tensors_of(torch, sample)
    if sample.seeded:
        torch.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = function_of(torch, sample.name)(*args, **kwargs)
        except Exception as error:
            return error, [], inputs
    if sample.results is not None:
        found = sample.results(found)
    return found, tensors_in(found, torch), inputs


def numbers(x: Any) -> np.ndarray:
    x = x.detach()
    if hasattr(x, "resolve_conj"):
        x = x.resolve_conj().resolve_neg()
    if str(x.dtype) == "torch.bfloat16":
        x = x.float()
    return np.asarray(x.numpy(force=True))


def assert_close(mine: Any, other: Any, tolerance: float, what: str) -> None:
    a, b = numbers(mine), numbers(other)
    assert a.shape == b.shape, what
    if a.dtype.kind in "fc":
        loose = {2: 2e-2, 4: 2e-5}.get(a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1), 0.0)
        if str(other.dtype) == "torch.bfloat16":
            loose = 5e-2
        rtol = max(tolerance, loose)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * 0.1, err_msg=what)
    else:
        np.testing.assert_array_equal(a, b, err_msg=what)


def first_part(text: str) -> str:
    return text.split(" (Triggered internally")[0].split("\n\n")[0].strip()


def cases(samples: Sequence[Sample]) -> list[Any]:
    """The samples as parameters: of each operation the first, the others marked as thorough."""
    met: Counter[str] = Counter()
    found = []
    for i, sample in enumerate(samples):
        met[sample.name] += 1
        marks = [pytest.mark.thorough] if met[sample.name] > 1 else []
        found.append(pytest.param(sample, id=f"{sample.id}-{i}", marks=marks))
    return found


def node_of(tensor: Any) -> Any:
    node = tensor.grad_fn
    if node is None:
        return None
    return type(node).__name__, [None if n is None else type(n).__name__ for n, _ in node.next_functions]


def seeds(outs: Sequence[Any], torch: Any) -> list[Any]:
    """A fixed gradient to begin with for each output."""
    found = []
    for k, out in enumerate(outs):
        rng = np.random.default_rng([k, *out.shape])
        array = rng.standard_normal(tuple(out.shape))
        if out.is_complex():
            array = array + 1j * rng.standard_normal(tuple(out.shape))
        found.append(torch.tensor(np.asarray(array)).to(out.dtype))
    return found


def gradients(torch: Any, outs: Sequence[Any], inputs: Sequence[Any], order: int) -> Iterator[list[Any]]:
    """Gradients of each order with respect to the inputs that require grad."""
    wrt = [x for x in inputs if x.requires_grad]
    for k in range(order):
        outs = [y for y in outs if y.requires_grad and (y.is_floating_point() or y.is_complex())]
        if not outs or not wrt:
            return
        found = torch.autograd.grad(
            outs, wrt, seeds(outs, torch), create_graph=k + 1 < order, retain_graph=True, allow_unused=True
        )
        yield list(found)
        outs = [g for g in found if g is not None]
