"""An operation's graph for some sizes is the same, recorded for them or made from a recording on symbols."""

import gc
import importlib
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fgrad.torch as torch
from fgrad.graph.likeness import calls_alike
from fgrad.mutable.operation import generations as kept_plans, sizes as sizes_module
from fgrad.mutable.operation.operation import Operation, Planned
from fgrad.mutable.operation.sizes import pattern_of
from fgrad.mutable.tensor.tensor_type import TensorType, tensor_type
from fgrad.seam import Graph
from fgrad.torch.ops.table.table import operation_of
from tests.torch.ops.playing import FILES, call

F = torch.nn.functional

#: what replaces the sizes of a sample, in order of their first use; a family is made at the second
CHOICES = [(11, 13, 17, 19, 23, 29, 31, 37), (12, 15, 18, 20, 24, 30, 33, 40), (40, 9, 32, 8, 21, 16, 10, 64)]

Call = tuple[Operation, Any, Any, Any]


def planned_calls(run: Callable[[], Any]) -> list[Call]:
    """The operations that a function plans, with types and parameters."""
    found: dict[Any, Call] = {}
    planned = Operation.planned

    def noted(self: Operation, types: Any, params: Any, into: Any) -> Planned:
        found.setdefault((self.name, params, into is None), (self, types, params, into))
        return planned(self, types, params, into)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Operation, "planned", noted)
        run()
    return [*found.values()]


def run_samples(file: str) -> None:
    """The first sample of each operation in a file."""
    seen: set[str] = set()
    for sample in importlib.import_module(f"tests.torch.ops.{file}").SAMPLES:
        if sample.name not in seen:
            seen.add(sample.name)
            call(torch, sample)


def integers(value: Any) -> Iterator[int]:
    """The integers in an operation's parameters."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from integers(item)


def enlarged(found: Call) -> Call | None:
    """A call with larger sizes in the place of those that are not among the parameters; None if there are too many."""
    operation, types, params, into = found
    fixed = {0, 1, *integers(params)}
    tensors = [t for t in (*types, into) if isinstance(t, TensorType)]
    sizes = dict.fromkeys([n for t in tensors for n in t.shape if n not in fixed])
    if not 0 < len(sizes) <= len(CHOICES[0]):
        return None
    new = dict(zip(sizes, CHOICES[0], strict=False))

    def with_sizes(t: Any) -> Any:
        if not isinstance(t, TensorType) or t.number is not None:
            return t
        return tensor_type(t.dtype, tuple([new.get(n, n) for n in t.shape]))

    return operation, tuple(map(with_sizes, types)), params, with_sizes(into)


def resized(found: Call, sizes: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Call | None:
    """A call with other sizes, also in its parameters; None if there are none, or too many."""
    operation, types, params, into = found
    pattern = pattern_of(types, params, into)
    if pattern is None or len(pattern.sizes) > len(CHOICES[0]):
        return None
    new = sizes(pattern.sizes)

    def with_sizes(t: Any) -> Any:
        if not isinstance(t, TensorType) or t.number is not None:
            return t
        return tensor_type(t.dtype, pattern.shape(t.shape, new))

    return operation, tuple(map(with_sizes, types)), pattern.parameters(new), with_sizes(into)


def alternatives(found: Call | None) -> list[Call]:
    """A call, and with all of its sizes or some of them replaced."""
    if found is None:
        return []

    def some(old: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([b if i % 2 == 0 else a for i, (a, b) in enumerate(zip(old, CHOICES[1], strict=False))])

    others = [resized(found, sizes) for sizes in (lambda old: CHOICES[2][: len(old)], some)]
    return [found, *[x for x in others if x is not None]]


def graphs_of(found: Call) -> list[Graph] | str:
    """The graph of a call and those of its whole derivatives in both modes, or the error."""
    try:
        plan = Planned(*found)
        wrt = tuple([at for i, at in plan.edges if at is not None and plan.named_operands[at][0] == i])
        wrt = tuple([at for at in wrt if isinstance(t := plan.types[plan.present[at]], TensorType) and t.inexact])
        if not (wrt and plan.differentiable):
            return [plan.graph]
        return [plan.graph, plan.pullback_graph(wrt)[0], plan.pushforward(wrt).routine.graph]
    except Exception as error:
        return str(error)


def recorded(found: Call) -> list[Graph] | str:
    """The same, recorded for the sizes of the call."""
    found[0].sized.clear()
    return graphs_of(found)


@pytest.mark.parametrize("with_parameters", (False, True))
@pytest.mark.parametrize("file", FILES)
def test_graphs_are_those_that_are_recorded_for_the_sizes(file, with_parameters, monkeypatch):
    """Parameters that are equal to sizes, or products of some, change with them, or they are left alone."""
    for found in planned_calls(lambda: run_samples(file)):
        if with_parameters:
            with monkeypatch.context() as patch:
                patch.setattr(sizes_module, "SMALLEST", 2)
                first = resized(found, lambda old: CHOICES[0][: len(old)])
            if first is None or first[2] == found[2]:
                continue
        else:
            first = enlarged(found)
        calls = alternatives(first)
        wanted = [recorded(x) for x in calls]
        found[0].sized.clear()
        made = [graphs_of(x) for x in calls]
        for x, a, b in zip(calls, made, wanted, strict=True):
            # tangents of a member may have numbers of elements computed that are constants in those that are recorded
            same = a == b if isinstance(a, str) or isinstance(b, str) else all(map(calls_alike, a[:2], b[:2]))
            assert same, (x[0].name, x[1:], a, b)
        found[0].sized.clear()


def test_sizes_of_different_expressions_may_be_equal():
    """The gradient of an embedding has zeros of two shapes: the matrix's and that of the index by the rows."""
    calls = [planned_calls(lambda n=n: F.embedding(torch.zeros(9, 10, dtype=torch.int64), torch.ones(n, 10), 1))
             for n in (40, 30, 90)]  # fmt: skip
    of_all = [next(found for found in each if found[0].name == "embedding") for each in calls]
    wanted = recorded(of_all[-1])
    of_all[0][0].sized.clear()
    assert all(map(calls_alike, [graphs_of(x) for x in of_all][-1], wanted))


def test_masks_of_other_counts_keep_nothing_of_their_size():
    x = torch.ones(1 << 17, requires_grad=True)

    def masked(count: int) -> None:
        mask = torch.zeros(1 << 17, dtype=torch.bool)
        mask[:count] = True
        (x[mask].sum() + torch.masked_select(x, mask).sum()).backward()
        x.grad = None

    def kept() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    for count in range(3):
        masked(count)
    tracemalloc.start()
    try:
        before = kept()
        for count in range(3, 9):
            masked(count)
        assert kept() - before < 1 << 20  # the positions of all elements would take this for each count
    finally:
        tracemalloc.stop()


def test_plans_of_ever_new_shapes_are_dropped(monkeypatch):
    monkeypatch.setattr(kept_plans, "OPERANDS_KEPT", 64)
    x = torch.ones(9, requires_grad=True)

    def step(n: int) -> None:
        y = torch.ones(n, requires_grad=True)
        ((y * y).view(n, 1).sum() * x.sin().sum()).backward()

    def plans(of: Any) -> list[Planned]:
        operation = operation_of(of)
        return [*operation.plans.values(), *operation.earlier.values()]

    step(10)
    (sine,) = [p for p in plans(torch.sin) if p.out_types[0].shape == (9,)]
    for n in range(11, 60):
        step(n)
    assert len([p for p in plans(torch.mul) if p.out_types[0].shape > (9,)]) < 25
    assert any(p is sine for p in plans(torch.sin))  # met in each step


def test_what_is_constant_and_large_is_not_kept():
    tracemalloc.start()
    try:
        torch.ones(1000, 1000).triu().tril()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for n in range(1001, 1006):
            torch.ones(n, n).triu().tril()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 1 << 20
    finally:
        tracemalloc.stop()


COMMON: dict[str, Callable[[int], Any]] = {
    "add": lambda n: torch.ones(n, 3) + torch.ones(3),
    "linear": lambda n: F.linear(torch.ones(n, 16), torch.ones(20, 16), torch.ones(20)),
    "matmul": lambda n: torch.ones(2, n, 16) @ torch.ones(2, 16, n),
    "softmax": lambda n: torch.ones(2, n, n).softmax(-1),
    "layer_norm": lambda n: F.layer_norm(torch.ones(n, 16), (16,), torch.ones(16), torch.ones(16)),
    "batch_norm": lambda n: F.batch_norm(torch.ones(9, n), torch.zeros(n), torch.ones(n), training=True),
    "conv2d": lambda n: F.conv2d(torch.ones(2, n, 16, 16), torch.ones(n, n, 3, 3), padding=1),
    "gelu": lambda n: F.gelu(torch.ones(n)),
    "mean": lambda n: torch.ones(n, 3).mean(0),
    "var": lambda n: torch.ones(n, 3).var(0),
    "cross_entropy": lambda n: F.cross_entropy(torch.ones(n, 10), torch.zeros(n, dtype=torch.int64)),
    "mse_loss": lambda n: F.mse_loss(torch.ones(n), torch.zeros(n)),
    "cat": lambda n: torch.cat([torch.ones(n, 3), torch.ones(n, 4)], 1),
    "where": lambda n: torch.where(torch.ones(n, 3) > 0, torch.ones(n, 3), torch.zeros(3)),
    "masked_fill": lambda n: torch.ones(n, n).masked_fill(torch.ones(n, n) > 0, 1.0),
    "embedding": lambda n: F.embedding(torch.zeros(n, dtype=torch.int64), torch.ones(20, 16)),
    "gather": lambda n: torch.ones(n, 3).gather(1, torch.zeros(n, 1, dtype=torch.int64)),
    "scatter_add": lambda n: torch.zeros(n, 3).scatter_add(0, torch.zeros(9, 3, dtype=torch.int64), torch.ones(9, 3)),
    "view": lambda n: torch.ones(n, 48).view(n, 3, 16),
    "view that joins": lambda n: torch.ones(4, n, 16).view(4 * n, 16),
    "view that splits": lambda n: torch.ones(4 * n, 16).view(4, n, 16),
    "expand": lambda n: torch.ones(1, 16, 1).expand(n, 16, n).clone(),
    "select": lambda n: torch.ones(n, 3)[-1] + torch.ones(n, 3)[2],
    "triu": lambda n: torch.ones(n, n).triu(1),
    "attention": lambda n: F.scaled_dot_product_attention(*[torch.ones(2, 2, n, 8)] * 3, is_causal=True),
    "relu_": lambda n: torch.ones(n).relu_(),
}


@pytest.mark.parametrize("name", COMMON)
def test_common_operations_are_recorded_twice_for_all_sizes(name, monkeypatch):
    calls = planned_calls(lambda: COMMON[name](11))
    for operation in {found[0].name: found[0] for found in calls}.values():
        monkeypatch.setattr(operation, "plans", {})
        monkeypatch.setattr(operation, "sized", {})
    COMMON[name](11)
    COMMON[name](13)

    def refuse(*arrays: Any, **params: Any) -> None:
        raise AssertionError("recorded again")

    for operation in {found[0].name: found[0] for found in calls}.values():
        monkeypatch.setattr(operation, "function", refuse)
    for n in (17, 12, 19, 40):
        COMMON[name](n)
