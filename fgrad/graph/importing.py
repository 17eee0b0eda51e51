"""From JAX's jaxprs to graphs: nested calls are inlined, control flow and custom rules become regions."""

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax, tree_util
from jax.sharding import AbstractMesh

from fgrad import errors
from fgrad.graph.bwd import BwdCall, residuals
from fgrad.graph.graph import Builder, Const, Graph, evaluate
from fgrad.graph.op import Kept, Op, freeze, intern, intern_typed
from fgrad.graph.references import MAKERS, Cells, Threaded, value_type
from fgrad.graph.regions import (
    Deferred,
    DeferredByZeros,
    VjpRule,
    cond,
    custom_jvp,
    custom_vjp,
    custom_vmap,
    is_beside_vjp,
    linear_call,
    linear_solve,
    plain,
    python_call_graph,
    remat,
    scan,
    vjp_call,
    while_,
)
from fgrad.graph.remat_policies import as_record
from fgrad.graph.source import from_traceback
from fgrad.graph.surroundings import of_transformation, surroundings
from fgrad.jaxcore import (
    ShapedArray,
    Tracer,
    closed_parts,
    for_want_of_numbers,
    is_effectful,
    is_literal,
    mesh_around,
    name_of,
    scan_counts,
    stored_outputs,
    typeof,
    with_x64_for,
    wrapped_function,
)
from fgrad.jaxtypes import in_mesh, is_inexact, is_reference, mesh_of

_graphs: weakref.WeakKeyDictionary[Any, Graph] = weakref.WeakKeyDictionary()


def from_jaxpr(jaxpr: Any) -> Graph:
    """The graph of a closed jaxpr, or of an open one with its constant variables as leading inputs.

    References that it creates are threaded through; those that it takes remain references.
    """
    graph = _graphs.get(jaxpr)
    if graph is None:
        graph = _convert(jaxpr, False).graph
        if not any(isinstance(const.value, Tracer) for const in graph.consts):
            _graphs[jaxpr] = graph
    return graph


def threaded(jaxpr: Any) -> Threaded:
    """``from_jaxpr`` with the references that it takes threaded through too."""
    return _convert(jaxpr, True)


def staged(function: Callable[..., Any], types: Sequence[ShapedArray]) -> Graph:
    """The graph of a function of values of these types."""
    with in_mesh(mesh_of(types)):
        return from_jaxpr(with_x64_for(types, lambda: jax.make_jaxpr(function)(*types)))


def _convert(jaxpr: Any, references: bool) -> Threaded:
    constvars, consts, invars, eqns, outvars = closed_parts(jaxpr)
    builder = Builder([value_type(v.aval) if references else v.aval for v in invars])
    makes = not MAKERS.isdisjoint([eqn.primitive.name for eqn in eqns])
    number: dict[Any, int] = dict(zip(invars, builder.inputs, strict=True))
    taken = {v: i for v, i in number.items() if is_reference(v.aval)} if references else {}
    cells = Cells(builder, taken, staged) if references or makes else None
    for var, value in zip(constvars, consts, strict=True):
        number[var] = builder.const(Const.typed(value, var.aval))

    def read(atom: Any) -> int:
        return builder.const(_literal(atom.val, atom.aval)) if is_literal(atom) else number[atom]

    for eqn in eqns:
        if cells is not None and cells.concerned(eqn):
            number.update(zip(eqn.outvars, cells.write(eqn, read), strict=True))
            continue
        imported = import_equation(
            eqn.primitive,
            eqn.params,
            [v.aval for v in eqn.invars],
            [v.aval for v in eqn.outvars],
            is_effectful(eqn.effects),
            mesh_around(eqn),
        )
        args = tuple([read(v) for v in eqn.invars])
        source = from_traceback(eqn.source_info.traceback, str(eqn.source_info.name_stack))
        if isinstance(imported, Op):
            first = builder.emit(imported, args, source)
            outs: Sequence[int] = range(first, first + len(imported.out_types))
        else:  # nodes from inside JAX get the line of the call
            outs = builder.splice(imported, args, otherwise=source)
        number.update(zip(eqn.outvars, outs, strict=True))
    outputs = [read(v) for v in outvars]
    if cells is None:
        return Threaded(builder.finish(outputs), ())
    written = [i for i, v in enumerate(invars) if v in cells.written]
    outputs = [*cells.end(outputs), *(cells.values[invars[i]] for i in written)]
    later = tuple([invars.index(v) for v in cells.tokens])
    return Threaded(builder.finish([*outputs, *cells.tokens.values()]), tuple(written), later)


def _literal(value: Any, type: ShapedArray) -> Const:
    """A jaxpr's literal as a constant of its type, which may differ from that of the Python number JAX keeps."""
    if typeof(value) != type:
        value = np.asarray(value).astype(type.dtype)
        value = value.item() if type.weak_type and typeof(value.item()) == type else value
    return Const.typed(value, type)


def import_equation(
    primitive: Any,
    params: dict[str, Any],
    in_types: Sequence[ShapedArray],
    out_types: Sequence[ShapedArray] | None = None,
    effects: bool = False,
    mesh: AbstractMesh | None = None,
) -> Op | Graph:
    """The operation for one JAX equation, or the graph to inline in its place."""
    importer = IMPORTERS.get(name_of(primitive))
    if importer is not None:
        return importer(params, in_types)
    if out_types is None:
        return intern(primitive, params, in_types)
    return intern_typed(primitive, params, in_types, out_types, effects, mesh)


# --------------------------------------------------------------------------------------------------------------------
# one importer per higher-order primitive


def _jit(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Graph:
    body = from_jaxpr(params["jaxpr"])
    ins, outs = params.get("in_shardings", ()), params.get("out_shardings", ())
    if all(map(_unspecified, (*ins, *outs))):
        return body
    builder = Builder(in_types)
    args = [_constrained(builder, number, s) for number, s in zip(builder.inputs, ins, strict=True)]
    results = builder.splice(body, args)
    return builder.finish([_constrained(builder, number, s) for number, s in zip(results, outs, strict=True)])


def _unspecified(sharding: Any) -> bool:
    return sharding is None or not isinstance(sharding, jax.sharding.Sharding)


def _constrained(builder: Builder, number: int, sharding: Any) -> int:
    if _unspecified(sharding):
        return number
    type = builder.types[number]
    jaxpr = jax.make_jaxpr(lambda x: lax.with_sharding_constraint(x, sharding))(
        jax.ShapeDtypeStruct(type.shape, type.dtype)
    )
    return builder.splice(from_jaxpr(jaxpr), [number])[0]


def _inlined(name: str) -> Callable[[dict[str, Any], Sequence[ShapedArray]], Graph]:
    """An importer that inlines the jaxpr under the parameter ``name``."""
    return lambda params, in_types: from_jaxpr(params[name])


def _scan(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op:
    num_consts, num_carry = scan_counts(params)
    return intern(
        scan,
        {
            "body": from_jaxpr(params["jaxpr"]), "num_consts": num_consts, "num_carry": num_carry,
            "length": params["length"], "reverse": params["reverse"], "unroll": params["unroll"],
        },
        in_types,
    )  # fmt: skip


def _cond(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op:
    return intern(cond, {"branches": tuple([from_jaxpr(b) for b in params["branches"]])}, in_types)


def _while(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op | Graph:
    cond, body = from_jaxpr(params["cond_jaxpr"]), from_jaxpr(params["body_jaxpr"])
    nc, nb = params["cond_nconsts"], params["body_nconsts"]
    if cond.out_types[0].shape:
        return _while_of_many(cond, body, nc, nb, in_types)
    return intern(while_, {"cond": cond, "body": body, "cond_consts": nc, "body_consts": nb}, in_types)


def _while_of_many(cond: Graph, body: Graph, nc: int, nb: int, in_types: Sequence[ShapedArray]) -> Graph:
    """A loop whose condition is an array, as under ``jax.vmap``: each element stops on its own."""

    def any_left(*args: Any) -> Any:
        return lax.reduce_or(evaluate(cond, args)[0], tuple(range(len(cond.out_types[0].shape))))

    def step(*args: Any) -> list[Any]:
        carry = args[nc + nb :]
        left = evaluate(cond, [*args[:nc], *carry])[0]
        return [
            lax.select(lax.broadcast_in_dim(left, new.shape, tuple(range(left.ndim))), new, old)
            for new, old in zip(evaluate(body, args[nc:]), carry, strict=True)
        ]

    types = [plain(t) for t in in_types]
    params = {
        "cond": staged(any_left, [*types[:nc], *types[nc + nb :]]),
        "body": staged(step, types),
        "cond_consts": nc,
        "body_consts": nc + nb,
    }
    builder = Builder(in_types)
    op = intern(while_, params, [*in_types[:nc], *in_types])
    first = builder.emit(op, (*builder.inputs[:nc], *builder.inputs))
    return builder.finish(range(first, first + len(op.out_types)))


def _custom_jvp(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op:
    call, n, thunk = from_jaxpr(params["call_jaxpr"]), params["num_consts"], params["jvp_jaxpr_fun"]
    types = call.in_types[n:]

    def rule(live: Sequence[bool] = tuple(map(is_inexact, types))) -> Graph:
        # the flags mark symbolic zeros: the tangents of integers and those that are not live
        with in_mesh(mesh_of(types)):
            jaxpr, consts, zeros = thunk.call_wrapped(
                *[not (is_live and is_inexact(t)) for t, is_live in zip(types, live, strict=True)]
            )
        builder = Builder([*types, *(t for t in types if is_inexact(t))])
        lead = [builder.const(Const.of(c)) for c in consts]
        of_inexact = [is_live for t, is_live in zip(types, live, strict=True) if is_inexact(t)]
        tangents = [x for x, is_live in zip(builder.inputs[len(types) :], of_inexact, strict=True) if is_live]
        spliced = builder.splice(from_jaxpr(jaxpr), [*lead, *builder.inputs[: len(types)], *tangents])
        m = len(call.outputs)
        results = iter(spliced[m:])
        tangents = [None if zero else next(results) for zero in zeros]
        wanted = [
            builder.const(zeros_const(t)) if number is None else number
            for t, number in zip(call.out_types, tangents, strict=True)
            if is_inexact(t)
        ]
        return builder.finish([*spliced[:m], *wanted])

    deferred = Deferred(("jvp", thunk_key(thunk, types)), rule)
    if params.get("symbolic_zeros"):
        deferred = DeferredByZeros(deferred, rule)
    return custom_jvp_op(ruled_by(thunk, call), n, deferred, label_of(params["call_jaxpr"], thunk), in_types)


def ruled_by(jvp: Any, call: Graph) -> Graph:
    """The body of a function with this rule: if a call with a custom vjp is all of it, the body of that.

    Else it would have both rules: NOTE [A function with both rules].  If it has, the body is left as it is.
    """
    while (node := vjp_call(call)) is not None and not is_beside_vjp(jvp):
        builder = Builder(call.in_types)
        call = builder.finish(builder.splice(node.op.params["call"], node.inputs))
    return call


def custom_jvp_op(call: Graph, num_consts: int, rule: Deferred, label: str, in_types: Sequence[ShapedArray]) -> Op:
    return intern(custom_jvp, {"call": call, "num_consts": num_consts, "rule": rule, "label": label}, in_types)


def label_of(call: Any, thunk: Any) -> str:
    """The name of the function that has a rule, or that of the rule if JAX has not kept it."""
    debug_name = getattr(getattr(call.jaxpr, "debug_info", None), "func_name", None)
    return debug_name or getattr(wrapped_function(thunk) or thunk, "__name__", "function")


def rule_key(fun: Any, types: Sequence[ShapedArray]) -> Hashable:
    """The identity of a custom rule: the user's function, the static arguments that JAX wrapped it with, the types.

    So is what the function reads from outside: NOTE [What a rule reads].  JAX's own helper functions among those
    arguments are new at each call, so they do not count.  JAX's 64-bit flag does: it changes the types inside the rule.
    """
    statics = [
        of_transformation(x)
        for _, xs in fun.transforms
        for x in xs
        if not (callable(x) and str(getattr(x, "__module__", "")).startswith("jax."))
    ]
    read = surroundings(fun.f)
    return (freeze(fun.f), read, *statics, *types, jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def thunk_key(thunk: Any, types: Sequence[ShapedArray]) -> Hashable:
    """The key of a rule in a jaxpr: that of the user's function, if it can be found in JAX's thunk."""
    fun = thunk if hasattr(thunk, "transforms") and thunk.transforms else wrapped_function(thunk)
    return Kept(thunk) if fun is None else rule_key(fun, types)


def zeros_const(type: ShapedArray) -> Const:
    """A constant of zeros of this type."""
    return Const(jax.numpy.zeros(type.shape, type.dtype), ShapedArray(type.shape, type.dtype))


def _custom_vjp(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op:
    call, n, thunk = from_jaxpr(params["call_jaxpr"]), params["num_consts"], params["fwd_jaxpr_thunk"]
    types = call.in_types[n:]
    forward = forward_of(params)

    def rule(live: Sequence[bool] | None = None) -> VjpRule:
        perturbed = (True,) * len(types) if live is None else tuple(live[: len(types)])
        with in_mesh(mesh_of(types)):
            jaxpr, consts, trees, write = forward(perturbed)
        builder = Builder(types)
        lead = [builder.const(Const.of(c)) for c in consts]
        outs = builder.splice(from_jaxpr(jaxpr), [*lead, *builder.inputs])
        cotangents = live[len(types) :] if live is not None and symbolic_zeros else None
        known = known_outputs(jaxpr, consts)
        return vjp_rule(call, builder, outs, known, trees, write, params["bwd"], label, lead[:n], cotangents)

    label, symbolic_zeros = label_of(params["call_jaxpr"], thunk), params.get("symbolic_zeros", False)
    deferred = Deferred(("vjp", thunk_key(thunk, types), thunk_key(params["bwd"], types)), rule)
    if symbolic_zeros or is_made_by_jax(wrapped_function(thunk)):
        deferred = DeferredByZeros(deferred, rule)
    return custom_vjp_op(call, n, deferred, label, in_types)


def is_made_by_jax(fwd: Any) -> bool:
    """Whether a rule is not the user's own but one that JAX made of it when it traced or ran a traced call again.

    Under ``jax.vmap``, say.  What the user's function closes over is among its arguments, and it refuses these as
    perturbed; so it must be told which arguments are.
    """
    return str(getattr(getattr(fwd, "f", None), "__module__", "")).startswith("jax.")


def forward_of(params: dict[str, Any]) -> Callable[[tuple[bool, ...]], tuple[Any, Any, Any, Callable[[], None]]]:
    """A custom_vjp's fwd, by which of its arguments are perturbed.

    It returns the open jaxpr, its constants, and what ``vjp_rule`` takes as ``trees`` and ``write``.
    """
    thunk = params["fwd_jaxpr_thunk"]
    fwd = wrapped_function(thunk)
    ran: dict[Any, tuple[Any, Any, Any, Callable[[], None]]] = {}

    def forward(perturbed: tuple[bool, ...]) -> tuple[Any, Any, Any, Callable[[], None]]:
        if perturbed not in ran:  # JAX calls fwd once per pattern, and overwrites what it stored for the last one
            ran[perturbed] = (*thunk.call_wrapped(*perturbed), params["out_trees"](), stored_outputs(fwd))
        return ran[perturbed]

    return forward


def custom_vjp_op(call: Graph, num_consts: int, rule: Deferred, label: str, in_types: Sequence[ShapedArray]) -> Op:
    return intern(custom_vjp, {"call": call, "num_consts": num_consts, "rule": rule, "label": label}, in_types)


def known_outputs(jaxpr: Any, consts: Sequence[Any]) -> list[Any]:
    """For each output of an open jaxpr its value if it is a constant, else None."""
    # depending on JAX's version, the constants have variables of their own or are the first inputs
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], consts, strict=False))
    outputs = [atom.val if is_literal(atom) else values.get(atom) for atom in jaxpr.outvars]
    return [None if isinstance(value, Tracer) else value for value in outputs]


def vjp_rule(
    call: Graph,
    builder: Builder,
    outs: Sequence[int],
    known: Sequence[Any],
    trees: Any,
    write: Callable[[], None],
    bwd: Any,
    label: str,
    lead: Sequence[int] = (),
    live: Sequence[bool] | None = None,
    references: Mapping[int, Any] = {},
    stage: Callable[[Callable[..., Any], Sequence[ShapedArray]], Graph] = staged,
) -> VjpRule:
    """The rule of a custom_vjp call with fwd in ``builder``; ``bwd`` is staged with residuals and cotangents.

    ``known`` has those outputs of fwd that are not traced, and None for the others; see NOTE [Residuals that are
    known].  ``trees`` describes the outputs of fwd, and ``write`` stores it where ``bwd`` reads it.
    ``references`` are those among the arguments of the call, by position; the others are the builder's inputs.
    ``stage`` makes a graph of a function of values of some types.
    A ``bwd`` that needs concrete values is called when the backward pass runs.  With ``symbolic_zeros`` it gets
    symbolic zeros for the outputs that are not ``live``.
    """
    all_residuals, primals_out = residuals(builder.inputs, outs, known, trees, lead, references)
    saved = [number for number, value in all_residuals if value is None]
    forward = builder.finish([*saved, *primals_out])
    types = [builder.types[i] for i in builder.inputs]
    values = [value for _, value in all_residuals]
    positions = [i for i in range(len(types) + len(references)) if i not in references]
    called = BwdCall(bwd, label, write, values, call.out_types, live, types, positions)
    wrt: list[int] = []

    def backward(*flat: Any) -> list[Any]:
        cotangents = called.cotangents(*flat)
        wrt[:] = cotangents
        return [*cotangents.values()]

    ct_types = [t for t in call.out_types if is_inexact(t)]
    in_types = [_plain_or_weak(t) for t in (*(builder.types[i] for i in saved), *ct_types)]
    try:
        return VjpRule(forward, stage(backward, in_types), tuple(wrt))
    except Exception as error:
        if not for_want_of_numbers(error):
            raise
        wanted = [i for i, t in enumerate(types) if is_inexact(t)]
        static = [None if value is None else _static_key(value) for value in values]
        key = (thunk_key(bwd, types), trees[1], *static, None if live is None else tuple(live))
        function = Deferred(key, lambda: called.dense)
        out_types = [ShapedArray(types[i].shape, types[i].dtype) for i in wanted]
        return VjpRule(forward, python_call_graph(function, in_types, out_types), tuple(wanted))


def _static_key(value: Any) -> Hashable:
    """The identity of a residual that is part of the rule."""
    return Kept(value) if is_reference(typeof(value)) else (isinstance(value, bool), Const.of(value))


def _plain_or_weak(type: ShapedArray) -> ShapedArray:
    """``plain``, but as weak as the type: a weak residual or cotangent does not promote what it is multiplied by."""
    return plain(type).update(weak_type=type.weak_type)


def _custom_vmap(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op:
    closed, in_tree = params["rule"], params["in_tree"]

    def rule(size: int, mapped: Any, args: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        which = tree_util.tree_unflatten(in_tree, mapped)
        outs, out_mapped = closed(size, which, *tree_util.tree_unflatten(in_tree, args))
        return tuple(tree_util.tree_leaves(outs)), tuple(tree_util.tree_leaves(out_mapped))

    # JAX wraps the user's rule anew for each call
    key = ("vmap", Kept(getattr(closed, "rule", closed)), in_tree, params["out_tree"])
    return intern(custom_vmap, {"call": from_jaxpr(params["call"]), "rule": Deferred(key, lambda: rule)}, in_types)


def _remat(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op:
    prevent = params.get("prevent_cse", True)
    fenced = bool(prevent) if isinstance(prevent, bool) else any(prevent)
    barrier = bool(params.get("differentiated")) if fenced else None
    policy = as_record(params.get("policy"))
    return intern(remat, {"body": from_jaxpr(params["jaxpr"]), "policy": policy, "barrier": barrier}, in_types)


def _linear_solve(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op:
    graphs = {name: None if jaxpr is None else from_jaxpr(jaxpr) for name, jaxpr in params["jaxprs"]._asdict().items()}
    return intern(
        linear_solve,
        {**graphs, "lengths": tuple(params["const_lengths"])},
        in_types,
    )


def _linear_call(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op:
    call, thunk = from_jaxpr(params["callee"]), params["transpose_thunk"]
    consts = params["num_callee_consts"]
    n = consts + params["num_res"]

    def rule() -> Graph:
        jaxpr, closed_over = thunk()
        if any(isinstance(x, Tracer) for x in closed_over):
            raise errors.closed_over("linear_call", "fun_transpose")
        builder = Builder([*in_types[:n], *call.out_types])
        lead = [builder.const(Const.of(x)) for x in closed_over]
        return builder.finish(builder.splice(from_jaxpr(jaxpr), [*lead, *builder.inputs[consts:]]))

    # JAX wraps the user's functions anew for each call, so transposes are identified by their graphs
    return linear_call_op(call, Deferred(_transpose_key(rule, thunk), rule), n, in_types)


def _transpose_key(rule: Callable[[], Graph], thunk: Any) -> Hashable:
    try:
        return ("transpose", rule())
    except Exception:  # it is raised again, with the user's line, where the transpose is needed
        return ("transpose", Kept(thunk))


def linear_call_op(call: Graph, rule: Deferred, num_consts: int, in_types: Sequence[ShapedArray]) -> Op:
    return intern(linear_call, {"call": call, "rule": rule, "num_consts": num_consts}, in_types)


IMPORTERS: dict[str, Callable[[dict[str, Any], Sequence[ShapedArray]], Op | Graph]] = {
    "jit": _jit,
    "pjit": _jit,
    "closed_call": _inlined("call_jaxpr"),
    "core_call": _inlined("call_jaxpr"),
    "eval_jaxpr": _inlined("call_jaxpr"),
    "call": _inlined("call_jaxpr"),
    "composite": _inlined("jaxpr"),
    "linear_call": _linear_call,
    "scan": _scan,
    "cond": _cond,
    "while": _while,
    "custom_jvp_call": _custom_jvp,
    "custom_vjp_call": _custom_vjp,
    "remat": _remat,
    "remat2": _remat,
    "checkpoint": _remat,
    "custom_linear_solve": _linear_solve,
    "custom_vmap_call": _custom_vmap,
}
