"""Programs for the mutable layer: each a function of a library's namespace, so that PyTorch runs the same code."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from attrs import frozen


@frozen
class Mutable:
    """A program of tensors: ``make(torch)`` gives the call that is measured."""

    name: str
    make: Callable[[Any], Callable[[], Any]]
    #: the most it may cost against PyTorch eager
    wanted: float


def _operation(name: str, work: Callable[[Any, Any, Any], Any]) -> Mutable:
    """One operation on 32x32 matrices, recorded."""

    def make(torch: Any) -> Callable[[], Any]:
        x, y = torch.rand(32, 32, requires_grad=True), torch.rand(32, 32)
        return lambda: work(torch, x, y)

    return Mutable(f"{name} of 32x32, recorded", make, 7.0)


def _written(torch: Any) -> Callable[[], Any]:
    y = torch.rand(32, 32)

    def call() -> Any:
        y[0] = 1.0
        return y

    return call


def _chain(length: int) -> Mutable:
    """An elementwise chain on 32x32, forward and backward."""

    def make(torch: Any) -> Callable[[], Any]:
        x = torch.rand(32, 32, requires_grad=True)

        def call() -> Any:
            x.grad = None
            y = x
            for _ in range(length):
                y = (y * 1.01).tanh()
            y.sum().backward()
            return x.grad

        return call

    return Mutable(f"{2 * length} elementwise operations on 32x32, forward and backward", make, 3.0)


def _mixed_chain(size: int, wanted: float) -> Mutable:
    """Four functions of one vector, forward and backward."""

    def make(torch: Any) -> Callable[[], Any]:
        t = torch.rand(size, requires_grad=True)

        def call() -> Any:
            t.grad = None
            y = torch.sin(t) * torch.exp(-t * t) + torch.log1p(t) * torch.tanh(t)
            y.sum().backward()
            t.grad.numpy()  # a gradient that nobody reads would not be computed
            return t.grad

        return call

    return Mutable(f"elementwise chain on {size} elements, forward and backward", make, wanted)


def _tiny(count: int) -> Mutable:
    """Many operations on single numbers."""

    def make(torch: Any) -> Callable[[], Any]:
        x = torch.tensor(0.5, requires_grad=True)

        def call() -> Any:
            x.grad = None
            y = x
            for _ in range(count):
                y = y * x + 0.1
            y.backward()
            return x.grad

        return call

    return Mutable(f"{2 * count} operations on numbers, forward and backward", make, 3.0)


def _step(sizes: tuple[int, ...], batch: int, wanted: float) -> Mutable:
    """A training step: modules, cross entropy, backward, SGD with momentum."""

    def make(torch: Any) -> Callable[[], Any]:
        nn = torch.nn
        layers: list[Any] = []
        for m, n in pairwise(sizes):
            layers += [nn.Linear(m, n), nn.ReLU()]
        model = nn.Sequential(*layers[:-1])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        x, labels = torch.rand(batch, sizes[0]), torch.randint(0, sizes[-1], (batch,))

        def call() -> Any:
            loss = nn.functional.cross_entropy(model(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return next(iter(model.parameters()))

        return call

    return Mutable(f"training step of the {'-'.join(map(str, sizes))} MLP, batch {batch}", make, wanted)


STEPS = (
    _step((16, 16, 16, 10), 8, 1.3),
    _step((784, 256, 256, 10), 128, 1.0),
    _step((1024, 1024, 1024, 10), 256, 1.0),
)
PROGRAMS = (
    _operation("product", lambda torch, x, y: x * y),
    _operation("matrix product", lambda torch, x, y: x @ y),
    _operation("sine", lambda torch, x, y: torch.sin(x)),
    _operation("sum", lambda torch, x, y: x.sum()),
    _operation("softmax", lambda torch, x, y: x.softmax(1)),
    _operation("first row", lambda torch, x, y: x[0]),
    _operation("another shape", lambda torch, x, y: x.view(-1)),
    _operation("transpose", lambda torch, x, y: x.t()),
    Mutable("first row of 32x32, written", _written, 7.0),
    _chain(10),
    _tiny(20),
    _mixed_chain(1000, 1.2),
    _mixed_chain(100_000, 0.8),
    _mixed_chain(4_000_000, 0.7),
    *STEPS,
)
