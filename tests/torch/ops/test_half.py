"""Elements of 16 bits, ``bfloat16`` above all, which is no type of NumPy's own: one expression a case."""

from typing import Any

import numpy as np
import pytest

import fgrad.torch
from tests.torch.mirror import first_part
from tests.torch.ops.playing import numbers, tensors_in

pytorch = pytest.importorskip("torch")

EXPRESSIONS = """
x.softmax(0)
x.log_softmax(0)
F.softmin(x, 0)
F.cross_entropy(x.reshape(1, 3), torch.tensor([1]))
x.std()
x.var(0)
torch.std_mean(x)
x.prod()
x.sinc()
torch.polygamma(2, x)
torch.special.zeta(3, x)
x.unique()
missing.unique(return_inverse=True)
missing.nansum()
missing.median()
missing.nanmedian()
missing.median(0)
missing.cummax(0)
missing.sort()
missing.max()
x @ x
F.scaled_dot_product_attention(m, m, m)
F.scaled_dot_product_attention(m, m, m, is_causal=True)
F.batch_norm(m, None, None, training=True)
torch.nn.MultiheadAttention(3, 1, dtype=torch.bfloat16)(m, m, m)[0] * 0
F.conv1d(m, torch.ones(3, 3, 1), torch.ones(3))
torch.ones(2, 2, dtype=x.dtype).index_add(0, torch.zeros(9).long(), torch.full((9, 2), 0.0039, dtype=x.dtype))
torch.ones(2, 2, dtype=x.dtype).index_add(0, torch.zeros(9).int(), torch.full((9, 2), 0.0039, dtype=x.dtype))
torch._weight_norm_interface(m[0], m[0, :1], 1)
torch.autograd.grad(w.index_select(0, torch.zeros(9).long()), w, torch.full((9, 1), 0.3, dtype=x.dtype))
""".strip().split("\n")


def outcome(torch: Any, expression: str) -> Any:
    named = {
        "torch": torch,
        "F": torch.nn.functional,
        "x": torch.tensor([-1.25, 0.5, 3.0], dtype=torch.bfloat16),
        "w": torch.ones(2, 1, dtype=torch.bfloat16, requires_grad=True),
        "missing": torch.tensor([1.0, float("nan"), 3.0, 2.0], dtype=torch.bfloat16),
        "m": torch.arange(12.0).reshape(2, 3, 2).to(torch.bfloat16).transpose(1, 2).contiguous(),
    }
    if expression.startswith(("F.batch_norm", "F.conv")):
        named["m"] = named["m"].transpose(1, 2).contiguous()
    try:
        return tensors_in(eval(expression, named), torch)
    except Exception as error:
        return error


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_half(expression: str):
    wanted, found = outcome(pytorch, expression), outcome(fgrad.torch, expression)
    if isinstance(wanted, Exception) or isinstance(found, Exception):
        assert (type(found).__name__, first_part(str(found))) == (type(wanted).__name__, first_part(str(wanted)))
        return
    assert len(found) == len(wanted)
    for mine, other in zip(found, wanted, strict=True):
        assert str(mine.dtype) == str(other.dtype)
        np.testing.assert_allclose(numbers(mine), numbers(other), rtol=1e-2, atol=1e-2)


#: with Python numbers and numbers in tensors: what is computed in single precision is rounded once
ROUNDED_ONCE = {
    "product": lambda torch, x: x * 1.01,
    "product with a number in a tensor": lambda torch, x: x * torch.tensor(1.01),
    "product in place": lambda torch, x: x.clone().mul_(1.01),
    "quotient": lambda torch, x: x / 3.3,
    "quotient of a number": lambda torch, x: 1.01 / x,
    "addcmul": lambda torch, x: torch.addcmul(x, x, x.abs(), value=0.333),
    "addcdiv": lambda torch, x: torch.addcdiv(x, x, x.abs() + 1, value=0.333),
    "lerp": lambda torch, x: torch.lerp(x, x * 2, 0.337),
    "sum with a number": lambda torch, x: x + 1.01,
    "number minus": lambda torch, x: 1.01 - x,
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ROUNDED_ONCE)
def test_rounded_once(name: str, dtype: str):
    values = np.random.default_rng(0).standard_normal(500).astype("float32")

    def run(torch: Any) -> list[Any]:
        x = torch.tensor(values).to(getattr(torch, dtype)).requires_grad_()
        y = ROUNDED_ONCE[name](torch, x)
        gradient = torch.autograd.grad(y, x, x.detach())[0]
        return [each.detach().double().numpy() for each in (y, gradient)]

    mine, other = run(fgrad.torch), run(pytorch)
    np.testing.assert_array_equal(mine[0], other[0])
    np.testing.assert_allclose(mine[1], other[1], rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_an_outer_product_scales_its_first_vector(dtype: str):
    values = np.random.default_rng(0).standard_normal(50).astype("float32")

    def run(torch: Any) -> Any:
        x = torch.tensor(values).to(getattr(torch, dtype))
        return torch.addr(x[:, None], x, x[:32], beta=0.6, alpha=0.2).double().numpy()

    np.testing.assert_array_equal(run(fgrad.torch), run(pytorch))


#: of 3000 rows of two columns ``x``, and the rows ``i`` of three to which they go: summed in half precision, the sum
#: would stand still where a term is less than half of its last digit
SUMS = {
    "sum": lambda torch, x, i: x.sum(0),
    "nansum": lambda torch, x, i: x.nansum(0),
    "gradient of what was broadcast": lambda torch, x, i: pulled(torch, lambda b: b + x, x[0] * 0, x),
    "gradient of what was expanded": lambda torch, x, i: pulled(torch, lambda b: b.expand(3000, 2), x[0] * 0, x),
    "gradient of a bias": lambda torch, x, i: pulled(torch, lambda b: linear(torch, x, b), x[0] * 0, x),
    "scatter_add": lambda torch, x, i: (x[:3] * 0).scatter_add(0, i, x),
    "scatter_reduce": lambda torch, x, i: (x[:3] * 0).scatter_reduce(0, i, x, "sum"),
    "means at places": lambda torch, x, i: (x[:3] * 0).scatter_reduce(0, i, x, "mean"),
    "scatter of a number": lambda torch, x, i: (x[:3] * 0).scatter_(0, i, 0.3, reduce="add"),
    "gradient of gather": lambda torch, x, i: pulled(torch, lambda b: b.gather(0, i), x[:3] * 0, x),
}


def linear(torch: Any, x: Any, bias: Any) -> Any:
    return torch.nn.functional.linear(x, x[:2] * 0, bias)


def pulled(torch: Any, function: Any, x: Any, cotangent: Any) -> Any:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(function(x), x, cotangent)[0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", SUMS)
def test_summed_in_single(name: str, dtype: str):
    numbers = np.random.default_rng(0)
    values, places = numbers.random((3000, 2)).astype("float32"), numbers.integers(0, 3, (3000, 2))

    def run(torch: Any) -> Any:
        x = torch.tensor(values).to(getattr(torch, dtype))
        return SUMS[name](torch, x, torch.tensor(places)).double().numpy()

    np.testing.assert_allclose(run(fgrad.torch), run(pytorch), rtol=2**-7 if dtype == "bfloat16" else 2**-10)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["add", "sub"])
def test_a_factor_is_rounded_and_the_sum_once(name: str, dtype: str):
    """PyTorch rounds the product too in the few elements that are left over from whole registers."""
    values = np.random.default_rng(0).standard_normal(512).astype("float32")

    def run(torch: Any) -> Any:
        x = torch.tensor(values).to(getattr(torch, dtype))
        return getattr(torch, name)(x, x.abs(), alpha=1.01).double().numpy()

    assert np.mean(run(fgrad.torch) != run(pytorch)) < 0.01


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_product_and_a_sum_are_rounded_once(dtype: str):
    """What a linear layer does, and ``baddbmm``."""
    numbers = np.random.default_rng(0)
    x, a, b = (numbers.standard_normal((4, 32, 32)).astype("float32") for _ in range(3))

    def run(torch: Any) -> list[Any]:
        x_, a_, b_ = (torch.tensor(each).to(getattr(torch, dtype)) for each in (x, a, b))
        return [
            torch.addmm(x_[0], a_[0], b_[0]),
            torch.addmm(x_[0], a_[0], b_[0], beta=0.3, alpha=0.7),
            torch.baddbmm(x_, a_, b_, beta=0.3),
            torch.nn.functional.linear(a_[0], b_[0], x_[0, 0]),
        ]

    for mine, other in zip(run(fgrad.torch), run(pytorch), strict=True):
        # the order of the terms of a sum is each library's own
        assert np.mean(mine.double().numpy() != other.double().numpy()) < 0.01
