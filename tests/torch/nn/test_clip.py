"""Clipping gradients, and parameters as one vector, against PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ft
from fgrad.torch.nn import clip, vectors
from tests.torch.optim.table import array, give_gradients, parameters

ORDERS = [2.0, 1.0, 3, 0.0, float("inf"), float("-inf"), 0.5]


def reference() -> Any:
    return pytest.importorskip("torch")


def with_gradients(lib: Any, dtype: str = "float32") -> list[Any]:
    params = parameters(lib, dtype=dtype)
    give_gradients(lib, params, 0, dtype)
    return [*params, lib.ones(2, requires_grad=True)]


def after(module: Any, lib: Any, act: Callable[[Any, list[Any]], Any], dtype: str = "float32") -> list[np.ndarray]:
    """What a function returns, the gradients after it, and how often each was written."""
    params = with_gradients(lib, dtype)
    held = [param.grad for param in params]
    versions = [None if grad is None else grad._version for grad in held]
    result = act(module, params)
    assert all(param.grad is grad for param, grad in zip(params, held, strict=True))
    writes = [grad._version - v for grad, v in zip(held, versions, strict=True) if grad is not None]
    return [*[array(x) for x in (result, *held) if x is not None], np.array(writes)]


def both(act: Callable[[Any, list[Any]], Any], dtype: str = "float32") -> None:
    torch = reference()
    own, theirs = after(clip, ft, act, dtype), after(torch.nn.utils.clip_grad, torch, act, dtype)
    assert len(own) == len(theirs)
    for mine, other in zip(own, theirs, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, rtol=1e-5)


# of a complex tensor, PyTorch's count of non-zeros warns
@pytest.mark.parametrize(
    ("order", "dtype"),
    [(order, dtype) for order in ORDERS for dtype in ("float32", "float64", "complex64") if order or dtype[0] == "f"],
)
@pytest.mark.parametrize("max_norm", [0.5, 100.0, 1])
def test_norm(order: float, max_norm: float, dtype: str):
    both(lambda module, params: module.clip_grad_norm_(params, max_norm, norm_type=order), dtype)


def test_norm_of_generators_and_single_tensors():
    both(lambda module, params: module.clip_grad_norm_((p for p in params), 0.5))
    torch = reference()
    for lib, module in ((ft, clip), (torch, torch.nn.utils.clip_grad)):
        w = lib.ones(2, requires_grad=True)
        w.grad = lib.tensor([3.0, 4.0])
        assert module.clip_grad_norm_(w, 1.0).item() == 5
        np.testing.assert_allclose(array(w.grad), [0.6, 0.8], rtol=1e-5)


def test_norm_of_nothing():
    assert clip.clip_grad_norm_([], 1.0).item() == 0
    assert clip.clip_grad_norm_([ft.ones(1)], 1.0).item() == 0
    with pytest.warns(UserWarning, match="`parameters` is an empty generator, no gradient clipping will occur") as seen:
        clip.clip_grad_norm_((p for p in ()), 1.0)
    assert seen[0].filename == __file__


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_norms_that_are_not_finite(value: float):
    torch = reference()
    texts = []
    for lib, module in ((ft, clip), (torch, torch.nn.utils.clip_grad)):
        w = lib.ones(2, requires_grad=True)
        w.grad = lib.tensor([1.0, value])
        with pytest.raises(RuntimeError) as error:
            module.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)
        texts.append(str(error.value))
        assert w.grad[0].item() == 1
        module.clip_grad_norm_([w], 1.0)
        texts.append(str(w.grad.tolist()))
    assert texts[:2] == texts[2:]


def test_the_two_halves():
    params = with_gradients(ft)
    total = clip.get_total_norm([p.grad for p in params[:3]])
    clip.clip_grads_with_norm_(params, 1.0, total)
    np.testing.assert_allclose(clip.get_total_norm(p.grad for p in params[:3]).item(), 1.0, rtol=1e-5)
    assert clip.get_total_norm(ft.tensor([3.0, 4.0])).item() == 5


def test_value():
    for foreach in (None, True, False):
        both(lambda module, params: module.clip_grad_value_(params, 0.3, foreach=foreach))
    both(lambda module, params: module.clip_grad_value_(params, 1), "float64")


def test_a_gradient_that_stands_there_twice_is_scaled_twice():
    w = ft.ones(1, requires_grad=True)
    w.grad = ft.tensor([4.0])
    clip.clip_grads_with_norm_([w, w], 1.0, ft.tensor(2.0))
    np.testing.assert_allclose(w.grad.item(), 1.0, rtol=1e-5)


def test_the_old_name_warns():
    w = ft.ones(1, requires_grad=True)
    w.grad = ft.tensor([4.0])
    with pytest.warns(FutureWarning, match=r"is now deprecated in favor of `torch\.nn\.utils\.clip_grad_norm_`"):
        assert clip.clip_grad_norm(w, 1.0).item() == 4


def test_no_graph_is_made():
    w = ft.ones(2, requires_grad=True)
    (w * w * w).sum().backward(create_graph=False)
    total = clip.clip_grad_norm_([w], 1.0)
    assert not total.requires_grad
    assert not w.grad.requires_grad


def test_vectors():
    params = parameters(ft)
    vector = vectors.parameters_to_vector(params)
    np.testing.assert_array_equal(array(vector), np.concatenate([array(p).reshape(-1) for p in params]))
    vector.sum().backward()
    assert all(param.grad.eq(1).all() for param in params)
    new = ft.arange(12.0)
    vectors.vector_to_parameters(new, params)
    np.testing.assert_array_equal(array(vectors.parameters_to_vector(params)), np.arange(12))
    assert all(param.is_leaf and param.requires_grad for param in params)
    with pytest.raises(TypeError, match=r"expected torch\.Tensor, but got: list"):
        vectors.vector_to_parameters([1.0], params)
