"""Arguments that functions and methods refuse, and how PyTorch's errors name them."""

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.both import Case, agree

theirs = pytest.importorskip("torch")

#: integers given one by one, as a sequence, and axes
INTS = {
    "a size": lambda t, x: x.reshape(2.0, 6),
    "a later size": lambda t, x: x.reshape(6, 2.0),
    "a size of a sequence": lambda t, x: x.reshape((2.0, 6)),
    "a later size of a sequence": lambda t, x: x.reshape((6, 2.0)),
    "a size of a view": lambda t, x: x.view(6, 2.0),
    "repeats": lambda t, x: x.repeat(1, 2.0),
    "tiles": lambda t, x: x.tile((1, 2.0)),
    "a shift": lambda t, x: x.roll(2.0),
    "an axis of a shift": lambda t, x: x.roll(1, 2.0),
    "later shifts": lambda t, x: x.roll((1, 2.0), (0, 1)),
    "a new size": lambda t, x: t.zeros(1, 2.0),
    "a truth value as a size": lambda t, x: t.ones(1, True),
    "padding": lambda t, x: t.nn.functional.pad(x, (0, 2.0)),
    "axes": lambda t, x: x.flip([0, 1.0]),
    "an axis": lambda t, x: x.amax(2.0),
    "a permutation": lambda t, x: x.permute(0, 1.0),
    "summed axes": lambda t, x: x.sum((0, 1.0)),
    "sizes of pieces": lambda t, x: x.split([1, 2.0]),
    "sizes that do not add up": lambda t, x: x.split([1], -1),
    "no pieces of a number": lambda t, x: t.tensor(1.0).chunk(0),
    "sizes of axes": lambda t, x: x.unflatten(1, (2, 2.0)),
    "a size of pieces": lambda t, x: x.split(t_int(2)),
    "a size of pieces as a tensor": lambda t, x: [y.shape for y in x.split(t.tensor(2))],
    "one element as a size of pieces": lambda t, x: [y.shape for y in t.split(x, t.tensor([2.0]), dim=1)],
    "sizes of pieces as a tensor": lambda t, x: x.split(t.tensor([1, 2])),
    "strides": lambda t, x: t.as_strided(x, (1, 2.0), (1, 1)),
    "NumPy's integers": lambda t, x: (x.sum(t_int(1)), x.reshape(t_int(6), 2), x.view(t_int(12))),
}

#: what fits no overload, of functions and of methods
OVERLOADS = {
    "a method's": lambda t, x: x.clamp("2"),
    "a function's": lambda t, x: t.clamp(x, "2"),
    "an in-place method's": lambda t, x: x.pow_("2"),
    "a comparison": lambda t, x: x.eq("2"),
    "a mask's value": lambda t, x: t.masked_fill(x, x > 0, "2"),
    "a mask's value, of a method": lambda t, x: x.masked_fill_(x > 0, "2"),
    "a value": lambda t, x: x.fill_("2"),
    "a value, of a function": lambda t, x: t.fill(x, "2"),
    "a place's value": lambda t, x: x.index_fill(0, t.tensor([0]), "2"),
    "what is scattered": lambda t, x: t.scatter(x, 0, t.tensor([[0]]), "2"),
    "no value": lambda t, x: x.masked_fill(x > 0),
    "a method's position": lambda t, x: x.gather("2", t.tensor([[0]])),
    "a function's position": lambda t, x: t.gather(x, "2", t.tensor([[0]])),
}

#: equations that are no strings
EQUATIONS = {
    "bytes": lambda t, x: t.einsum(b"ij->j", x),
    "bytes and a list": lambda t, x: t.einsum(b"ij->j", [x]),
    "a number for an equation": lambda t, x: t.einsum(5, x),
    "no operand": lambda t, x: t.einsum("ij->j"),
    "a number for an operand": lambda t, x: t.einsum("ij,jk->ik", x, 3),
    "a dot in an operand": lambda t, x: t.einsum("i.j,jk", x, x.t()),
    "two ellipses in an operand": lambda t, x: t.einsum("ij,...j...->i", x, x[0]),
    "a dot in the output": lambda t, x: t.einsum("ij->i.", x),
    "two ellipses in the output": lambda t, x: t.einsum("...ij->...i...", x),
    "hidden sizes that differ": lambda t, x: t.einsum("...jk,i...k", x.reshape(3, 2, 2), x.reshape(3, 2, 2)),
    "hidden sizes that differ after a diagonal": lambda t, x: t.einsum("...,ii...", t.ones(5), x.reshape(2, 2, 3)),
    "a subscript out of range": lambda t, x: t.einsum(x, [0, 52]),
    "a fraction for a subscript": lambda t, x: t.einsum(x, [0, 1.5]),
}

#: classes as they are printed
CLASSES = {
    "a tensor's": lambda t, x: repr(type(x)).replace("fgrad.", ""),
    "a size's": lambda t, x: repr(type(x.shape)).replace("fgrad.", ""),
    "a type's": lambda t, x: repr(type(x.dtype)).replace("fgrad.", ""),
    "a device's": lambda t, x: repr(type(x.device)).replace("fgrad.", ""),
    "a node's": lambda t, x: repr(type((x.requires_grad_() * 2).grad_fn)),
}

#: numbers out of their range
NUMBERS = {
    "a negative norm": lambda t, x: x.renorm(2, 0, -1.5),
    "a norm that is none": lambda t, x: t.renorm(x, 2, 0, float("nan")),
    "a complex order": lambda t, x: t.renorm(x, 2j, 0, 1),
    "a complex norm": lambda t, x: x.renorm_(2, 0, 1j),
}


def t_int(n):
    return X.dtype.type(n).astype("int64")


X = theirs.arange(12.0).reshape(3, 4).numpy()
CASES = [
    Case(name, run, (X,)) for calls in (INTS, OVERLOADS, EQUATIONS, CLASSES, NUMBERS) for name, run in calls.items()
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_comes_of_arguments(case):
    agree(case, theirs)


#: tensors of shapes and types that do not fit, for ``ormqr``
_ORMQR = [
    ((), (), ()),
    ((3, 3), (4,), (3, 3)),
    ((3, 3), (3,), (4, 3)),
    ((3, 3), (2, 3), (3, 3)),
    ((3, 3), (3,), ()),
] + [
    ((2, 3, 3), (2, 3), (3, 3, 4)),
    ((3, 3), (3,), (2, 3, 4)),
]
REFUSED = {
    **{f"ormqr {i}": lambda t, s=s: t.ormqr(*map(t.ones, s)) for i, s in enumerate(_ORMQR)},
    "ormqr from the right": lambda t: t.ormqr(t.ones(3, 3), t.ones(3), t.ones(3, 4), left=False),
    "ormqr of two types": lambda t: t.ormqr(t.ones(3, 3), t.ones(3).double(), t.ones(3, 3)),
    "a matrix of cuts": lambda t: t.ones(4).tensor_split(t.tensor([[1]])),
    "a method of a number": lambda t: t.Tensor.add(2, t.ones(2)),
    "renorm": lambda t: t.ones(2, 2).long().renorm(2, 0, 1),
    "var_mean": lambda t: t.var_mean(t.ones(2).long()),
    "std_mean": lambda t: t.std_mean(t.ones(2).long()),
    "logits": lambda t: t.nn.functional.binary_cross_entropy_with_logits(t.ones(2).long(), t.ones(2).long()),
    **{name: lambda t, f=name: getattr(t.special, f)(t.ones(2).cfloat()) for name in ("i0e", "i1", "i1e")},
    **{f"polygamma {n}": lambda t, n=n: t.special.polygamma(n, t.ones(2).cfloat()) for n in range(3)},
    "axes to be reduced": lambda t: t.ones((1,) * 65).amax(-1),
    "a mode": lambda t: t.hash_tensor(t.arange(4), mode=1),
    "nothing to hash": lambda t: t.hash_tensor(t.ones(0)),
    "complex numbers to hash": lambda t: t.hash_tensor(t.ones(2).cfloat()),
    "no tensors": lambda t: t._chunk_cat([], 0, 2),
    "no chunks": lambda t: t._chunk_cat([t.ones(2)], 0, 0),
    "chunks of two types": lambda t: t._chunk_cat([t.ones(2), t.ones(2).double()], 0, 2),
    "chunks of other rows": lambda t: t._chunk_cat([t.ones(2, 3), t.ones(3, 3)], 1, 2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_pytorchs_words(name):
    def run(torch):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError)) as caught:
            REFUSED[name](torch)
        return type(caught.value), str(caught.value).splitlines()[0].split(" (Triggered")[0]

    mine, other = run(ours), run(theirs)
    assert issubclass(mine[0], other[0]) and mine[1] == other[1]


#: functions of a tensor that take a number
OF_A_NUMBER = {
    "add": lambda t, x, n: t.add(x, x, alpha=n),
    "add_": lambda t, x, n: x.add_(x, alpha=n),
    "addcmul": lambda t, x, n: t.addcmul(x, x, x, value=n),
    "pad": lambda t, x, n: t.nn.functional.pad(x, (1, 1), value=n),
    "leaky_relu": lambda t, x, n: t.nn.functional.leaky_relu(x, n),
    "elu_": lambda t, x, n: t.nn.functional.elu_(x, n),
    "huber_loss": lambda t, x, n: t.nn.functional.huber_loss(x, 2 * x, delta=n),
    "layer_norm": lambda t, x, n: t.nn.functional.layer_norm(x, (3,), eps=n),
    "multi_margin_loss": lambda t, x, n: t.nn.functional.multi_margin_loss(x, t.tensor(1), margin=n),
    "dist": lambda t, x, n: t.dist(x, 2 * x, n),
    "norm": lambda t, x, n: x.norm(n),
    "std": lambda t, x, n: x.std(correction=n - 1),
    "histc": lambda t, x, n: t.histc(x, 3, -n, n),
    "normal_": lambda t, x, n: x.normal_(0, n * 0),
    "arange": lambda t, x, n: t.arange(0, 4, n),
    "fill_diagonal_": lambda t, x, n: t.ones(2, 2).fill_diagonal_(n),
    "attention": lambda t, x, n: t.nn.functional.scaled_dot_product_attention(*[x.view(1, 3, 1)] * 3, scale=n),
    "uniform_": lambda t, x, n: x.uniform_(n, n),
}


@pytest.mark.parametrize("name", OF_A_NUMBER)
def test_a_tensor_without_axes_is_a_number(name):
    def run(torch):
        number, results = torch.tensor(1.5), []
        for _ in range(2):
            results.append(OF_A_NUMBER[name](torch, torch.tensor([-2.0, -1.0, 0.5]), number).tolist())
            number += 1  # it is the number of the call
        # no gradient would reach the first
        for refused in (torch.tensor(1.5, requires_grad=True), torch.tensor([1.5])):
            with pytest.raises(TypeError):
                OF_A_NUMBER[name](torch, torch.tensor([-2.0, -1.0, 0.5]), refused)
        return results

    for mine, other in zip(run(ours), run(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)


def test_conj_physical_of_real_numbers_in_place():
    agree(Case("conj_physical_", lambda t: t.ones(2).long().conj_physical_()), theirs)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.ones(2).gather(0, 1.5),
        lambda t: t.ones(2).index_select(0, 1),
        lambda t: t.einsum(None, t.ones(2)),
        lambda t: t.ones(2).split(True),
        lambda t: t.ones(2).copy_(1.5),
        lambda t: t.ones(2).copy_([1.0, 2.0]),
        lambda t: t.ones(2).resize_(1.5),
        lambda t: t.ones(2).norm(1j),
        lambda t: t.autograd.grad(t.ones(2, requires_grad=True).sum(), [1.5]),
        lambda t: t.nn.Sequential(x for x in ()),
        lambda t: t.nn.functional.mse_loss(t.ones(2), t.ones(2), reduction=[]),
        lambda t: t.as_tensor(np.ma.array([1.0, 2.0], mask=[True, False])),
    ],
)
def test_what_does_not_fit_is_refused_as_in_pytorch(call):
    found = []
    for torch in (ours, theirs):
        try:
            found.append(call(torch).tolist())
        except (RuntimeError, TypeError, ValueError) as error:
            found.append(type(error).__name__)
    assert found[0] == found[1]


def test_a_tangent_is_of_its_tensors_type():
    x = ours.ones(2)
    for dtype in (ours.float64, ours.float16):
        value, tangent = ours.func.jvp(lambda x: x * x, (x,), (ours.ones(2, dtype=dtype),))
        assert tangent.tolist() == [2.0, 2.0] and tangent.dtype is value.dtype
    with pytest.raises(ValueError, match="tangent of a torch.float32 tensor to be real"):
        ours.func.jvp(lambda x: x * x, (x,), (ours.ones(2, dtype=ours.complex64),))


#: what makes a tensor, from a flag
FACTORIES = {
    "ones": lambda t, flag: t.ones(2, requires_grad=flag),
    "empty": lambda t, flag: t.empty(2, requires_grad=flag).shape,
    "new_zeros": lambda t, flag: t.ones(1).new_zeros(2, requires_grad=flag),
    "arange": lambda t, flag: t.arange(2.0, requires_grad=flag),
    "randn": lambda t, flag: t.randn(2, requires_grad=flag).shape,
    "randn_like": lambda t, flag: t.randn_like(t.ones(2), requires_grad=flag).shape,
    "asarray": lambda t, flag: t.asarray([1.0], requires_grad=flag),
}


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
@pytest.mark.parametrize("flag", [1, "yes", np.True_])
def test_whether_a_new_tensor_requires_grad_is_a_truth_value(make, flag):
    for torch in (theirs, ours):
        with pytest.raises(TypeError):
            make(torch, flag)
        make(torch, None), make(torch, True)


def test_a_stride_is_no_iterator():
    for torch in (theirs, ours):
        with pytest.raises(TypeError):
            torch.nn.functional.conv1d(torch.ones(1, 1, 4), torch.ones(1, 1, 2), stride=iter([1]))


#: named arguments that nobody has
UNEXPECTED = {
    "reshape": lambda t, x: x.reshape(12, out=x),
    "uniform_": lambda t, x: x.uniform_(low=1.0, upper=2.0),
    "random_": lambda t, x: x.random_(0, 3, upper=2),
}


@pytest.mark.parametrize("call", UNEXPECTED.values(), ids=UNEXPECTED)
def test_unexpected_names(call):
    for torch in (theirs, ours):
        with pytest.raises(TypeError):
            call(torch, torch.ones(3, 4))
