"""The numbers of some functions may stand between their tensors, as they did in PyTorch's first releases."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fgrad import torch as ours
from fgrad.mutable.context.warning import once
from tests.torch.both import Case, agree

V, M, B = np.array([1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[[1.0, 2.0], [3.0, 5.0]]])

#: the operands of functions with a number behind the first one, and of those with one before it and one behind it
SECOND = {"add": (V, V), "sub": (V, V), "addcmul": (V, V, V), "addcdiv": (V, V, V)}
FIRST = {"addmm": (M, M, M), "addmv": (V, M, V), "addr": (M, V, V), "baddbmm": (B, B, B), "addbmm": (M, B, B)}


def runs(name: str, number: bool, ways: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    def bound(way: Callable[..., Any]) -> Callable[..., Any]:
        def run(torch: Any, x: Any, *rest: Any) -> Any:
            n, m = (2, 0.5) if number else (torch.tensor(2), torch.tensor(0.5))
            return way(getattr(torch, name), lambda x, of: getattr(x, name + of), x, rest, n, m)

        return run

    return {f"{name}, {'numbers' if number else 'tensors'}, {kind}": bound(way) for kind, way in ways.items()}


BEHIND = {
    "function": lambda f, of, x, rest, n, m: f(x, n, *rest),
    "method": lambda f, of, x, rest, n, m: of(x, "")(m, *rest),
    "in place": lambda f, of, x, rest, n, m: of(x.clone(), "_")(m, *rest),
    "by name": lambda f, of, x, rest, n, m: of(x, "")(
        n, *rest[:-1], **{"other" if len(rest) == 1 else "tensor2": rest[-1]}
    ),
    "out": lambda f, of, x, rest, n, m: f(x.detach(), n, *[y.detach() for y in rest], out=x.detach().clone()),
}
AROUND = {
    "function": lambda f, of, x, rest, n, m: f(n, x, *rest),
    "function of two": lambda f, of, x, rest, n, m: f(m, x, n, *rest),
    "method": lambda f, of, x, rest, n, m: of(x, "")(n, *rest),
    "method of two": lambda f, of, x, rest, n, m: of(x, "")(n, m, *rest),
    "in place": lambda f, of, x, rest, n, m: of(x.clone(), "_")(m, *rest),
    "in place of two": lambda f, of, x, rest, n, m: of(x.clone(), "_")(m, n, *rest),
    "out": lambda f, of, x, rest, n, m: f(m, x.detach(), n, *[y.detach() for y in rest], out=x.detach().clone()),
}
CASES = [
    Case(called, run, operands)
    for rows, ways in ((SECOND, BEHIND), (FIRST, AROUND))
    for name, operands in rows.items()
    for number in (True, False)
    for called, run in runs(name, number, ways).items()
]


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_former_order_is_pytorchs(case: Case):
    agree(case, pytest.importorskip("torch"))


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize("name", ["add", "sub", "add_", "sub_"])
def test_the_last_operand_may_be_a_number(name: str):
    agree(
        Case(name, lambda torch, x: getattr(x * 1, name)(2, 3), (V,)),
        pytest.importorskip("torch"),
    )


#: what PyTorch refuses: orders that there never were, numbers that are no numbers, aliases
REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "add, number first": lambda torch, x: torch.add(2, x, x),
    "add, two numbers": lambda torch, x: x.add(2, 3, x),
    "add, a vector": lambda torch, x: torch.add(x, x, x),
    "add, a tracked number": lambda torch, x: x.add(torch.tensor(0.5, requires_grad=True), x),
    "add, given twice": lambda torch, x: x.add(2, x, alpha=2),
    "add, a string": lambda torch, x: x.add("2", x),
    "subtract": lambda torch, x: torch.subtract(x, 2, x),
    "subtract_": lambda torch, x: x.subtract_(2, x),
    "rsub": lambda torch, x: torch.rsub(x, 2, x),
    "addr, number second": lambda torch, x: torch.addr(x, 2, x, x),
    "addmm, three numbers": lambda torch, x: torch.addmm(1, x, 2, 3, x),
    "addcmul, two numbers": lambda torch, x: x.addcmul(1, 2, x, x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_orders_are_refused(name: str):
    for torch in (ours, pytest.importorskip("torch")):
        with pytest.raises(TypeError):
            REFUSED[name](torch, torch.ones(2))


WARNED: dict[str, Callable[[Any], Any]] = {
    "add": lambda torch: torch.add(torch.ones(2), 2, torch.ones(2)),
    "add_": lambda torch: torch.ones(2).add_(2, torch.ones(2)),
    "addcmul": lambda torch: torch.addcmul(torch.ones(2), 2, torch.ones(2), torch.ones(2)),
    "addmv, one": lambda torch: torch.addmv(2, torch.ones(2), torch.ones(2, 2), torch.ones(2)),
    "addmv, two": lambda torch: torch.addmv(2, torch.ones(2), 3, torch.ones(2, 2), torch.ones(2)),
    "addr_": lambda torch: torch.ones(2, 2).addr_(2, 3, torch.ones(2), torch.ones(2)),
    "addmm, method": lambda torch: torch.ones(2, 2).addmm(2, torch.ones(2, 2), torch.ones(2, 2)),
}


@pytest.mark.parametrize("name", WARNED)
def test_the_warning_is_pytorchs(name: str):
    texts = []
    for torch in (ours, pytest.importorskip("torch")):
        torch.set_warn_always(True)
        try:
            with pytest.warns(UserWarning) as caught:
                WARNED[name](torch)
        finally:
            torch.set_warn_always(False)
        texts.append(str(caught[0].message).partition(" (Triggered internally")[0])
    assert texts[0] == texts[1]


def test_it_is_warned_of_once(monkeypatch: Any):
    monkeypatch.setattr(once, "issued", set())
    x = ours.ones(2)
    with pytest.warns(UserWarning, match=r"add_ is deprecated:\n\tadd_\(Number alpha, Tensor other\)"):
        x.add_(2, x)
    assert ours.add(x, 2, x).tolist() == [9.0, 9.0]
    assert ours.addr(2, ours.ones(1, 1), ours.ones(1), ours.ones(1)).tolist() == [[3.0]]
