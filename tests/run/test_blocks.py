"""Chains of elementwise operations block by block give what the operations give one by one."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fgrad.jaxcore import ShapedArray
from fgrad.record.stager import stage_closed
from fgrad.run import blocks, numpy_program as module
from fgrad.run.blocks import Line
from fgrad.run.numpy_program import numpy_program

#: two whole blocks and a part of one
SIZE = 20
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> list[list[Line]]:
    """Blocks of eight elements; the lines of each program are noted."""
    found: list[list[Line]] = []
    in_blocks = module.in_blocks

    def noted(*args: Any) -> list[Line]:
        found.append(in_blocks(*args))
        return found[-1]

    monkeypatch.setattr(blocks, "BLOCK", 8)
    monkeypatch.setattr(blocks, "LARGE", SIZE)
    monkeypatch.setattr(module, "in_blocks", noted)
    return found


def names(found: list[list[Line]]) -> list[str]:
    return [line.primitive for line in found[-1]]


def assert_same_without_blocks(function: Any, args: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    graph = stage_closed(function, [ShapedArray(x.shape, x.dtype) for x in args])
    program = numpy_program(graph)
    assert program is not None
    found = program.run(args)
    monkeypatch.setattr(blocks, "LARGE", 1 << 30)
    plain = numpy_program(graph)
    assert plain is not None
    for a, b, t in zip(found, plain.run(args), graph.out_types, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype == t.dtype
        assert a.shape == t.shape
        assert not a.flags.writeable


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def test_a_chain_is_one_line(small_blocks, monkeypatch):
    def step(p: Any, g: Any, m: Any, lr: Any) -> list[Any]:
        m = m * np.float32(0.9) + g
        return [p - lr * m, m]

    assert_same_without_blocks(step, [normal(4, 5), normal(4, 5), normal(4, 5), normal()], monkeypatch)
    assert names(small_blocks[:1]) == ["chain"]


def test_numbers_computed_in_between_come_before_it(small_blocks, monkeypatch):
    def step(x: Any, a: Any) -> list[Any]:
        y = x * a
        b = lax.exp(a) + 1
        return [y / b]

    assert_same_without_blocks(step, [normal(SIZE), normal()], monkeypatch)
    assert names(small_blocks[:1])[-1] == "chain"
    assert names(small_blocks[:1]).count("chain") == 1


def test_a_number_of_the_chains_own_comes_after_it(monkeypatch):
    def step(x: Any, y: Any) -> list[Any]:
        x = (x + y) * y
        total = jnp.sum(x)
        return [x * total - y, total * 2]

    assert_same_without_blocks(step, [normal(SIZE), normal(SIZE)], monkeypatch)


def test_types_change_along_a_chain(monkeypatch):
    def step(x: Any, y: Any) -> list[Any]:
        found = lax.select(x > y, lax.exp(x), -y)
        return [found, x > y, lax.convert_element_type(found, np.int32) + 1]

    assert_same_without_blocks(step, [normal(SIZE), normal(SIZE)], monkeypatch)


def test_what_does_not_lie_in_order(monkeypatch):
    assert_same_without_blocks(lambda x, y: [x * 2 + y, x.T - 1], [normal(5, 4).T, normal(4, 5)], monkeypatch)
    assert_same_without_blocks(lambda x, y: [x.T * 2 + y], [normal(5, 4), normal(4, 5)], monkeypatch)


def test_smaller_arrays_are_broadcast_elsewhere(small_blocks, monkeypatch):
    def step(x: Any, row: Any) -> list[Any]:
        x = x * 2 + 1
        x = x + row
        return [x * x - 1]

    assert_same_without_blocks(step, [normal(4, 5), normal(5)], monkeypatch)
    assert names(small_blocks[:1]).count("chain") == 2


def test_what_nobody_reads_is_not_kept(small_blocks):
    graph = stage_closed(lambda x: [lax.neg(lax.sin(lax.cos(x)))], [ShapedArray((SIZE,), np.dtype("float32"))])
    assert numpy_program(graph) is not None
    (line,) = small_blocks[-1]
    assert len(line.values) == 1


def test_results_are_written_over_what_nobody_else_reads(monkeypatch):
    def function(x, y):
        view = jnp.transpose(x * 2)
        return [jnp.maximum((x @ y + 1) * 3 - y, 0).T, (x * 2 + y) * x, view, x * y]

    args = [normal(3, 3), normal(3, 3)]
    graph = stage_closed(function, [ShapedArray(x.shape, x.dtype) for x in args])
    program = numpy_program(graph)
    monkeypatch.setattr(blocks, "_with_reused_buffers", lambda lines, *_: lines)
    plain = numpy_program(graph)
    assert program is not None
    assert plain is not None
    before = [x.copy() for x in args]
    for _ in range(2):
        for a, b in zip(program.run(args), plain.run(args), strict=True):
            np.testing.assert_array_equal(a, b)
    for x, y in zip(args, before, strict=True):
        np.testing.assert_array_equal(x, y)


def test_only_what_was_made_for_one_line_is_written_over():
    def over(*lines: Line, outputs: tuple[int, ...]) -> list[int | None]:
        return [line.buffer for line in blocks._with_reused_buffers(lines, [(4,)] * 9, outputs)]

    single, double = np.dtype("float32"), np.dtype("float64")
    made = Line((2,), "mul", np.multiply, (0, 1), dtype=single)
    read = Line((3,), "add", np.add, (2, 1), dtype=single)
    assert over(made, read, outputs=(3,)) == [None, 2]
    assert over(made, read, outputs=(3, 2)) == [None, None]
    assert over(made, Line((3,), "convert", np.add, (2, 1), dtype=double), outputs=(3,)) == [None, None]
    assert over(made, Line((4,), "transpose", np.transpose, (2,), dtype=single), read, outputs=(3, 4)) == [None] * 3
    view = Line((2,), "transpose", np.transpose, (0,), dtype=single)
    assert over(view, read, outputs=(3,)) == [None, None]
    assert over(made, Line((3,), "dot_general", np.matmul, (2, 1), dtype=single), outputs=(3,)) == [None, None]
