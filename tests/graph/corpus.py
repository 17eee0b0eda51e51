"""Graph files with every primitive that a file can hold, to be read, changed and read again."""

import importlib
import io
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import tests.rules as rules
from fgrad.errors import GraphFileError
from fgrad.graph.graph import Graph
from fgrad.graph.importing import from_jaxpr
from fgrad.graph.saving import dump
from tests.graph.programs import PROGRAMS, graph_of


def _printed(x: Any) -> Any:
    jax.debug.print("{} and {}", x, x[0])
    return x


#: what the samples of the rules and the programs leave out
MORE: dict[str, Callable[..., Any]] = {
    "print": _printed,
    "hessenberg": lambda x: lax.linalg.hessenberg(jnp.outer(x, x)),
    "schur": lambda x: lax.linalg.schur(jnp.outer(x, x)),
    "tridiagonal": lambda x: lax.linalg.tridiagonal(jnp.outer(x, x)),
    "rng_uniform": lambda x: lax.rng_uniform(x[0], x[1], (3,)),
    "threefry2x32": lambda x: jax.random.normal(jax.random.PRNGKey(0), (3,)),
    "scatter apply": lambda x: x.at[0].apply(jnp.sin),
    "window of two": lambda x: lax.reduce_window(
        (x, x), (jnp.float32(0), jnp.float32(0)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (2,), (1,), "VALID"
    ),
    "linear_call": lambda x: jax.custom_derivatives.linear_call(lambda r, x: x * r, lambda r, ct: ct * r, 2.0, x),
    "custom_linear_solve": lambda x: lax.custom_linear_solve(lambda v: 2.0 * v, x, lambda f, b: b / 2.0),
    "algorithm": lambda x: lax.dot_general(
        x, x, (((0,), (0,)), ((), ())), precision=lax.DotAlgorithmPreset.F32_F32_F32
    ),
    "tolerance": lambda x: lax.exp(x, accuracy=lax.Tolerance(atol=0.0, rtol=1e-3, ulps=2)),
    "scan of two": lambda x: lax.scan(lambda c, t: (c * t, c), x[0], x, reverse=True, unroll=2),
    "poisson": lambda x: jax.random.poisson(jax.random.key(0), x),
}


def graphs(every: int = 1) -> Iterator[tuple[str, Graph]]:
    """Programs, and each ``every``-th sample of the rules with at least one of each primitive."""
    yield from ((f"program {name}", graph_of(f, jnp.zeros(3, jnp.float32))) for name, f in {**PROGRAMS, **MORE}.items())
    met = set()
    for module in pkgutil.iter_modules(rules.__path__):
        if module.name.startswith("samples_"):
            for i, sample in enumerate(importlib.import_module(f"tests.rules.{module.name}").SAMPLES):
                if i % every and sample.primitive in met:
                    continue
                met.add(sample.primitive)
                f = jax.vmap(sample.fun, axis_name=sample.axis) if sample.axis else sample.fun
                yield f"sample {module.name} {i} {sample.primitive}", from_jaxpr(jax.make_jaxpr(f)(*sample.args))


def corpus(every: int = 1) -> Iterator[tuple[str, bytes]]:
    """Those of the graphs that can be written, as files."""
    for name, graph in graphs(every):
        file = io.BytesIO()
        try:
            dump(graph, file)
        except GraphFileError:
            continue
        yield name, file.getvalue()
