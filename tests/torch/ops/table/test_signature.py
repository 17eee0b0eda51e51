"""Calls that were bound once: others with arguments of the same classes are bound alike, and no others."""

from typing import Any

import numpy as np
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


def _outcome(lib, function, make):
    try:
        result = function(lib, lib.arange(1.0, 17.0).view(4, 4), make(lib))
    except (TypeError, RuntimeError) as error:
        return type(error).__name__
    return [[*x.shape] for x in (result if isinstance(result, tuple | list) else [result])]


SYMBOLIC = {
    "topk": lambda lib, x, n: x.topk(n),
    "kthvalue": lambda lib, x, n: x.kthvalue(n),
    "eye": lambda lib, x, n: lib.eye(n, n),
    "tril": lambda lib, x, n: x.tril(n),
    "triu_": lambda lib, x, n: x.triu_(n),
    "narrow": lambda lib, x, n: x.narrow(0, 0, n),
    "select": lambda lib, x, n: x.select(0, n),
    "select_scatter": lambda lib, x, n: x.select_scatter(x[0], 0, n),
    "slice_scatter": lambda lib, x, n: x.slice_scatter(x[:2], 0, 0, n),
    "as_strided": lambda lib, x, n: x.as_strided((1,), (1,), n),
    "fft": lambda lib, x, n: lib.fft.fft(x, n),
    "irfft": lambda lib, x, n: lib.fft.irfft(x, n=n),
    "bincount": lambda lib, x, n: x[0].long().bincount(minlength=n),
    "multinomial": lambda lib, x, n: x.multinomial(n),
    "randperm": lambda lib, x, n: lib.randperm(n),
    "randint": lambda lib, x, n: lib.randint(n, (3,)),
    "unsafe_split": lambda lib, x, n: x.unsafe_split(n),
    "embedding": lambda lib, x, n: lib.embedding(x, x[0].long() - 1, n),
    "nll_loss": lambda lib, x, n: lib.nn.functional.nll_loss(x, lib.tensor([0, 1, 2, 0]), ignore_index=n),
    "vander": lambda lib, x, n: lib.linalg.vander(x, N=n),
    "tensordot": lambda lib, x, n: lib.tensordot(x, x, n),
    "hsplit": lambda lib, x, n: x.hsplit(n),
    "sum, whose axis is never symbolic": lambda lib, x, n: x.softmax(n),
    "glu": lambda lib, x, n: lib.nn.functional.glu(x, n),
    "size": lambda lib, x, n: lib.ones(x.size(n)),
    "stride": lambda lib, x, n: lib.ones(x.stride(n)),
    "hann_window": lambda lib, x, n: lib.hann_window(n),
    "one_hot": lambda lib, x, n: lib.nn.functional.one_hot(lib.tensor([0]), n),
    "random_": lambda lib, x, n: x.random_(n),
    "avg_pool2d": lambda lib, x, n: lib.nn.functional.avg_pool2d(x[None], n, n),
    "avg_pool2d, two": lambda lib, x, n: lib.nn.functional.avg_pool2d(x[None], (n, n)),
    "max_pool1d": lambda lib, x, n: lib.nn.functional.max_pool1d(x, (n,)),
    "adaptive_avg_pool2d": lambda lib, x, n: lib.nn.functional.adaptive_avg_pool2d(x[None], (n, n)),
    "conv1d": lambda lib, x, n: lib.nn.functional.conv1d(x, lib.ones(1, 4, 1), None, (n,)),
    "conv2d": lambda lib, x, n: lib.nn.functional.conv2d(x[None], lib.ones(1, 1, 1, 1), None, 1, (n, 1)),
    "unfold": lambda lib, x, n: lib.nn.functional.unfold(x[None], (n, n)),
    "layer_norm": lambda lib, x, n: lib.nn.functional.layer_norm(x[:, :1], (n,)),
    "fft2": lambda lib, x, n: lib.fft.fft2(x, (n, n)),
    "fftshift": lambda lib, x, n: lib.fft.fftshift(x, (n,)),
    "tensor_split": lambda lib, x, n: x.tensor_split([n, 2]),
}
GIVEN = {
    "int": lambda lib: 1,
    "one element": lambda lib: lib.tensor([1]),
    "no axes": lambda lib: lib.tensor(1),
    "two axes": lambda lib: lib.tensor([[1]], dtype=lib.uint8),
    "two elements": lambda lib: lib.tensor([1, 1]),
    "floating": lambda lib: lib.tensor(1.0),
    "float": lambda lib: 1.0,
    "bool": lambda lib: True,
    "NumPy's": lambda lib: np.int64(1),
    "NumPy's bool": lambda lib: np.bool_(True),
    "str": lambda lib: "1",
}


@pytest.mark.parametrize("make", GIVEN.values(), ids=GIVEN)
def test_what_is_taken_for_an_integer(make):
    original = pytest.importorskip("torch")
    outcomes = {name: (_outcome(torch, f, make), _outcome(original, f, make)) for name, f in SYMBOLIC.items()}
    assert {name: both for name, both in outcomes.items() if both[0] != both[1]} == {}
