"""``torch.utils.checkpoint`` against PyTorch: gradients, how often the function runs, errors."""

import functools
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
import fgrad.torch.utils.checkpoint as checkpoints
from fgrad.mutable.values.evaluation import Routine
from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")
pytest.importorskip("torch.utils.checkpoint")

X = np.array([0.5, -1.0, 2.0], "float32")
W = np.array([1.5, 0.25, -2.0], "float32")


def of(t: Any) -> Any:
    return t.utils.checkpoint


def inner(t: Any, x: Any, y: Any, reentrant: bool) -> Any:
    return of(t).checkpoint(lambda z: (z * y).sin().cos(), x, use_reentrant=reentrant).exp() * x


FUNCTIONS = {
    "chain": lambda t, x, y: (x * y).sin().exp(),
    "dropout": lambda t, x, y: t.nn.functional.dropout(x * y).sin(),
    "tuple": lambda t, x, y: ((x * y).sin(), x),
    "singular values": lambda t, x, y: t.linalg.svd((x * y).sin().reshape(-1, 1))[1],
    "nested": lambda t, x, y: inner(t, x, y, False),
    "nested reentrant": lambda t, x, y: inner(t, x, y, True),
}
OPTIONS: list[dict[str, Any]] = [
    {"use_reentrant": True},
    {"use_reentrant": False},
    {"use_reentrant": False, "early_stop": False},
    {"use_reentrant": False, "preserve_rng_state": True},
    {"use_reentrant": False, "determinism_check": "none"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_and_runs(name: str, options: dict[str, Any]) -> None:
    def run(t: Any, x: Any, w: Any) -> Any:
        x.requires_grad_()
        w.requires_grad_()
        t.manual_seed(1)
        runs = [0]

        def function(a: Any, b: Any) -> Any:
            runs[0] += 1
            return FUNCTIONS[name](t, a, b)

        out = of(t).checkpoint(function, x, w, **options)
        out = out[0] if isinstance(out, tuple) else out
        forward = runs[0]
        out.sum().backward()
        return out, x.grad, w.grad, forward, runs[0]

    agree(Case(name, run, (X, W)), torch)


def retained(t: Any, x: Any) -> Any:
    out = of(t).checkpoint(lambda a: a.sin().exp(), x.requires_grad_(), use_reentrant=False).sum()
    out.backward(retain_graph=True)
    out.backward()
    return x.grad


def twice(t: Any, x: Any) -> Any:
    out = of(t).checkpoint(lambda a: a.sin().exp(), x.requires_grad_(), use_reentrant=False).sum()
    (grad,) = t.autograd.grad(out, x, create_graph=True)
    grad.sum().backward()
    return x.grad


def grad_inside(t: Any, x: Any) -> Any:
    def function(a: Any) -> Any:
        return t.autograd.grad(a.sin().cos().sum(), a, create_graph=True)[0] * a

    out = of(t).checkpoint(function, x.requires_grad_(), use_reentrant=False)
    out.sum().backward()
    return out, x.grad


def not_kept(t: Any, x: Any) -> Any:
    seen = []

    def function(a: Any) -> Any:
        y = a.sin()
        seen.append(weakref.ref(y))
        return y.exp()

    out = of(t).checkpoint(function, x.requires_grad_(), use_reentrant=False)
    return seen[0]() is None, out


def early_stop_off(t: Any, x: Any) -> Any:
    ends = [0]

    def function(a: Any) -> Any:
        y = a.sin().exp()
        ends[0] += 1
        return y

    with of(t).set_checkpoint_early_stop(False):
        out = of(t).checkpoint(function, x.requires_grad_(), use_reentrant=False)
    out.sum().backward()
    with of(t).set_checkpoint_early_stop(True):
        out = of(t).checkpoint(function, x, use_reentrant=False)
    out.sum().backward()
    return ends[0]


def running_statistics(t: Any, x: Any) -> Any:
    norm = t.nn.BatchNorm1d(3)
    batch = t.stack([x, x * 2, x - 1])
    of(t).checkpoint(lambda a: norm(a * a), batch.requires_grad_(), use_reentrant=False).sum().backward()
    return norm.running_mean, norm.running_var, norm.num_batches_tracked, batch.grad


def segments(t: Any, x: Any) -> Any:
    t.manual_seed(0)
    model = t.nn.Sequential(*[t.nn.Linear(3, 3) for _ in range(5)], t.nn.Tanh())
    found = []
    for count in (1, 2, 3):
        for reentrant in (True, False):
            model.zero_grad()
            out = of(t).checkpoint_sequential(model, count, x.requires_grad_(), use_reentrant=reentrant)
            out.sum().backward()
            found += [out, model[0].weight.grad, x.grad]
    return found


def warned(t: Any, x: Any) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        of(t).checkpoint(lambda a: a.sin(), x)
        of(t).checkpoint_sequential([t.sin], 1, x)
    return [(str(each.message), each.category.__name__) for each in caught]


def other_type(t: Any, x: Any) -> Any:
    runs = []

    def function(a: Any) -> Any:
        runs.append(a)
        a = a.double() if len(runs) > 1 else a
        return (a * a + 1).pow(a).cumprod(0)

    of(t).checkpoint(function, x.requires_grad_(), use_reentrant=False, determinism_check="none").sum().backward()
    return x.grad


def helpers(t: Any, x: Any) -> Any:
    """What libraries with checkpoints of their own import."""
    module, leaf = of(t), (x * 2).requires_grad_()
    first, second, other = module.detach_variable((leaf, x.detach(), 3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module.check_backward_validity((x.detach(), 3))
        module.check_backward_validity((leaf,))
    states = module.get_device_states(x, 3)
    module.set_device_states(*states)
    return first.requires_grad, first.is_leaf, second.requires_grad, other, states, [str(w.message) for w in caught]


def ends_in_place(t: Any, x: Any) -> Any:
    """The recomputation ends while the in-place operation saves its result."""
    for name in ("exp_", "tanh_", "sigmoid_", "sqrt_"):
        write = getattr(t.Tensor, name)
        of(t).checkpoint(lambda a, write=write: write(a * a), x.requires_grad_(), use_reentrant=False).sum().backward()
    return x.grad


def pack_fails(t: Any, x: Any) -> Any:
    """What a hook raises does not undo the write whose result it was given."""

    def pack(saved: Any) -> Any:
        raise ValueError

    y = x.requires_grad_() * 2
    with pytest.raises(ValueError), t.autograd.graph.saved_tensors_hooks(pack, pack):
        y.exp_()
    return y, y._version


class Kept(Exception):
    """Stays alive as long as what refers to it."""


def freed(t: Any, x: Any) -> Any:
    """Whether the graph of a gradient through a checkpoint goes with its last reference, and an output saved there."""

    class Saving(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            out = a.clone()
            ctx.save_for_backward(out)
            outputs.append(weakref.ref(out))
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    outputs: list[Any] = []
    of(t).checkpoint(Saving.apply, x.requires_grad_(), use_reentrant=False).sum().backward()
    out = of(t).checkpoint(lambda a: a.sin().exp(), x, use_reentrant=False)
    (slope,) = t.autograd.grad(out.sum(), x, create_graph=True)
    kept = Kept()
    out.grad_fn.metadata["kept"] = kept
    reference = weakref.ref(kept)
    del kept, out, slope
    return reference() is None, [output() is None for output in outputs]


OTHERS = [
    lambda t, x: of(t).create_selective_checkpoint_contexts([1]),
    ends_in_place,
    freed,
    helpers,
    pack_fails,
    lambda t, x: of(t).detach_variable([x]),
    retained,
    twice,
    grad_inside,
    not_kept,
    other_type,
    early_stop_off,
    running_statistics,
    segments,
    warned,
    lambda t, x: of(t).checkpoint(lambda a: a.sin(), x, use_reentrant=False),
    lambda t, x: of(t).checkpoint(lambda a, q: a.sin() * q, x, use_reentrant=False, q=3),
    lambda t, x: of(t).checkpoint(lambda a: a.sin(), x, use_reentrant=True, q=3),
    lambda t, x: of(t).checkpoint(lambda a: a.sin(), x, use_reentrant=True, debug=True),
    lambda t, x: of(t).checkpoint(lambda a: a.sin(), x, use_reentrant=False, determinism_check="z"),
    lambda t, x: of(t).checkpoint(
        lambda a: a.sin(), x, use_reentrant=False, debug=True, context_fn=lambda: of(t).noop_context_fn()
    ),
    lambda t, x: t.autograd.grad(of(t).checkpoint(t.sin, x.requires_grad_(), use_reentrant=True).sum(), x),
]


@pytest.mark.parametrize("run", OTHERS)
def test_as_pytorch(run: Any) -> None:
    agree(Case("", run, (X,)), torch)


SECOND_TIME = {
    "fewer": lambda t, x: x * 2,
    "more": lambda t, x: x.sin().exp().exp().sin(),
    "other shapes": lambda t, x: t.cat([x, x]).sin().exp()[:3],
}


@pytest.mark.parametrize("name", SECOND_TIME)
def test_another_recomputation_is_an_error(name: str) -> None:
    def run(t: Any, x: Any) -> Any:
        runs = [0]

        def function(a: Any) -> Any:
            runs[0] += 1
            return a.sin().exp() if runs[0] == 1 else SECOND_TIME[name](t, a)

        out = of(t).checkpoint(function, x.requires_grad_(), use_reentrant=False, early_stop=name != "more")
        out.sum().backward()

    agree(Case(name, run, (X,)), torch)


def changed(x: Any, runs: list[int]) -> Any:
    runs[0] += 1
    return x.sin().exp() if runs[0] == 1 else x * 2


def test_debug_lists_the_operations() -> None:
    out = checkpoints.checkpoint(changed, ours.ones(2).requires_grad_(), [0], use_reentrant=False, debug=True)
    with pytest.raises(checkpoints.CheckpointError) as caught:
        out.sum().backward()
    text = str(caught.value)
    assert "ERROR: Detected non-determinism while running activation checkpointing" in text
    assert "torch.float32[2] = exp   (2 of 2 in original)" in text and "= mul   (1 of " in text
    assert "test_checkpoint.py" in text


@pytest.mark.parametrize(
    ("policy", "multiplications"),
    [
        ([ours.mm], 0),
        ([ours.ops.aten.mm.default], 0),
        (lambda context, operator, *args: operator is ours.ops.aten.mm.default, 0),
        (lambda context, operator, *args: operator in {ours.ops.aten.mm.default, ours.ops.aten.add.Tensor}, 0),
        (lambda context, operator, *args: operator == ours.mm, 0),
        (lambda context, function, *args: checkpoints.CheckpointPolicy.PREFER_SAVE, 0),
        (lambda context, function, *args: checkpoints.CheckpointPolicy.MUST_RECOMPUTE, 1),
        ([ours.sin], 1),
    ],
)
def test_selective_checkpoints(policy: Any, multiplications: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = [0]
    plain = Routine
    original = plain.__call__

    def counting(self: Any, values: Any) -> Any:
        counted[0] += any(node.op.name == "dot_general" for node in self.graph.nodes)
        return original(self, values)

    def function(x: Any) -> Any:
        return ours.mm(x, x).sin().exp()

    x, y = (ours.tensor([[1.0, 2.0], [0.5, -1.0]], requires_grad=True) for _ in range(2))
    function(y).sum().backward()
    contexts = functools.partial(checkpoints.create_selective_checkpoint_contexts, policy)
    out = checkpoints.checkpoint(function, x, use_reentrant=False, context_fn=contexts, early_stop=False)
    monkeypatch.setattr(plain, "__call__", counting)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())
    # the pull-back of the product multiplies too, once in one program
    assert counted[0] == 1 + multiplications


def test_selective_checkpoints_go_backward_once() -> None:
    contexts = functools.partial(checkpoints.create_selective_checkpoint_contexts, [ours.sin])
    x = ours.ones(2, requires_grad=True)
    out = checkpoints.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False, context_fn=contexts).sum()
    out.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        out.backward()
    with pytest.raises(TypeError, match="policy_fn_or_list must be either a function or a list of ops."):
        checkpoints.create_selective_checkpoint_contexts(3)


def test_a_policy_names_an_overload() -> None:
    for t in (torch, ours):
        with pytest.raises(ValueError, match="change it to `torch.ops.aten.mm.default`"):
            of(t).create_selective_checkpoint_contexts([t.ops.aten.mm])
