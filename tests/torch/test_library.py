"""``torch.library``: operators made of functions, their schemas, derivatives and rules for ``vmap``."""

import typing
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")

X = np.array([1.0, 2.0], np.float32)


def _function(torch: Any, annotations: dict[str, Any], body: Any) -> Any:
    """A function of x, k and s with annotations of a library's own types."""

    def function(x, k=2.0, *, s=1):
        return body(x, k, s)

    function.__annotations__ = {"x": torch.Tensor, "k": float, "s": int, "return": torch.Tensor} | annotations
    return function


def _sine(torch: Any, name: str) -> Any:
    def body(x, k, s):
        return torch.from_numpy(np.sin(x.numpy() * np.float32(k)) * s)

    return torch.library.custom_op(f"fgrad_tests::{name}", _function(torch, {}, body), mutates_args=())


def _derived(torch: Any, name: str, seen: list[Any]) -> Any:
    made = _sine(torch, name)

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        seen.append((len(inputs), dict(keyword_only_inputs), tuple(ctx.needs_input_grad)))
        ctx.save_for_backward(inputs[0])
        ctx.k, ctx.s = inputs[1], keyword_only_inputs["s"]

    def backward(ctx, grad):
        seen.append(tuple(ctx.needs_input_grad))
        (x,) = ctx.saved_tensors
        return grad * ctx.k * (x * ctx.k).cos() * ctx.s, None

    made.register_autograd(backward, setup_context=setup_context)
    return made


def _called(torch: Any, x: Any) -> list[Any]:
    made = _sine(torch, "called")
    return [repr(made), made(x), made(x, 3), made(x, k=1, s=3), torch.ops.fgrad_tests.called(x)]


def _differentiated(torch: Any, x: Any) -> list[Any]:
    seen: list[Any] = []
    made = _derived(torch, "differentiated", seen)
    x.requires_grad_()
    y = made(x, 3.0, s=2)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(g.sum(), x)
    made(x).sum().backward()
    return [y, y.grad_fn.name(), g, second, x.grad, str(seen)]


def _lists(torch: Any, x: Any) -> list[Any]:
    seen: list[Any] = []

    def two(xs, ys, z=None):
        return xs[0] * 2, [v * 3 for v in xs], len(ys)

    tensors = typing.List[torch.Tensor]  # noqa: UP006
    two.__annotations__ = {
        "xs": tensors, "ys": typing.Sequence[int], "z": torch.Tensor | None,
        "return": tuple[torch.Tensor, tensors, int],
    }  # fmt: skip

    def setup_context(ctx, inputs, output):
        seen.append((len(inputs), len(output), type(output[1]).__name__))

    def backward(ctx, a, bs, c):
        seen.append((ctx.needs_input_grad, c))
        return [a * 2 + bs[0] * 3, bs[1] * 3], None

    made = torch.library.custom_op("fgrad_tests::two", two, mutates_args=())
    torch.library.register_autograd("fgrad_tests::two", backward, setup_context=setup_context)
    leaf = x.clone().requires_grad_()
    a, bs, n = made([leaf, x], (1, 2))
    (a.sum() + bs[0].sum() * 5).backward()
    return [a, *bs, n, leaf.grad, str(seen)]


def _mapped(torch: Any, x: Any) -> list[Any]:
    made = _sine(torch, "mapped")
    batch = torch.stack([x, x + 1, x * 2])
    plain = torch.func.vmap(made)(batch)
    dims: list[Any] = []

    @made.register_vmap
    def rule(info, in_dims, x, k=2.0):
        dims.append((info.batch_size, in_dims))
        return made(x, k), in_dims[0]

    return [plain, torch.func.vmap(made)(batch), str(dims)]


def _written(torch: Any, x: Any) -> list[Any]:
    def doubled(x):
        x.mul_(2)

    doubled.__annotations__ = {"x": torch.Tensor, "return": None}
    made = torch.library.custom_op("fgrad_tests::doubled", doubled, mutates_args={"x"})
    return [made(x), x, x._version, torch.library.infer_schema(doubled, mutates_args="unknown", op_name="doubled")]


def _other_kernel(torch: Any, x: Any) -> Any:
    made = _sine(torch, "other")
    made.register_kernel("cpu")(lambda x, k=2.0, *, s=1: x + 1)
    made.register_fake(lambda x, k=2.0, *, s=1: torch.empty_like(x))
    return made(x)


def _written_derivative(torch: Any) -> Any:
    function = _function(torch, {}, lambda x, k, s: x + 1)
    made = torch.library.custom_op("fgrad_tests::written", function, mutates_args={"x"})
    return made.register_autograd(lambda ctx, grad: grad)


def _unstructured(torch: Any, x: Any) -> Any:
    return _sine(torch, "without")(x.requires_grad_()).sum().backward()


def _schema(torch: Any, **annotations: Any) -> str:
    return torch.library.infer_schema(_function(torch, annotations, None), mutates_args=())


CASES = [
    Case("called", _called, (X,)),
    Case("differentiated", _differentiated, (X,)),
    Case("lists", _lists, (X,)),
    Case("mapped", _mapped, (X,)),
    Case("written", _written, (X,)),
    Case("another kernel", _other_kernel, (X,)),
    Case("without a derivative", _unstructured, (X,)),
    Case("a derivative of what writes", _written_derivative),
    Case("no argument", lambda torch: _sine(torch, "e1")()),
    Case("a number for a tensor", lambda torch: _sine(torch, "e2")(3)),
    Case("a list for a tensor", lambda torch: _sine(torch, "e3")([3])),
    Case("a string for a number", lambda torch, x: _sine(torch, "e4")(x, "a"), (X,)),
    Case("a fraction for an integer", lambda torch, x: _sine(torch, "e5")(x, s=2.5), (X,)),
    Case("too many", lambda torch, x: _sine(torch, "e6")(x, 1, 2), (X,)),
    Case("an unknown name", lambda torch, x: _sine(torch, "e7")(x, q=2), (X,)),
    Case("an unknown operator", lambda torch: (_sine(torch, "e8"), torch.ops.fgrad_tests.nothing)),
    Case("not annotated", lambda torch: torch.library.infer_schema(lambda x: x, mutates_args=())),
    Case("a tensor or None", lambda torch: _schema(torch, k=torch.Tensor | None)),
    Case("written and unknown", lambda torch: torch.library.infer_schema(_function(torch, {}, None), mutates_args="x")),
    *[Case(f"of {kind}", lambda torch, kind=kind: _schema(torch, k=kind))
      for kind in (int, bool, str, list[int], int | None, typing.Sequence[float], list[bool] | None)],
    *[Case(f"gives {kind}", lambda torch, kind=kind: _schema(torch, **{"return": kind}))
      for kind in (int, float, bool, None, tuple[int], tuple[int, float])],
    Case("types of its own", lambda torch: _schema(torch, k=torch.dtype, s=torch.device)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operators_are_pytorchs(case):
    agree(case, torch)


@pytest.mark.parametrize("t", [ours, torch])
def test_a_schema_is_written_instead_of_inferred(t):
    def scaled(x, factors=(1.0, 2.0), *, add=None):
        return [x * factor + add for factor in factors], x.sum()

    written = "(Tensor x, float[] factors=[1.0, 2.0], *, int? add=None) -> (Tensor[], Tensor)"
    op = t.library.custom_op("library_test::scaled", scaled, mutates_args=(), schema=written)
    (once, twice), total = op(t.ones(2), add=3)
    assert (once.tolist(), twice.tolist(), total.item()) == ([4.0, 4.0], [5.0, 5.0], 2.0)


@pytest.mark.parametrize("t", [ours, torch])
def test_an_operator_with_a_written_schema_writes_its_argument(t):
    def raised(x):
        x.add_(1)

    op = t.library.custom_op("library_test::raised", raised, mutates_args="x", schema="(Tensor(a!) x) -> ()")
    x = t.zeros(2)
    op(x)
    assert x.tolist() == [1.0, 1.0] and x._version == 2


@pytest.mark.parametrize("wrong", ["Tensor x -> Tensor", "(Tensor) -> Tensor"])
def test_what_is_no_schema(wrong):
    with pytest.raises(RuntimeError, match="in a schema is written as|a schema is written as"):
        ours.library.custom_op("library_test::wrong", len, mutates_args=(), schema=wrong)


def test_an_argument_that_is_returned_is_refused():
    made = ours.library.custom_op("fgrad_tests::same", _function(ours, {}, lambda x, k, s: x), mutates_args=())
    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        made(ours.ones(1))


def test_operators_are_differentiated_inside_of_transformations():
    made = _derived(ours, "inside", [])
    x = ours.tensor(X)
    expected = 2 * (2 * x).cos()
    assert ours.allclose(ours.func.grad(lambda x: made(x).sum())(x), expected)
    assert ours.allclose(ours.func.jacrev(made)(x).diagonal(), expected)


@pytest.mark.parametrize("name", ["elementwise", "signal", "families"])
def test_a_namespace_of_the_library_itself_is_refused(name):
    with pytest.raises(RuntimeError, match="choose another namespace"):
        ours.library.custom_op(f"{name}::mine", _function(ours, {}, lambda x, k, s: x + 1), mutates_args=())


def test_a_wrong_number_of_lists_of_gradients_is_refused():
    def listed(xs):
        return xs[0] * 2

    listed.__annotations__ = {"xs": list[ours.Tensor], "return": ours.Tensor}
    made = ours.library.custom_op("fgrad_tests::listed", listed, mutates_args=())
    made.register_autograd(lambda ctx, grad: grad)
    with pytest.raises(RuntimeError, match="of the same structure as the inputs"):
        made([ours.ones(1, requires_grad=True)]).backward()


def test_an_operator_that_no_one_made():
    with pytest.raises(RuntimeError, match="no operator"):
        ours.library.register_vmap("fgrad_tests::unheard_of", lambda x: x)
    # a library does this for what it has in machine code
    assert ours.library.register_fake("fgrad_tests::unheard_of")(len) is len
    with pytest.raises(ValueError, match="unexpected type for op"):
        ours.library.register_vmap(3)


def test_written_schemas():
    def op(schema: str, mutates_args: Any = ()) -> Any:
        return ours.library.custom_op("library_tests::written", lambda x, s="": x.clone(), mutates_args=mutates_args,
                                       schema=schema)  # fmt: skip

    op("(Tensor x, str s='a,b') -> Tensor")
    with pytest.raises(RuntimeError, match="is not a literal of Python's"):
        op("(Tensor x, bool b=foo) -> Tensor")
    with pytest.raises(ValueError, match=r"by the schema the operator writes \[\]"):
        op("(Tensor x) -> Tensor", mutates_args=("x",))
