"""What is no tensor is refused by name, as in PyTorch, whatever function it is handed to."""

from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch as torch

X = torch.ones(2, 2)
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "function": (lambda: torch.flatten(None), "flatten(): argument 'input' (position 1) must be Tensor, not NoneType"),
    "by name": (lambda: torch.rand_like(input=3), "rand_like(): argument 'input' (position 1) must be Tensor, not int"),
    "in place": (lambda: torch.zero_(3), "zero_(): argument 'input' (position 1) must be Tensor, not int"),
    "no array": (lambda: torch.from_jax(1), "from_jax(): argument 'array' must be an array of JAX or NumPy, not int"),
    "no tensor": (lambda: torch.to_jax(1.5), "to_jax(): argument 'tensor' (position 1) must be Tensor, not float"),
    "of several": (lambda: torch.cartesian_prod(X[0], "x"), "expected Tensor as element 1 in argument 0, but got str"),
    "of a method": (lambda: X.type_as(5), "type_as(): argument 'other' (position 1) must be Tensor, not int"),
    "of another namespace": (
        lambda: torch.nn.functional.kl_div(None, X),
        "kl_div(): argument 'input' (position 1) must be Tensor, not NoneType",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_is_refused_by_name(name: str):
    call, message = CALLS[name]
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).split("\n")[0] == message


@pytest.mark.parametrize("call", [X.float, X.contiguous, X.is_contiguous])
def test_what_is_no_memory_format(call: Callable[..., Any]):
    with pytest.raises(TypeError, match=r"argument 'memory_format' must be torch\.memory_format, not int"):
        call(memory_format=5)


def test_attributes_that_a_users_own_object_lacks_are_its_own():
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AttributeError("mine")

    with pytest.raises(AttributeError, match="mine"):
        torch.flatten(torch.ones(2).as_subclass(Mine))


class Broken:
    """Lacks what its own methods read."""

    def __call__(self, value: Any) -> Any:
        return value * self.factor  # type: ignore[attr-defined]

    def __index__(self) -> int:
        return self.size  # type: ignore[attr-defined]


@pytest.mark.parametrize("call", [lambda x: torch.zeros(x), X.sum, X.view, torch.ones(2).apply_])
def test_errors_of_a_users_own_code_stay(call: Callable[[Any], Any]):
    with pytest.raises(AttributeError, match="'Broken' object has no attribute"):
        call(Broken())
