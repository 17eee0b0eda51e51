"""What programs read of the graph and of the engine's state, beside real torch."""

import contextlib
import copy
import gc
import io
import pickle
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch as ours
from tests.torch.oracle import outcome

theirs = pytest.importorskip("torch")
pytest.importorskip("torch.autograd._functions")


def _counts(block: Any) -> tuple[int, int]:
    return len(block.cloned), len(block.tid_to_weakhandle)


def _mutations(torch: Any) -> list[Any]:
    """How many saved tensors a block holds, and how many of them were written."""
    seen: list[Any] = []
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as block:
        a = torch.ones(2, 3, requires_grad=True)
        b = a.clone()
        part, out = b[:1], b**2
        part *= 10
        seen.append(_counts(block))
        out.sum().backward()
        seen += [_counts(block), a.grad.tolist()]
        c = torch.ones(2, requires_grad=True).clone()
        twice = (c**2 + c**2).sum()
        c.sin_()
        seen.append(_counts(block))
        del twice
        seen.append(_counts(block))
        kept = (c**2).sum()
        c.sin_()
    return [*seen, _counts(block), kept.requires_grad]


def _outside(torch: Any) -> Any:
    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = (x * x).sum()
    return y.backward()


def _cleared(torch: Any) -> Any:
    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as block:
        y = (x * x).sum()
        block.clear()
        return y.backward()


def _retaining(torch: Any) -> bool:
    """Whether a tensor that retains its gradient is gone with its last reference."""
    gc.disable()
    try:
        y = torch.ones(2, requires_grad=True) * 2
        y.retain_grad()
        z, reference = y / 2, weakref.ref(y)
        del y
        gone = reference() is None
        z.sum().backward()
    finally:
        gc.enable()
    return gone


def _inputs(torch: Any) -> list[Any]:
    outputs = torch.var_mean(torch.rand(2, 3, requires_grad=True), dim=0)
    return [(each.shape, str(each.dtype), each.is_nested_tensor) for each in outputs[0].grad_fn._input_metadata]


def _anomaly(torch: Any) -> list[str]:
    x = torch.ones(2, requires_grad=True)
    with torch.autograd.detect_anomaly():
        (g,) = torch.autograd.grad(x.exp().sum(), x, create_graph=True)
    return sorted(g.grad_fn.metadata)


def _indices(torch: Any) -> list[Any]:
    node = torch.ones(2, 2, requires_grad=True)[:, torch.tensor([0, 1])].grad_fn
    raw = node._raw_saved_indices
    raw[1].register_hooks(lambda x: x, lambda x: x)
    return [type(raw).__name__, len(raw), node._saved_self_sym_sizes]


def _no_index(torch: Any) -> Any:
    node = torch.ones(2, 2, requires_grad=True)[:, torch.tensor([0, 1])].grad_fn
    return node._raw_saved_indices[0].register_hooks(lambda x: x, lambda x: x)


def _scales(torch: Any) -> list[Any]:
    resample = torch.nn.functional.interpolate
    line, plane = torch.ones(1, 1, 2, requires_grad=True), torch.ones(1, 1, 2, 2, requires_grad=True)
    wide = resample(plane, scale_factor=2, mode="nearest").grad_fn
    return [
        resample(line, 4, mode="linear").grad_fn._saved_scales,
        resample(line, scale_factor=0.5, mode="linear").grad_fn._saved_scales,
        wide._saved_scales_h,
        wide._saved_scales_w,
        torch.div(line, 2.0, rounding_mode=None).grad_fn._saved_rounding_mode,
    ]


def _will_run(torch: Any, differentiate: Callable[..., Any]) -> list[Any]:
    a = torch.ones(2, requires_grad=True)
    b = a.exp()
    leaf = b.grad_fn.next_functions[0][0]
    seen: list[Any] = []
    b.register_hook(lambda grad: seen.append(outcome(torch._C._will_engine_execute_node, leaf).text))
    differentiate(b.sum(), a)
    return seen


def _will_run_nodes(torch: Any, differentiate: Callable[..., Any]) -> list[Any]:
    """Of two leaves, a root that may be the only one, one beside it and a node that is not reached."""
    w, x = (torch.ones(1, requires_grad=True) for _ in range(2))
    y = x * 2
    z, q, unreached = y * 3, w * y, w * 7
    nodes = [torch.autograd.graph.get_gradient_edge(leaf).node for leaf in (w, x)]
    nodes += [t.grad_fn for t in (y, z, q, unreached)]
    seen: list[Any] = []
    y.register_hook(lambda grad: seen.extend(outcome(torch._C._will_engine_execute_node, n).text for n in nodes))
    differentiate(torch.autograd, w, x, y, z, q)
    return seen


def _preserved(torch: Any) -> list[int]:
    x, y = torch.ones(2), torch.ones(2)
    with torch.autograd._unsafe_preserve_version_counter((x, y)):
        x.mul_(2)
    y.mul_(2)
    return [x._version, y._version]


def _resized(torch: Any) -> list[Any]:
    x = torch.ones(4, requires_grad=True)
    y = torch.autograd._functions.Resize.apply(x, (2, 2))
    y.sum().backward()
    return [tuple(y.shape), x.grad.tolist(), outcome(torch.autograd._functions.Resize.apply, x, (3,)).text]


def _edge(torch: Any) -> list[Any]:
    edge = torch.autograd.graph.get_gradient_edge(torch.ones(2, requires_grad=True))
    node, number, _ = edge
    return [edge._fields, node is edge.node, number]


def _hooks_state(torch: Any) -> list[Any]:
    state = torch._C._autograd
    seen = [state._saved_tensors_hooks_is_enabled()]
    with torch.autograd.graph.disable_saved_tensors_hooks("not now"):
        seen.append(state._saved_tensors_hooks_is_enabled())
        seen.append(state._saved_tensors_hooks_get_disabled_error_message())
    return seen


def _switched(torch: Any) -> list[Any]:
    before = torch._C._is_multithreading_enabled()
    torch._C._set_grad_enabled(False)
    try:
        return [before, torch.is_grad_enabled(), outcome(torch._C._set_grad_enabled, 1).text]
    finally:
        torch._C._set_grad_enabled(True)


def _weak(torch: Any) -> list[bool]:
    x = torch.ones(2)
    reference = torch._C._WeakTensorRef(x)
    seen = [reference.expired()]
    del x
    return [*seen, reference.expired()]


def _inputs_by_name(torch: Any, differentiate: Callable[[Any, Any], Any]) -> list[Any]:
    x, y = [torch.tensor(number, requires_grad=True) for number in (2.0, 3.0)]
    module = torch.nn.Linear(1, 1)
    named = [{"a": x, "b": y}, {"b": y}, {}, OrderedDict(a=x), {"a": 1}, module._parameters]
    return [outcome(lambda each=each: differentiate(x * x * y, each)).text for each in named] + [x.grad, y.grad]


#: ordinary words that a Function may use for what it keeps
WORDS = (
    "name",
    "source",
    "scope",
    "sequence",
    "parent",
    "retains",
    "rule",
    "release",
    "fn",
    "plan",
    "saved",
    "numbers",
)


def _words(torch: Any) -> list[Any]:
    """A context with attributes of any name, and an error that names its node."""

    class Words(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, word: str) -> Any:
            setattr(ctx, word, 0)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (word,) = [word for word in WORDS if word in vars(ctx)]
            seen.append((word, vars(ctx)[word]))
            return grad * (getattr(ctx, word) + 2), None

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.name = "x"
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None, grad

    seen: list[Any] = []
    x = torch.ones(2, requires_grad=True)
    y = x
    for word in WORDS:
        y = Words.apply(y, word)
        y.retain_grad()
    y.sum().backward()
    return [*seen, x.grad, outcome(lambda: Wrong.apply(x).sum().backward()).text]


def _nested_hooks(torch):
    """Blocks of one object inside of each other, and ones that are entered in backward and not left."""
    packed = []

    def count(around, inside):
        packed.clear()
        with around:
            x.sin()
            with inside:
                x.sin()
            x.sin()
        x.sin()
        return len(packed)

    x = torch.ones(2, requires_grad=True)
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t)
    cpu = torch.autograd.graph.save_on_cpu()

    def enter(t):
        hooks.__enter__()
        return t

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, enter):
        out = x.sin().sum()
    out.backward()

    # entered in backward, within itself
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, enter)
    with hooks:
        x.sin().sum().backward()
    x.sin()
    left = len(packed)
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t)
    return left, count(hooks, hooks), count(hooks, cpu), count(cpu, cpu)


def _hooks_of_unpacking(torch):
    """A hook that is added to a node while it runs sees the gradients that it has computed, and not those it got."""
    seen = []

    def unpack(t):
        def hook(grads, arriving):
            seen.append((grads, arriving))
            return tuple(None if g is None else g / 2 for g in grads)

        torch._C._current_autograd_node().register_hook(hook)
        return t

    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        out = x.sin()
    out.sum().backward()
    return seen, x.grad


def _warnings_as_errors(torch):
    """The warning of anomaly mode does not take the place of the error."""
    with warnings.catch_warnings(), torch.autograd.detect_anomaly():
        warnings.simplefilter("error")
        a = torch.ones(2, requires_grad=True) + 1
        out = a**2
        a += 1
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            try:
                out.sum().backward()
            except RuntimeError as error:
                return str(error)[:60], "UserWarning: Error detected in PowBackward0" in printed.getvalue()


def _stack_of_hooks(torch: Any) -> list[Any]:
    """Which hooks pack after blocks were left in another order, in a generator, in backward and twice."""
    log: list[str] = []
    seen: list[Any] = []

    def block(name: str) -> Any:
        return torch.autograd.graph.saved_tensors_hooks(lambda x: (log.append(name), x)[1], lambda x: x)

    def packing() -> None:
        log.clear()
        torch.ones(2, requires_grad=True).exp()
        seen.append(tuple(log))

    a, b = block("a"), block("b")
    for entered, left in (((a, b), (a, b)), ((a, a, b), (a, b, b)), ((a, b, a), (b, b, a))):
        for one in entered:
            one.__enter__()
        for one in left:
            packing()
            one.__exit__()
        packing()

    def suspended() -> Any:
        with a:
            yield 1

    generator = suspended()
    next(generator)
    with b:
        next(generator, None)
        packing()
    packing()

    def unpack(x: Any) -> Any:
        c.__exit__()
        return x

    c = torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack)
    for _ in range(2):
        with b:
            c.__enter__()
            torch.ones(2, requires_grad=True).exp().sum().backward()
    packing()
    c.__exit__()
    c.__exit__()
    packing()
    return seen


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "words on a context": _words,
    "counts of a block": _mutations,
    "backward outside of the block": _outside,
    "backward after clearing the block": _cleared,
    "a retained tensor": _retaining,
    "what comes in": _inputs,
    "anomaly mode": _anomaly,
    "saved indices": _indices,
    "hooks added when a value is unpacked": _hooks_of_unpacking,
    "an index that is None": _no_index,
    "scales and rounding": _scales,
    "whether a leaf's node will run, backward": lambda torch: _will_run(torch, lambda y, x: y.backward()),
    "whether a leaf's node will run, inputs": lambda torch: _will_run(torch, lambda y, x: y.backward(inputs=[x])),
    "whether a leaf's node will run, grad": lambda torch: _will_run(torch, torch.autograd.grad),
    "which nodes will run, one root": lambda torch: _will_run_nodes(torch, lambda a, w, x, y, z, q: z.backward()),
    "which nodes will run, two": lambda torch: _will_run_nodes(torch, lambda a, w, x, y, z, q: a.backward([z, q])),
    "which nodes will run, twice": lambda torch: _will_run_nodes(torch, lambda a, w, x, y, z, q: a.backward([z, z])),
    "which nodes will run, inputs": lambda torch: _will_run_nodes(
        torch, lambda a, w, x, y, z, q: z.backward(inputs=[x])
    ),
    "which nodes will run, grad": lambda torch: _will_run_nodes(torch, lambda a, w, x, y, z, q: a.grad(z, x)),
    "which nodes will run, no leaf": lambda torch: _will_run_nodes(torch, lambda a, w, x, y, z, q: a.grad([z, q], y)),
    "inputs by name, grad": lambda torch: _inputs_by_name(torch, torch.autograd.grad),
    "inputs by name, backward": lambda torch: _inputs_by_name(torch, lambda out, named: out.backward(inputs=named)),
    "versions kept": _preserved,
    "Resize": _resized,
    "an edge": _edge,
    "whether there may be hooks": _hooks_state,
    "switches": _switched,
    "states": lambda torch: [
        getattr(torch._C, name)()
        for name in ("is_grad_enabled", "is_inference_mode_enabled", "is_anomaly_enabled", "_is_fwd_grad_enabled")
    ],
    "a weak reference": _weak,
    "a node pickled": lambda torch: pickle.dumps(torch.ones(2, requires_grad=True).sum().grad_fn),
    "a node copied": lambda torch: copy.deepcopy(torch.ones(2, requires_grad=True).sum().grad_fn),
    "nested hooks": _nested_hooks,
    "a stack of hooks": _stack_of_hooks,
    "warnings as errors": _warnings_as_errors,
    "shapes of a root": lambda torch: torch.autograd._calculate_shape(torch.ones(2), torch.ones(3, 2), True),
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree(name):
    found, wanted = outcome(PROGRAMS[name], ours), outcome(PROGRAMS[name], theirs)
    assert (found.text, found.raised) == (wanted.text, wanted.raised)


@pytest.mark.parametrize("hooks", [(1, lambda x: x), (lambda x: x, 2)])
def test_hooks_are_functions(hooks):
    x = ours.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="must be a function, not int"):
        ours.autograd.graph.saved_tensors_hooks(*hooks)
    with pytest.raises(TypeError, match="takes two functions, pack and unpack; not int"):
        (x * x).grad_fn._raw_saved_self.register_hooks(*hooks)


def test_names_that_change_nothing():
    with ours.autograd._force_original_view_tracking(True):
        assert not ours.autograd.kineto_available()
    assert not ours._C._is_view_replay_enabled()
    hook = ours.utils.hooks.unserializable_hook(lambda grad: grad)
    assert hook.__torch_unserializable__
