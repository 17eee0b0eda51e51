"""Calls that were bound once: others with arguments of the same classes are bound alike, and no others."""

from typing import Any

import pytest

import fgrad.torch as torch
from fgrad.torch.ops.table.signature import Array, Dims, Operand, Signature


def reduced(input: Array, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Any: ...


def scaled(input: Array, other: Operand, dims: Dims = None) -> Any: ...


def learnt(function, *args, **kwargs):
    signature = Signature("f", function)
    signature.learn(args, kwargs, *signature.split(signature.bind(args, kwargs), len(args)))
    return signature.bindings


def test_operands_and_parameters_are_found_by_their_positions():
    x = torch.ones(2)
    ((classes, binding),) = learnt(reduced, x, 0).items()
    assert classes == (torch.Tensor, int)
    values = (x, 1, *binding.defaults)
    assert binding.operands(values) == (x,) and binding.params(values) == (1, False, None)


def test_arguments_by_name_stand_in_any_order():
    x = torch.ones(2)
    ((classes, binding),) = learnt(reduced, x, keepdim=True, dim=0).items()
    assert classes == (torch.Tensor, bool, int, "keepdim", "dim")
    assert binding.values((x, True, 1, *binding.defaults)) == (x, 1, True, None)


@pytest.mark.parametrize(
    ("function", "args"),
    [(scaled, (torch.ones(2), 2.0, [0])), (scaled, (torch.ones(2), 2.0, (0,)))],
    ids=["a list", "elements that are looked at"],
)
def test_what_is_converted_or_looked_at_is_bound_each_time(function, args):
    assert not learnt(function, *args)


def test_a_bool_is_refused_where_an_integer_was_taken():
    x = torch.ones(2)
    assert x.unsqueeze(0).squeeze(0).shape == x.flip(0).shape
    assert x.softmax(0).shape == (2,)
    with pytest.raises(TypeError, match="must be int, not bool"):
        x.softmax(True)


def test_sizes_may_be_a_list_after_numbers():
    x = torch.ones(6)
    for sizes in ((2, 3), ([2, 3],), ((2, 3),)):
        assert x.view(*sizes).shape == (2, 3)


SIZED = {
    "expand": lambda x, n: x[:1].expand(n),
    "expand, several": lambda x, n: x[:1].expand(n, 1),
    "repeat": lambda x, n: x.repeat(n, 2),
    "tile": lambda x, n: x.tile(n),
    "view": lambda x, n: x.view(n, -1),
    "view, one": lambda x, n: x[:3].view(n),
    "permute": lambda x, n: x.view(1, 1, 1, 6).permute(n, 0, 1, 2),
    "flip": lambda x, n: x.view(1, 1, 2, 3).flip(n),
    "roll": lambda x, n: x.roll(n),
    "sum": lambda x, n: x.view(1, 1, 2, 3).sum(n),
    "squeeze": lambda x, n: x.view(1, 6, 1, 1).squeeze(n),
}


@pytest.mark.parametrize("function", SIZED.values(), ids=SIZED)
@pytest.mark.parametrize("number", [[3], [[3]], 3, [3.0], [1, 2]], ids=str)
def test_a_tensor_of_one_element_is_an_integer_among_integers(function, number):
    def play(lib):
        try:
            return function(lib.arange(6), lib.tensor(number)).tolist()
        except TypeError:
            return "refused"

    assert play(torch) == play(pytest.importorskip("torch"))
