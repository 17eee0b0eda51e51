"""What rows say of their functions holds together: what they name is there, and each word is one that is understood."""

from typing import get_args

import pytest

import fgrad.torch as torch
from fgrad.mutable.context.torch_function.wrap import raw
from fgrad.torch.ops.table.dispatch import Autocast, dispatch_of
from fgrad.torch.ops.table.outputs import FROM_OPERATION
from fgrad.torch.ops.table.table import TABLE

assert torch.nn  # whose functions are rows, too


def test_autocast_is_a_word_of_pytorch_or_a_question():
    words = get_args(get_args(Autocast)[0])
    assert words == ("lower_precision_fp", "fp32", "promote")
    wrong = [name for name, row in TABLE.items() if not (row.autocast in (None, *words) or callable(row.autocast))]
    assert not wrong


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.foreach])
def test_functions_of_lists_have_a_method_and_a_twin(name: str):
    assert TABLE[name].method and TABLE[name + "_"].method
    assert callable(getattr(torch, f"_foreach_{name}")) and callable(getattr(torch, f"_foreach_{name}_"))


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.out is not FROM_OPERATION])
def test_what_is_said_of_outputs_can_be_asked(name: str):
    """The text of an error has no field that nobody fills, and a rule without a text is of memory, or takes none."""
    rule = TABLE[name].out
    fields = dict.fromkeys(("want", "got", "c_want", "c_got", "name", "output", "narrow"), "")
    rule.text.format(**fields)
    assert rule.fits is not None or rule.memory is not None or not rule.accepted


def test_what_is_handed_over_for_a_method_is_a_method():
    said = {name: dispatch_of(raw(value))[0].called for name, value in vars(torch.Tensor).items() if callable(value)}
    assert said["__add__"] == "add" and said["__neg__"] == "neg"
    assert not {called for called in said.values() if called and not hasattr(torch.Tensor, called)}


def test_a_row_reaches_the_entrance_and_the_method():
    for call in (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__):
        assert call.override.autocast == "lower_precision_fp"
    assert torch.sin.override.autocast is None
