"""Operations of the mutable layer on 32x32 matrices, each a line of code that PyTorch runs too."""

from collections.abc import Callable
from typing import Any

#: elementwise; reductions; linear algebra; indexing; shapes; writes; modules' functions; creation and reading
_LINES = """
x * y
x + y
x - 1.0
x / (y + 1)
x**2
-x
x.abs()
x.exp()
x.log()
x.sqrt()
x.sin()
x.tanh()
x.sigmoid()
x.relu()
x.clamp(0.2, 0.8)
F.gelu(x)
torch.maximum(x, y)
torch.lerp(x, y, 0.5)
torch.addcmul(x, y, z)
torch.where(mask, x, y)
x.masked_fill(mask, 0.0)
x > 0.5
x == y
x.double()
x.long()
x.clone()
x.detach()

x.sum()
x.sum(1)
x.mean()
x.std()
x.var(1)
x.norm()
x.prod(1)
x.max()
x.max(1)
x.argmax(1)
x.logsumexp(1)
x.cumsum(0)
x.softmax(1)
x.log_softmax(1)
x.sort(1)
x.topk(3)
mask.all()
mask.any()
torch.allclose(x, y)
labels.unique()
mask.nonzero()

x @ y
torch.addmm(row, x, y)
torch.bmm(batch, batch)
torch.outer(row, row)
torch.einsum("ij,jk->ik", x, y)
torch.linalg.inv(x)
torch.linalg.solve(x, y)
torch.linalg.qr(y)
torch.linalg.svd(y)
torch.linalg.eigh(y + y.t())
torch.linalg.cholesky(y @ y.t() + 32 * torch.eye(32))
torch.det(x)
torch.fft.fft(x)

x[0]
x[1:5]
x[labels]
x[mask]
x.gather(1, places)
x.index_select(0, labels)
x.scatter(1, places, y)
x.scatter_add(1, places, y)
x.index_add(0, labels, y)
F.embedding(labels, x)
F.one_hot(labels, 32)

x.view(-1)
x.t()
x.reshape(16, 64)
batch.permute(2, 0, 1)
x.unsqueeze(0)
x.squeeze()
number.expand(3)
x.diagonal()
x.tril()
x.flip(0)
x.roll(1, 0)
x.repeat(2, 1)
x.t().contiguous()
x.split(8)
x.chunk(2)
x.unbind(0)
torch.cat([x, y])
torch.stack([x, y])

z.add_(y)
z.mul_(1.0)
z.copy_(y)
z.fill_(1.0)
z.zero_()
z.masked_fill_(mask, 0.0)
z.__setitem__(0, 1.0)
z.__setitem__(0, row)

F.linear(x, y, row)
F.layer_norm(x, (32,))
F.batch_norm(x, None, None, training=True)
F.dropout(x, 0.5)
F.cross_entropy(x, labels)
F.nll_loss(x, labels)
F.mse_loss(x, y)
F.binary_cross_entropy_with_logits(x, y)
F.conv2d(images, kernel)
F.max_pool2d(images, 2)
F.avg_pool2d(images, 2)
F.scaled_dot_product_attention(batch, batch, batch)
(x * y).sum().backward()

torch.zeros(32, 32)
torch.ones(32, 32)
torch.full((32, 32), 1.0)
torch.zeros_like(x)
torch.eye(32)
torch.arange(32)
torch.tensor([1.0, 2.0])
torch.rand(32, 32)
torch.randn(32, 32)
number.item()
y[0, 0].item()
row.tolist()
y.numpy()
"""

LINES = tuple(filter(None, _LINES.splitlines()))


def operation(torch: Any, line: str) -> Callable[[], Any]:
    """A line as a function, on matrices of its own; ``x`` requires grad."""
    scope = {
        "torch": torch,
        "F": torch.nn.functional,
        "x": torch.rand(32, 32, requires_grad=True),
        "y": torch.rand(32, 32),
        "z": torch.rand(32, 32),
        "mask": torch.rand(32, 32) > 0.5,
        "row": torch.rand(32),
        "number": torch.tensor(0.5),
        "batch": torch.rand(4, 32, 32),
        "images": torch.rand(2, 3, 16, 16),
        "kernel": torch.rand(4, 3, 3, 3),
        "labels": torch.randint(0, 32, (32,)),
        "places": torch.randint(0, 32, (32, 32)),
    }
    exec(f"def call():\n    return {line}", scope)
    return scope["call"]


def wait(result: Any) -> None:
    """Wait for what a line gave: nothing is done before its array is there."""
    for x in result if isinstance(result, tuple | list) else [result]:
        if hasattr(x, "detach"):
            x.detach().numpy()
