"""A loop in which only a number changes (a position, a shift, a count, a factor) records its operations once."""

from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch as torch
from fgrad.mutable.operation.joins import FEW
from fgrad.mutable.values import evaluation
from fgrad.mutable.values.batched import Batched
from fgrad.mutable.values.device_of_value import elsewhere
from fgrad.torch.nn import functional as F

pytestmark = pytest.mark.fast


def _x() -> Any:
    return torch.arange(48.0).view(6, 8).requires_grad_()


def _rows(*positions: int) -> Any:
    return torch.tensor(positions)


#: functions of a tensor of 6x8 and the number of the step, from 0 to 4
READ: dict[str, Callable[[Any, int], Any]] = {
    "x[i]": lambda x, i: x[i],
    "x[-i]": lambda x, i: x[-1 - i],
    "x[:, i]": lambda x, i: x[:, i],
    "x[..., i]": lambda x, i: x[..., i],
    "x[i, i]": lambda x, i: x[i, i],
    "x[i:j]": lambda x, i: x[i : i + 2],
    "x[i:j:2]": lambda x, i: x[:, i : i + 4 : 2],
    "x[i:j, i:j]": lambda x, i: x[i : i + 2, i : i + 3],
    "x[tensor]": lambda x, i: x[_rows(i)],
    "x[i, tensor]": lambda x, i: x[i, _rows(1, 2)],
    "select": lambda x, i: x.select(1, i),
    "narrow": lambda x, i: x.narrow(1, i, 3),
    "split": lambda x, i: x.split(1)[i],
    "unbind": lambda x, i: x.unbind(0)[i],
    "chunk": lambda x, i: x.chunk(6)[i],
    "as_strided": lambda x, i: x.as_strided((3, 2), (8, 1), i),
    "as_strided, places": lambda x, i: x.as_strided((3, 2), (5, 3), i),
    "as_strided_copy": lambda x, i: torch.as_strided_copy(x, (3, 2), (8, 1), i),
    "diagonal": lambda x, i: x[:2, i : i + 2].diagonal(),
    "unfold": lambda x, i: x[i].unfold(0, 3, 2),
    "slice_copy": lambda x, i: torch.slice_copy(x, 0, i, i + 2),
    "select_scatter": lambda x, i: torch.select_scatter(x, x[0], 0, i),
    "slice_scatter": lambda x, i: torch.slice_scatter(x, x[:2], 0, i, i + 2),
    "slice_scatter, steps": lambda x, i: torch.slice_scatter(x, x[:, :2], 1, i, i + 4, 2),
    "as_strided_scatter": lambda x, i: torch.as_strided_scatter(x, x[:2, :2], (2, 2), (8, 1), i),
    "index_select": lambda x, i: x.index_select(0, _rows(i)),
    "index_fill": lambda x, i: x.index_fill(0, _rows(i), 0.5 * i),
    "kthvalue": lambda x, i: x.kthvalue(1 + i).values,
    "tril": lambda x, i: x.tril(i - 2),
    "triu": lambda x, i: x.triu(i - 2),
    "row @ matrix": lambda x, i: x[:, i] @ x,
    "mul": lambda x, i: x * (0.5 + i),
    "pow": lambda x, i: x ** (0.5 + i),
    "clamp": lambda x, i: x.clamp(min=0.5 * i, max=10.0 * i),
    "add alpha": lambda x, i: torch.add(x, x, alpha=0.5 + i),
    "addcmul": lambda x, i: torch.addcmul(x, x, x, value=0.5 + i),
    "addmm": lambda x, i: torch.addmm(x[:, :6], x, x.t(), beta=0.5 * i, alpha=2.0 * i),
    "lerp": lambda x, i: torch.lerp(x, x + 1, 0.1 * i),
    "masked_fill": lambda x, i: x.masked_fill(x.detach() > 4, 0.5 * i),
    "where": lambda x, i: torch.where(x > 4, x, 0.5 * i),
    "threshold": lambda x, i: F.threshold(x, 0.5 * i, 2.0 * i),
    "dropout": lambda x, i: F.dropout(x, 0.1 * i),
    "full": lambda x, i: x * torch.full((8,), 0.5 * i),
    "arange": lambda x, i: x * torch.arange(i, i + 8),
    "normalize": lambda x, i: F.normalize(x, eps=1e-9 * (i + 1)),
}


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that operations have been recorded as."""
    made = []
    whole = evaluation.Routine.__init__

    def counted(self: Any, graph: Any, *rest: Any) -> None:
        made.append(graph)
        whole(self, graph, *rest)

    monkeypatch.setattr(evaluation.Routine, "__init__", counted)
    # another test of this process may have made values elsewhere, or batches
    monkeypatch.setattr(elsewhere, "exist", False)
    monkeypatch.setattr(Batched, "exist", False)
    return made


def _steps(step: Callable[[int], None], recordings: list[Any]) -> int:
    """How much is recorded by the steps after the second."""
    step(0)
    step(1)
    before = len(recordings)
    for i in range(2, 5):
        step(i)
    return len(recordings) - before


@pytest.mark.parametrize("name", READ)
def test_what_differs_in_a_number_is_recorded_once(name: str, recordings: list[Any]) -> None:
    def step(i: int) -> None:
        READ[name](_x(), i).sum().backward()

    assert _steps(step, recordings) == 0


def _row(h: Any, v: Any, i: int) -> None:
    h[i] = v


def _column(h: Any, v: Any, i: int) -> None:
    h[:, i] = v[:6]


def _rows_of(h: Any, v: Any, i: int) -> None:
    h[i : i + 2] = v


def _element(h: Any, v: Any, i: int) -> None:
    h[i, i] = v[i]


def _part_of_row(h: Any, v: Any, i: int) -> None:
    h[i][1:4] = v[i : i + 3]


def _added(h: Any, v: Any, i: int) -> None:
    h[i] += v


def _multiplied(h: Any, v: Any, i: int) -> None:
    h[i].mul_(0.5 * i)


def _diagonal(h: Any, v: Any, i: int) -> None:
    h[:2, i : i + 2].diagonal().add_(v[:2])


def _strided(h: Any, v: Any, i: int) -> None:
    h.as_strided((5,), (2,), i).mul_(2.0)


def _places(h: Any, v: Any, i: int) -> None:
    h.as_strided((3, 2), (5, 3), i).mul_(2.0)


def _flat(h: Any, v: Any, i: int) -> None:
    h.view(-1)[i] = v[i]


WRITES = (_row, _column, _rows_of, _element, _part_of_row, _added, _multiplied, _diagonal, _strided, _places, _flat)


@pytest.mark.parametrize("write", WRITES)
def test_a_write_through_a_view_is_recorded_once_for_all_places(
    write: Callable[[Any, Any, int], None], recordings: list[Any]
) -> None:
    v = torch.arange(8.0).requires_grad_()

    def step(i: int) -> None:
        h = _x() * 1.0
        write(h, v, i)
        h.sum().backward()

    assert _steps(step, recordings) == 0


JOINS: dict[str, Callable[[list[Any]], Any]] = {
    "stack": torch.stack,
    "stack last": lambda xs: torch.stack(xs, -1),
    "cat": torch.cat,
    "hstack": torch.hstack,
    "vstack": torch.vstack,
    "column_stack": torch.column_stack,
}


@pytest.mark.parametrize("name", JOINS)
def test_a_join_of_many_is_recorded_for_no_count(name: str, recordings: list[Any]) -> None:
    def step(i: int) -> None:
        leaves = [torch.arange(3.0).requires_grad_() for _ in range(FEW + 1 + i)]
        joined = JOINS[name](leaves)
        torch.autograd.grad(joined, leaves, torch.ones_like(joined))

    assert _steps(step, recordings) <= 3 * 4  # of each count, what is done with the whole; nothing of the operands
    assert max([len(graph.in_types) for graph in recordings], default=0) < FEW


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("join", [torch.stack, torch.cat])
def test_a_join_of_many_gives_its_parts_their_gradients(join: Any, dim: int) -> None:
    shapes = [(2, 3)] * (FEW + 4)
    if join is torch.cat:
        shapes = [(1 + i % 3, 3) if dim == 0 else (2, 1 + i % 3) for i in range(FEW + 4)]
    leaves = [torch.rand(*shape, requires_grad=True) for shape in shapes]
    joined = join(leaves, dim)
    weight = torch.arange(float(joined.numel())).view(joined.shape)
    (joined * weight).sum().backward()
    pieces = weight.unbind(dim) if join is torch.stack else weight.split([s[dim] for s in shapes], dim)
    for leaf, piece in zip(leaves, pieces, strict=True):
        assert leaf.grad.equal(piece)
    values = joined.unbind(dim) if join is torch.stack else joined.split([s[dim] for s in shapes], dim)
    assert all(leaf.equal(value) for leaf, value in zip(leaves, values, strict=True))


def test_a_join_of_many_is_recorded_where_its_graph_is_asked_for() -> None:
    leaves = [torch.tensor([float(i)], requires_grad=True) for i in range(FEW + 4)]
    square = torch.cat(leaves) ** 3
    first = torch.autograd.grad(square.sum(), leaves, create_graph=True)
    second = torch.autograd.grad(torch.stack(first).sum(), leaves)
    assert [g.item() for g in second] == [6.0 * i for i in range(FEW + 4)]
    mapped = torch.func.vmap(lambda x: torch.stack([x * i for i in range(FEW + 4)]))(torch.ones(2, 3))
    assert mapped.shape == (2, FEW + 4, 3) and mapped[1, 5, 2].item() == 5.0
    _, tangent = torch.func.jvp(
        lambda x: torch.stack([x * i for i in range(FEW + 4)]), (torch.ones(1),), (torch.ones(1),)
    )
    assert tangent.sum().item() == sum(range(FEW + 4))
