"""Compiled and captured steps of training against PyTorch, eager and compiled, the same in JAX, and themselves."""

import contextlib
import importlib
import json
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from attrs import frozen

import fgrad
import fgrad.numpy as fnp
import fgrad.torch
from tests.benchmarks.measured import Row
from tests.benchmarks.memory import peak_memory
from tests.benchmarks.side_by_side import Awaited, ratio

#: calls of a step before it is measured
WARM_UP = 8
#: how much longer the rounds of steps are: each has to hold several
LONGER = 4
#: calls that are measured together, of an overhead
CALLS = 50


@frozen
class Step:
    """A step of training in PyTorch's names: ``make(torch)`` gives the function that is compiled, and its arguments."""

    name: str
    make: Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]]
    #: the most it may cost against PyTorch eager
    wanted: float


def _trained(torch: Any, optimizer: Any, loss: Callable[..., Any]) -> Callable[..., Any]:
    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        value = loss(*batch)
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def _layers(torch: Any, sizes: tuple[int, ...]) -> Any:
    layers: list[Any] = []
    for m, n in pairwise(sizes):
        layers += [torch.nn.Linear(m, n), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def mlp(sizes: tuple[int, ...], batch: int, wanted: float) -> Step:
    def make(torch: Any) -> Any:
        model = _layers(torch, sizes)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        step = _trained(torch, optimizer, lambda x, y: torch.nn.functional.mse_loss(model(x), y))
        return step, (torch.rand(batch, sizes[0]), torch.rand(batch, sizes[-1]))

    return Step(f"{'-'.join(map(str, sizes))} MLP, SGD with momentum, batch {batch}", make, wanted)


def _transformer(torch: Any) -> Any:
    nn = torch.nn
    layers = [nn.TransformerEncoderLayer(64, 4, 128, 0.1, batch_first=True) for _ in range(2)]
    model = nn.Sequential(nn.Embedding(50, 64), *layers, nn.Linear(64, 50))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = _trained(torch, optimizer, lambda x, y: nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()))
    return step, (torch.randint(0, 50, (16, 32)), torch.randint(0, 50, (16, 32)))


def _convolutions(torch: Any) -> Any:
    nn = torch.nn

    def unit(m: int, n: int) -> list[Any]:
        return [nn.Conv2d(m, n, 3, padding=1), nn.BatchNorm2d(n), nn.ReLU(), nn.MaxPool2d(2)]

    head = [nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 49, 10)]
    model = nn.Sequential(*unit(1, 16), *unit(16, 32), *head)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = _trained(torch, optimizer, lambda x, y: nn.functional.cross_entropy(model(x), y))
    return step, (torch.rand(32, 1, 28, 28), torch.randint(0, 10, (32,)))


def _lstm(torch: Any) -> Any:
    recurrent, head = torch.nn.LSTM(32, 64, batch_first=True), torch.nn.Linear(64, 10)
    optimizer = torch.optim.Adam([*recurrent.parameters(), *head.parameters()], lr=1e-3)
    step = _trained(torch, optimizer, lambda x, y: torch.nn.functional.cross_entropy(head(recurrent(x)[0][:, -1]), y))
    return step, (torch.rand(32, 20, 32), torch.randint(0, 10, (32,)))


def _vae(torch: Any) -> Any:
    encoder, decoder = _layers(torch, (784, 256, 64)), _layers(torch, (32, 256, 784))
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)

    def loss(x: Any) -> Any:
        mean, log_variance = encoder(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return torch.nn.functional.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum") + divergence

    return _trained(torch, optimizer, loss), (torch.rand(128, 784),)


def _inference(torch: Any) -> Any:
    """Variational inference of a logistic regression: distributions check their arguments, a schedule steps inside."""
    normal, x = torch.distributions.Normal, torch.randn(200, 10)
    mean, log_deviation = torch.zeros(10, requires_grad=True), torch.zeros(10, requires_grad=True)
    optimizer = torch.optim.Adam([mean, log_deviation], lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    prior = torch.zeros(10), torch.ones(10)

    def loss(x: Any, y: Any) -> Any:
        posterior = normal(mean, log_deviation.exp())
        w = posterior.rsample()
        likelihood = torch.distributions.Bernoulli(logits=x @ w).log_prob(y).sum()
        return posterior.log_prob(w).sum() - normal(*prior).log_prob(w).sum() - likelihood

    descend = _trained(torch, optimizer, loss)

    def step(x: Any, y: Any) -> Any:
        value = descend(x, y)
        scheduler.step()
        return value

    return step, (x, (x[:, 0] > 0).float())


STEPS = (
    mlp((16, 16, 16, 1), 8, 0.35),
    mlp((784, 256, 256, 10), 128, 0.6),
    mlp((1024, 1024, 1024, 1024), 256, 0.7),
    Step("small transformer, Adam", _transformer, 0.6),
    Step("conv net with BatchNorm and dropout, Adam", _convolutions, 0.6),
    Step("LSTM, Adam", _lstm, 0.6),
    Step("VAE, Adam", _vae, 0.6),
    Step("variational inference, Adam and a schedule", _inference, 0.6),
)
#: the most a compiled step may cost against ``torch.compile``
COMPILED = 0.9


def rows(rounds: int, seconds: float, torch: Any) -> list[Row]:
    """All of them; ``torch`` is PyTorch, where it is installed."""
    found = [] if torch is None else [row for step in STEPS for row in against_torch(step, torch, rounds, seconds)]
    found += [against_jax(rounds, seconds), overhead(2, 30, rounds), overhead(100, 150, rounds), front(rounds)]
    found += front_of_jax(rounds)
    return found if torch is None else [*found, memory()]


def against_torch(step: Step, torch: Any, rounds: int, seconds: float) -> list[Row]:
    """A compiled step against PyTorch, eager and compiled."""
    function, args = step.make(fgrad.torch)
    compiled = fgrad.torch.compile(function)
    eager, batch = step.make(torch)
    theirs, other = step.make(torch)
    theirs = torch.compile(theirs)
    for _ in range(WARM_UP):
        compiled(*args)
        theirs(*other)
    found = [floor(step, torch, rounds, seconds)]
    for against, call, wanted in (
        ("PyTorch eager", lambda: eager(*batch), step.wanted),
        ("torch.compile", lambda: theirs(*other), COMPILED),
    ):
        r, a, b = ratio(lambda: Awaited(compiled(*args)), call, rounds, LONGER * seconds)
        found.append(Row(f"compiled step, {step.name}", against, r, wanted, f"{a:.0f} / {b:.0f} us"))
    return found


#: PyTorch runs these layers as one operation each, of which the elementwise part is not told apart
_LAYERS = ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward")
#: the operations of PyTorch's that multiply matrices, convolve, or run a recurrent layer
_HEAVY = frozenset((*("mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward"), *_LAYERS))


def floor(step: Step, torch: Any, rounds: int, seconds: float) -> Row:
    """The products and convolutions of a step alone, as PyTorch runs them, against all of it.

    A compiled step has these to do, too, and what is elementwise beside, so where PyTorch's are the fastest that the
    machine has it takes longer than this.
    """
    function, batch = step.make(torch)
    for _ in range(WARM_UP):
        function(*batch)
    with _heavy_calls(torch) as calls:
        function(*batch)

    def alone() -> None:
        with torch.no_grad():
            for operation, args, kwargs in calls:
                operation(*args, **kwargs)

    r, a, b = ratio(alone, lambda: function(*batch), rounds, seconds)
    return Row(f"the products alone, {step.name}", "PyTorch eager, all of the step", r, None, f"{a:.0f} / {b:.0f} us")


@contextlib.contextmanager
def _heavy_calls(torch: Any) -> Iterator[list[tuple[Any, Any, Any]]]:
    """The calls of such operations inside, with their arguments."""
    calls: list[tuple[Any, Any, Any]] = []

    class Noting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if operation.overloadpacket.__name__ in _HEAVY:
                calls.append((operation, args, kwargs or {}))
            return operation(*args, **(kwargs or {}))

    with Noting():
        yield calls


def against_jax(rounds: int, seconds: float) -> Row:
    """A captured step as ``jax.jit`` runs it, against the same model written in JAX with fgrad and optax."""
    torch, sizes = fgrad.torch, (784, 256, 256, 10)
    model = _layers(torch, sizes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = _trained(torch, optimizer, lambda x, y: torch.nn.functional.mse_loss(model(x), y))
    x, y = torch.rand(128, sizes[0]), torch.rand(128, sizes[-1])
    function, state = torch.pure(step)(x, y)
    batch = jnp.asarray(x.numpy()), jnp.asarray(y.numpy())
    params = [jnp.asarray(p.detach().numpy()) for p in model.parameters()]
    adam = optax.adam(1e-3)

    def loss(params: Any, x: Any, y: Any) -> Any:
        for i in range(0, len(params), 2):
            x = x @ params[i].T + params[i + 1]
            x = fnp.maximum(x, 0.0) if i < len(params) - 2 else x
        return fnp.mean((x - y) ** 2)

    @jax.jit
    def update(held: Any, x: Any, y: Any) -> Any:
        params, moments = held
        value, gradients = fgrad.value_and_grad(loss)(params, x, y)
        updates, moments = adam.update(gradients, moments, params)
        return (optax.apply_updates(params, updates), moments), value

    program, held = jax.jit(function), (params, adam.init(params))
    r, a, b = ratio(lambda: program(state, *batch), lambda: update(held, *batch), rounds, seconds)
    return Row(
        "captured step under jax.jit, 784-256-256-10 MLP, Adam",
        "JAX with fgrad and optax",
        r,
        1.1,
        f"{a:.0f} / {b:.0f} us",
    )


def _deep(layers: int) -> tuple[Callable[..., Any], Any]:
    torch = fgrad.torch
    model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(layers)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return _trained(torch, optimizer, lambda x: model(x).square().mean()), torch.rand(8, 16)


def overhead(layers: int, wanted: float, rounds: int) -> Row:
    """What a compiled call takes beside its program, in microseconds of the processor."""
    function, x = _deep(layers)
    step = fgrad.torch.compile(function)
    for _ in range(WARM_UP):
        step(x)
    programs = [program for held in step._compiled.programs.values() for program in held]
    program = max(programs, key=lambda each: each.calls)
    execution, read = program.execution, program.call([x]).steady.read_inputs([x], None)
    latest = deque([(jax.tree.map(jnp.copy, program.steady.owner.latest[0][0]), 0)], maxlen=1)

    def program_alone() -> None:
        arrays, gradients = latest[0][0][:2]
        execution.run_into(latest, 0, arrays, gradients, read)

    def per_call(call: Callable[[], Any]) -> float:
        start = time.process_time()
        for _ in range(CALLS):
            call()
        return (time.process_time() - start) / CALLS * 1e6

    pairs = [(per_call(lambda: step(x)), per_call(program_alone)) for _ in range(rounds)]
    a, b = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    apart = statistics.median(one - other for one, other in pairs)
    work = f"overhead of a compiled call in us, {2 * layers} parameters"
    return Row(work, "its XLA program", apart, wanted, f"{a:.0f} / {b:.0f} us")


def front(rounds: int) -> Row:
    """Capturing and lowering, before XLA, against recording the same uncompiled."""
    function, x = _deep(20)
    for _ in range(WARM_UP):
        function(x)
    pairs = []
    for _ in range(rounds):
        start = time.process_time()
        graph = fgrad.torch.capture(function)(x)
        jax.jit(graph).lower(*graph.in_types)
        middle = time.process_time()
        function(x)
        pairs.append((middle - start, time.process_time() - middle))
    a, b = (statistics.median(pair[i] for pair in pairs) * 1e3 for i in (0, 1))
    r = statistics.median(one / other for one, other in pairs)
    return Row("capturing and lowering a step, before XLA", "the step uncompiled", r, 3.0, f"{a:.1f} / {b:.1f} ms")


def front_of_jax(rounds: int) -> list[Row]:
    """What JAX takes to trace and lower the same step written for it, and to lower it alone."""
    function, x = _deep(20)
    for _ in range(WARM_UP):
        function(x)
    params = [(jnp.ones((16, 16)), jnp.ones(16)) for _ in range(20)]
    args = params, params, jnp.asarray(x.numpy())
    times = []
    for _ in range(rounds):
        start = time.process_time()
        traced = jax.jit(_descent()).trace(*args)
        middle = time.process_time()
        traced.lower()
        end = time.process_time()
        function(x)
        times.append((middle - start, end - middle, time.process_time() - end))
    tracing, lowering, uncompiled = (statistics.median(each[i] for each in times) for i in range(3))
    return [
        Row(work, "the step uncompiled, by fgrad", a / uncompiled, None, f"{a * 1e3:.1f} / {uncompiled * 1e3:.1f} ms")
        for work, a in (
            ("JAX's own tracing and lowering of that step", tracing + lowering),
            ("JAX's own lowering of that step, traced", lowering),
        )
    ]


def _descent() -> Callable[..., Any]:
    """A step of ``_deep`` for JAX, each time another function, so that nothing is known of it."""

    def loss(params: Any, x: Any) -> Any:
        for weight, bias in params:
            x = x @ weight.T + bias
        return jnp.mean(x**2)

    def update(params: Any, momenta: Any, x: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, x)
        momenta = jax.tree.map(lambda m, g: 0.9 * m + g, momenta, gradients)
        return jax.tree.map(lambda p, m: p - 1e-3 * m, params, momenta), momenta, value

    return update


def memory() -> Row:
    """The most memory that a compiled step takes beside what was there before, each side in a process of its own."""
    found = []
    for library in ("fgrad.torch", "torch"):
        command = [sys.executable, "-m", "tests.benchmarks.captured", library]
        root = Path(__file__).resolve().parents[2]
        run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
        found.append(json.loads(run.stdout.splitlines()[-1]))
    a, b = found
    return Row(
        "peak memory of a compiled step, 2048x4 MLP, batch 2048", "PyTorch eager", a / b, 1.0, f"{a:.0f} / {b:.0f} MB"
    )


def most_memory(library: str) -> float:
    """What ten steps take at most, in megabytes, beside what was there before the first."""
    torch = importlib.import_module(library)
    step, args = mlp((2048,) * 5, 2048, 1.0).make(torch)
    step = torch.compile(step) if library != "torch" else step
    before = peak_memory()
    for _ in range(10):
        float(step(*args))
    return peak_memory() - before


if __name__ == "__main__":
    print(json.dumps(most_memory(sys.argv[1])))
