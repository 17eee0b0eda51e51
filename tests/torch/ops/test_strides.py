"""The strides of results and gradients, against real torch."""

from typing import Any

import pytest

import fgrad.torch as ours
from tests.torch.mirror import first_part

theirs = pytest.importorskip("torch")

SHAPES = [(), (1,), (3,), (1, 1), (1, 3), (3, 1), (2, 1, 3), (2, 3)]

REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum over the first axis": lambda x: x.sum(0),
    "sum over the last": lambda x: x.sum(-1),
    "sum over the last, kept": lambda x: x.sum(-1, keepdim=True),
    "sum over no axes": lambda x: x.sum(()),
    "mean": lambda x: x.mean(),
    "mean over the first axis": lambda x: x.mean(0),
    "mean over the first, kept": lambda x: x.mean(0, keepdim=True),
    "expand": lambda x: x.expand(2, *x.shape),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_gradient(name: str, shape: tuple[int, ...]):
    def run(torch: Any) -> Any:
        x = torch.ones(shape, requires_grad=True)
        y = REDUCTIONS[name](x)
        return torch.autograd.grad(y, x, torch.ones_like(y))[0].stride()

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("strides", [(2, 1), (1, 3), (1, 1), (5, 7)])
def test_gradient_that_is_made_of_nothing(strides: tuple[int, int]):
    def run(torch: Any) -> Any:
        x = torch.ones(30, requires_grad=True).as_strided((3, 2), strides)
        return torch.autograd.grad(torch.ones(1, requires_grad=True), x, materialize_grads=True)[0].stride()

    assert run(ours) == run(theirs)


#: copies of inference tensors
COPIES = {
    "contiguous": lambda torch, x: x.mT.contiguous(),
    "clone": lambda torch, x: x.mT.clone(),
    "clone, contiguous": lambda torch, x: x.mT.clone(memory_format=torch.contiguous_format),
    "double": lambda torch, x: x.mT.double(),
    "to, contiguous": lambda torch, x: x.mT.to(torch.float64, memory_format=torch.contiguous_format),
    "reshape": lambda torch, x: x.mT.reshape(2, 6),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_in_inference_mode(name: str):
    def run(torch: Any) -> Any:
        with torch.inference_mode():
            return COPIES[name](torch, torch.ones(2, 2, 3)).stride()

    assert run(ours) == run(theirs)


#: functions whose gradients lie in memory as PyTorch's formulas leave them
DERIVED = {
    "cat": lambda torch, x: torch.cat([x, x * 2], -1),
    "stack": lambda torch, x: torch.stack([x, x * 2], -1),
    "dstack": lambda torch, x: torch.dstack([x, x * 2]),
    "block_diag": lambda torch, x: torch.block_diag(x, x * 2),
    "unsqueeze": lambda torch, x: torch.cat([x, x * 2], -1).unsqueeze(-1),
    "complex": lambda torch, x: torch.complex(x, x * 2),
    "cdouble": lambda torch, x: x.cdouble(),
    "diag_embed": lambda torch, x: torch.diag_embed(x, 1, 0, 2),
    "diagonal_scatter": lambda torch, x: torch.ones(3, 4, 3).double().diagonal_scatter(x.t()),
    "select_scatter": lambda torch, x: torch.ones(3, 3, 2).double().select_scatter(x, 2, 1),
    "slice_scatter": lambda torch, x: torch.ones(3, 7).double().slice_scatter(x, 1, 1, 7, 2),
    "as_strided_scatter": lambda torch, x: torch.ones(12).double().as_strided_scatter(x, (3, 3), (1, 4), 1),
    "transposed complex": lambda torch, x: (x + 0j).mT,
    "cholesky": lambda torch, x: torch.linalg.cholesky(x @ x.mT),
    "det": lambda torch, x: torch.linalg.det(x),
    "pinv": lambda torch, x: torch.linalg.pinv(x[:, :2]),
    "qr": lambda torch, x: torch.linalg.qr(x)[0],
    "solve": lambda torch, x: torch.linalg.solve(x.detach(), x[:, :2].contiguous()),
    "lstsq": lambda torch, x: torch.linalg.lstsq(x, x.detach()).solution,
    "eigvals of complex": lambda torch, x: torch.linalg.eigvals(x + 0j),
}


#: those of which that holds of the recorded formula too
MOVED = ["cat", "stack", "dstack", "block_diag", "unsqueeze", "complex", "cdouble"]


@pytest.mark.parametrize(
    "name, create_graph", [*[(name, False) for name in DERIVED], *[(name, True) for name in MOVED]]
)
def test_gradient_of_each_operand(name: str, create_graph: bool):
    def run(torch: Any) -> Any:
        x = (torch.eye(3).double() + torch.arange(9.0).double().view(3, 3) / 9).requires_grad_()
        found, seen = DERIVED[name](torch, x), []
        found.grad_fn.register_hook(lambda given, _: seen.extend([None if g is None else g.stride() for g in given]))
        weights = torch.arange(found.numel()).view(found.shape).to(found.dtype)
        torch.autograd.grad(found, x, weights, create_graph=create_graph)
        return found.grad_fn.name(), seen

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "gelu", "sigmoid", "silu", "tanh"])
def test_gradients_of_activations_lie_as_the_gradient_or_what_is_saved(name: str):
    def run(torch: Any) -> Any:
        x = torch.ones(2, 3, requires_grad=True).t() * 1
        y = getattr(torch.nn.functional, name)(x)
        gradients = torch.ones(3, 2), torch.ones(2, 3).t(), torch.ones(1, 1).expand(3, 2)
        return [torch.autograd.grad(y, x, g, retain_graph=True)[0].stride() for g in gradients]

    assert run(ours) == run(theirs)


def test_gradients_of_parts_share_the_whole_gradients_memory():
    def run(torch: Any) -> Any:
        x, y = torch.ones(2, 3, requires_grad=True), torch.ones(2, 2, requires_grad=True)
        whole = torch.arange(10.0).view(2, 5)
        of_x, of_y = torch.autograd.grad(torch.cat([x, y], 1), (x, y), whole)
        whole[0, 4] = 7
        of_x[0, 0] = 9
        return of_y.tolist(), of_y.storage_offset(), whole.tolist()

    assert run(ours) == run(theirs)


INDICES = {
    "a list": [0],
    "two of one": [0, 0],
    "the last axis": (..., [0]),
    "the last axis twice": (..., [0, 1]),
    "two axes": ([0, 1], [0, 0]),
    "two axes apart": ([0, 1], slice(None), [0, 0]),
    "a mask": "mask",
    "a square": ([[0, 1], [1, 0]],),
}

LAYOUTS = [
    ((2, 2, 2), (4, 2, 1)),
    ((2, 2, 2), (1, 2, 4)),
    ((2, 3, 2), (1, 2, 6)),
    ((2, 2, 2), (1, 1, 1)),
    ((2, 1, 2), (2, 1, 1)),
    ((2, 2, 3), (3, 6, 1)),
    ((2, 2, 3), (0, 3, 1)),
]


@pytest.mark.parametrize("sizes, strides", LAYOUTS)
@pytest.mark.parametrize("name", INDICES)
def test_indexed(name: str, sizes: Any, strides: Any):
    def run(torch: Any) -> Any:
        x = torch.arange(20.0).as_strided(sizes, strides)
        index = INDICES[name]
        found = x[x > 1 if index == "mask" else index]
        return found.stride(), found.tolist()

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("sizes", [(3, 1), (1, 3), (2, 1, 3)])
def test_operands_in_order_whose_axes_of_one_element_differ(sizes: tuple[int, ...]):
    def run(torch: Any) -> Any:
        x, y = torch.ones(sizes), torch.ones(sizes[::-1]).permute(*reversed(range(len(sizes))))
        return (x + y).stride(), (y + x).stride(), (y * 2).stride()

    assert run(ours) == run(theirs)


def test_numbers_expanded():
    def run(torch: Any) -> Any:
        return [torch.tensor(1.0).expand(size).stride() for size in ((), (1,), (1, 1), (2, 1), (1, 2))]

    assert run(ours) == run(theirs)


@pytest.mark.parametrize(
    "shape, axes", [((2, 3), (0, 2)), ((2, 3), (0, 3)), ((2, 3), (0, 0)), ((3, 2), (2, 0))], ids=str
)
def test_channels_last_by_axes_of_one_element(shape: tuple[int, ...], axes: tuple[int, int]):
    def run(torch: Any) -> list[Any]:
        x = torch.ones(shape).t()
        for axis in axes:
            x = x.unsqueeze(axis)
        return [y.stride() for y in (x, -x, x + x, x * torch.ones(()), x * 2, x + x.contiguous(), x.clone())]

    assert run(ours) == run(theirs)


LIKE = {
    "in order": lambda torch: torch.ones(2, 3, 2, 2),
    "in another order": lambda torch: torch.ones(3, 2, 2, 2).transpose(0, 1),
    "one channel": lambda torch: torch.ones(2, 1, 3, 3),
    "channels last": lambda torch: torch.ones(2, 3, 2, 2).to(memory_format=torch.channels_last),
    "with gaps": lambda torch: torch.ones(2, 4, 4)[:, ::2],
    "channels last of volumes": lambda torch: torch.ones(1, 2, 2, 2, 2).permute(0, 4, 1, 2, 3),
}


@pytest.mark.parametrize("format", ["contiguous_format", "channels_last", "channels_last_3d", "preserve_format"])
@pytest.mark.parametrize("name", LIKE)
def test_to_a_memory_format(name: str, format: str):
    """A tensor whose strides suggest the format already is returned itself."""

    def run(torch: Any) -> Any:
        x = LIKE[name](torch)
        try:
            found = x.to(torch.float32, memory_format=getattr(torch, format))
        except RuntimeError as error:
            return first_part(str(error))
        return found is x, found.stride()

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("sizes, strides", [((9, 5, 2), (0, 1, 7)), ((5, 5, 2), (4, 5, 7))])
def test_copies_of_what_is_not_dense(sizes: tuple[int, ...], strides: tuple[int, ...]):
    def run(torch: Any) -> list[Any]:
        x = torch.ones(100).as_strided(sizes, strides)
        made = [x.clone(), x.double(), torch.empty_like(x), torch.full_like(x, 2), torch.fill(x, 2)]
        return [y.stride() for y in (*made, torch.nn.functional.logsigmoid(x))]

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("shapes", [((2, 2), (1, 2)), ((2, 3), (2, 2)), ((1, 3), (2, 1)), ((3, 1), (1, 1))])
def test_kron_of_transposed_matrices(shapes: tuple[tuple[int, int], tuple[int, int]]):
    """Any layout is taken; PyTorch refuses many, and what it takes has the same elements."""
    a, b = (ours.arange(float(m * n)).reshape(m, n) for m, n in shapes)
    assert ours.kron(a.t(), b.t()).tolist() == ours.kron(a, b).t().tolist()
