"""An interrupt or an error at a bad moment leaves nothing behind: see NOTE [Signals]."""

import ast
import contextlib
import dis
import pathlib
import random
import types
import zlib
from collections.abc import Iterator

import pytest

import fgrad
import fgrad.torch as torch
from fgrad.mutable.context.modes import modes
from tests import interrupts
from tests.interrupts import ERRING, PROGRAMS, faults, fresh, is_delicate, places, sampled, state, strike, told


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_interrupted_anywhere(program, warm):
    program(4)[0]()
    interrupts.probe()
    before = state()
    chance = random.Random(zlib.crc32(program.__name__.encode()))
    for place, times in sampled(program, warm, 8 if warm else 2, chance):
        run, check = fresh(program, warm)
        strike(run, place, times)
        assert not faults(check, before), told(place)


def test_interrupted_where_grad_mode_is_put_back():
    """The end of a block is reached by a call, and nothing of Python's comes before the mode is back."""
    before = state()
    found = [place for place in places(interrupts.unrecorded, True) if is_delicate(place)]
    assert found
    for place in found:
        run, check = fresh(interrupts.unrecorded, True)
        strike(run, place, 1)
        assert not faults(check, before), told(place)


def test_a_written_tensor_keeps_its_gradient():
    """Every place in the write of a view: written whole or not at all, the version and the history with it."""
    interrupts.written(4)[0]()
    before = state()
    for place in [place for place in places(interrupts.written, True) if place[0].co_filename.endswith("inplace.py")]:
        run, check = fresh(interrupts.written, True)
        strike(run, place, 1)
        assert not faults(check, before), told(place)


@pytest.mark.parametrize("program", ERRING, ids=lambda f: f.__name__)
def test_errors_in_what_the_user_gives(program):
    before = state()
    for at in range(1, 5):
        x = torch.ones(2, requires_grad=True)
        with contextlib.suppress(interrupts.Refused):
            program(x, interrupts.Fragile(at))
        assert not faults(interrupts.nothing, before)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def test_rounds_of_loops_end_inside_their_blocks():
    """No jump back that a ``try`` or ``with`` is written around is missing in Python's table of what these cover.

    Of the rooms that keep a thread's state; elsewhere what is put back is a recording, which nobody holds any more.
    """
    package = pathlib.Path(fgrad.__file__).parent
    found = []
    for path in [*package.glob("mutable/**/*.py"), *package.glob("run/*.py")]:
        text = path.read_text()
        blocks = [
            (node.body[0].lineno, node.body[-1].end_lineno or 0)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.With) or (isinstance(node, ast.Try) and node.finalbody)
        ]
        for code in _codes(compile(text, str(path), "exec")):
            covered = dis._parse_exception_table(code)  # type: ignore[attr-defined]  # it is written nowhere else
            for at in dis.get_instructions(code):
                if at.opname not in ("JUMP_BACKWARD", "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_FALSE"):
                    continue
                line = at.positions and at.positions.lineno
                if not line or any(part.start <= at.offset < part.end for part in covered):
                    continue
                first = code.co_firstlineno  # a function inside of a block is not
                if any(start <= line <= end and not start <= first <= end for start, end in blocks):
                    found.append(f"{path.relative_to(package)}:{line} {code.co_qualname}")
    assert not found, "\n".join(found)


def test_a_level_that_is_left_takes_its_tangents():
    x = torch.ones(2)
    with pytest.raises(interrupts.Refused), torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        raise interrupts.Refused
    assert not dual._tangents and modes.duals == ()


def test_retained_gradients_of_a_later_output_follow_a_write():
    """Of an operation's second output: PyTorch writes the gradient of what the tensor is after the write."""
    x = torch.tensor([[2.0, 0.5], [0.5, 1.0]], requires_grad=True)
    _, mean = torch.var_mean(x, 0)
    mean.retain_grad()
    mean.mul_(2.0)
    (mean * mean).sum().backward()
    assert torch.allclose(mean.grad, 2 * mean)
