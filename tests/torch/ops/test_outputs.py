"""What may be given as ``out=``: types, shared memory and strides, against real torch."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch as ours
from tests.torch.ops.playing import numbers

theirs = pytest.importorskip("torch")

#: what each of them returns or raises
CALLS: dict[str, Callable[[Any], Any]] = {
    "elementwise results are cast": lambda t: t.add(t.ones(3), t.ones(3), out=t.empty(3, dtype=t.float64)),
    "but not to a lower kind": lambda t: t.add(t.ones(3), t.ones(3), out=t.empty(3, dtype=t.int64)),
    "promoted": lambda t: t.sin(t.ones(3, dtype=t.int64), out=t.empty(3, dtype=t.int64)),
    "kernels of one type": lambda t: t.neg(t.ones(3), out=t.empty(3, dtype=t.float64)),
    "products are of their type": lambda t: t.mm(t.ones(3, 3), t.ones(3, 3), out=t.empty((3, 3), dtype=t.float64)),
    "joined": lambda t: t.cat([t.ones(2), t.ones(2)], out=t.empty(4, dtype=t.int64)),
    "sums go anywhere": lambda t: t.sum(t.ones(3), 0, out=t.empty((), dtype=t.int64)),
    "in whose type they are computed": lambda t: t.sum(t.tensor([1.7, 2.7]), 0, out=t.empty((), dtype=t.int64)),
    "sums of fractions": lambda t: t.cumsum(t.tensor([1.7, 2.7]), 0, out=t.empty(2, dtype=t.int64)),
    "a type beside the output's": lambda t: t.prod(t.ones(3), 0, dtype=t.float64, out=t.empty(())),
    "of what is no NaN": lambda t: t.nansum(t.tensor([1.7, t.nan]), 0, out=t.empty((), dtype=t.float64)),
    "in the output's type alone": lambda t: t.nansum(t.ones(3), 0, dtype=t.float32, out=t.empty((), dtype=t.float64)),
    "not in a complex one": lambda t: t.nansum(t.ones(3), 0, out=t.empty((), dtype=t.complex64)),
    "bounds that are tensors": lambda t: t.clamp(
        t.arange(3.0), t.ones(1), 1 + t.ones(1), out=t.empty(3, dtype=t.float64)
    ),
    "bounds that are numbers": lambda t: t.clamp(t.arange(3.0), 1, 2, out=t.empty(3, dtype=t.float64)),
    "mantissas of one type": lambda t: t.frexp(t.ones(1), out=(t.empty(1, dtype=t.float64), t.empty(1, dtype=t.int32))),
    "nothing is written": lambda t: t.empty(2, 1, out=t.arange(4.0)),
    "to what needs no gradient": lambda t: t.empty(2, out=t.ones(2, requires_grad=True)),
    "empty of a format": lambda t: t.empty(1, 1, 1, 1, out=t.ones(1), memory_format=t.channels_last),
    "means do not": lambda t: t.std(t.ones(3), 0, out=t.empty((), dtype=t.int64)),
    "second output": lambda t: t.max(t.ones(3), 0, out=(t.empty(()), t.empty(()))),
    "named results": lambda t: t.max(t.ones(3), 0, out=(t.empty(()), t.empty((), dtype=t.int64))).indices,
    "a largest over its operand": lambda t: (
        lambda x: t.max(x.view(2, 2), 1, out=(x[:2], t.empty(2, dtype=t.int64)))[0]
    )(t.arange(4.0)),
    "the least and the largest over their operand": lambda t: (
        lambda x: t.aminmax(x.view(2, 2), dim=1, out=(t.empty(2), x[:2]))[1]
    )(t.arange(4.0)),
    "places over what was searched": lambda t: (
        lambda x: t.mode(x.view(2, 2), 1, out=(t.empty(2, dtype=t.int64), x[:2]))[1]
    )(t.arange(4)),
    "a middle over its operand": lambda t: (
        lambda x: t.median(x.view(2, 2), 1, out=(x[:2], t.empty(2, dtype=t.int64)))[0]
    )(t.arange(4.0)),
    "a smallest over all of its operand": lambda t: (
        lambda x: t.min(x.view(2, 1), 1, out=(x, t.empty(2, dtype=t.int64)))[0]
    )(t.arange(2.0)),
    "too many": lambda t: t.max(t.ones(3), 0, out=(t.ones(3),) * 3),
    "an inverse": lambda t: t.linalg.inv(t.eye(3), out=t.empty(3, 3, dtype=t.int64)),
    "a power": lambda t: t.matrix_power(t.eye(3), 2, out=t.empty(3, 3, dtype=t.int64)),
    "linalg's power": lambda t: t.linalg.matrix_power(t.eye(3), 2, out=t.empty(3, 3, dtype=t.int64)),
    "a tensor's inverse": lambda t: t.linalg.tensorinv(t.eye(3), ind=1, out=t.empty(3, 3, dtype=t.int64)),
    "a tensor's solution": lambda t: t.linalg.tensorsolve(t.eye(3), t.ones(3), out=t.empty(3, dtype=t.int64)),
    "none": lambda t: t.trace(t.eye(3), out=t.empty(())),
    "none of a composite": lambda t: t.diagflat(t.ones(3), out=t.empty(0)),
    "none of truth": lambda t: t.isnan(t.ones(3), out=t.empty(3, dtype=t.bool)),
    "random integers": lambda t: t.normal(t.ones(2), 1.0, out=t.empty(2, dtype=t.int64)),
    "a norm": lambda t: t.linalg.norm(t.eye(3), out=t.empty((), dtype=t.float64)),
    "torch.norm": lambda t: (lambda x: (t.norm(t.eye(3), out=x), x)[1])(t.zeros(())),
    "a transform": lambda t: t.fft.fft2(t.eye(3), out=t.empty(3, 3)),
    "frequencies": lambda t: t.fft.fftfreq(4, out=t.empty(4)),
    "places": lambda t: t.nonzero(t.ones(3), out=t.empty(3)),
    "a chain": lambda t: t.linalg.multi_dot([t.eye(3), t.eye(3)], out=t.empty(3, 3, dtype=t.float64)),
    "no tensor": lambda t: t.sin(t.ones(3), out=3),
    "a tuple": lambda t: t.sin(t.ones(3), out=(t.ones(3),)),
    "onto itself": lambda t: (lambda x: t.sin(x, out=x))(t.ones(3)),
    "onto a part of itself": lambda t: (lambda x: t.sin(x[:2], out=x[1:]))(t.ones(3)),
    "onto an operand that would have to grow": lambda t: (lambda x: t.add(t.ones(2, 2), x, out=x))(t.ones(2, 1)),
    "onto what shares an operand's memory": lambda t: (lambda x: t.add(t.ones(2, 2), x, out=x.view(2)))(t.ones(2, 1)),
    "the larger of two onto a part of one": lambda t: (lambda x: t.max(x[:2], t.ones(2), out=x[1:]))(t.ones(3)),
    "the smaller of two in another type": lambda t: t.min(t.ones(2), t.ones(2), out=t.empty(2, dtype=t.float64)),
    "the largest in another type": lambda t: t.max(t.ones(2), out=t.empty((), dtype=t.float64)),
    "sorted onto a part of itself": lambda t: (lambda x: t.sort(x[:2], out=(x[1:], t.empty(2).long())))(t.ones(3)),
    "sorted onto itself": lambda t: (lambda x: t.sort(x, out=(x, t.empty(3).long())).values)(t.tensor([3.0, 1.0, 2.0])),
    "the greatest onto a part of itself": lambda t: (lambda x: t.topk(x[:2], 2, out=(x[1:], t.empty(2).long())))(
        t.ones(3)
    ),
    "differences onto a part of itself": lambda t: (lambda x: t.diff(x, out=x[1:]))(t.ones(3)),
    "sums onto a part of itself": lambda t: (lambda x: t.cumsum(x[:2], 0, out=x[1:]))(t.ones(3)),
    "picked onto one place": lambda t: t.index_select(
        t.ones(3, 6), 1, t.tensor([0, 1]), out=t.empty(1, 1).expand(3, 2)
    ),
    "gathered onto itself": lambda t: (lambda x: t.gather(x, 0, t.tensor([2, 1, 0]), out=x))(t.ones(3)),
    "gathered onto the places": lambda t: (lambda i: t.gather(t.arange(3), 0, i, out=i))(t.tensor([2, 0, 1])),
    "taken onto the places": lambda t: (lambda i: t.take(t.arange(3), i, out=i))(t.tensor([2, 0, 1])),
    "a pool": lambda t: t.nn.functional.avg_pool2d(t.ones(1, 2, 2), 2, out=t.empty(0)),
    "a pool of volumes": lambda t: t.nn.functional.avg_pool3d(t.ones(1, 2, 2, 2), 2, out=t.empty(0)),
    "a pool of another type": lambda t: t.nn.functional.avg_pool2d(t.ones(1, 2, 2), 2, out=t.empty(0).double()),
    "a layer": lambda t: t.nn.functional.linear(t.ones(2, 2), t.ones(3, 2), t.ones(3), out=t.empty(0)),
    "gelu": lambda t: t.nn.functional.gelu(t.ones(2), out=t.empty(0)),
    "gelu of another type": lambda t: t.nn.functional.gelu(t.ones(2), out=t.empty(0).double()),
    "gelu onto a part of itself": lambda t: (lambda x: t.nn.functional.gelu(x[:2], out=x[1:]))(t.ones(3)),
    "softplus": lambda t: t.nn.functional.softplus(t.ones(2), 2, out=t.empty(0)),
    "hardshrink": lambda t: t.nn.functional.hardshrink(t.ones(2), out=t.empty(0)),
    "torch.hardshrink": lambda t: t.hardshrink(t.ones(2), out=t.empty(0)),
    "softshrink": lambda t: t.nn.functional.softshrink(t.ones(2), out=t.empty(0)),
    "logsigmoid": lambda t: t.nn.functional.logsigmoid(t.ones(2), out=t.empty(0)),
    "logsigmoid of another type": lambda t: t.nn.functional.logsigmoid(t.ones(2), out=t.empty(0).double()),
    "logsigmoid of what is tracked": lambda t: t.nn.functional.logsigmoid(
        t.ones(2, requires_grad=True), out=t.empty(0)
    ),
    "not in Python": lambda t: t.nn.functional.elu(t.ones(2), out=t.empty(0)),
    "strides of what is resized": lambda t: t.sin(t.ones(2, 3).t(), out=t.empty(0)),
    "strides that are there": lambda t: t.sin(t.ones(3, 2), out=t.empty(2, 3).t()),
}


def outcome(torch: Any, call: Callable[[Any], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call(torch)
        except (RuntimeError, TypeError) as error:
            return type(error), str(error).splitlines()[0]
    return str(found.dtype), found.stride(), numbers(found).tolist()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_out(call: Callable[[Any], Any]):
    assert outcome(ours, call) == outcome(theirs, call)


@pytest.mark.parametrize("name", ["max", "sort", "kthvalue"])
def test_name_of_several(name: str):
    """What was written is returned as a type of its own."""

    def run(torch: Any) -> str:
        x = torch.tensor([[3.0, 1.0, 2.0]])
        out = torch.empty(0), torch.empty(0, dtype=torch.int64)
        return type(getattr(torch, name)(x, 1, out=out)).__name__

    assert run(ours) == run(theirs)


def test_pieces_that_are_written_are_not_returned():
    def run(torch: Any) -> Any:
        x, out = torch.arange(4.0), [torch.empty(2), torch.empty(2)]
        found = torch.split_copy(x, 2, out=out), torch.split_with_sizes_copy(x, [2, 2], out=out)
        return found, torch.unbind_copy(x.view(2, 2), out=out), [each.tolist() for each in out]

    assert run(ours) == run(theirs)


def test_an_output_that_is_resized_is_written_once():
    def run(torch: Any) -> Any:
        new, wrong = torch.empty(0), torch.empty(2)
        for _ in range(2):
            torch.add(torch.ones(3), 1, out=new)
            torch.cat([torch.ones(3)], out=wrong)
        return new.tolist(), wrong.tolist(), new._version, wrong._version

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(ours) == run(theirs)


#: by the arguments that they are called with, functions that PyTorch gives no ``out=``
WITHOUT_OUTPUT = {
    "(x)": "argsort count_nonzero cumulative_trapezoid det detach empty_like flatten fft.fftshift fft.ifftshift "
    "gradient linalg.diagonal linalg.matrix_exp linalg.vander matrix_exp ones_like pca_lowrank pinverse relu rot90 "
    "rrelu squeeze std_mean svd_lowrank trapezoid trapz unbind unique unique_consecutive var_mean zeros_like",
    "(x[0])": "combinations tensor vander",
    "(3)": "bartlett_window blackman_window hamming_window hann_window kaiser_window scalar_tensor",
    "(x, 1)": "chunk full_like hsplit repeat_interleave roll split tensor_split unsafe_chunk unsafe_split vsplit",
    "(x, x)": "binary_cross_entropy_with_logits cdist cosine_similarity hinge_embedding_loss kl_div "
    "pairwise_distance rsub",
    "(x, x, x)": "margin_ranking_loss triplet_margin_loss",
    "(x, x > 0, x)": "masked_scatter",
    "(x, 0, 1)": "movedim norm_except_dim swapaxes swapdims",
    "(x, [0])": "flip",
    "(x, (4,))": "reshape",
    "(x, (2,))": "layer_norm",
    "(x, 0, 0)": "select",
    "(2, 2)": "tril_indices triu_indices",
    "(x, y)": "diagonal_scatter",
    "(x, i)": "embedding",
    "(x[None], x[None])": "conv1d",
    "(x[None], 1)": "avg_pool1d group_norm",
    "(x[None, None], x[None, None])": "conv2d conv_transpose2d",
    "(x[None], 2)": "dsplit",
    "(x[None, None], 2)": "pixel_unshuffle",
}


@pytest.mark.parametrize("arguments", WITHOUT_OUTPUT)
def test_functions_without_an_output(arguments: str):
    """Both sides refuse ``out=`` of each function, which runs without it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for torch in (theirs, ours):
            x = torch.ones(2, 2)
            names = {"torch": torch, "x": x, "y": x[0], "i": torch.tensor([0, 1])}
            for function in WITHOUT_OUTPUT[arguments].split():
                eval(f"torch.{function}{arguments}", names)
                with pytest.raises(TypeError, match="out"):
                    eval(f"torch.{function}{arguments[:-1]}, out=torch.empty(0))", names)


#: functions without a derivative, of a tensor that requires gradients
UNDERIVED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "eq": lambda t, x, out: t.eq(x, x, out=out),
    "gt": lambda t, x, out: t.gt(x, 1, out=out),
    "logical_and": lambda t, x, out: t.logical_and(x, x, out=out),
    "logical_not": lambda t, x, out: t.logical_not(x, out=out),
    "of integers": lambda t, x, out: t.eq(t.tensor([1, 2]), 2, out=out),
    "argmax": lambda t, x, out: t.argmax(x, 0, True, out=t.empty(1, dtype=t.int64)),
    "any": lambda t, x, out: t.any(x, 0, out=t.empty((), dtype=t.bool)),
    "signbit": lambda t, x, out: t.signbit(x, out=t.empty(2, dtype=t.bool)),
    "searchsorted": lambda t, x, out: t.searchsorted(x, x, out=t.empty(2, dtype=t.int64)),
    "of larger ones": lambda t, x, out: t.amax(x.expand(2, 2), 0, out=out),
}


@pytest.mark.parametrize("output", ["plain", "leaf", "result", "view of a leaf"])
@pytest.mark.parametrize("name", UNDERIVED)
def test_functions_without_a_derivative(name: str, output: str):
    """Operands and outputs may require gradients: the write takes no part in autograd, and is counted."""

    def run(torch: Any) -> list[Any]:
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        base = torch.zeros(2 if output == "leaf" else 4, requires_grad=output != "plain")
        out = base[:2] * 1 if output == "result" else base if output == "leaf" else base[1:3]
        try:
            result = UNDERIVED[name](torch, x, out)
        except RuntimeError:
            return [RuntimeError]
        return [result.tolist(), out.requires_grad, out.grad_fn is None, base.tolist(), base._version, out._version]

    assert run(ours) == run(theirs)
