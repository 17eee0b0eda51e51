"""Every operation of the table against real torch: values, gradients, nodes, and what each saves for backward.

Driven by the samples; a test fails when an operation has none.
"""

import importlib
import itertools
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from fgrad.torch.ops.table import TABLE
from tests.torch.ops.sample import Sample

theirs = pytest.importorskip("torch")

FILES = sorted(path.stem for path in Path(__file__).parent.glob("samples_*.py"))
SAMPLES: list[Sample] = [
    sample for name in FILES for sample in importlib.import_module(f"tests.torch.ops.{name}").SAMPLES
]

#: tested elsewhere, by the file of that name
ELSEWHERE = {
    # test_mirror.py and programs/
    "alias", "backward", "copy_", "data", "detach", "detach_", "fill_", "zero_", "requires_grad_",
    # test_inplace.py
    "apply_", "as_strided_", "fill_diagonal_", "map2_", "map_", "resize_as_", "squeeze_", "swapaxes_", "swapdims_",
    "t_", "transpose_", "unsqueeze_",
    # test_autograd.py, test_dtypes.py and samples of other names
    "as_tensor", "asarray", "from_dlpack", "from_jax", "from_numpy", "is_tensor", "linalg_vector_norm", "new_tensor",
    "tensor", "to_jax",
}  # fmt: skip


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


@pytest.mark.parametrize("sample", cases(SAMPLES))
def test_operation(sample: Sample):
    """Value, type, strides, node and edges, and gradients up to the sample's order."""
    mine, outs, inputs = call(ours, sample)
    other, wanted, their_inputs = call(theirs, sample)
    if isinstance(other, Exception):
        assert isinstance(mine, Exception), f"torch raises {other!r}"
        assert type(mine).__name__ == type(other).__name__, (mine, other)
        assert first_part(str(mine)) == first_part(str(other))
        return
    if isinstance(mine, Exception):
        raise mine
    check_values(sample, mine, other, outs, wanted)
    if sample.order and sample.names:
        assert [node_of(t) for t in outs] == [node_of(t) for t in wanted]
    if sample.order:
        check_gradients(
            sample,
            list(gradients(ours, outs, inputs, sample.order)),
            list(gradients(theirs, wanted, their_inputs, sample.order)),
        )


def check_values(sample: Sample, mine: Any, other: Any, outs: Sequence[Any], wanted: Sequence[Any]) -> None:
    assert len(outs) == len(wanted)
    if not wanted:
        assert mine == other or (mine != mine and other != other)
    for k, (a, b) in enumerate(zip(outs, wanted, strict=True)):
        assert str(a.dtype) == str(b.dtype)
        assert tuple(a.shape) == tuple(b.shape)
        assert a.requires_grad == b.requires_grad, f"output {k}"
        assert_close(a, b, sample.tolerance, f"output {k}")
        if b.numel():
            assert a.stride() == b.stride(), f"strides of output {k}"


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


def check_gradients(sample: Sample, mine: list[list[Any]], wanted: list[list[Any]]) -> None:
    # a second gradient of None there may be zeros here
    for order, (found, expected) in enumerate(itertools.zip_longest(mine, wanted, fillvalue=()), 1):
        if not expected:
            assert all(g is None or not numbers(g).any() for g in found)
            continue
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            if b is None or a is None:
                other = a if b is None else b
                assert other is None or not np.nan_to_num(numbers(other)).any(), f"order {order}, input {k}"
                continue
            assert str(a.dtype) == str(b.dtype)
            assert_close(a, b, sample.tolerance * 10**order, f"order {order}, input {k}")


def complaint(torch: Any, sample: Sample, which: int, output: bool) -> str | None:
    """What backward says after a write to an input or output, None if it does not mind."""
    _, outs, inputs = call(torch, sample)
    target = (outs if output else inputs)[which]
    with torch.no_grad():
        target.zero_()
    live = [y for y in outs if y.requires_grad]
    wrt = [x for x in inputs if x.requires_grad]
    try:
        torch.autograd.grad(live, wrt, seeds(live, torch), allow_unused=True)
    except RuntimeError as error:
        return first_part(str(error)).split(":")[0]
    return None


def of_each_operation(samples: Sequence[Sample]) -> list[Sample]:
    """The first differentiable sample of each operation."""
    return list({sample.name: sample for sample in reversed(samples) if sample.order}.values())


@pytest.mark.parametrize("sample", of_each_operation(SAMPLES), ids=lambda sample: sample.id)
def test_saved(sample: Sample):
    """Which write makes backward raise: what is saved is what PyTorch saves."""
    found, outs, inputs = call(theirs, sample)
    if isinstance(found, Exception) or not any(y.requires_grad for y in outs):
        return
    for output, tensors in ((False, inputs), (True, outs)):
        for k, tensor in enumerate(tensors):
            if output and (tensor.grad_fn is None or tensor._is_view()):
                continue
            mine, wanted = complaint(ours, sample, k, output), complaint(theirs, sample, k, output)
            assert mine == wanted, f"{'output' if output else 'input'} {k}"


def test_every_operation_has_a_sample():
    sampled = {sample.name.removeprefix("Tensor.") for sample in SAMPLES}
    known = sampled | ELSEWHERE
    missing = [n for n in TABLE if not n.startswith("_") and n not in known and n.rstrip("_") not in known]
    assert not missing


def test_samples_are_of_operations():
    unknown = {s.name for s in SAMPLES if not _exists(s.name)}
    assert not unknown


def _exists(name: str) -> bool:
    try:
        function_of(ours, name)
    except AttributeError:
        return False
    return True
