"""Functions that are loops, against PyTorch's."""

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.torch.control_flow import associative_scan
from tests.torch.both import Case, agree

theirs = pytest.importorskip("torch")
NUMBERS = np.random.default_rng(0).uniform(0.5, 1.5, (2, 9, 3)).astype(np.float32)


def compose(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1]


def scan_of(lib):
    if lib is torch:
        return associative_scan
    from torch._higher_order_ops.associative_scan import associative_scan as other  # noqa: PLC0415

    return other


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 9])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_with_gradients(count, reverse):
    def run(lib, x):
        x = x[:, :count].clone().requires_grad_()
        made = scan_of(lib)(compose, (x, x.sin()), 1, reverse, combine_mode="generic")
        (made[0].sum() * made[1].square().sum()).backward()
        return *made, x.grad

    agree(Case("scan", run, (NUMBERS,)), theirs)


@pytest.mark.parametrize(
    "scan",
    [
        lambda scan, x: scan(compose, (x, x), 0),
        lambda scan, x: scan(3, (x, x), 0, combine_mode="generic"),
        lambda scan, x: scan(compose, (x, 3), 0, combine_mode="generic"),
        lambda scan, x: scan(compose, (x, x[0, 0]), 1, combine_mode="generic"),
        lambda scan, x: scan(compose, (x, x), 3, combine_mode="generic"),
        lambda scan, x: scan(compose, (x, x), 1, combine_mode="other"),
        lambda scan, x: scan(compose, (x, x), 1, 1, combine_mode="generic"),
        lambda scan, x: scan(compose, (x[:, :0], x), 1, combine_mode="generic"),
    ],
)
def test_scan_that_is_refused(scan):
    agree(Case("scan", lambda lib, x: scan(scan_of(lib), x), (NUMBERS,)), theirs)


def test_a_scan_in_a_compiled_function_is_a_part_of_its_program():
    call = torch.compile(lambda x: associative_scan(compose, (x, x), 1, combine_mode="generic")[1], fullgraph=True)
    x = torch.from_numpy(NUMBERS)
    for _ in range(3):
        torch.testing.assert_close(call(x), associative_scan(compose, (x, x), 1, combine_mode="generic")[1])


def test_the_names_by_which_libraries_import_them():
    from fgrad.torch._higher_order_ops.associative_scan import associative_scan as scan  # noqa: PLC0415
    from fgrad.torch._higher_order_ops.cond import cond  # noqa: PLC0415

    assert scan is associative_scan and cond is torch.cond
