"""What a tensor prints, against PyTorch: any dtype, size and values, under any options."""

import itertools
import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from fgrad.mutable.types import dtypes
from fgrad.mutable.types.devices import device
from fgrad.torch import printing
from fgrad.torch.printing import options as own_options

torch = pytest.importorskip("torch")

HELD = [each for each in dtypes.ALL if each is not dtypes.complex32]
FLOATING = [each for each in HELD if each.is_floating_point]
#: sizes at which the form of numbers changes, and numbers around them
EDGES = [0.0, -0.0, 1.0, 0.5, 1e-4, 9.9e-5, 1000.0, 1001.0, 999.9, 1e8, 1.1e8, 1e-8, 65504.0, 6e-8, 0.99995, 9.99995]
EDGES += [math.inf, -math.inf, math.nan, 1e30, 5e-324, 123456.0, 2.0**53]


@pytest.fixture(autouse=True)
def restored():
    """Whatever a test sets is set back, in both."""
    yield
    reset()


def reset():
    for each in (printing, torch):
        each.set_printoptions(profile="default")
    dtypes.set_default_dtype(dtypes.float32)
    torch.set_default_dtype(torch.float32)


def numbers(of):
    """Numbers for a tensor of a dtype, as NumPy or Python holds them."""
    if of is dtypes.bool_:
        return st.booleans()
    if of.is_complex:
        return st.builds(complex, numbers(of.to_real()), numbers(of.to_real()))
    if of.is_floating_point:
        return st.one_of(
            st.integers(-2000, 2000).map(float),
            st.floats(-10, 10).map(lambda x: round(x, 3)),
            st.sampled_from(EDGES),
            st.sampled_from(EDGES).map(lambda x: -x),
            st.floats(),
        )
    limits = np.iinfo(of.numpy)
    return st.one_of(st.integers(0, 100), st.integers(int(limits.min), int(limits.max)))


@st.composite
def arrays(draw):
    """A dtype and an array of such numbers."""
    of = draw(st.sampled_from(HELD))
    shape = draw(st.one_of(array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9), st.just((1001,))))
    pool = draw(st.lists(numbers(of), min_size=1, max_size=8))
    order = np.random.default_rng(draw(st.integers(0, 99))).integers(len(pool), size=shape)
    with np.errstate(all="ignore"):
        return of, np.asarray(np.array(pool, dtype="c16" if of.is_complex else None).astype(of.numpy)[order])


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 8),
        "threshold": st.sampled_from([0, 5, 20, 1000, math.inf]),
        "edgeitems": st.integers(0, 4),
        "linewidth": st.integers(10, 130),
        "profile": st.sampled_from(["default", "short", "full"]),
        "sci_mode": st.sampled_from([None, True, False]),
    },
)


def theirs(of, values):
    """The same tensor in PyTorch."""
    if of is dtypes.bfloat16:
        return torch.from_numpy(values.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(values)


@hypothesis.settings(deadline=None, max_examples=400)
@hypothesis.given(arrays(), OPTIONS, st.sampled_from(FLOATING), st.booleans())
def test_prints_as_pytorch(tensor, options, default, requires_grad):
    of, values = tensor
    other = theirs(of, values)
    requires_grad = requires_grad and (of.is_floating_point or of.is_complex)
    other.requires_grad_(requires_grad)
    try:
        dtypes.set_default_dtype(default)
        torch.set_default_dtype(getattr(torch, default.name))
        printing.set_printoptions(**options)
        torch.set_printoptions(**options)
        text = printing.tensor_text(values, shape=values.shape, dtype=of, requires_grad=requires_grad)
        assert text == str(other)
    finally:
        reset()


@pytest.mark.parametrize("of", [dtypes.float32, dtypes.float64], ids=str)
def test_pairs_of_numbers_at_which_the_form_changes(of):
    for one, other in itertools.product(EDGES, repeat=2):
        with np.errstate(all="ignore"):
            values = np.array([one, -other, 1.5]).astype(of.numpy)
        for part in (values, values[:2], values[:1].reshape(())):
            assert printing.tensor_text(part, shape=part.shape, dtype=of) == str(torch.from_numpy(part.copy())), part


@hypothesis.settings(deadline=None, max_examples=100)
@hypothesis.given(arrays(), st.integers(20, 130))
def test_suffixes_break_lines_as_in_pytorch(tensor, linewidth):
    of, values = tensor
    hypothesis.assume(of.is_floating_point or of.is_complex)
    other = theirs(of, values).requires_grad_().clone()
    try:
        printing.set_printoptions(linewidth=linewidth)
        torch.set_printoptions(linewidth=linewidth)
        text = printing.tensor_text(values, shape=values.shape, dtype=of, grad_fn="CloneBackward0")
        assert text == str(other)
    finally:
        reset()


@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 0)])
@pytest.mark.parametrize("of", HELD, ids=str)
def test_without_elements_to_show(shape, of):
    other = torch.empty(shape, dtype=getattr(torch, of.name), device="meta")
    assert printing.tensor_text(None, shape=shape, dtype=of, device=device("meta")) == str(other)


def test_devices_are_shown():
    one = np.ones((), "f4")
    text = printing.tensor_text(one, shape=(), dtype=dtypes.float32, device=device("cuda:1"), requires_grad=True)
    assert text == "tensor(1., device='cuda:1', requires_grad=True)"


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_tangents():
    ones, values = np.ones((2, 2), "f4"), np.linspace(0, 1, 4, dtype="f4").reshape(2, 2)
    with torch.autograd.forward_ad.dual_level():
        other = str(torch.autograd.forward_ad.make_dual(torch.from_numpy(values), torch.from_numpy(ones)))
    tangent = printing.tensor_text(ones, shape=(2, 2), dtype=dtypes.float32)
    assert printing.tensor_text(values, shape=(2, 2), dtype=dtypes.float32, tangent=tangent) == other


def test_subclasses_and_given_contents():
    class Temperature(torch.Tensor):
        pass

    values = np.full((3, 40), 1.5, "f4")
    other = torch.from_numpy(values).as_subclass(Temperature)
    own = {"shape": values.shape, "dtype": dtypes.float32, "class_name": "Temperature"}
    assert printing.tensor_text(values, **own) == str(other)
    assert printing.tensor_text(values, contents="warm", **own) == other.__repr__(tensor_contents="warm")


def test_wrappers_of_transformations(capsys):
    def loss(x):
        print(x)
        return x.sum()

    torch.func.vmap(torch.func.grad(loss))(torch.ones(2, 2))
    inner = printing.tensor_text(np.ones((2, 2), "f4"), shape=(2, 2), dtype=dtypes.float32)
    batched = printing.wrapped_text("BatchedTensor", inner, lvl=1, bdim=0)
    assert capsys.readouterr().out == printing.wrapped_text("GradTrackingTensor", batched, lvl=2) + "\n"


@pytest.mark.parametrize(
    "calls",
    [
        [{"precision": 2, "sci_mode": True}, {"precision": 3}],
        [{"profile": "short"}, {"profile": "full", "linewidth": 40}],
        [{"profile": "short"}, {"profile": "unheard of", "edgeitems": 5}],
        [{"edgeitems": 0, "threshold": 0}],
    ],
)
def test_options(calls):
    for options in calls:
        printing.set_printoptions(**options)
        torch.set_printoptions(**options)
    assert printing.get_printoptions() == torch._tensor_str.get_printoptions()


def test_options_within_a_block():
    with pytest.raises(ZeroDivisionError), printing.printoptions(precision=1, sci_mode=True):
        text = printing.tensor_text(np.array(1.5, "f4"), shape=(), dtype=dtypes.float32)
        assert text == "tensor(1.5e+00)"
        raise ZeroDivisionError
    assert own_options.current() == own_options.PrintOptions()
