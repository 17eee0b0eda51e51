"""Questions on what cannot be asked about: the error names the question, the argument and the way out."""

import jax
import jax.numpy as jnp
import pytest

import fgrad
import fgrad.torch as torch


def loss(w, x):
    return jnp.sum(jnp.tanh(w["a"] * x))


def compared(fun):
    return fgrad.compare(fun, fun)


NUMBERS = {"nonfinite": fgrad.nonfinite, "watch": fgrad.watch, "why_zero": fgrad.why_zero, "compare": compared}
TYPES = {"residuals": fgrad.residuals, "draw": fgrad.draw, "compile_cost": fgrad.compile_cost}
X = jnp.ones(3)


@pytest.mark.parametrize("name", [*NUMBERS, *TYPES])
def test_no_function(name):
    with pytest.raises(TypeError, match=f"{name}(: one)? takes a function, got 3 of type int"):
        (NUMBERS | TYPES)[name](3)(X)


def test_only_the_second_program_may_be_recorded_gradients():
    with pytest.raises(TypeError, match="compare: one takes a function, got {}"):
        fgrad.compare({}, loss)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("transform", [jax.jit, fgrad.jit, fgrad.grad])
def test_numbers_that_are_not_known(name, transform):
    def asking(w):
        NUMBERS[name](loss)({"a": w}, X)
        return jnp.sum(w)

    with pytest.raises(TypeError, match=rf"{name} looks at numbers, and those of w\['a'\] are not known here"):
        transform(asking)(X)


@pytest.mark.parametrize("name", NUMBERS)
def test_types_in_the_place_of_numbers(name):
    with pytest.raises(TypeError, match=rf"{name} looks at numbers, and of w\['a'\] only the type was given"):
        NUMBERS[name](loss)({"a": jax.ShapeDtypeStruct((3,), "float32")}, X)


@pytest.mark.parametrize("name", sorted({*NUMBERS, *TYPES} - {"compare"}))
def test_tensors_in_the_place_of_arrays(name):
    with pytest.raises(fgrad.errors.ArgumentTypeError, match=r"of type Tensor.\nWays out: pass its numbers, x\.detach"):
        (NUMBERS | TYPES)[name](loss)({"a": torch.ones(3)}, X)


@pytest.mark.parametrize("name", [*NUMBERS, *TYPES])
def test_arguments_that_do_not_fit(name):
    question = (NUMBERS | TYPES)[name]
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'x'"):
        question(loss)({"a": X})
    with pytest.raises(TypeError, match=r"(?s)incompatible shapes.*test_bad_input.py:\d+ \(in loss\)"):
        question(loss)({"a": X}, jnp.ones(4))


@pytest.mark.parametrize("name", sorted({*NUMBERS, *TYPES} - {"nonfinite", "watch"}))  # which hand it on as it is
def test_what_is_no_array(name):
    with pytest.raises(fgrad.errors.ArgumentTypeError, match=r"is not an array or a number but <object object"):
        (NUMBERS | TYPES)[name](loss)({"a": object()}, X)
