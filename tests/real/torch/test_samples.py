"""PyTorch's own samples of some operations; ``python -m tests.real.torch.samples 3`` plays those of all."""

import pytest

import fgrad

pytestmark = pytest.mark.real

pytest.importorskip("expecttest")  # which PyTorch's tests are made with
samples = pytest.importorskip("tests.real.torch.samples")

OPERATIONS = ("sin", "div", "linalg.eigh", "masked.sum", "multinomial", "nn.functional.max_pool1d", "index_put")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_samples(operation: str):
    with fgrad.policy("numpy"):
        found = [(case.name, *each) for case in samples.cases(2, [operation]) for each in samples.compared(case)]
    assert found
    assert [each for each in found if each[2] not in ("same", "both raise")] == []
