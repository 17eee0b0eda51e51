"""``torch.nn.utils.rnn`` and recurrent layers over packed sequences, against PyTorch."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).standard_normal((4, 3, 2))
PIECES = tuple(np.random.default_rng(n).standard_normal((n, 2)) for n in (2, 4, 1))


def of(t: Any) -> Any:
    return t.nn.utils.rnn


def differentiated(result: Callable[..., Any]) -> Callable[..., Any]:
    """What a function of tensors gives, and the gradients of a weighted sum of it."""

    def run(t: Any, *tensors: Any) -> Any:
        for x in tensors:
            x.requires_grad_()
        found = result(t, *tensors)
        main = found[0] if isinstance(found, tuple | list) else found
        weights = t.arange(1.0, main.numel() + 1, dtype=main.dtype).view(main.shape).sin()
        (main * weights).sum().backward()
        return found, [x.grad for x in tensors]

    return run


def packed(t: Any, x: Any, lengths: Any = (1, 4, 2), **options: Any) -> Any:
    return of(t).pack_padded_sequence(x, list(lengths), **{"enforce_sorted": False, **options})


def case(name: str, run: Callable[..., Any], *arrays: np.ndarray, longer: bool = False) -> Case:
    return Case(name, run, arrays, longer)


PACKING = [
    case("pack", differentiated(lambda t, x: tuple(packed(t, x, (4, 2, 1), enforce_sorted=True))), X),
    case("pack unsorted", differentiated(lambda t, x: tuple(packed(t, x))), X),
    case("pack, batches first", differentiated(lambda t, x: tuple(packed(t, x, (1, 2, 2, 1), batch_first=True))), X),
    case("pack, shorter", differentiated(lambda t, x: tuple(packed(t, x, (3, 2, 1)))), X),
    case("pack, lengths as a tensor", lambda t, x: tuple(
        of(t).pack_padded_sequence(x, t.tensor([3.0, 2.0, 1.0]))), X),
    case("pack integers", lambda t: tuple(packed(t, t.arange(6).view(2, 3), (2, 1, 1)))),
    case("pack in wrong order", lambda t, x: packed(t, x, enforce_sorted=True), X),
    case("pack nothing", lambda t, x: packed(t, x, (4, 2, 0)), X),
    case("pack less than nothing", lambda t, x: packed(t, x, (4, 2, -1)), X),
    case("pack another number", lambda t, x: packed(t, x, (4, 2)), X),
    case("pack empty", lambda t, x: packed(t, x[:0], (4, 2, 1)), X),
    case("pack by a matrix", lambda t, x: of(t).pack_padded_sequence(x, t.ones(3, 1)), X),
    case("pad", differentiated(lambda t, x: of(t).pad_packed_sequence(packed(t, x))), X),
    case("pad, batches first", differentiated(lambda t, x: of(t).pad_packed_sequence(packed(t, x), True)), X),
    case("pad further", differentiated(lambda t, x: of(t).pad_packed_sequence(
        packed(t, x), padding_value=-1.5, total_length=6)), X),
    case("pad sorted", differentiated(lambda t, x: of(t).pad_packed_sequence(packed(t, x, (4, 4, 1)))), X),
    case("pad too little", lambda t, x: of(t).pad_packed_sequence(packed(t, x), total_length=2), X),
    case("pad sequences", differentiated(lambda t, *xs: of(t).pad_sequence(xs)), *PIECES),
    case("pad sequences, batches first", differentiated(lambda t, *xs: of(t).pad_sequence(xs, True, 2.5)), *PIECES),
    case("pad sequences on the left", differentiated(
        lambda t, *xs: of(t).pad_sequence(list(xs), padding_side="left")), *PIECES),
    case("pad sequences, strides", lambda t, *xs: (
        of(t).pad_sequence(xs).stride(), of(t).pad_sequence(xs, True).stride()), *PIECES),
    case("pad a tensor's rows", lambda t, x: of(t).pad_sequence(x), X),
    case("pad other types", lambda t: of(t).pad_sequence([t.ones(2), t.ones(3, dtype=t.float64)])),
    case("pad integers", lambda t: of(t).pad_sequence([t.arange(2), t.arange(3)], padding_value=7)),
    case("pad other shapes", lambda t: of(t).pad_sequence([t.ones(2, 3), t.ones(2, 4)])),
    case("pad a shape that broadcasts", lambda t: of(t).pad_sequence([t.ones(2, 3), t.zeros(3, 1)])),
    case("pad none", lambda t: of(t).pad_sequence([])),
    case("pad a number", lambda t: of(t).pad_sequence(3)),
    case("pad scalars", lambda t: of(t).pad_sequence([t.ones(())])),
    case("pad in the middle", lambda t: of(t).pad_sequence([t.ones(2)], padding_side="middle")),
    case("unpad", lambda t, x: of(t).unpad_sequence(x, t.tensor([1, 4, 2])), X),
    case("unpad, batches first", lambda t, x: of(t).unpad_sequence(x, t.tensor([1, 3, 2, 1]), True), X),
    case("pack sequences", differentiated(lambda t, *xs: tuple(of(t).pack_sequence(xs, False))), *PIECES),
    case("pack sequences in wrong order", lambda t, *xs: of(t).pack_sequence(xs), *PIECES),
    case("unpack", lambda t, *xs: of(t).unpack_sequence(of(t).pack_sequence(xs, False)), *PIECES),
    case("inverse", lambda t: of(t).invert_permutation(t.tensor([2, 0, 3, 1]))),
    case("inverse of none", lambda t: of(t).invert_permutation(None)),
    case("shown", lambda t: repr(of(t).PackedSequence(t.ones(3), t.tensor([2, 1])))),
    case("of a pair", lambda t: tuple(of(t).PackedSequence((t.ones(3), t.tensor([2, 1]))))),
    case("of no pair", lambda t: of(t).PackedSequence(t.ones(3))),
    case("the same type", lambda t, x: (lambda p: (p.double() is p, p.cpu() is p, p.is_cuda))(packed(t, x)), X),
    case("other types", lambda t, x: [tuple(getattr(packed(t, x), name)()) for name in (
        "float", "half", "long", "int", "short", "char", "byte")], abs(X)),
    case("to", lambda t, x: tuple(packed(t, x).to(t.float32)), X),
]  # fmt: skip


@pytest.mark.parametrize("case", PACKING, ids=str)
def test_packing(case: Case):
    agree(case, torch)


def test_a_length_beyond_the_input():
    """PyTorch packs steps that are not there."""
    with pytest.raises(RuntimeError, match="a length of 5 is more than the 4 steps"):
        packed(ours, ours.tensor(X), (5, 2, 1))


def layer_over_packed(t: Any, x: Any, name: str, state: bool, options: dict[str, Any]) -> Any:
    t.manual_seed(2)
    options = {"bidirectional": False, "num_layers": 1, **options}
    layer = getattr(t.nn, name)(2, 3, dtype=t.float64, **options)
    x.requires_grad_()
    hx = None
    if state:
        count = options["num_layers"] * (1 + options["bidirectional"])
        hx = t.arange(count * 9.0, dtype=t.float64).view(count, 3, 3).cos()
        hx = (hx, hx.sin()) if name == "LSTM" else hx
    output, last = layer(packed(t, x), hx)
    loss = output.data.sin().sum() + sum((h * 2).cos().sum() for h in (last if name == "LSTM" else (last,)))
    loss.backward()
    return tuple(output), last, x.grad, [p.grad for p in layer.parameters()]


OPTIONS = [
    {},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "bias": False},
    {"num_layers": 3, "dropout": 0.5, "batch_first": True},
]


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("state", [False, True])
def test_layers(name: str, options: dict[str, Any], state: bool):
    agree(Case(name, functools.partial(layer_over_packed, name=name, state=state, options=options), (X,)), torch)


def test_projected():
    options = {"proj_size": 2, "bidirectional": True}
    run = functools.partial(layer_over_packed, name="LSTM", state=False, options=options)
    agree(Case("projected", run, (X,)), torch)


REFUSED = [
    case("RNN of other type", lambda t, x: t.nn.RNN(2, 3)(packed(t, x)), X),
    case("GRU of other size", lambda t, x: t.nn.GRU(5, 3, dtype=t.float64)(packed(t, x)), X),
    case("GRU, state of other size", lambda t, x: t.nn.GRU(2, 3, dtype=t.float64)(
        packed(t, x, (4, 2, 1), enforce_sorted=True), t.zeros(1, 2, 3, dtype=t.float64)), X),
    case("LSTM of other type", lambda t, x: t.nn.LSTM(2, 3)(packed(t, x)), X),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refusals(case: Case):
    agree(case, torch)
