"""Every operation of the table against real torch: values, gradients, nodes, and what each saves for backward.

Driven by the samples; a test fails when an operation has none.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from fgrad.torch.ops.table.table import TABLE
from tests.torch.ops.playing import (
    SAMPLES,
    assert_close,
    call,
    cases,
    first_part,
    function_of,
    gradients,
    node_of,
    numbers,
    seeds,
)
from tests.torch.ops.sample import Sample

theirs = pytest.importorskip("torch")

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
    # utils/test_dlpack.py
    "to_dlpack",
    # test_names.py
    "eig", "get_device", "is_distributed", "is_storage", "lstsq", "matrix_rank", "set_anomaly_enabled", "solve",
    "symeig", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum", "typename",
}  # fmt: skip


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
