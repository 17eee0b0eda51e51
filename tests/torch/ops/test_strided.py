"""``as_strided`` of a tensor that does not begin where its storage does, against real torch."""

from typing import Any

import pytest

import fgrad.torch as ours
from tests.torch.mirror import first_part

theirs = pytest.importorskip("torch")


def inside(torch: Any, sizes: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """A leaf that begins at the third element of its storage."""
    made = torch.as_strided(torch.arange(20.0), sizes, strides, 2).detach()
    return made.requires_grad_()


@pytest.mark.parametrize("sizes, strides", [((3, 3), (3, 1)), ((2, 3), (8, 2)), ((3, 2), (1, 3))])
@pytest.mark.parametrize("offset", [None, 0, 2, 4])
def test_gradient_of_what_lies_outside_is_dropped(sizes: Any, strides: Any, offset: int | None):
    def run(torch: Any) -> tuple[Any, Any]:
        x = inside(torch, sizes, strides)
        y = x.as_strided((2, 2), (1, 2), offset)
        (y * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        return y.tolist(), x.grad.tolist()

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("sizes, strides", [((2, 3), (4, 1)), ((2, 2), (4, 2)), ((3, 2), (2, 5))])
def test_a_copy_of_what_lies_between_the_elements(sizes: Any, strides: Any):
    def run(torch: Any) -> tuple[Any, Any]:
        x = torch.arange(12.0).requires_grad_()
        y = torch.as_strided_copy(x.view(3, 4)[:, ::2], sizes, strides, 1)
        return y.tolist(), torch.autograd.grad(y.sum(), x)[0].tolist()

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("permutation", [(1, 0, 2), (0, 2, 1)])
def test_group_norm_is_of_memory_in_order(permutation: Any):
    def run(torch: Any) -> str:
        with pytest.raises(RuntimeError) as raised:
            torch.native_group_norm(torch.ones(4, 4, 4)[:3].permute(permutation), None, None, 3, 4, 4, 2, 1e-5)
        return first_part(str(raised.value))

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("outside", [False, True])
def test_a_view_beside_an_empty_part(outside: bool):
    def run(torch: Any) -> list[Any]:
        x = torch.arange(6.0, requires_grad=True)
        base = x * 1 if outside else x
        part = base[3:3]
        view = part.as_strided((2, 2), (1, 1), 1)
        copy = torch.as_strided_copy(part, (2,), (1,), 1)
        (grad,) = torch.autograd.grad(view.sum() + copy.sum(), x)
        if outside:
            view.mul_(2)
        return [view.tolist(), copy.tolist(), grad.tolist(), base.tolist()]

    assert run(ours) == run(theirs)
