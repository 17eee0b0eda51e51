"""``torch.quasirandom``: the points of Sobol sequences, bit for bit."""

from typing import Any

import pytest

from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")


def _points(torch: Any) -> list[Any]:
    engine = torch.quasirandom.SobolEngine(5)
    found = [engine.draw(4), engine.draw(), engine.fast_forward(6).draw(2), engine.quasi, engine.num_generated]
    return [*found, engine.reset().draw(3), engine.sobolstate, repr(engine)]


def _scrambled(torch: Any) -> list[Any]:
    engine = torch.quasirandom.SobolEngine(3, scramble=True, seed=7)
    torch.manual_seed(2)
    other = torch.quasirandom.SobolEngine(2, True)
    return [engine.shift, engine.sobolstate, engine.draw(1), engine.draw(3), repr(engine), other.draw(2)]


def _many_axes(torch: Any) -> list[Any]:
    engine = torch.quasirandom.SobolEngine(21201)
    return [engine.sobolstate.sum(), (engine.sobolstate % 1000007).sum()]


def _types(torch: Any) -> list[Any]:
    out = torch.empty(0)
    torch.quasirandom.SobolEngine(2).draw(3, out=out)
    return [out, torch.quasirandom.SobolEngine(2).draw(3, dtype=torch.float64)]


CASES = [
    Case("points", _points),
    Case("scrambled", _scrambled),
    Case("many axes", _many_axes),
    Case("types", _types),
    Case("skipped from the start", lambda torch: torch.quasirandom.SobolEngine(2).fast_forward(3).draw(2)),
    Case("powers of two", lambda torch: torch.quasirandom.SobolEngine(2).draw_base2(3)),
    Case("no power of two", lambda torch: torch.quasirandom.SobolEngine(2).fast_forward(3).draw_base2(3)),
    Case("no axes", lambda torch: torch.quasirandom.SobolEngine(0)),
    Case("too many axes", lambda torch: torch.quasirandom.SobolEngine(21202)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sobol_sequences_are_pytorchs(case):
    agree(case, torch)
