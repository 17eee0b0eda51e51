"""Regions of linear maps: systems of equations, and calls with a transpose of the user's own."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from fgrad import errors
from fgrad.graph.graph import Builder, Graph, evaluate
from fgrad.graph.op import CallRegion, Region
from fgrad.jaxcore import ShapedArray


class LinearSolve(Region):
    """``custom_linear_solve``: x with matvec(x) = b, and the graphs for the transposed system.

    Parameters: ``matvec``, ``vecmat``, ``solve``, ``transpose_solve`` (graphs; the second and fourth may be None),
    ``lengths`` (how many constants each reads), ``symmetric``.  Inputs: the constants in that order, then ``b``.
    """

    name = "custom_linear_solve"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        # as a solve of JAX's, not just ``solve``: a later gradient, of what JAX has traced, needs ``matvec``
        a, b, c, d = params["lengths"]
        solve, transpose_solve = params["solve"], params["transpose_solve"]
        rhs = tuple(args[a + b + c + d :])
        n, has_aux = len(rhs), len(solve.outputs) > len(rhs)

        def solver(graph: Graph, consts: Sequence[Any]) -> Any:
            def call(_: Any, xs: Any) -> Any:
                outs = tuple(evaluate(graph, [*consts, *xs]))
                return (outs[:n], outs[n:]) if has_aux else outs

            return call

        solved = lax.custom_linear_solve(
            lambda xs: tuple(evaluate(params["matvec"], [*args[:a], *xs])),
            rhs,
            solver(solve, args[a + b : a + b + c]),
            None if transpose_solve is None else solver(transpose_solve, args[a + b + c : a + b + c + d]),
            has_aux=has_aux,
        )
        return [*solved[0], *solved[1]] if has_aux else solved

    def called(self, params: dict[str, Any]) -> Graph:
        a, b, c, d = params["lengths"]
        graphs = params["matvec"], params["vecmat"], params["transpose_solve"]
        skipped = [() if g is None else g.in_types[:n] for g, n in zip(graphs, (a, b, d), strict=True)]
        return _with_unused_inputs(params["solve"], c, (*skipped[0], *skipped[1]), skipped[2])

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        return params["solve"].out_types


@functools.lru_cache(256)
def _with_unused_inputs(
    graph: Graph, count: int, before: tuple[ShapedArray, ...], after: tuple[ShapedArray, ...]
) -> Graph:
    """The graph with unused inputs added before and after its first ``count``."""
    builder = Builder([*before, *graph.in_types[:count], *after, *graph.in_types[count:]])
    start, end = len(before), len(before) + count
    read = [*builder.inputs[start:end], *builder.inputs[end + len(after) :]]
    return builder.finish(builder.splice(graph, read))


def no_forward_mode(name: str) -> errors.UndefinedDerivativeError:
    """A ``custom_vjp`` whose backward pass has no transpose."""
    return errors.undefined(
        name,
        "forward mode of a custom_vjp is its backward pass transposed, and this is not linear in the cotangents, or "
        "loops a number of times that is known only when it runs. Ways out: reverse mode (fgrad.vjp, fgrad.jacrev); "
        "fgrad.define_rule, which takes a jvp besides a vjp.",
    )


class OnlyTransposed(Region):
    """The tangents of a ``custom_vjp`` whose backward pass has no transpose: they are transposed, but not computed.

    Parameters: ``label``, the name of the function; ``backward``, from residuals and cotangents of the results to those
    of the linear inputs; ``num_consts``: how many inputs come before these.  A tangent has its cotangent's type.
    """

    name = "only_transposed"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        raise no_forward_mode(params["label"])

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        return params["backward"].in_types[params["num_consts"] :]


class LinearCall(CallRegion):
    """A call that is linear in its last inputs, with a transpose of the user's own (``linear_call``).

    Parameters: ``call``; ``rule``: a deferred graph of the transpose, from the same residuals and cotangents of the
    outputs to those of the linear inputs; ``num_consts``: how many inputs come before these.
    """

    name = "linear_call"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        call, rule, n = params["call"], params["rule"], params["num_consts"]
        return jax.custom_derivatives.linear_call(
            lambda residuals, xs: tuple(evaluate(call, [*residuals, *xs])),
            lambda residuals, cts: tuple(evaluate(rule(), [*residuals, *cts])),
            tuple(args[:n]),
            tuple(args[n:]),
        )


only_transposed: OnlyTransposed = OnlyTransposed()
