"""fgrad side by side with JAX and, where installed, PyTorch: one table of ratios, measured in this process.

``python tests/benchmarks/run.py`` prints it; ``--write`` also keeps it, and writes the table and the picture of the
documents (``measured.py``); ``--quick`` measures less; ``--operations`` prints the operations of the mutable layer one
by one, of which the table has the sum; ``--captured`` prints the rows of compiled and captured steps alone.
Every figure is a median over interleaved rounds, so that whatever else the machine does weighs on both sides.
"""

import argparse
import gc
import importlib.util
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import fgrad  # noqa: E402
import fgrad.numpy as fnp  # noqa: E402
import fgrad.torch  # noqa: E402
from tests.benchmarks import captured, measured, mutable, networks, operations, programs  # noqa: E402
from tests.benchmarks.measured import Row  # noqa: E402
from tests.benchmarks.side_by_side import SHORTER, Awaited, per_call, ratio, repeated  # noqa: E402

#: calls between two changes of what is measured
REPEATED = 200
#: calls of a mutable program before it is measured: more than are interpreted before what they do is compiled
WARM_UP = 120
#: the most that a single operation should take, times PyTorch's time
WORST = 7.0
#: calls of a single operation in a round
CALLS = 50
#: how much longer a round of such programs is: results come in behind the calls, and the last ones are waited for
LONGER = 4

torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None


def torch_call(program: programs.Program) -> Callable[[], Any]:
    """The same program, forward and backward, in PyTorch."""
    names = {"matmul": torch.matmul, "sum": torch.sum, "tanh": torch.tanh, "mean": torch.mean}
    f = program.make(type("namespace", (), {k: staticmethod(v) for k, v in names.items()}))
    import_array = lambda x: torch.from_numpy(jax.device_get(x).copy())  # noqa: E731
    args = jax.tree.map(import_array, program.args)
    leaves = jax.tree.leaves(args[0])
    for leaf in leaves:
        leaf.requires_grad_()

    def call() -> Any:
        for leaf in leaves:
            leaf.grad = None
        f(*args).backward()
        return 0

    return call


def unjitted(rounds: int, seconds: float) -> list[Row]:
    rows = []
    cases = [
        (programs.chain(10), 0.02, 1.0),
        (programs.chain(100), 0.02, 1.0),
        (programs.mlp((16, 16, 16, 1), 8), 0.05, 1.0),
    ]
    for program, wanted_jax, wanted_torch in cases:
        ours = fgrad.grad(program.make(fnp))
        opened = fgrad.grad(program.make(jnp))
        theirs = jax.grad(program.make(jnp))
        r, a, b = ratio(lambda f=ours: f(*program.args), lambda f=theirs: f(*program.args), rounds, seconds)
        rows.append(
            Row(
                f"un-jitted grad, {program.name}, fast lane",
                "un-jitted jax.grad",
                r,
                wanted_jax,
                f"{a:.0f} / {b:.0f} us",
            )
        )
        if torch is not None:
            r, a, b = ratio(lambda f=ours: f(*program.args), torch_call(program), rounds, seconds)
            rows.append(
                Row(
                    f"un-jitted grad, {program.name}, fast lane",
                    "PyTorch eager",
                    r,
                    wanted_torch,
                    f"{a:.0f} / {b:.0f} us",
                )
            )
        r, a, b = ratio(lambda f=opened: f(*program.args), lambda f=theirs: f(*program.args), rounds, seconds)
        rows.append(
            Row(f"un-jitted grad, {program.name}, plain jnp", "un-jitted jax.grad", r, 0.5, f"{a:.0f} / {b:.0f} us")
        )
    return rows


def made_anew(rounds: int, seconds: float) -> list[Row]:
    """Gradients whose function and transformation are made in each call, as people write them in a loop."""
    if torch is None:
        return []
    rows = []
    for program in (programs.chain(10), programs.mlp((16, 16, 16, 1), 8)):
        params, *rest = program.args

        def ours(program: programs.Program = program, params: Any = params, rest: Any = rest) -> Any:
            f = program.make(fnp)
            return fgrad.grad(lambda p: f(p, *rest))(params)

        r, a, b = ratio(ours, torch_call(program), rounds, seconds)
        detail = f"{a:.0f} / {b:.0f} us"
        rows.append(Row(f"un-jitted grad made anew in each call, {program.name}", "PyTorch eager", r, 0.8, detail))
    return rows


def first_unjitted(rounds: int) -> list[Row]:
    """The first un-jitted gradient of a new function, where JAX has met all of its operations."""
    rows = []
    for program in (programs.conv_net(), programs.attention(), programs.rnn()):
        pairs = []
        warm = jax.grad(program.make(jnp))
        jax.block_until_ready(warm(*program.args))
        for _ in range(rounds):
            fgrad.clear_cache()
            times = []
            for gradient in (fgrad.grad(program.make(fnp)), warm):
                gc.collect()
                start = time.perf_counter()
                jax.block_until_ready(gradient(*program.args))
                times.append(time.perf_counter() - start)
            pairs.append(times)
        a, b = (statistics.median(p[i] for p in pairs) * 1e3 for i in (0, 1))
        r = statistics.median(p[0] / p[1] for p in pairs)
        detail = f"{a:.1f} / {b:.1f} ms"
        rows.append(Row(f"first un-jitted gradient, {program.name}", "un-jitted jax.grad, warm", r, 1.0, detail))
    return rows


def transformed(program: programs.Program) -> tuple[Callable[..., Any], Callable[..., Any]]:
    if program.name.startswith("Hessian"):
        return fgrad.hessian(program.make(fnp)), jax.hessian(program.make(jnp))
    return fgrad.grad(program.make(fnp)), jax.grad(program.make(jnp))


def jitted(rounds: int, seconds: float) -> list[Row]:
    rows = []
    cases = [
        programs.mlp((16, 16, 16, 1), 8), programs.mlp((784, 256, 256, 10), 128), programs.attention(),
        programs.conv_net(), programs.rnn(), programs.rosenbrock(),
    ]  # fmt: skip
    for program in cases:
        ours, theirs = transformed(program)
        f, g = fgrad.jit(ours), jax.jit(theirs)
        r, a, b = ratio(lambda f=f: f(*program.args), lambda g=g: g(*program.args), rounds, seconds)
        rows.append(Row(f"jit(grad) run time, {program.name}", "jax.jit(jax.grad)", r, 1.05, f"{a:.0f} / {b:.0f} us"))
    for program in cases:
        ours, theirs = transformed(program)
        a, b = (
            f.lower(*program.args).compile().memory_analysis().temp_size_in_bytes
            for f in (fgrad.jit(ours), jax.jit(theirs))
        )
        rows.append(
            Row(
                f"compiled temporary memory, {program.name}",
                "jax.jit(jax.grad)",
                a / max(b, 1) if b else float(a > 0),
                1.0,
                f"{a} / {b} bytes",
            )
        )
    return rows


def first_call(rounds: int) -> list[Row]:
    rows = []
    sides = (fgrad, fnp), (jax, jnp)
    for program in (programs.elementwise(300), programs.layers(300), programs.mixed(300)):
        pairs = []
        for turn in range(rounds):
            times = [0.0, 0.0]
            for side in (0, 1) if turn % 2 else (1, 0):
                library, np_ = sides[side]
                function = program.make(np_)
                jax.clear_caches()
                fgrad.clear_cache()
                gc.collect()
                start = time.perf_counter()
                jax.block_until_ready(library.jit(library.grad(function))(*program.args))
                times[side] = time.perf_counter() - start
            pairs.append(times)
        a, b = (statistics.median(p[i] for p in pairs) * 1e3 for i in (0, 1))
        r = statistics.median(p[0] / p[1] for p in pairs)
        rows.append(
            Row(f"first call of jit(grad), {program.name}", "jax.jit(jax.grad)", r, 0.8, f"{a:.0f} / {b:.0f} ms")
        )
    return rows


def recording(rounds: int, quick: bool) -> list[Row]:
    """Recording cost per operation, of a long function against a short one."""
    x = jnp.ones(8)

    def cost(length: int) -> float:
        def f(y: Any) -> Any:
            start = time.perf_counter()
            z = y
            for _ in range(length):
                z = z * y
            taken.append((time.perf_counter() - start) / length)
            return y.sum()

        taken: list[float] = []
        for _ in range(3):
            fgrad.vjp(f, x)
        return min(taken)

    sizes = (100, 10_000 if quick else 100_000)
    cost(100)
    pairs = [(cost(sizes[1]), cost(sizes[0])) for _ in range(rounds)]
    a, b = (statistics.median(p[i] for p in pairs) * 1e6 for i in (0, 1))
    return [
        Row(
            f"recording per operation, {sizes[1]} operations",
            "100 operations",
            statistics.median(p[0] / p[1] for p in pairs),
            1.3,
            f"{a:.2f} / {b:.2f} us",
        )
    ]


def namespaces(rounds: int, seconds: float) -> list[Row]:
    x = jnp.ones((8, 8))
    rows = []
    for name, call in {"sin": lambda np_: lambda: np_.sin(x), "matmul": lambda np_: lambda: np_.matmul(x, x)}.items():
        r, a, b = ratio(call(fnp), call(jnp), rounds, seconds)
        rows.append(Row(f"fgrad.numpy.{name} on an array", f"jax.numpy.{name}", r, 1.1, f"{a:.1f} / {b:.1f} us"))
    return rows


def mutable_layer(rounds: int, seconds: float) -> list[Row]:
    """The mutable layer against PyTorch eager; a call is over when its result's array is there."""
    if torch is None:
        return []

    def waited(call: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: Awaited(call())

    rows = []
    for program in mutable.PROGRAMS:
        ours, theirs = waited(program.make(fgrad.torch)), program.make(torch)
        for _ in range(WARM_UP):
            jax.block_until_ready(ours())  # results that nobody reads are not computed
        r, a, b = ratio(ours, theirs, rounds, LONGER * seconds)
        rows.append(Row(program.name, "PyTorch eager", r, program.wanted, f"{a:.0f} / {b:.0f} us"))
    return rows


def reproducible(rounds: int, seconds: float) -> list[Row]:
    """What equal bits at every call cost a training step: both policies one after the other, for each begins anew."""

    def steady(chosen: str, program: mutable.Mutable) -> float:
        with fgrad.policy(chosen):
            step = program.make(fgrad.torch)
            call = lambda: Awaited(step())  # noqa: E731
            for _ in range(WARM_UP):
                call()
            count = repeated(call, seconds)
            return statistics.median(per_call(call, count) for _ in range(rounds)) * 1e6

    rows = []
    for program in mutable.STEPS:
        a, b = (steady(chosen, program) for chosen in ("reproducible", "default"))
        detail = f"{a:.0f} / {b:.0f} us"
        rows.append(Row(f"{program.name}, reproducible policy", "the default policy", a / b, None, detail))
    return rows


def single_operations(rounds: int) -> list[Row]:
    """Each operation on 32x32 matrices against PyTorch eager."""
    if torch is None:
        return []
    rows = []
    for line in operations.LINES:
        calls = [operations.operation(library, line) for library in (fgrad.torch, torch)]
        for _ in range(WARM_UP):
            operations.wait(calls[0]())
        pairs = []
        for _ in range(rounds * SHORTER):
            times = []
            for call in calls:
                start = time.perf_counter()
                for _ in range(CALLS):
                    out = call()
                operations.wait(out)
                times.append((time.perf_counter() - start) / CALLS)
            pairs.append(times)
        a, b = (statistics.median(p[i] for p in pairs) * 1e6 for i in (0, 1))
        r = statistics.median(p[0] / p[1] for p in pairs)
        rows.append(Row(f"`{line}`", "PyTorch eager", r, WORST, f"{a:.1f} / {b:.1f} us"))
    return sorted(rows, key=lambda row: -row.ratio)


def summary(rows: list[Row]) -> list[Row]:
    """What the table says of many operations: the median ratio, the slowest, and how many are beyond what is wanted."""
    if not rows:
        return []
    count, missed = len(rows), [row for row in rows if row.missed]
    first = rows[0]
    work = f"{count} operations on 32x32, one by one"
    detail = f"beyond {WORST:g}: " + (", ".join(row.work for row in missed) or "none")
    return [
        Row(f"{work}: the median", "PyTorch eager", statistics.median(row.ratio for row in rows), 3.0, detail),
        Row(f"{work}: the slowest, {first.work}", "PyTorch eager", first.ratio, WORST, first.detail),
    ]


def noting_lines(rounds: int, seconds: float) -> list[Row]:
    """What it costs that every operation and write notes the user's line, against a build that notes none."""
    noting: list[Any] = [
        m for m in list(sys.modules.values()) if m.__name__.startswith("fgrad.") and hasattr(m, "here")
    ]
    kept = [m.here for m in noting]

    def without(call: Callable[[], Any]) -> Callable[[], Any]:
        def many() -> Any:
            for module in noting:
                module.here = lambda depth=1: None
            try:
                for _ in range(REPEATED):
                    out = call()
            finally:
                for module, here in zip(noting, kept, strict=True):
                    module.here = here
            return Awaited(out)

        return many

    def with_lines(call: Callable[[], Any]) -> Callable[[], Any]:
        def many() -> Any:
            for _ in range(REPEATED):
                out = call()
            return Awaited(out)

        return many

    x, y, z = (fgrad.torch.rand(32, 32) for _ in range(3))
    x.requires_grad_()
    rows = []
    for name, call in {
        "product of 32x32, recorded": lambda: x * y,
        "product of 32x32, in place": lambda: z.mul_(y),
    }.items():
        r, a, b = ratio(with_lines(call), without(call), rounds, seconds)
        rows.append(Row(name, "the same without noting lines", r, None, f"{a / REPEATED:.1f} / {b / REPEATED:.1f} us"))
    return rows


def machine() -> str:
    peer = f", torch {torch.__version__}" if torch is not None else ""
    cores = f"{os.cpu_count()} cores ({platform.machine()})"
    return f"{cores}, Python {platform.python_version()}, jax {jax.__version__}{peer}, {jax.default_backend()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--operations", action="store_true")
    parser.add_argument("--captured", action="store_true")
    options = parser.parse_args()
    if torch is not None:
        torch.set_num_threads(os.cpu_count() or 1)
    rounds, seconds = (3, 0.05) if options.quick else (7, 0.25)
    if options.operations:
        print(measured.table(single_operations(rounds)))
        return
    if options.captured:
        print(measured.table(captured.rows(rounds, seconds, torch)))
        return
    rows: list[Row] = []
    steps = ["--steps", "20"] if options.quick else []
    for measure in (
        lambda: unjitted(rounds, seconds),
        lambda: made_anew(rounds, seconds),
        lambda: first_unjitted(3 if options.quick else 9),
        lambda: jitted(rounds, seconds),
        lambda: first_call(3 if options.quick else 9),
        lambda: recording(rounds, options.quick),
        lambda: namespaces(rounds, seconds),
        lambda: mutable_layer(rounds, seconds),
        lambda: summary(single_operations(rounds)),
        lambda: reproducible(rounds, seconds),
        lambda: noting_lines(rounds, seconds),
        lambda: captured.rows(rounds, seconds, torch),
        lambda: [] if torch is None else list(networks.rows(list(networks.NETWORKS), options=steps)),
    ):
        part = measure()
        print(measured.table(part), end="\n\n", flush=True)
        rows += part
    if options.write:
        measured.write(measured.Measured(machine(), rows))
        measured.write_documents(measured.read())


if __name__ == "__main__":
    main()
