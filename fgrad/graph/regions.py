"""Region operations, which have graphs as parameters, in one form for all versions of JAX.

Each defines how it runs, through JAX's public control flow.  Their derivatives are in ``fgrad/passes/regions``.
"""

import functools
from collections.abc import Callable, Hashable, Sequence
from threading import get_ident
from typing import Any

import jax
import jax.custom_batching
from attrs import frozen
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from fgrad import errors
from fgrad.graph.graph import Graph, Node, applied, evaluate
from fgrad.graph.held import held
from fgrad.graph.linear_regions import LinearCall, LinearSolve, only_transposed
from fgrad.graph.op import CallRegion, Op, Region, intern
from fgrad.jaxcore import ShapedArray, axis_sizes, bind_remat, current_trace, set_trace, wrapped_function
from fgrad.jaxtypes import explicit_sharding, is_inexact, strong, varying_axes, zero_tangent


class Scan(Region):
    """``body(*consts, *carry, *x) -> (*carry, *y)`` over the leading axis of the xs.

    Parameters: ``body``, ``num_consts``, ``num_carry``, ``length``, ``reverse``, ``unroll``.
    """

    name = "scan"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        body, nc, nk = params["body"], params["num_consts"], params["num_carry"]
        consts, init, xs = args[:nc], args[nc : nc + nk], args[nc + nk :]
        # a weakly typed initial carry must have the type that the body returns
        init = [_as_type(x, t) for x, t in zip(init, body.out_types, strict=False)]

        def step(carry: Any, x: Any) -> Any:
            outs = evaluate(body, [*consts, *carry, *x[: len(xs)]])
            return tuple(outs[:nk]), tuple(outs[nk:])

        length, sequences = params["length"], tuple(xs)
        if not isinstance(length, int):  # a symbol of jax.export's, which lax.scan takes only from what it scans over
            length, sequences = None, (*xs, lax.iota("int32", length))
        carry, ys = lax.scan(
            step, tuple(init), sequences, length=length, reverse=params["reverse"], unroll=params["unroll"]
        )
        return [*carry, *ys]

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        nk, out = params["num_carry"], params["body"].out_types
        return [*out[:nk], *(stacked(t, params["length"]) for t in out[nk:])]

    def has_effects(self, params: dict[str, Any]) -> bool:
        return params["body"].effects


def plain(type: ShapedArray) -> ShapedArray:
    """The strong type of this shape and dtype, without a sharding that says nothing: one on automatic axes only.

    Inside a ``shard_map`` every sharding is kept, and so it is in ``auto_axes``, around which axes are explicit.
    """
    around = jax.sharding.get_abstract_mesh()
    kept = varying_axes(type) or explicit_sharding(type) or not (around.empty or around.are_all_axes_auto)
    return strong(type) if kept else ShapedArray(type.shape, type.dtype)


def stacked(type: ShapedArray, length: int) -> ShapedArray:
    """The type of ``length`` stacked values; inside a shard_map they vary among the shards as before."""
    shape = (length, *type.shape)
    if (explicit := explicit_sharding(type)) is not None:
        spec = PartitionSpec(None, *explicit.spec)
        return type.update(shape=shape, weak_type=False, sharding=NamedSharding(explicit.mesh, spec))
    if not varying_axes(type):
        return ShapedArray(shape, type.dtype, weak_type=type.weak_type)
    sharding = NamedSharding(type.sharding.mesh, PartitionSpec(*[None] * len(shape)))
    return type.update(shape=shape, weak_type=False, sharding=sharding)


def _as_type(value: Any, type: ShapedArray) -> Any:
    if jax.typeof(value).weak_type and not type.weak_type:
        return lax.convert_element_type(value, type.dtype)
    return value


class Cond(Region):
    """``branches[index](*operands)``, the index clamped to range.  The first input is the index."""

    name = "cond"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        types = _joined(params["branches"])
        calls = [_typed(branch, types) for branch in params["branches"]]
        if len(calls) == 1:
            return calls[0](*args[1:])
        return lax.switch(args[0], calls, *args[1:])

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        return _joined(params["branches"])

    def has_effects(self, params: dict[str, Any]) -> bool:
        return any(branch.effects for branch in params["branches"])


def position(index: Any, branches: int) -> int:
    """The branch that an index selects, clamped to range."""
    return min(max(int(index), 0), branches - 1)


def _joined(branches: Sequence[Graph]) -> list[ShapedArray]:
    """The output types of branches: weak if they are weak in all of them."""
    types = zip(*[branch.out_types for branch in branches], strict=True)
    return [ts[0] if all(t.weak_type for t in ts) else strong(ts[0]) for ts in types]


def _typed(graph: Graph, types: Sequence[ShapedArray]) -> Any:
    def call(*args: Any) -> Any:
        outs = evaluate(graph, args)
        return tuple([_as_type(x, t) for x, t in zip(outs, types, strict=True)])

    return call


class While(Region):
    """``while cond(*cond_consts, *carry): carry = body(*body_consts, *carry)``.

    Parameters: ``cond``, ``body``, ``cond_consts``, ``body_consts`` (how many); inputs in that order, then the carry.
    """

    name = "while"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        nc, nb = params["cond_consts"], params["body_consts"]
        cond_consts, body_consts, init = args[:nc], args[nc : nc + nb], args[nc + nb :]
        body = params["body"]
        init = [_as_type(x, t) for x, t in zip(init, body.out_types, strict=True)]
        return lax.while_loop(
            lambda carry: evaluate(params["cond"], [*cond_consts, *carry])[0],
            lambda carry: tuple(evaluate(body, [*body_consts, *carry])),
            tuple(init),
        )

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        return params["body"].out_types

    def has_effects(self, params: dict[str, Any]) -> bool:
        return params["cond"].effects or params["body"].effects


def mapped_axes() -> dict[Any, int]:
    """The named axes over which ``jax.vmap`` maps here, and their sizes; the axes of a mesh are not among them."""
    sizes = axis_sizes()
    of_mesh = jax.sharding.get_abstract_mesh().manual_axes if sizes else ()
    return {name: size for name, size in sizes.items() if name not in of_mesh}


def under_axes(axes: dict[Any, int], function: Callable[[], Any]) -> Any:
    """Call a function where these named axes are known: inside ``jax.vmap``, whose trace is not the current one."""
    if not axes:
        return function()
    trace, results = current_trace(), []

    def call() -> None:
        with set_trace(trace):
            results.append(function())

    known = axis_sizes()
    for name, size in axes.items():
        if name not in known:
            call = jax.vmap(call, in_axes=(), axis_name=name, axis_size=size)
    call()
    return results[0]


class Deferred:
    """Something recorded at the first use, and identified by ``key``.

    The rule of a function may call that function again, so recording rules eagerly would never end.  Used while it is
    being recorded, it raises ``RecursionError``, since it is not complete yet.

    When it is recorded ``jax.vmap`` may have returned, so its named axes are kept: a rule may ask for sums over them.
    """

    __slots__ = ("_make", "_value", "_axes", "_recording_thread", "key", "function", "native", "num_tokens")

    def __init__(self, key: Hashable, make: Callable[[], Any]):
        self.key: Hashable = key
        #: a forward-mode rule as a flat function, to be called if it needs the numbers of tangents
        self.function: Callable[..., Any] | None = None
        #: JAX's own call of the function that has this rule, for JAX's transformations
        self.native: Callable[..., Sequence[Any]] | None = None
        #: how many of the last arguments of the function are tokens: NOTE [References in backward rules]
        self.num_tokens: int = 0
        self._make: Callable[[], Any] | None = make
        self._value: Any = None
        self._axes: dict[Any, int] = mapped_axes()
        #: the thread that is recording it
        self._recording_thread: int | None = None

    def __call__(self) -> Any:
        make = self._make
        if make is not None:
            if self._recording_thread == get_ident():
                raise RecursionError("a custom rule differentiates the very call whose rule it is")
            self._recording_thread = get_ident()
            try:
                self._value = under_axes(self._axes, make)
            finally:
                self._recording_thread = None
            self._make = None
        return self._value

    def of(self, live: tuple[bool, ...]) -> Any:
        """The same for a pattern of live inputs and outputs, which only matters for rules with symbolic zeros."""
        return self()

    @property
    def held(self) -> int:
        return held(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deferred) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


class Absent(Deferred):
    """A rule that a file does not hold, and why: NOTE [Rules in files]."""

    __slots__ = ("reason",)

    def __init__(self, reason: str):
        super().__init__(("absent", reason), self._refuse)
        self.reason = reason

    def _refuse(self) -> Any:
        what = f"the graph was loaded from a file, in which its rule is not: {self.reason}"
        raise errors.undefined("custom_jvp or custom_vjp", what)


class DeferredByZeros(Deferred):
    """A custom rule that depends on which tangents or cotangents are symbolic zeros (``symbolic_zeros=True``).

    ``dense`` is the rule for none; ``of`` records it for a pattern of live ones.  All take the zeros as inputs, but do
    not read those that are symbolic.
    """

    __slots__ = ("_of", "_by_pattern")

    def __init__(self, dense: Deferred, of: Callable[[tuple[bool, ...]], Any]):
        super().__init__(("by zeros", dense.key), dense)
        self._of = of
        self._by_pattern: dict[tuple[bool, ...], Deferred] = {}

    def of(self, live: tuple[bool, ...]) -> Any:
        if all(live):
            return self()
        if live not in self._by_pattern:
            record = functools.partial(under_axes, self._axes, functools.partial(self._of, live))
            self._by_pattern[live] = Deferred((self.key, live), record)
        return self._by_pattern[live]()


class CustomJvp(CallRegion):
    """A call with its own forward-mode rule.

    Parameters: ``call``: (constants, primals) to outputs; ``num_consts``; ``rule``: a deferred graph (primals, tangents
    of the inexact primals) to (outputs, tangents of the inexact outputs); ``label``, the function's name.
    """

    name = "custom_jvp"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        call, rule, k = params["call"], params["rule"], params["num_consts"]
        if rule.native is not None:
            return rule.native(*args)
        function = jax.custom_jvp(lambda *xs: tuple(evaluate(call, xs)))
        types, n = call.in_types[k:], len(call.outputs)

        def jvp(primals: Any, tangents: Any) -> Any:
            live = _live(tangents, call.in_types)
            if any(live[:k]):
                raise errors.closed_over("custom_jvp", params["label"])
            live_tangents = [_instantiated(t) for t, type in zip(tangents[k:], types, strict=True) if is_inexact(type)]
            outs = evaluate(rule.of(live[k:]), [*primals[k:], *live_tangents])
            return tuple(outs[:n]), _fill(outs[:n], outs[n:])

        function.defjvp(beside_vjp(jvp) if vjp_call(call) is not None else jvp, symbolic_zeros=True)
        return function(*args)


def vjp_call(call: Graph) -> Node | None:
    """The call with a rule for reverse mode that is all of this graph."""
    if len(call.nodes) != 1 or call.nodes[0].op.primitive is not custom_vjp:
        return None
    node, n = call.nodes[0], len(call.in_types)
    is_all = sorted(node.inputs) == list(range(n)) and list(call.outputs) == list(range(n, n + len(call.outputs)))
    return node if is_all else None


def beside_vjp(jvp: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a rule for forward mode as the first of two: NOTE [A function with both rules]."""
    jvp.fgrad_beside_vjp = True  # type: ignore[attr-defined]
    return jvp


def is_beside_vjp(jvp: Any) -> bool:
    """Whether a rule as JAX wraps it is marked; its batched form wraps it again."""
    while jvp is not None:
        if getattr(jvp.f, "fgrad_beside_vjp", False):
            return True
        jvp = wrapped_function(jvp)
    return False


@frozen
class VjpRule:
    """``forward``: primals to (residuals, outputs); ``backward``: (residuals, cotangents of the inexact outputs) to
    cotangents of the primals at positions ``wrt``."""

    forward: Graph
    backward: Graph
    wrt: tuple[int, ...]


class CustomVjp(CallRegion):
    """A call with its own reverse-mode rule.

    Parameters: ``call``: (constants, primals) to outputs; ``num_consts``; ``rule``: a deferred ``VjpRule``; ``label``.
    """

    name = "custom_vjp"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        call, k = params["call"], params["num_consts"]
        if params["rule"].native is not None:
            return params["rule"].native(*args)
        function = jax.custom_vjp(lambda *xs: tuple(evaluate(call, xs)))
        n = len(call.outputs)

        inexact = tuple(map(is_inexact, call.out_types))

        def fwd(*xs: Any) -> Any:
            needs = tuple([x.perturbed for x in xs])
            if any(needs[:k]):
                raise errors.closed_over("custom_vjp", params["label"])
            rule = params["rule"].of((*needs[k:], *inexact))
            outs = evaluate(rule.forward, [x.value for x in xs[k:]])
            return tuple(outs[len(outs) - n :]), (needs[k:], tuple(outs[: len(outs) - n]))

        def bwd(saved: Any, cts: Any) -> Any:
            needs, residuals = saved
            rule = params["rule"].of((*needs, *_live(cts, call.out_types)))
            live_cts = [_instantiated(ct) for ct, differentiable in zip(cts, inexact, strict=True) if differentiable]
            cotangents = dict(zip(rule.wrt, evaluate(rule.backward, [*residuals, *live_cts]), strict=True))
            return tuple([cotangents.get(i - k) for i in range(len(call.in_types))])

        function.defvjp(fwd, bwd, symbolic_zeros=True)
        return function(*args)


class Remat(Region):
    """A block whose intermediates are recomputed in the backward pass instead of saved.

    Parameters: ``body``; ``policy``, a predicate over (primitive, types, parameters) for what may be saved, or None;
    ``barrier``: True in backward passes, where a barrier on the inputs keeps the compiler from merging the
    recomputation with the first computation; None if there never is one (``prevent_cse=False``).

    It runs as a ``remat`` of JAX's, so that a later gradient, of what JAX has traced, recomputes it too.
    """

    name = "remat"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        body, barrier = params["body"], params["barrier"]
        consts = [const.value for const in body.consts]
        without_consts = Graph((*body.in_types, *(const.type for const in body.consts)), (), body.nodes, body.outputs)
        return bind_remat(
            lambda *xs: tuple(evaluate(without_consts, xs)),
            [*args, *consts],
            barrier is not None,
            bool(barrier),
            params["policy"],
        )

    def called(self, params: dict[str, Any]) -> Graph:
        return params["body"]

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        return params["body"].out_types

    def has_effects(self, params: dict[str, Any]) -> bool:
        return params["body"].effects


def keeps(answer: Any) -> bool:
    """Whether a policy's answer means that a value is saved; JAX's policies return a bool, or a named object."""
    return bool(answer) and "Recompute" not in type(answer).__name__


class CustomVmap(CallRegion):
    """A call with its own batching rule; its derivative is that of ``call``.

    Parameters: ``call``; ``rule``: a deferred flat batching rule, (axis size, which inputs are mapped, inputs) to
    (outputs, which outputs are mapped).
    """

    name = "custom_vmap"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        call, rule = params["call"], params["rule"]
        function = jax.custom_batching.custom_vmap(lambda *xs: tuple(evaluate(call, xs)))
        function.def_vmap(lambda size, mapped, *xs: rule()(size, mapped, xs))
        return function(*args)

    def has_effects(self, params: dict[str, Any]) -> bool:
        return params["call"].effects


class Opaque(Region):
    """The results of a call that ran while the function was recorded, linked to its arguments.

    Inputs: the ``count`` results, then the arguments.  It returns the results; it has no derivative.
    ``of`` is the name of the primitive that ran.
    """

    name = "opaque"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        return args[: params["count"]]

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        return in_types[: params["count"]]


class PythonCall(Region):
    """A user's function that is called on values when the graph runs, because it needs numbers known only then.

    Parameters: ``function``: a deferred flat function, identified by its key; ``out_types``.

    It counts as an effect, so it is never merged, moved or compiled.  Recording it calls it on the tracers.
    """

    name = "python_call"

    def bind(self, op: Op, args: Sequence[Any]) -> Sequence[Any]:
        return op.params["function"]()(*args)

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        return params["out_types"]

    def has_effects(self, params: dict[str, Any]) -> bool:
        return True


def python_call_graph(function: Deferred, in_types: Sequence[ShapedArray], out_types: Sequence[ShapedArray]) -> Graph:
    """The graph of nothing but a call of ``function``."""
    return applied(intern(python_call, {"function": function, "out_types": tuple(out_types)}, in_types))


def _live(tangents: Sequence[Any], types: Sequence[ShapedArray]) -> tuple[bool, ...]:
    """Which tangents or cotangents of values of these types are not symbolic zeros."""
    zero = jax.custom_derivatives.SymbolicZero
    return tuple([is_inexact(type) and not isinstance(t, zero) for t, type in zip(tangents, types, strict=True)])


def _instantiated(tangent: Any) -> Any:
    """A tangent as an array; a symbolic zero becomes zeros that vary over the mesh as their primal does."""
    if not isinstance(tangent, jax.custom_derivatives.SymbolicZero):
        return tangent
    type: Any = tangent.aval
    zeros, axes = zero_tangent(tangent), varying_axes(type)
    return lax.pcast(zeros, axes, to="varying") if axes else zeros


def _fill(outs: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
    """Tangents of all outputs: the given ones for the inexact outputs, ``float0`` zeros for the others."""
    given = iter(tangents)
    return tuple([next(given) if is_inexact(jax.typeof(x)) else zero_tangent(x) for x in outs])


scan: Scan = Scan()
cond: Cond = Cond()
while_: While = While()
custom_jvp: CustomJvp = CustomJvp()
custom_vjp: CustomVjp = CustomVjp()
custom_vmap: CustomVmap = CustomVmap()
remat: Remat = Remat()
linear_solve: LinearSolve = LinearSolve()
linear_call: LinearCall = LinearCall()
opaque: Opaque = Opaque()
python_call: PythonCall = PythonCall()

#: those that may stand in files
REGIONS: dict[str, Region] = {
    region.name: region
    for region in (
        scan, cond, while_, custom_jvp, custom_vjp, custom_vmap, remat, linear_solve, linear_call, only_transposed,
        opaque,
    )
}  # fmt: skip
