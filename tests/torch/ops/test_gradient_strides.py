"""Where the gradients of products lie in memory, against real torch."""

from typing import Any

import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch")


def _rows(torch: Any, *shape: int) -> tuple[Any, Any]:
    leaf = torch.arange(float(shape[0] * shape[1])).sin().reshape(shape).requires_grad_()
    return leaf, leaf


def _transposed(torch: Any, *shape: int) -> tuple[Any, Any]:
    leaf, _ = _rows(torch, *shape[::-1])
    return leaf, leaf.t()


def _columns(torch: Any, *shape: int) -> tuple[Any, Any]:
    leaf = _rows(torch, *shape[::-1])[0].detach().t().requires_grad_()
    return leaf, leaf


def _with_gaps(torch: Any, *shape: int) -> tuple[Any, Any]:
    leaf, _ = _rows(torch, shape[0], 2 * shape[1])
    return leaf, leaf[:, ::2]


#: how an operand may lie in memory: a leaf, and the operand made of it
LIES = {"rows": _rows, "transposed": _transposed, "columns": _columns, "with gaps": _with_gaps}

#: products, and the shapes of their operands
PRODUCTS = {
    "mm": (lambda torch, a, b: a @ b, (3, 4), (4, 5)),
    "mm of a row": (lambda torch, a, b: a @ b, (1, 4), (4, 5)),
    "mm of a column": (lambda torch, a, b: a @ b, (3, 1), (1, 5)),
    "mm to a column": (lambda torch, a, b: a @ b, (3, 4), (4, 1)),
    "addmm": (lambda torch, a, b: torch.addmm(torch.ones(5), a, b), (3, 4), (4, 5)),
    "scaled addmm": (lambda torch, a, b: torch.addmm(torch.ones(5), a, b, beta=2, alpha=3), (3, 4), (4, 5)),
    "linear": (lambda torch, a, b: torch.nn.functional.linear(a, b, torch.ones(5)), (3, 4), (5, 4)),
    "linear without bias": (lambda torch, a, b: torch.nn.functional.linear(a, b), (3, 4), (5, 4)),
    "a batch times a matrix": (lambda torch, a, b: torch.stack([a, a]) @ b, (3, 4), (4, 5)),
    "a matrix times a batch": (lambda torch, a, b: a @ torch.stack([b, b]), (3, 4), (4, 5)),
    "mv": (lambda torch, a, b: a @ b[:, 0], (3, 4), (4, 5)),
    "tensordot": (lambda torch, a, b: torch.tensordot(a, b, 1), (3, 4), (4, 5)),
    "einsum": (lambda torch, a, b: torch.einsum("ij,kj->ik", a, b), (3, 4), (5, 4)),
    "einsum turned round": (lambda torch, a, b: torch.einsum("ij,jk->ki", a, b), (3, 4), (4, 5)),
    "multi_dot": (lambda torch, a, b: torch.linalg.multi_dot([a, b, b.t()]), (3, 4), (4, 5)),
}


def _lie_of(gradient: Any) -> Any:
    """The strides of a gradient, whether it is contiguous, and its view as a vector, None for an error."""
    try:
        flat = gradient.view(-1).tolist()
    except RuntimeError:
        flat = None
    return gradient.stride(), gradient.is_contiguous(), flat


@pytest.mark.parametrize("of_b", LIES)
@pytest.mark.parametrize("of_a", LIES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_gradients_of_products(name: str, of_a: str, of_b: str):
    def run(torch: Any) -> Any:
        product, *shapes = PRODUCTS[name]
        (a, x), (b, y) = (LIES[lie](torch, *shape) for lie, shape in zip((of_a, of_b), shapes, strict=True))
        loss = product(torch, x, y).sum()
        found = [*torch.autograd.grad(loss, (a, b), retain_graph=True)]
        loss.backward()
        return [_lie_of(g) for g in (*found, a.grad, b.grad)]

    for found, wanted in zip(run(ours), run(theirs), strict=True):
        assert found[:2] == wanted[:2]
        assert found[2] == (None if wanted[2] is None else pytest.approx(wanted[2], abs=1e-5))


@pytest.mark.parametrize(
    "lies", [("rows", "rows"), ("transposed", "rows"), ("columns", "transposed")], ids=" and ".join
)
@pytest.mark.parametrize("name", ["mm", "addmm", "linear", "linear without bias"])
def test_gradients_of_gradients(name: str, lies: tuple[str, str]):
    def run(torch: Any) -> Any:
        product, *shapes = PRODUCTS[name]
        (a, x), (b, y) = (LIES[lie](torch, *shape) for lie, shape in zip(lies, shapes, strict=True))
        first = torch.autograd.grad(product(torch, x, y).pow(2).sum(), (a, b), create_graph=True)
        found = (*first, *torch.autograd.grad(sum(g.pow(2).sum() for g in first), (a, b)))
        return [_lie_of(g)[:2] for g in found]

    assert run(ours) == run(theirs)


#: equations whose axes of the second operand stand before those of the first, among them, or after them
EQUATIONS = [
    "ij,jk->ki",
    "ij,jk->ik",
    "ijl,kjb->kbil",
    "ijl,kjb->kilb",
    "ijl,kjb->ikbl",
    "bij,bjk->bki",
    "bij,bjk->kib",
]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_products_of_einsum(equation: str):
    sizes = {"b": 2, "i": 3, "j": 4, "k": 5, "l": 6}

    def run(torch: Any) -> Any:
        labels = equation.split("->")[0].split(",")
        a, b = (torch.ones([sizes[c] for c in each]).requires_grad_() for each in labels)
        made = torch.einsum(equation, a, b)
        return [x.stride() for x in (made, *torch.autograd.grad(made.pow(2).sum(), (a, b)))]

    assert run(ours) == run(theirs)


#: functions of a transposed leaf whose gradient is expanded when it comes in, and then multiplied by what was saved
ELEMENTWISE = {
    "exp": lambda torch, x: x.exp(),
    "a power": lambda torch, x: x**2,
    "a product": lambda torch, x: x * torch.ones(3, 2).t(),
    "a product with itself": lambda torch, x: x * x,
    "a product with rows": lambda torch, x: x * torch.ones(2, 3),
    "a quotient": lambda torch, x: x / torch.ones(3, 2).t(),
    "tanh": lambda torch, x: x.tanh(),
    "twice": lambda torch, x: x.t().sin() * 2,
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_gradients_of_elementwise_functions(name: str, create_graph: bool):
    def run(torch: Any) -> Any:
        x = torch.arange(6.0).view(3, 2).requires_grad_()
        loss = ELEMENTWISE[name](torch, x.t()).sum()
        return _lie_of(torch.autograd.grad(loss, x, create_graph=create_graph)[0])

    (*found, flat), (*wanted, elements) = run(ours), run(theirs)
    assert found == wanted
    assert flat == (None if elements is None else pytest.approx(elements, rel=1e-5))


def test_gradients_of_a_layer_are_joined_in_one_vector():
    """As for products with the Hessian, and in TRPO and DARTS."""

    def run(torch: Any) -> Any:
        layer = torch.nn.Linear(3, 2)
        with torch.no_grad():
            layer.weight.copy_(torch.arange(6.0).view(2, 3))
            layer.bias.zero_()
        loss = layer(torch.arange(12.0).view(4, 3)).pow(2).mean()
        return torch.cat([g.view(-1) for g in torch.autograd.grad(loss, layer.parameters())]).tolist()

    assert run(ours) == pytest.approx(run(theirs))


def test_gradients_of_a_compiled_function():
    factor, _ = _columns(ours, 3, 4)
    compiled = ours.compile(lambda x: (x @ factor).pow(2).sum())
    for _ in range(3):
        (found,) = ours.autograd.grad(compiled(ours.ones(5, 3)), factor)
        assert found.stride() == (1, 3)


#: functions whose gradients lie in memory as the saved tensor, and some whose gradients lie as the incoming one
MASKED = {
    "relu": lambda torch, x: torch.relu(x),
    "leaky_relu": lambda torch, x: torch.nn.functional.leaky_relu(x),
    "threshold": lambda torch, x: torch.nn.functional.threshold(x, 0.1, 0),
    "clamp": lambda torch, x: x.clamp(0, 2),
    "clamp_min": lambda torch, x: x.clamp_min(0),
    "clamp_max": lambda torch, x: x.clamp_max(2),
    "elu": lambda torch, x: torch.nn.functional.elu(x),
    "tanh": lambda torch, x: x.tanh(),
    "product": lambda torch, x: x * 2,
}


@pytest.mark.parametrize("function", MASKED)
@pytest.mark.parametrize("lies", LIES)
def test_gradients_that_lie_as_what_is_saved(function, lies):
    def run(torch: Any) -> Any:
        _, x = LIES[lies](torch, 3, 2)
        incoming = [torch.ones(2, 3).t(), torch.ones(3, 2), torch.ones(1, 1).expand(3, 2)]
        y = MASKED[function](torch, x * 1)
        return [torch.autograd.grad(y, x, g, retain_graph=True)[0].stride() for g in incoming]

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("name", ["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"])
def test_a_gradient_that_an_operation_makes_is_new(name: str):
    """It can be written, also where the result's gradient is one number for all elements."""

    def run(torch: Any) -> Any:
        x = torch.ones(1, 4, 2, 2, requires_grad=True)
        (gradient,) = torch.autograd.grad(getattr(torch, name)(x, 2).sum(), x)
        return gradient.stride(), gradient.mul_(2).view(-1).tolist()

    assert run(ours) == run(theirs)
