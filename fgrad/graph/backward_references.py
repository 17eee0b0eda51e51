"""A ``custom_vjp`` inside a loop or call whose rules use references: NOTE [References in backward rules]."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.ref
from attrs import frozen

from fgrad import errors
from fgrad.graph.bwd import BwdCall, Residual, residuals
from fgrad.graph.discharge import without_tokens
from fgrad.graph.graph import Builder, Const, Graph, applied
from fgrad.graph.importing import (
    custom_vjp_op,
    forward_of,
    known_outputs,
    label_of,
    staged,
    threaded,
    thunk_key,
)
from fgrad.graph.op import intern
from fgrad.graph.references import THREADED, Threaded, as_token, from_token, token_type, value_type
from fgrad.graph.regions import Deferred, DeferredByZeros, VjpRule, plain
from fgrad.jaxcore import ShapedArray, primitive
from fgrad.jaxtypes import is_inexact, is_reference


@frozen(eq=False)
class _Call:
    """A call of a ``custom_vjp`` function with references.

    Attributes:
      params: those of JAX's primitive.
      primal: the function, with its references threaded through; its constants come first.
      types: the types of the arguments, those of references being of what they hold.
      references: the positions of the references among the arguments.
    """

    params: dict[str, Any]
    primal: Threaded
    types: Sequence[ShapedArray]
    references: Sequence[int]

    @property
    def num_consts(self) -> int:
        return self.params["num_consts"]

    @property
    def label(self) -> str:
        return label_of(self.params["call_jaxpr"], self.params["fwd_jaxpr_thunk"])

    @property
    def tokens(self) -> list[ShapedArray]:
        return [token_type(self.types[i]) for i in self.references]

    @property
    def out_types(self) -> Sequence[ShapedArray]:
        return self.primal.graph.out_types[: len(self.primal.graph.outputs) - len(self.primal.written)]

    def graph(self) -> Graph:
        """The function on constants, arguments and tokens, which it passes on."""
        builder = Builder([*self.primal.graph.in_types, *self.tokens])
        n = len(self.primal.graph.in_types)
        return builder.finish([*builder.splice(self.primal.graph, builder.inputs[:n]), *builder.inputs[n:]])

    def rule(self, forward: Callable[..., Any], live: Sequence[bool] | None) -> VjpRule:
        n, outs = len(self.types), len(self.out_types)
        jaxpr, consts, trees, write = forward(tuple([True] * n if live is None else live[:n]))
        first = n + len(self.tokens)
        cotangents = None if live is None else live[first : first + outs]
        fwd = without_tokens(threaded(jaxpr))
        lead = len(fwd.graph.in_types) - n
        new = dict(zip([i - lead for i in fwd.written], range(-len(fwd.written), 0), strict=True))
        written = [i - self.num_consts for i in self.primal.written]
        if not {*new} <= {*written}:
            raise errors.mutable_reference(self.label)

        builder = Builder([*self.types, *self.tokens])
        args, tokens = builder.inputs[:n], builder.inputs[n:]
        constants = [builder.const(Const.of(c)) for c in consts]
        results = builder.splice(fwd.graph, [*constants, *args])
        others = [args[i] for i in range(n) if i not in self.references]
        places = {i: i for i in self.references}
        flat = results[: len(results) - len(fwd.written)]
        known = known_outputs(jaxpr, consts)
        kept, primals = residuals(others, flat, known, trees, constants[: self.num_consts], places)
        finals = [results[new[i]] if i in new else args[i] for i in written]
        saved = [number for number, value in kept if value is None]
        graph = builder.finish([*saved, *primals, *finals, *tokens])
        return self._backward(graph, [builder.types[i] for i in saved], kept, cotangents, write)

    def _backward(
        self,
        forward: Graph,
        saved: Sequence[ShapedArray],
        kept: Sequence[Residual],
        live: Sequence[bool] | None,
        write: Callable[[], None],
    ) -> VjpRule:
        cts = [t for t in self.out_types if is_inexact(t)]
        unread = [t for t in forward.out_types[len(saved) + len(self.out_types) :] if is_inexact(t)]
        positions = [i for i in range(len(self.types)) if i not in self.references]
        wrt: list[int] = []

        def backward(*flat: Any) -> list[Any]:
            states = flat[len(flat) - len(self.references) :]
            held = {
                i: jax.new_ref(from_token(state, self.types[i]))
                for i, state in zip(self.references, states, strict=True)
            }
            known = [held[value] if number < 0 else value for number, value in kept]
            types = [self.types[i] for i in positions]
            called = BwdCall(self.params["bwd"], self.label, write, known, self.out_types, live, types, positions)
            cotangents = called.cotangents(*flat[: len(saved) + len(cts)])
            wrt[:] = [positions[k] for k in cotangents]
            return [*cotangents.values(), *(as_token(jax.ref.freeze(reference)) for reference in held.values())]

        in_types = [plain(t).update(weak_type=t.weak_type) for t in (*saved, *cts, *unread)]
        graph = staged(backward, in_types)
        return VjpRule(forward, graph, (*wrt, *range(len(self.types), len(self.types) + len(self.references))))


def _custom_vjp(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    n, values = params["num_consts"], [value_type(t) for t in types]
    references = [i for i, t in enumerate(types) if is_reference(t)]
    if any(i < n for i in references):
        raise errors.mutable_reference("custom_vjp_call")
    primal = without_tokens(threaded(params["call_jaxpr"]))
    call = _Call(params, primal, values[n:], [i - n for i in references])
    forward = forward_of(params)

    def rule(live: Sequence[bool] | None = None) -> VjpRule:
        return call.rule(forward, live)

    keys = [thunk_key(params[name], call.types) for name in ("fwd_jaxpr_thunk", "bwd")]
    deferred = Deferred(("vjp", *keys, tuple(call.references)), rule)
    if params.get("symbolic_zeros"):
        deferred = DeferredByZeros(deferred, rule)
    deferred.num_tokens = len(references)
    op = custom_vjp_op(call.graph(), n, deferred, call.label, [*values, *call.tokens])
    builder = Builder(op.in_types)
    outs = builder.splice(applied(op), builder.inputs)
    # what the rules write is not differentiated
    first = len(call.out_types)
    last = first + len(primal.written)
    kept = [_stopped(builder, number) for number in outs[first:last]]
    graph = builder.finish([*outs[:first], *kept, *outs[last:]])
    return Threaded(graph, primal.written, tuple(references))


def _stopped(builder: Builder, number: int) -> int:
    """A value through which no derivative passes."""
    type = builder.types[number]
    return builder.emit(intern(primitive("stop_gradient"), {}, (type,)), (number,)) if is_inexact(type) else number


THREADED["custom_vjp_call"] = _custom_vjp
