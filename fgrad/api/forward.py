"""Forward mode: ``jvp`` and ``linearize``; and ``linear_transpose``."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.ref
import numpy as np
from attrs import frozen
from jax import tree_util

from fgrad import errors
from fgrad.api.arguments import (
    as_tree,
    check_function,
    check_reduce_axes,
    flags,
    flattened,
    leaves,
    matching,
    path_of,
    sole_cotangent,
    stripped,
)
from fgrad.api.pullback import zero
from fgrad.api.recorded import call, inexact_inputs, weak_as, with_weakness
from fgrad.api.references import jvp_of_references, linearize_of_references
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.source import boundary
from fgrad.jaxcore import ShapedArray, typeof
from fgrad.jaxtypes import is_inexact, strong, zeros_of
from fgrad.passes import jvp as jvp_pass
from fgrad.passes.partition import Halves, partition
from fgrad.passes.simplify import simplify
from fgrad.passes.vjp import transpose
from fgrad.record.origin import Call
from fgrad.record.stager import stage
from fgrad.run.executable import Program, run


@boundary
def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """The value of ``fun(*primals)`` and its directional derivative along ``tangents``.

    Arguments:
      fun: takes and returns pytrees of arrays.
      primals: a tuple or list of the arguments at which to differentiate.
      tangents: one tangent per primal, of its structure, shapes and dtypes (``float0`` for integers and booleans).  The
        tangent of a reference (``jax.new_ref``) is a reference: the derivative of what is written into the one is
        written into the other.
      has_aux: ``fun`` returns ``(output, aux)``.

    Returns:
      ``(output, tangent of the output)``, or ``(output, tangent, aux)``.

    Raises:
      TypeError: primals or tangents are no tuple or list, a primal is not an array, or the structures differ.
      MismatchError: a tangent has another shape or dtype than its primal (the message names its path).

    >>> import fgrad, jax.numpy as jnp
    >>> fgrad.jvp(lambda x: x * x, (3.0,), (1.0,))
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))

    Source: `jax.jvp <https://docs.jax.dev/en/latest/_autosummary/jax.jvp.html>`_.
    """
    check_function(fun, "jvp")
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, tuple | list):
            raise TypeError(
                f"jvp: {name} must be a tuple or list with one entry per argument, got {type(value).__name__}. "
                f"For a function of one argument write jvp(f, (x,), (t,))."
            )
    try:
        flat = leaves(primals, "primals", "jvp")
    except errors.ReferenceArgumentError:
        return jvp_of_references(jvp, fun, primals, tangents, has_aux)
    types = flat.types
    flat_tangents = matching(tangents, flat.tree, types, "tangents", "primals")
    called = call(
        lambda tracers: fun(*flat.unflatten(tracers)),
        flat.values,
        has_aux,
        Call(fun, "jvp", flat.tree, range(len(primals))),
    )
    plan: _Plan = called.recorded.cached(("jvp", called.kind), lambda graph: _jvp_plan(graph, *called.kind))
    live = [stripped(t) for t, type in zip(flat_tangents, types, strict=True) if is_inexact(type)]
    outs = plan.program([*called.recorded.values, *live])
    output, aux = called.outputs(outs)
    leaf_tangents = [zero(t) if k is None else outs[k] for k, t in zip(plan.results, plan.out_types, strict=True)]
    tangent = called.out.unflatten(leaf_tangents)
    return (output, tangent, aux) if has_aux else (output, tangent)


@frozen(eq=False)
class _Plan:
    """A program from inputs and tangents to outputs, aux and tangents.

    ``results`` has the index of each output's tangent among these, None for zero.
    """

    program: Program
    results: tuple[int | None, ...]
    out_types: tuple[ShapedArray, ...]


def _jvp_plan(graph: Graph, outputs: int, inputs: int) -> _Plan:
    joint, results = pushed(graph, outputs, inputs)
    m = len(graph.outputs)
    return _Plan(Program.of(joint), tuple([None if k is None else m + k for k in results]), graph.out_types[:outputs])


def pushed(
    graph: Graph, outputs: int, inputs: int, nonzero: Sequence[bool] | None = None
) -> tuple[Graph, tuple[int | None, ...]]:
    """The graph of values and of the tangents of the first ``outputs`` outputs, along the first ``inputs`` inputs.

    Inputs not flagged in ``nonzero`` have no tangents.

    Also, for each of those outputs, the index of its tangent among those after the values, None for zero.
    """
    joint = jvp_pass.jvp(graph, inexact_inputs(graph.in_types, inputs, nonzero))
    m = len(graph.outputs)
    builder = Builder(joint.graph.in_types)
    outs = builder.splice(joint.graph, builder.inputs)
    tangents: list[int] = []
    results: list[int | None] = []
    for k in range(outputs):
        result = joint.results[k]
        results.append(None if result is None else len(tangents))
        if result is not None:
            tangents.append(weak_as(builder, outs[m + result], graph.out_types[k]))
    return simplify(builder.finish([*outs[:m], *tangents])), tuple(results)


@boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, in_nzs: Any = None) -> Any:
    """The value of ``fun(*primals)`` and its derivative there, as a linear function from tangents to tangents.

    Unlike ``jvp``, it computes what does not depend on the tangents only once for all calls of the linear function.

    Arguments:
      fun: takes and returns pytrees of arrays.
      primals: where to linearise it.
      has_aux: ``fun`` returns ``(output, aux)``.
      in_nzs: which primals have tangents: a bool for each, or for parts of it, or one for all.  Those of the others are
        zero, whatever is given.  ``jvp_fun.out_nzs`` says which outputs depend on them.

    Returns:
      ``(output, jvp_fun)``, or ``(output, jvp_fun, aux)``.  ``jvp_fun(*tangents)`` takes one tangent per primal.  It is
      a pytree whose leaves are its residuals, so it can be passed to and returned from ``jit``.

    Raises:
      TypeError, MismatchError: as for ``jvp``.

    >>> import fgrad, jax.numpy as jnp
    >>> y, jvp_fun = fgrad.linearize(lambda x: x ** 2, jnp.array([1.0, 2.0]))
    >>> jvp_fun(jnp.array([1.0, 0.0])), jvp_fun(jnp.array([0.0, 1.0]))
    (Array([2., 0.], dtype=float32), Array([0., 4.], dtype=float32))

    Source: `jax.linearize <https://docs.jax.dev/en/latest/_autosummary/jax.linearize.html>`_.
    """
    check_function(fun, "linearize")
    try:
        flat = leaves(primals, "primals", "linearize")
    except errors.ReferenceArgumentError:
        return linearize_of_references(functools.partial(linearize, in_nzs=in_nzs), fun, primals, has_aux)
    nonzero = None if in_nzs is None else flags(in_nzs, flat.tree, "in_nzs", "linearize")
    called = call(
        lambda tracers: fun(*flat.unflatten(tracers)),
        flat.values,
        has_aux,
        Call(fun, "linearize", flat.tree, range(len(primals))),
    )
    program = called.recorded.cached(
        ("linearize", called.kind, called.recorded.lines, nonzero),
        lambda graph: linear_split(graph, *called.kind, nonzero),
    )
    known = run(program.halves.known, called.recorded.values)
    count = len(known) - program.halves.num_residuals
    push = Pushforward(
        program.halves.unknown, program.results, program.in_types, program.out_types, flat.tree, called.out.tree,
        program.wrt,
    )  # fmt: skip
    jvp_fun = Linearized(push, list(known[count:]))
    output, aux = called.outputs(known[:count])
    return (output, jvp_fun, aux) if has_aux else (output, jvp_fun)


@frozen
class Pushforward:
    """The linear function that ``linearize`` returns, without its residuals; equal for equal structure."""

    graph: Graph
    results: tuple[int | None, ...]
    in_types: tuple[ShapedArray, ...]
    out_types: tuple[ShapedArray, ...]
    in_tree: Any
    out_tree: Any
    #: the inputs whose tangents it takes
    wrt: tuple[int, ...]

    def __call__(self, residuals: Sequence[Any], *tangents: Any) -> Any:
        flat_tangents = matching(tangents, self.in_tree, self.in_types, "tangents", "the primals given to linearize")
        outputs = run(self.graph, [*residuals, *[stripped(flat_tangents[i]) for i in self.wrt]])
        # as in JAX, a strong tangent of a weak primal gives strong tangents: see ``Pullback``
        weak = all(typeof(flat_tangents[i]).weak_type or not self.in_types[i].weak_type for i in self.wrt)
        leaves = [
            zero(t) if k is None else with_weakness(outputs[k], t if weak else strong(t))
            for k, t in zip(self.results, self.out_types, strict=True)
        ]
        return tree_util.tree_unflatten(self.out_tree, leaves)

    def __repr__(self) -> str:
        return f"Pushforward({self.in_tree} -> {self.out_tree})"


class Linearized(tree_util.Partial):
    """A ``Pushforward`` with its residuals, which are its leaves as a pytree."""

    func: Pushforward

    @property
    def out_nzs(self) -> Any:
        """For each output, whether it depends on the primals: a tree of bools."""
        return as_tree([k is not None for k in self.func.results], self.func.out_tree)


tree_util.register_pytree_node(
    Linearized, lambda pushed: (pushed.args, pushed.func), lambda push, args: Linearized(push, *args)
)


@frozen(eq=False)
class LinearSplit:
    """A function's graph cut for forward mode: values and residuals first, then from tangents to tangents."""

    halves: Halves
    results: tuple[int | None, ...]
    in_types: tuple[ShapedArray, ...]
    out_types: tuple[ShapedArray, ...]
    wrt: tuple[int, ...]


def linear_split(graph: Graph, outputs: int, inputs: int, nonzero: Sequence[bool] | None = None) -> LinearSplit:
    """The forward mode of the first ``outputs`` outputs along the first ``inputs`` inputs, in two halves.

    Inputs not flagged in ``nonzero`` have no tangents.
    """
    joint, results = pushed(graph, outputs, inputs, nonzero)
    m = len(graph.outputs)
    halves = partition(
        joint, range(len(graph.in_types), len(joint.in_types)), [k >= m for k in range(len(joint.outputs))]
    )
    wrt = tuple(inexact_inputs(graph.in_types, inputs, nonzero))
    return LinearSplit(halves, results, graph.in_types[:inputs], graph.out_types[:outputs], wrt)


@boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ()) -> Callable[[Any], Any]:
    """The transpose of a linear function, derived from types alone: ``fun`` is never evaluated.

    Arguments:
      fun: linear in all its arguments: from floating-point or complex arrays to such arrays, or from integers to
        integers.
      primals: arrays, or anything with ``shape`` and ``dtype`` (``jax.ShapeDtypeStruct``), that say what it takes.
      reduce_axes: accepted for JAX's sake; must be empty, as in JAX.

    Returns:
      A function from a cotangent of the output's structure and types to a tuple with a cotangent per primal.

    Raises:
      NotLinearError: ``fun`` is not linear; the message names the operation.
      TypeError: an argument or output is of another type than these, or they are not all of one kind.
      MismatchError: the cotangent has another shape or dtype than the output.

    >>> import fgrad, jax, jax.numpy as jnp
    >>> back = fgrad.linear_transpose(lambda x: 3 * x[0] - x[1], jax.ShapeDtypeStruct((2,), jnp.float32))
    >>> back(jnp.float32(1.0))
    (Array([ 3., -1.], dtype=float32),)

    Source: `jax.linear_transpose <https://docs.jax.dev/en/latest/_autosummary/jax.linear_transpose.html>`_.
    """
    check_function(fun, "linear_transpose")
    check_reduce_axes(reduce_axes, "linear_transpose")
    flat, in_tree = flattened(primals, "primals", "linear_transpose")
    types = [spec_type(x, lambda i=i: path_of(primals, i, "primals"), "linear_transpose") for i, x in enumerate(flat)]
    kept: list[Any] = []

    def flat_fun(*tracers: Any) -> list[Any]:
        out = leaves(
            fun(*tree_util.tree_unflatten(in_tree, tracers)), "output", "linear_transpose: the function's output"
        )
        kept.append(out)
        return out.values

    graph, lifted = stage(flat_fun, types, Call(fun, "linear_transpose", in_tree, range(len(primals))))
    out = kept.pop()
    _of_one_kind(
        [*types, *graph.out_types],
        lambda i: path_of(primals, i, "primals") if i < len(types) else out.paths[i - len(types)],
    )
    transposed, results = transpose(graph, range(len(types)), range(len(graph.outputs)))
    transposed = simplify(transposed)
    backward = Transposed(transposed, results, tuple(types), graph.out_types, in_tree, out.tree)
    return tree_util.Partial(backward, lifted)


@frozen
class Transposed:
    """The function that ``linear_transpose`` returns, without the values that the linear function closes over."""

    graph: Graph
    results: tuple[int | None, ...]
    in_types: tuple[ShapedArray, ...]
    out_types: tuple[ShapedArray, ...]
    in_tree: Any
    out_tree: Any

    def __call__(self, lifted: Sequence[Any], *cts: Any) -> Any:
        ct = sole_cotangent(cts, self.out_tree, "linear_transpose's function")
        flat = matching(
            ct, self.out_tree, self.out_types, "the cotangent", "the linear function's output", integers="own"
        )
        cotangents = run(self.graph, [*lifted, *map(stripped, flat)])
        outs = [
            with_weakness(zeros_of(t) if k is None else cotangents[k], t)
            for k, t in zip(self.results, self.in_types, strict=True)
        ]
        return tree_util.tree_unflatten(self.in_tree, outs)

    def __repr__(self) -> str:
        return f"Transposed({self.out_tree} -> {self.in_tree})"


def spec_type(x: Any, path: Callable[[], str], what: str) -> ShapedArray:
    """The type of an array, a number, or anything with ``shape`` and ``dtype``.

    Raises:
      ArgumentTypeError: it is none of these.
    """
    if isinstance(x, jax.ShapeDtypeStruct) or (hasattr(x, "shape") and hasattr(x, "dtype") and not hasattr(x, "aval")):
        dtype = (
            jax.dtypes.canonicalize_dtype(x.dtype)
            if not jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended)
            else x.dtype
        )
        return ShapedArray(tuple(x.shape), dtype, bool(getattr(x, "weak_type", False)))
    try:
        return typeof(x)
    except TypeError:
        raise errors.not_an_array(path(), x, what) from None


def _of_one_kind(types: Sequence[ShapedArray], path: Callable[[int], str]) -> None:
    integers = [i for i, t in enumerate(types) if jax.dtypes.issubdtype(t.dtype, np.integer)]
    if len(integers) == len(types):
        return
    for i, t in enumerate(types):
        if not is_inexact(t):
            raise TypeError(
                "linear_transpose takes functions from floating-point or complex arrays to such arrays, and from "
                f"integers to integers, but {path(i)} has type {t.str_short()}"
                + (", and not all types are integers." if i in integers else ".")
                + " Convert it, or close over it."
            )
