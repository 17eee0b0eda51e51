"""Random numbers for ``out=`` are of its type, drawn in the order of its memory, as PyTorch's."""

from typing import Any

import pytest

from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")

SHAPES = ((5, 5), (0,), (4, 5, 5))


def _drawn(draw: str, shape: tuple[int, ...], dtype: str) -> Case:
    def run(torch: Any) -> Any:
        torch.manual_seed(3)
        out = torch.ones(shape[::-1], dtype=getattr(torch, dtype)).permute(*range(len(shape) - 1, -1, -1))
        ramp = torch.arange(25.0).reshape(5, 5)
        found = {
            "rand": lambda: torch.rand(5, 5, out=out),
            "randn": lambda: torch.randn(5, 5, out=out),
            "randint": lambda: torch.randint(9, (5, 5), out=out),
            "of a type": lambda: torch.randn(5, 5, out=out, dtype=torch.float64),
            "with a gap": lambda: torch.randn(5, 3, out=torch.zeros(5, 6)[:, ::2]),
            "numbers": lambda: torch.normal(1.0, 2.0, (5, 5), out=out),
            "mean": lambda: torch.normal(ramp, 2.0, out=out),
            "deviation": lambda: torch.normal(1.0, ramp, out=out),
            "negative": lambda: torch.normal(1.0, -ramp, out=out),
            "both": lambda: torch.normal(ramp, ramp, out=out),
            "bernoulli": lambda: torch.bernoulli(ramp / 25, out=out),
            "one chance": lambda: torch.bernoulli(ramp, 0.5, out=out),
        }[draw]()
        return found, torch.rand(1)

    return Case(f"{draw}-{shape}-{dtype}", run)


CASES = [
    _drawn(draw, shape, dtype)
    for draw in ("rand", "randn", "randint", "of a type", "numbers", "deviation", "both", "bernoulli")
    for shape in SHAPES
    for dtype in ("float32", "float64", "bfloat16", "complex64", "int64")
    if (draw, dtype) != ("bernoulli", "complex64")
] + [
    *[_drawn("mean", shape, dtype) for shape in ((5, 5), (4, 5, 5)) for dtype in ("float32", "float64", "complex64")],
    *[_drawn(draw, (5, 5), "float32") for draw in ("with a gap", "negative", "one chance")],
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_out(case: Case):
    agree(case, torch)
