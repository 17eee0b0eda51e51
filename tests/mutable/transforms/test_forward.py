"""Tangents: one for each open level, and of a view the same view of its base's."""

import gc
import weakref

import pytest

import fgrad.torch as torch
from fgrad.mutable.context.modes import modes
from fgrad.mutable.transforms.forward import set_tangent, tangent_of

pytestmark = pytest.mark.fast


@pytest.fixture
def level():
    with torch.autograd.forward_ad.dual_level():
        yield


def test_a_view_has_the_view_of_its_bases_tangent(level):
    base = torch.zeros(4)
    set_tangent(base, torch.arange(4.0))
    assert tangent_of(base[1:3]).tolist() == [1, 2]


def test_a_view_that_gains_a_tangent_gives_its_base_one(level):
    base = torch.zeros(4)
    set_tangent(base[1:3], torch.ones(2))
    assert tangent_of(base).tolist() == [0, 1, 1, 0]


def test_a_second_tangent_is_written_to_the_first(level):
    tensor = torch.zeros(2)
    set_tangent(tensor, torch.ones(2))
    first = tangent_of(tensor)
    set_tangent(tensor, torch.full((2,), 5.0))
    assert tangent_of(tensor) is first and first.tolist() == [5, 5]


def test_a_write_to_a_tensor_counts_as_one_to_its_tangent(level):
    tangent, w = torch.ones(2), torch.ones(2, requires_grad=True)
    dual = torch.autograd.forward_ad.make_dual(torch.zeros(2), tangent)
    product = (w * tangent).sum()
    dual.mul_(3)
    assert tangent.tolist() == [3, 3] and tangent._version == 1
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
        product.backward()


def test_the_tangent_of_a_custom_view_is_not_written(level):
    class First(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:2]

        @staticmethod
        def jvp(ctx, tangent):
            return tangent[:2]

    tangent = torch.arange(3.0)
    part = First.apply(torch.autograd.forward_ad.make_dual(torch.zeros(3), tangent))
    assert tangent_of(part).tolist() == [0, 1] and tangent._version == 0


def test_a_tangent_lies_in_memory_as_its_tensor_does(level):
    tensor = torch.zeros(2, 3).t()
    set_tangent(tensor, torch.ones(3, 2))
    assert tangent_of(tensor).stride() == tensor.stride() == (1, 3)


@pytest.mark.parametrize("of_tensor", [torch.clone, torch.conj, torch.Tensor._neg_view])
@pytest.mark.parametrize("of_tangent", [torch.clone, torch.conj, torch.Tensor._neg_view])
def test_a_tangent_is_conjugated_and_negated_on_reading_as_its_tensor_is(level, of_tensor, of_tangent):
    make_dual = torch.autograd.forward_ad.make_dual
    dual = make_dual(of_tensor(torch.tensor([1 + 2j, 3j])), of_tangent(torch.tensor([3 + 1j, 2 + 5j])))
    tangent = tangent_of(dual)
    assert tangent.tolist() == of_tangent(torch.tensor([3 + 1j, 2 + 5j])).tolist()
    assert (tangent.is_conj(), tangent.is_neg()) == (dual.is_conj(), dual.is_neg())
    assert tangent_of(dual.imag).tolist() == tangent.imag.tolist()
    assert tangent_of(dual[1:].resolve_conj()).tolist() == tangent[1:].tolist()


def test_a_tangent_of_no_elements_is_taken_as_it_is(level):
    primal, tangent = [torch.ones(2).as_strided((0,), (1,), offset) for offset in (0, 1)]
    assert tangent_of(torch.autograd.forward_ad.make_dual(primal, tangent)) is tangent


@pytest.mark.parametrize("unpacked", [False, True])
def test_a_dual_tensor_is_freed_with_its_last_reference(level, unpacked):
    gc.disable()
    try:
        dual = torch.autograd.forward_ad.make_dual(torch.zeros(4), torch.arange(4.0))
        view = torch.autograd.forward_ad.unpack_dual(dual).primal[1:] if unpacked else dual[1:]
        assert (tangent_of(view) is None) == unpacked
        freed = weakref.ref(tangent_of(dual))
        del dual
        assert unpacked or tangent_of(view[1:]).tolist() == [2, 3]
        del view
        assert freed() is None
    finally:
        gc.enable()


def test_a_tangent_goes_with_its_level():
    tensor = torch.zeros(2)
    with torch.autograd.forward_ad.dual_level():
        set_tangent(tensor, torch.ones(2))
        assert modes.dual_level == 0
    assert tangent_of(tensor) is None
    with torch.autograd.forward_ad.dual_level():
        assert tangent_of(tensor) is None


def test_where_forward_mode_is_off_there_is_none(level):
    tensor = torch.zeros(2)
    set_tangent(tensor, torch.ones(2))
    with torch.autograd.forward_ad._set_fwd_grad_enabled(False):
        assert tangent_of(tensor) is None


def test_a_tangent_from_outside_of_jvp_is_written():
    w = torch.tensor([0.5, 0.25], requires_grad=True)
    value, tangent = torch.func.jvp(lambda x: x.sin_().sum(), (w * 1,), (torch.ones(2),))
    assert tangent.item() == pytest.approx(torch.cos(w).sum().item())
