"""What PyTorch's own tests of views, indices, new tensors, types and reductions ask, against real torch."""

from typing import Any

import pytest

import fgrad.torch as ours
from tests.torch.ops.expressions import outcome

theirs = pytest.importorskip("torch")

VIEWS = """
torch.tensor([1.0, 2.5]).view(torch.bool)
torch.ones(2, dtype=torch.int64).view(torch.bool)
torch.tensor([1j]).view(torch.bool).sum()
(torch.ones(3, dtype=torch.uint8) * 5).view(torch.bool)
torch.tensor([True, False, False, True]).view(torch.int32)
x.view(torch.int32)
x.view(torch.float64)
x.view(torch.float32)
leaf.view(torch.float64)
torch.view_copy(x, torch.float64)
x[:, ::2].view(torch.float64)
x.squeeze((0, 0))
torch.tensor(1.0).expand(-1)
x[:, :1].expand(3, -2)
x.as_strided((-1,), (1,))
x.as_strided((1,), (1,), 2**62)
x.reshape()
x.view_as((2,))
torch.broadcast_tensors()
torch.broadcast_tensors([x, x])
torch.broadcast_shapes(1.5)
torch.view_as_complex(x[:, :2].bfloat16())
z.conj().view(torch.float32)
z.conj().imag.view(torch.int32)
z.conj().numpy()
torch.tensor(1j).adjoint()
x.squeeze(0, 1)
x.count_nonzero(0, 1)
x.view(1, 3, 1, 4).squeeze(0, 2).shape
torch.flip(x, (0, 1))
torch.lu(torch.ones(2, 2)).LU if hasattr(torch.lu(torch.ones(2, 2)), "LU") else torch.lu(torch.ones(2, 2))[0]
z.conj().imag.numpy()
torch.empty(0).resize_(2, 3, 4, 5, memory_format=torch.channels_last).stride()
torch.empty(0).resize_(2, 2, memory_format=torch.channels_last)
torch.empty(0).resize_(2, memory_format=torch.preserve_format)
torch.empty(2).resize_(-1, 2)
torch.empty(2).resize_as_(last, memory_format=torch.preserve_format).stride()
torch.empty(2).resize(3)
torch.cat([last[..., :1], last[..., 1:]], -1).stride()
torch.cat([last[::2], last], 1).stride()
torch.cat([last[..., 1:], last.contiguous()[..., 1:]]).stride()
torch.cat([last, torch.empty(0)]).stride()
torch.cat([last, torch.empty(2, 0, *last.shape[2:])], 1).stride()
torch.cat([torch.empty(0), torch.empty(0)], 1)
torch.cat([torch.empty(0), torch.empty(0)], -3)
torch.cat([torch.empty(0), x], 2)
x.roll(1, None)
f"{torch.tensor(1.0, device='meta')}"
reversed(x)
reversed(torch.tensor(1.0))
"""

INDICES = """
x[[slice(0, 1)]]
x[[0, 1.5]]
x[np.array([1.7])]
x[np.array([])]
x["a"]
x[torch.tensor(1.5):]
x[Index()]
x[Index(), Index()]
x[[Index(), Index()]]
x[Sequence()]
x[2**70]
x[: 2**70].shape
x[2**70, 0]
put(x, 0, 2**63)
put(x.long(), 0, 2**63)
put(x > 1, 0, 1j)
put(x.to(torch.uint8), 0, 256)
put(x.to(torch.uint8), 0, -255)
put(x.to(torch.uint8), 0, -0.5)
x.scatter_reduce(0, torch.tensor([[0]]), x, "max")
x[torch.tensor([1, 0]):]
x[[0, 1, 2], [0, 1]]
torch.ones(0, 3)[:, [5]]
torch.ones(2, 0)[:, [0]]
x.index_put((torch.tensor(True),), torch.tensor(7.0))
x.index_put((torch.tensor(False),), torch.tensor(7.0))
x.index_put((torch.tensor(True), torch.tensor([0, 1])), torch.arange(4.0))
x.index_put((torch.tensor([1]), torch.tensor(False)), torch.tensor(7.0))
x.index_put((x > 2,), torch.tensor(7.0))
x.index_put((x[0] > 0.5,), torch.ones(3))
x.index_put((torch.tensor([1, 0], dtype=torch.uint8),), torch.tensor(7.0))
put(x, True, torch.ones(5, 4))
put(x, True, torch.ones(1, 3, 4))
put(x, (slice(None), x[0] > 0.5), 9)
put(x, (x[:, 0] > 1, slice(None)), 9)
torch.ones(3).index_add_(0, torch.tensor([0, 3]), torch.ones(2))
x.index_add(0, torch.tensor([0, 3]), x[:2], alpha=2)
x.index_add(0, torch.tensor([0, -1]), x[:2])
put(x.long(), 0, float("nan"))
put(x, 0, 1j)
put(x, 0, torch.tensor(1j))
put(x, 0, torch.tensor(1 + 0j).item())
"""

NEW = """
torch.tensor([np.float64(1)]).dtype
torch.tensor([np.int8(1), 2]).dtype
torch.tensor([[np.int8(1)]]).dtype
torch.tensor(x)
x.new_tensor(x)
torch.as_tensor(x)
torch.tensor(np.ones((2, 3)).T)
torch.tensor(np.arange(3)[::-1])
torch.tensor(1e20, dtype=torch.int32)
torch.tensor([float("nan")], dtype=torch.int64)
torch.tensor([-1.5], dtype=torch.uint8)
torch.tensor([1e39])
torch.from_numpy(np.arange(12.0).reshape(3, 4)[:, ::2])
torch.from_numpy(np.arange(12.0).reshape(3, 4)[1:, 1:])
torch.as_tensor(np.arange(12.0).reshape(3, 4)[::2])
torch.from_numpy(np.arange(24).reshape(2, 3, 4)[:, 1:, ::3]) + 1
torch.from_numpy(np.zeros(3, dtype=[("a", "f4"), ("b", "i2")])["a"])
torch.asarray(leaf)
torch.asarray(leaf, requires_grad=False)
torch.asarray([1, 2], copy=False)
torch.asarray(1.5, copy=False)
torch.asarray(np.float32(1.5), copy=False)
torch.asarray(np.arange(2.0), dtype=torch.float32, copy=False)
torch.asarray(x, dtype=torch.float64, copy=False)
torch.asarray(bytearray(8))
torch.asarray(memoryview(bytearray(b"abcd")), dtype=torch.uint8)
torch.asarray(bytearray(3))
torch.asarray(torch.utils.dlpack.to_dlpack(x))
torch.as_tensor(x, device="meta").device
torch.asarray(x, device="meta").device
torch.vander(torch.tensor([2, 200], dtype=torch.uint8), 3)
torch.vander(torch.tensor([True, False]))
torch.tensor([2**64 - 1], dtype=torch.uint64).to(torch.float64)
torch.tensor(2**63, dtype=torch.int64)
torch.tensor(2**63)
torch.tensor([2**63, 1])
torch.tensor([2**63, 1.5])
torch.tensor([2.5, 2**64])
torch.tensor(255.5, dtype=torch.uint8)
torch.tensor(np.ones(2, np.complex64), dtype=torch.float32)
torch.full((1,), 2**63)
torch.full((1,), 2**63, dtype=torch.float16)
torch.full((1,), 2**64)
torch.full((1,), -(2**63) - 1)
torch.full((1,), -0.5, dtype=torch.uint8)
x.long().fill_(2**63)
(x > 1).fill_(2**63)
torch.zeros((2,), 3)
torch.zeros([2.0])
torch.zeros(torch.tensor([2, 3]))
torch.zeros(2, dtype=torch.int64, out=torch.empty(2))
torch.zeros(5, out=torch.empty(2))
torch.rand(5, out=torch.empty(2)).shape
torch.eye(2, out=torch.empty(5))
torch.arange(4, out=torch.empty(2))
torch.arange(4, out=torch.empty(2, 2))
torch.linspace(0, 1, 5, out=torch.empty(2))
torch.linspace(0, 1, 3.0)
torch.linspace(0, float("inf"), 3)
torch.logspace(0, 1j, 2)
torch.full((2,), torch.tensor([3]))
torch.full((2,), "a")
torch.full((2,), 1, out=torch.empty(2))
torch.full_like(x, 1j)
torch.full_like(x.long(), float("inf"))
torch.full_like(x, torch.tensor([2.0]))
torch.full_like(x, torch.tensor(2.0))
x.new_zeros(size=(2,))
x.new_ones()
x.new_full((2,), torch.tensor([3]))
torch.empty_strided((2, 3), (1,))
torch.empty_strided((2,), (-1,))
torch.block_diag()
torch.block_diag(1)
torch.meshgrid(1, 2, indexing="ij")
x.long().fill_(float("nan"))
x.long().fill_(1e20)
x.fill_(1j)
x.fill_(1 + 0j)
"""

TYPES = """
torch.nn.functional.binary_cross_entropy(x[0] / 12, x[1] / 12, x[2].double())
torch.nn.functional.binary_cross_entropy_with_logits(x[0], x[1], x[2].double())
torch.nn.functional.binary_cross_entropy_with_logits(x[0], x[1], pos_weight=x[2].double())
torch.nn.functional.binary_cross_entropy_with_logits(x[0], x[1], torch.arange(4))
torch.tensor([-1.5, 300.0, 40000.0, 3e9, float("nan")]).to(torch.uint8)
torch.tensor([-1.5, 300.0, 40000.0, 3e9, float("nan")]).to(torch.int8)
torch.tensor([-1.5, 300.0, 40000.0, 3e9, float("nan")]).to(torch.int16)
torch.tensor([-1.5, 300.0, 40000.0, 3e9, float("-inf")]).to(torch.int32)
torch.tensor([-1.5, 3e9, 1e19, float("inf")]).to(torch.int64)
torch.tensor([300.0, 60000.0], dtype=torch.float16).to(torch.uint8)
z.float()
z.to(torch.int64)
x.copy_(z[0].expand(3, 4))
float(z[0])
int(torch.tensor(2 + 0j))
x + 2**63
x.long() + 2**63
x.to(torch.uint8) * (2**63 + 1)
(x > 1) + 2**63
x.half() - 2**63
z * 2**63
x.long() / 2**63
2**63 / x.long()[0, 1:]
x.long() < 2**63
x < 2**63
x.add_(2**63)
x.long().mul_(2**63 + 1)
x + 2**64
x * -(2**63 + 1)
x.clamp(max=2**63)
x.long().masked_fill(x > 1, 2**63)
x.masked_fill(x > 1, 2**63)
(x > 1) - True
True - (x > 1)
x.long().sum(dtype=torch.int32)
x.sum(dtype=torch.bool)
x.long().sum(0, dtype=torch.int8)
x.long().prod(dtype=torch.int32)
x.prod(dtype=torch.bool)
x.nansum(dtype=torch.int32)
x.all(())
x.any(())
torch.tensor([4.0, 0.0, 6.0], dtype=torch.float16).mean()
torch.tensor([4.0, 0.0, 6.0], dtype=torch.bfloat16).std()
torch.tensor([1.0]).std()
x.var(0, correction=3)
torch.std_mean(torch.ones(2, 0), 0)
x.std(dim=torch.tensor(0))
x.t().sort(0).values
x.t().sort(dim=0, stable=True).indices
torch.tensor(0.5, dtype=torch.float64).sigmoid()
torch.nn.functional.silu(torch.tensor(0.5, dtype=torch.float64))
torch.ones(0, 3).sort(0).values
torch.ones(0).argsort()
torch.ones(3, 0).topk(0).values
torch.dist(x, torch.ones(3))
torch.aminmax(x, 0)
torch.histogram(x).bin_edges.shape
torch.nonzero_static(torch.ones(0, 3), size=2)
torch.cov(torch.tensor([1.0]))
torch.qr(x.t())[1].shape
torch.cholesky(torch.eye(2))
torch.triangular_solve(torch.ones(2, 1), torch.eye(2))
torch.lu_solve(torch.ones(2, 1), torch.eye(2), torch.tensor([1, 2], dtype=torch.int32))
"""

#: writes to tensors of which elements share a place
SHARED = """
torch.ones(1, 3).expand(3, 3).tril_()
torch.ones(3, 1).expand(3, 3).tril_(1)
torch.ones(3, 1).expand(3, 3).triu_()
torch.arange(9.0).view(1, 3, 3).expand(2, 3, 3).triu_()
torch.ones(1).expand(2, 2).tril_()
(x[0] > 1)[:3].clone().masked_fill_(x[0, 1:] > 1, False)
(lambda mask: mask[1:].masked_fill_(mask[:-1], False))(x[0] > 1)
(lambda mask: mask.masked_fill_(mask, False))(x[0] > 1)
(lambda i: i[1:].index_fill_(0, i[:-1], 7))(torch.arange(4))
"""


#: arguments by the names that they have in PyTorch's overloads
NAMED = """
torch.tensor_split(x, sections=2)
x.tensor_split(indices=(1,), dim=1)
x.tensor_split(tensor_indices_or_sections=torch.tensor([1]))
torch.hsplit(x, sections=2)
x.vsplit(indices=[1])
torch.dsplit(x[None], indices=(1,))
torch.isin(element=1.0, test_elements=x)
torch.isin(elements=x, test_element=1.0)
torch.cholesky_solve(torch.eye(2), input2=torch.eye(2))
torch.orgqr(torch.eye(2), input2=torch.ones(2))
torch.ormqr(torch.eye(2), input2=torch.ones(2), input3=torch.eye(2))
torch.eye(2, pin_memory=False)
torch.full((2,), 1.0, pin_memory=False)
torch.full_like(x, 1.0, pin_memory=False)
torch.linspace(0, 1, 3, pin_memory=False)
torch.logspace(0, 1, 3, pin_memory=False)
torch.tril_indices(2, 2, pin_memory=False)
torch.triu_indices(2, 2, pin_memory=False)
torch.scalar_tensor(2.0, layout=torch.strided, pin_memory=False)
torch.fft.fftfreq(4, pin_memory=False)
torch.rrelu(x, generator=None)
torch.result_type(tensor=x, other=2)
torch.result_type(x, other=x)
torch.result_type(scalar=1, tensor=x)
torch.result_type(scalar1=1, scalar2=2.0)
torch.result_type(x)
x.clone().resize_(size=(4,)).shape
x.clone().swapaxes_(axis0=0, axis1=1).shape
x.clone().swapdims_(dim0=0, dim1=1).shape
x.clone().copy_(other=x)
torch.repeat_interleave(repeats=torch.tensor([1, 2]))
torch.tile(x, dims=(2,))
x.tile(2, 1)
x.tile(())
x.sum_to_size(size=(1, 4))
x.broadcast_to(size=(2, 3, 4))
x.broadcast_to(2, -1, 4).shape
"""

SPECIAL = """
torch.pow(torch.tensor([True, False]), True)
torch.pow(torch.tensor([True, False]), False)
torch.tensor([True, False]).pow_(True)
torch.pow(torch.tensor([True, False]), torch.tensor(True))
torch.tensor([complex(np.inf, np.nan), complex(np.nan, -np.inf), complex(np.nan, 1), complex(np.nan, np.nan)]).abs()
torch.nn.functional.silu(z)
torch.nn.functional.silu(z.requires_grad_())
torch.nn.functional.hardtanh(torch.ones(2, dtype=torch.uint8))
torch.nn.functional.hardtanh(torch.ones(2, dtype=torch.uint8), 0, 3)
torch.nn.functional.hardtanh(torch.ones(2, dtype=torch.uint8), 0, 300)
torch.nn.functional.hardtanh(torch.ones(2, dtype=torch.int8), -300.5, 3)
torch.mvlgamma(torch.tensor([True]), 1)
torch.mvlgamma(torch.tensor([1]), 1)
torch.clamp(torch.ones(2, dtype=torch.uint8), min=300)
torch.clamp(torch.ones(2, dtype=torch.uint8), -1, 200)
torch.clamp(torch.ones(2, dtype=torch.uint8), max=300.0)
torch.clamp_max(torch.ones(2, dtype=torch.int8), -300)
torch.ones(2, dtype=torch.int8).clamp_(min=300)
torch.addmm(torch.ones(2, 2, dtype=torch.uint8), *torch.ones(2, 2, 2, dtype=torch.uint8), alpha=300)
torch.addmm(torch.ones(2, 2).half(), *torch.ones(2, 2, 2).half(), beta=1e6)
torch.addmm(torch.ones(2, 2).half(), *torch.ones(2, 2, 2).half(), beta=1e39)
torch.addmm(torch.ones(2, 2), *torch.ones(2, 2, 2), beta=1j)
torch.addmv(torch.ones(2).half(), torch.ones(2, 2).half(), torch.ones(2).half(), alpha=1e6)
torch.addbmm(torch.ones(2, 2).int(), *torch.ones(2, 2, 2, 2).int(), beta=2**31)
torch.baddbmm(torch.ones(2, 2, 2).int(), *torch.ones(2, 2, 2, 2).int(), alpha=2**31)
torch.addr(torch.ones(2, 2, dtype=torch.int8), *torch.ones(2, 2, dtype=torch.int8), alpha=-300)
torch.addr(torch.ones(2, 2, dtype=torch.int8), *torch.ones(2, 2, dtype=torch.int8), alpha=1e6)
torch.addr(torch.ones(2, 2, dtype=torch.int8), *torch.ones(2, 2, dtype=torch.int8), alpha=1j)
torch.addr(torch.ones(2, 2).half(), *torch.ones(2, 2).half(), beta=1j)
torch.addr(torch.ones(2, 2).bool(), *torch.ones(2, 2).bool(), alpha=-1)
torch.add(torch.ones(2).int(), 1, alpha=1j)
torch.addcmul(torch.ones(2, dtype=torch.int8), *torch.ones(2, 2, dtype=torch.int8), value=1e6)
torch.addcdiv(torch.ones(2).half(), *torch.ones(2, 2).half(), value=-1e9)
torch.lerp(torch.ones(2).half(), torch.ones(2).half(), 1e6)
torch.lerp(torch.ones(2, dtype=torch.int8), torch.ones(2, dtype=torch.int8), 300)
torch.index_add(torch.ones(2, dtype=torch.int8), 0, torch.tensor([0]), torch.ones(1, dtype=torch.int8), alpha=300)
torch.nn.functional.threshold(torch.ones(2, dtype=torch.int8), 300, 1)
torch.nn.functional.threshold(torch.ones(2, dtype=torch.int8), 2, 300)
torch.nn.functional.threshold(torch.ones(2).half(), 1e6, 1)
torch.nn.functional.threshold(torch.ones(2).half(), 0, 1e6)
torch.nn.functional.threshold_(torch.ones(2).half(), 0, 1e6)
torch.nn.functional.leaky_relu(-torch.ones(2).half(), 1e39)
torch.nn.functional.leaky_relu(-torch.ones(2), 1j)
torch.nn.functional.elu(-torch.ones(2), 1e39)
torch.nn.functional.softplus(-torch.ones(2), 1j)
torch.nn.functional.hardshrink(torch.ones(2).half(), 1e6)
torch.nn.functional.hardtanh(torch.ones(2, dtype=torch.int8), -1, 300)
torch.nn.functional.hardtanh(torch.ones(2).half(), -1e6, 1e6)
torch.where(torch.tensor([True, False]), torch.ones(2).half(), -1e9)
torch.ones(2).bfloat16().index_put((torch.tensor([0]),), torch.tensor(-1e39, dtype=torch.float64).bfloat16())
torch.clamp_min(x.half(), 1e6)
torch.clip(x, 1e60)
byte.scatter(0, index, 300)
byte.scatter(0, index, -1)
x.scatter(0, index, 1j)
x.scatter(0, index, 1j, reduce="add")
byte.index_fill(0, index[0], 300)
torch.where(byte == 1, byte, 300)
torch.where(byte == 1, byte, 300.5)
torch.where(x > 5, 1e60, x)
torch.where(x > 5, x.half(), -np.inf)
byte.pow(300)
byte.pow(300.0)
(byte > 1).pow(300)
x.half().pow(1e6)
x.pow(1j)
torch.add(byte, byte, alpha=300)
torch.add(byte, byte, alpha=-1)
torch.add(byte, 300, alpha=300)
torch.add(byte, 1.5, alpha=300)
torch.add(byte, x, alpha=300)
torch.add(x, 1, alpha=1j)
torch.sub(x, x, alpha=1e60)
torch.rsub(byte, byte, alpha=300)
byte.addcmul(byte, byte, value=300)
x.addcdiv(x, x, value=1e60)
torch.addcmul(x, x, x, value=1j)
torch.lerp(x, x, 1j)
torch.nn.functional.pad(byte, (1, 1), value=300)
torch.nn.functional.pad(x, (1, 1), value=-np.inf)
torch.autograd.grad(torch.cdist(leaf, leaf * 2, p=np.inf).sum(), leaf)[0]
torch.autograd.grad(torch.pdist(torch.cat([leaf, leaf * 2]), p=np.inf).sum(), leaf)[0]
leaf.split(3, 1)[0].grad_fn._saved_split_size
leaf.chunk(2)[0].grad_fn._saved_split_size
leaf.split([1, 3], 1)[0].grad_fn._saved_split_sizes
torch.unsafe_split(leaf, 2, 1)[0].grad_fn._saved_split_size
torch.fft.fftfreq(4, 0.0)
torch.ones(()).bernoulli_(torch.ones(()))
torch.kthvalue(x[:0], 1, 0)
torch.kthvalue(x[:0], 1, 1).values.clone()
torch.unique(x[:, :0], dim=0)
torch.unique(x[:0], dim=0)
torch.unique(x[:0, :0], dim=0)
torch.unique(x.sum(), dim=0)
torch.unique_consecutive(x[:, :0], dim=0)
torch.trapezoid(x[:, :0])
torch.trapezoid(x[:0], dim=0)
torch.trapezoid(x[0, :0], x[0, :0])
torch.trapezoid(leaf.view(-1)[:0]).requires_grad
torch.trapezoid(x[:0].int(), dim=0)
torch.nn.functional.cosine_similarity(x.half(), x + 1)
torch.nn.functional.binary_cross_entropy_with_logits(x.double(), x)
torch.nn.functional.binary_cross_entropy_with_logits(x, x.double()).dtype
torch.nn.functional.binary_cross_entropy_with_logits(x, x.half(), reduction="none").dtype
torch.nn.functional.binary_cross_entropy_with_logits(x, x > 0)
torch.nn.functional.binary_cross_entropy_with_logits(x.double(), x, x, pos_weight=x[0].double(), reduction="sum").dtype
"""


@pytest.fixture(autouse=True)
def warned_always():
    """PyTorch warns of each thing once in a process unless it is told otherwise."""
    for torch in (ours, theirs):
        torch.set_warn_always(True)
    yield
    for torch in (ours, theirs):
        torch.set_warn_always(False)


@pytest.mark.parametrize(
    "expression",
    [line for block in (VIEWS, INDICES, NEW, TYPES, SHARED, NAMED, SPECIAL) for line in block.strip().split("\n")],
)
def test_comes_to_what_it_does_in_pytorch(expression: str):
    assert outcome(ours, expression) == outcome(theirs, expression)


def test_a_view_of_another_type_counts_writes_with_the_tensor():
    def run(torch: Any) -> Any:
        x = torch.ones(4, requires_grad=True)
        seen = x.view(torch.int32)
        seen.add_(1)
        return x._version, seen._version, seen._base is None, x.is_leaf, x.tolist()

    assert run(ours) == run(theirs)


def test_filling_a_mask_has_the_gradients_of_index_put():
    def run(torch: Any) -> Any:
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        value = torch.tensor([2.0], requires_grad=True)
        y = (x * 1).index_put((x > 2,), value)
        (y * y).sum().backward()
        return type(y.grad_fn).__name__, x.grad.tolist(), value.grad.tolist()

    assert run(ours) == run(theirs)


def test_a_variance_has_one_correction():
    for torch in (ours, theirs):
        with pytest.raises(TypeError, match="received an invalid combination of arguments"):
            torch.ones(2).var(unbiased=True, correction=1)
