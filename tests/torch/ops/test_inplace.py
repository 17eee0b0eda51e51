"""In-place twins of the operations against real torch, driven by the samples."""

import warnings
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.ops.playing import SAMPLES, assert_close, cases, first_part, node_of, tensors_of
from tests.torch.ops.sample import Sample

theirs = pytest.importorskip("torch")


#: PyTorch's errors for a misfit in place have a wording of their own
OWN_WORDING = ("ldexp", "masked_scatter", "addmm", "baddbmm")


def _has_twin(sample: Sample) -> bool:
    return (
        "." not in sample.name
        and bool(sample.args)
        and isinstance(sample.args[0], np.ndarray)
        and hasattr(theirs.Tensor, sample.name + "_")
        and not sample.seeded
        and sample.label != "text"
    )


def written(torch: Any, sample: Sample) -> tuple[Any, Any, list[Any]]:
    """The tensor that was written (or the error), what the method returned, and the inputs."""
    args, kwargs, inputs = tensors_of(torch, sample)
    target = args[0].clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            returned = getattr(target, sample.name + "_")(*args[1:], **kwargs)
        except Exception as error:
            return error, None, inputs
    return target, returned, inputs


@pytest.mark.parametrize("sample", cases([sample for sample in SAMPLES if _has_twin(sample)]))
def test_twins(sample: Sample):
    mine, returned, leaves = written(ours, sample)
    other, _, their_leaves = written(theirs, sample)
    if isinstance(other, Exception):
        assert type(mine).__name__ == type(other).__name__, (mine, other)
        if sample.name in OWN_WORDING:
            return
        # the types of C++ are called otherwise in some
        assert first_part(str(mine)).split("'")[0][:40] == first_part(str(other)).split("'")[0][:40]
        return
    if isinstance(mine, Exception):
        raise mine
    assert returned is mine
    assert str(mine.dtype) == str(other.dtype)
    assert mine._version == other._version
    assert_close(mine, other, sample.tolerance, "value")
    if not sample.order:
        return
    assert mine.requires_grad == other.requires_grad
    if sample.names:
        assert node_of(mine) == node_of(other)
    if not other.requires_grad:
        return
    grads = []
    for torch, tensor, inputs in ((ours, mine, leaves), (theirs, other, their_leaves)):
        seed = torch.tensor(np.random.default_rng(0).standard_normal(tuple(tensor.shape))).to(tensor.dtype)
        wrt = [x for x in inputs if x.requires_grad]
        try:
            grads.append(torch.autograd.grad(tensor, wrt, seed, allow_unused=True))
        except RuntimeError as error:
            grads.append(first_part(str(error)).split(":")[0])
    found, wanted = grads
    if isinstance(wanted, str) and wanted.endswith("is not implemented."):
        return  # a derivative that PyTorch lacks
    if isinstance(wanted, str) or isinstance(found, str):
        assert found == wanted
        return
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a is None or b is None:
            left = a if b is None else b
            assert left is None or not np.nan_to_num(left.numpy(force=True)).any()
        else:
            assert_close(a, b, sample.tolerance * 10, f"gradient {k}")


@pytest.mark.parametrize("name", ["logical_and_", "logical_or_", "logical_xor_", "logical_not_"])
def test_logical_operations_write_what_autograd_forbids(name: str):
    """They take no part in autograd: leaves, views made without recording and several views may be written."""

    def run(torch: Any) -> Any:
        leaf = torch.tensor([[1.0, 0.0], [2.0, 3.0]], requires_grad=True)
        with torch.no_grad():
            unrecorded = leaf[0]
        product = leaf * 2
        found = []
        for x in (leaf, leaf[1], unrecorded, product, product.unbind(0)[0]):
            getattr(x, name)(*[torch.ones(2)] * (name != "logical_not_"))
            found += [x.tolist(), x._version, x._is_view()]
        product.sum().backward()
        return found, leaf.grad.tolist(), leaf.is_leaf

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_functions_of_elements_that_share_memory(dtype: str):
    def run(torch: Any) -> Any:
        one = torch.tensor([1, 2], dtype=getattr(torch, dtype))
        wide = one.unsqueeze(1).expand(2, 3)
        ones = torch.ones(2, 3, dtype=one.dtype)
        wide.apply_(lambda x: x * 1.5 + 1).map_(ones, lambda x, y: x + y).map2_(ones, ones, lambda x, y, z: x + y + z)
        return one.tolist(), wide.tolist()

    assert run(ours) == run(theirs)
