"""``torch._foreach_*`` against real torch: what is given, written and differentiated, and the errors."""

from typing import Any

import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch")

NAMES = sorted(name for name in dir(theirs) if name.startswith("_foreach_"))
#: what PyTorch has no derivatives of
UNDERIVED = ("_foreach_copy_", "_foreach_powsum")
#: the arguments after the tensors, where there are any
ARGUMENTS = {
    "addcdiv": ["lists", "lists", 0.5],
    "addcmul": ["lists", "lists", "numbers"],
    "lerp": ["lists", 0.25],
    "mm": ["lists"],
    "copy_": ["lists"],
    "norm": [1],
    "powsum": [3],
    **dict.fromkeys(["add", "clamp_max", "clamp_min", "div", "maximum", "minimum", "mul", "pow", "sub"], ("lists",)),
}


def outcome(torch: Any, function: Any) -> Any:
    try:
        return str(function(torch)).replace("fgrad.", "")
    except (RuntimeError, TypeError) as error:
        return type(error).__name__, str(error).split("\n")[0]


def test_every_function_is_there():
    assert sorted(name for name in dir(ours) if name.startswith("_foreach_")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients(name: str):
    def run(torch: Any) -> Any:
        leaves = [torch.tensor([[0.25, 0.5], [0.75, 0.3]], requires_grad=True), torch.full((2, 2), 0.4)]
        others = [torch.tensor([[0.5, 0.25], [0.5, 0.75]]), torch.full((2, 2), 0.6, requires_grad=True)]
        written = [x.clone() for x in leaves]
        stem = name.removeprefix("_foreach_")
        kinds = ARGUMENTS.get(stem, ARGUMENTS.get(stem.rstrip("_"), []))
        given = [others if k == "lists" else [0.5, 2.0] if k == "numbers" else k for k in kinds]
        found = getattr(torch, name)(written, *given)
        assert (found is written) == name.endswith("_")
        total = sum(y.sum() for y in found) + 0 * leaves[0].sum()
        grads = torch.autograd.grad(total, [leaves[0], others[1]], allow_unused=True) if name not in UNDERIVED else ()
        return [x.tolist() for x in found], [None if g is None else g.tolist() for g in grads]

    values, grads = run(ours)
    wanted, wanted_grads = run(theirs)
    assert values == pytest.approx(wanted) if values and isinstance(values[0], float) else len(values) == len(wanted)
    for a, b in zip([*values, *grads], [*wanted, *wanted_grads], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            theirs.testing.assert_close(theirs.tensor(a), theirs.tensor(b))


CALLS = {
    "a number": lambda torch, xs: torch._foreach_mul(xs, 3),
    "numbers": lambda torch, xs: torch._foreach_sub(xs, [2.0]),
    "a tensor": lambda torch, xs: torch._foreach_add(xs, torch.tensor(3.0)),
    "alpha": lambda torch, xs: torch._foreach_add(xs, xs, alpha=2),
    "a number to powers": lambda torch, xs: torch._foreach_pow(2, xs),
    "a bound": lambda torch, xs: torch._foreach_maximum(xs, 1.5),
    "elements": lambda torch, xs: torch._foreach_addcmul(xs, xs, xs, torch.tensor([2.0])),
    "other counts": lambda torch, xs: torch._foreach_add(xs, xs * 2),
    "other counts of numbers": lambda torch, xs: torch._foreach_lerp(xs, xs, [0.1, 0.2]),
    "other counts of elements": lambda torch, xs: torch._foreach_addcmul(xs, xs, xs, torch.ones(3)),
    "no tensors": lambda torch, xs: torch._foreach_norm([]),
    "a tensor of two": lambda torch, xs: torch._foreach_add(xs, torch.ones(2)),
    "no list": lambda torch, xs: torch._foreach_sqrt(3),
    "one tensor": lambda torch, xs: torch._foreach_sqrt(torch.ones(2)),
    "a leaf": lambda torch, xs: torch._foreach_add_([torch.ones(2, requires_grad=True)], 1),
}


@pytest.mark.parametrize("call", CALLS)
def test_arguments(call: str):
    def run(torch: Any) -> Any:
        return outcome(torch, lambda torch: CALLS[call](torch, [torch.ones(2)]))

    assert run(ours) == run(theirs)
