"""Functions that read elements, inside ``vmap``: each example by itself, as PyTorch's."""

import warnings

import pytest

import fgrad.torch

torch = pytest.importorskip("torch")

CASES = {
    "histc": lambda t, x: t.vmap(lambda a: t.histc(a, 3, 0, 5))(x),
    "histogram": lambda t, x: t.vmap(lambda a: tuple(t.histogram(a, 3)))(x)[1],
    "bincount": lambda t, x: t.vmap(lambda a: t.bincount(a.long(), minlength=6))(x),
    "weights": lambda t, x: t.vmap(lambda a: t.bincount(t.tensor([0, 1, 1]), a))(x),
    "nested": lambda t, x: t.vmap(t.vmap(lambda a, b: t.histc(a + b[None], 2, 0, 9), (None, 0)))(x, x),
    "linspace": lambda t, x: t.vmap(lambda a: t.linspace(a, a + 2, 3))(x[0]),
    "logspace": lambda t, x: t.vmap(lambda a: t.logspace(a, 2, 3))(x[0]),
    "not mapped": lambda t, x: t.vmap(lambda a: a + t.histc(x[0], 3))(x),
}


@pytest.mark.parametrize("name", CASES)
def test_each_example(name):
    shown = []
    for t in (torch, fgrad.torch):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = CASES[name](t, t.arange(6.0).reshape(2, 3))
        shown.append((tuple(result.shape), str(result.dtype), result.flatten().tolist(), bool(caught)))
    (shape, dtype, elements, warned), theirs = shown[1], shown[0]
    assert (shape, dtype.replace("fgrad.", ""), warned) == (theirs[0], theirs[1], theirs[3])
    assert elements == pytest.approx(theirs[2])


@pytest.mark.parametrize("randomness", ["different", "same"])
@pytest.mark.parametrize("mapped", [(0, 0), (0, None)], ids=("mapped", "shared"))
def test_probabilities_of_examples(randomness, mapped):
    """``bernoulli_`` with a tensor of probabilities draws in the order of the examples' memory."""

    def draw(t):
        t.manual_seed(0)
        p = t.arange(12.0).reshape(2, 3, 2) / 12
        written = t.vmap(lambda x, p: x.T.bernoulli_(p), in_dims=mapped, randomness=randomness)
        try:
            return written(t.zeros(2, 2, 3), p if mapped[1] == 0 else p[1]).tolist(), t.rand(1).item()
        except RuntimeError as error:
            return str(error).splitlines()[0]

    assert draw(fgrad.torch) == draw(torch)


@pytest.mark.parametrize("randomness", ["different", "same"])
@pytest.mark.parametrize("name", ["uniform_", "normal_", "exponential_"])
def test_drawn_into_transposed_examples(name, randomness):
    """What is drawn once for all examples is drawn in their order, not in that of their memory."""

    def draw(t):
        t.manual_seed(0)
        return t.vmap(lambda x: getattr(x.T, name)(), randomness=randomness)(t.zeros(2, 2, 3)).flatten().tolist()

    assert draw(fgrad.torch) == pytest.approx(draw(torch))
