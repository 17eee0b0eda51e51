"""The functional layer's calls.  ``lib`` is fgrad, or JAX where that has the same entry; ``v`` is the bad value.

The key is ``entry: argument``; an error must name the one or the other.
"""

import io
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Call = Callable[[Any, Any], Any]
X = np.array([0.5, 1.5], np.float32)


def f(x: Any) -> Any:
    return jnp.sin(x) * x


def loss(x: Any) -> Any:
    return jnp.sum(jnp.sin(x) * x)


def two(x: Any, y: Any = 2.0) -> Any:
    return jnp.sum(jnp.sin(x) * y)


def returning(v: Any) -> Callable[[Any], Any]:
    return lambda x: v


def with_vjp(lib: Any, fwd: Any, bwd: Any, **options: Any) -> Any:
    g = lib.custom_vjp(f, **options)
    g.defvjp(fwd, bwd)
    return lambda x: jnp.sum(g(x))


def with_jvp(lib: Any, rule: Any) -> Any:
    g = lib.custom_jvp(f)
    g.defjvp(rule)
    return lambda x: jnp.sum(g(x))


def with_jvps(lib: Any, rule: Any) -> Any:
    g = lib.custom_jvp(f)
    g.defjvps(rule)
    return lambda x: jnp.sum(g(x))


#: those that both have
SHARED: dict[str, Call] = {
    "grad: fun": lambda lib, v: lib.grad(v)(1.0),
    "grad: argnums": lambda lib, v: lib.grad(two, argnums=v)(X, X),
    "grad: has_aux": lambda lib, v: lib.grad(loss, has_aux=v)(X),
    "grad: args": lambda lib, v: lib.grad(loss)(v),
    "grad: kwargs": lambda lib, v: lib.grad(two)(X, y=v),
    "grad: args with allow_int": lambda lib, v: lib.grad(lambda x: 1.0, allow_int=True)(v),
    "grad: holomorphic args": lambda lib, v: lib.grad(loss, holomorphic=True)(v),
    "grad: output": lambda lib, v: lib.grad(returning(v))(1.0),
    "grad: aux": lambda lib, v: lib.grad(lambda x: (x, v), has_aux=True)(1.0),
    "grad: output with has_aux": lambda lib, v: lib.grad(returning(v), has_aux=True)(1.0),
    "value_and_grad: fun": lambda lib, v: lib.value_and_grad(v)(1.0),
    "value_and_grad: args": lambda lib, v: lib.value_and_grad(two, argnums=1)(X, v),
    "value_and_grad: output": lambda lib, v: lib.value_and_grad(returning(v))(1.0),
    "vjp: fun": lambda lib, v: lib.vjp(v, 1.0),
    "vjp: primals": lambda lib, v: lib.vjp(f, v)[0],
    "vjp: has_aux": lambda lib, v: lib.vjp(f, X, has_aux=v)[0],
    "vjp: output": lambda lib, v: lib.vjp(returning(v), 1.0)[0],
    "vjp: cotangent": lambda lib, v: lib.vjp(f, X)[1](v),
    "jvp: fun": lambda lib, v: lib.jvp(v, (1.0,), (1.0,)),
    "jvp: primals": lambda lib, v: lib.jvp(f, v, (X,)),
    "jvp: tangents": lambda lib, v: lib.jvp(f, (X,), v),
    "jvp: primals[0]": lambda lib, v: lib.jvp(f, (v,), (v,)),
    "jvp: tangents[0]": lambda lib, v: lib.jvp(f, (X,), (v,)),
    "jvp: output": lambda lib, v: lib.jvp(returning(v), (1.0,), (1.0,)),
    "linearize: fun": lambda lib, v: lib.linearize(v, 1.0),
    "linearize: primals": lambda lib, v: lib.linearize(f, v)[0],
    "linearize: output": lambda lib, v: lib.linearize(returning(v), 1.0)[0],
    "linearize: tangent": lambda lib, v: lib.linearize(f, X)[1](v),
    "linear_transpose: fun": lambda lib, v: lib.linear_transpose(v, X)(X),
    "linear_transpose: primals": lambda lib, v: lib.linear_transpose(lambda x: 2.0 * x, v)(X),
    "linear_transpose: cotangent": lambda lib, v: lib.linear_transpose(lambda x: 2.0 * x, X)(v),
    "linear_transpose: output": lambda lib, v: lib.linear_transpose(returning(v), X)(X),
    "jacfwd: fun": lambda lib, v: lib.jacfwd(v)(1.0),
    "jacfwd: argnums": lambda lib, v: lib.jacfwd(two, argnums=v)(X, X),
    "jacfwd: args": lambda lib, v: lib.jacfwd(f)(v),
    "jacfwd: output": lambda lib, v: lib.jacfwd(returning(v))(X),
    "jacrev: fun": lambda lib, v: lib.jacrev(v)(1.0),
    "jacrev: argnums": lambda lib, v: lib.jacrev(two, argnums=v)(X, X),
    "jacrev: args": lambda lib, v: lib.jacrev(f)(v),
    "jacrev: output": lambda lib, v: lib.jacrev(returning(v))(X),
    "hessian: fun": lambda lib, v: lib.hessian(v)(1.0),
    "hessian: args": lambda lib, v: lib.hessian(loss)(v),
    "hessian: output": lambda lib, v: lib.hessian(returning(v))(X),
    "jit: fun": lambda lib, v: lib.jit(v)(1.0),
    "jit: args": lambda lib, v: lib.jit(f)(v),
    "jit: output": lambda lib, v: lib.jit(returning(v))(1.0),
    "jit: static_argnums": lambda lib, v: lib.jit(two, static_argnums=v)(X, 2.0),
    "jit: static_argnames": lambda lib, v: lib.jit(two, static_argnames=v)(X, y=2.0),
    "jit: donate_argnums": lambda lib, v: lib.jit(two, donate_argnums=v)(X, 2.0),
    "jit: donate_argnames": lambda lib, v: lib.jit(two, donate_argnames=v)(X, y=2.0),
    "jit: static value": lambda lib, v: lib.jit(lambda x, s: x * 2.0, static_argnums=1)(X, v),
    "jit: keep_unused": lambda lib, v: lib.jit(f, keep_unused=v)(X),
    "jit: inline": lambda lib, v: lib.jit(f, inline=v)(X),
    "vmap: fun": lambda lib, v: lib.vmap(v)(X),
    "vmap: in_axes": lambda lib, v: lib.vmap(f, in_axes=v)(X),
    "vmap: out_axes": lambda lib, v: lib.vmap(f, out_axes=v)(X),
    "vmap: axis_name": lambda lib, v: lib.vmap(f, axis_name=v)(X),
    "vmap: axis_size": lambda lib, v: lib.vmap(f, axis_size=v)(X),
    "vmap: args": lambda lib, v: lib.vmap(f)(v),
    "vmap: output": lambda lib, v: lib.vmap(returning(v))(X),
    "eval_shape: fun": lambda lib, v: lib.eval_shape(v, 1.0),
    "eval_shape: args": lambda lib, v: lib.eval_shape(f, v),
    "eval_shape: output": lambda lib, v: lib.eval_shape(returning(v), 1.0),
    "closure_convert: fun": lambda lib, v: lib.closure_convert(v, 1.0),
    "closure_convert: example_args": lambda lib, v: lib.closure_convert(f, v)[1],
    "checkpoint: fun": lambda lib, v: lib.grad(lib.checkpoint(v))(1.0),
    "checkpoint: policy": lambda lib, v: lib.grad(lib.checkpoint(loss, policy=v))(X),
    "checkpoint: static_argnums": lambda lib, v: lib.grad(lib.checkpoint(two, static_argnums=v))(X, 2.0),
    "checkpoint: static value": lambda lib, v: lib.grad(lib.checkpoint(lambda x, s: x * 2.0, static_argnums=1))(1.0, v),
    "checkpoint: prevent_cse": lambda lib, v: lib.grad(lib.checkpoint(loss, prevent_cse=v))(X),
    "checkpoint: args": lambda lib, v: lib.checkpoint(f)(v),
    "checkpoint: output": lambda lib, v: lib.checkpoint(returning(v))(1.0),
    "fwd_and_bwd: fun": lambda lib, v: lib.fwd_and_bwd(v, 0)[0](1.0),
    "fwd_and_bwd: argnums": lambda lib, v: lib.fwd_and_bwd(two, v)[0](X, X)[0],
    "fwd_and_bwd: args": lambda lib, v: lib.fwd_and_bwd(f, 0)[0](v)[0],
    "stop_gradient: x": lambda lib, v: getattr(lib, "stop_gradient", jax.lax.stop_gradient)(v),
    "custom_vjp: fun": lambda lib, v: lib.custom_vjp(v),
    "custom_vjp: args": lambda lib, v: lib.grad(with_vjp(lib, lambda x: (f(x), x), lambda r, ct: (ct * r,)))(v),
    "custom_vjp: fwd": lambda lib, v: lib.grad(with_vjp(lib, v, lambda r, ct: (ct,)))(X),
    "custom_vjp: bwd": lambda lib, v: lib.grad(with_vjp(lib, lambda x: (f(x), x), v))(X),
    "custom_vjp: fwd output": lambda lib, v: lib.grad(with_vjp(lib, returning(v), lambda r, ct: (ct,)))(X),
    "custom_vjp: fwd output[0]": lambda lib, v: lib.grad(with_vjp(lib, returning((v, 1.0)), lambda r, ct: (ct,)))(X),
    "custom_vjp: residuals": lambda lib, v: lib.grad(with_vjp(lib, lambda x: (f(x), v), lambda r, ct: (ct,)))(X),
    "custom_vjp: bwd output": lambda lib, v: lib.grad(with_vjp(lib, lambda x: (f(x), x), lambda r, ct: v))(X),
    "custom_vjp: bwd output[0]": lambda lib, v: lib.grad(with_vjp(lib, lambda x: (f(x), x), lambda r, ct: (v,)))(X),
    "custom_vjp: nondiff_argnums": lambda lib, v: lib.custom_vjp(f, nondiff_argnums=v),
    "custom_vjp: output": lambda lib, v: lib.custom_vjp(returning(v)),
    "custom_jvp: fun": lambda lib, v: lib.custom_jvp(v),
    "custom_jvp: args": lambda lib, v: lib.grad(with_jvp(lib, lambda p, t: (f(*p), t[0])))(v),
    "custom_jvp: jvp": lambda lib, v: lib.grad(with_jvp(lib, v))(X),
    "custom_jvp: rule output": lambda lib, v: lib.grad(with_jvp(lib, lambda p, t: v))(X),
    "custom_jvp: rule output[0]": lambda lib, v: lib.grad(with_jvp(lib, lambda p, t: (v, t[0])))(X),
    "custom_jvp: rule output[1]": lambda lib, v: lib.grad(with_jvp(lib, lambda p, t: (f(*p), v)))(X),
    "custom_jvp: nondiff_argnums": lambda lib, v: lib.custom_jvp(f, nondiff_argnums=v),
    "custom_jvp: defjvps": lambda lib, v: lib.grad(with_jvps(lib, v))(X),
    "custom_jvp: defjvps output": lambda lib, v: lib.grad(with_jvps(lib, lambda t, out, x: v))(X),
    # operations of a traced value
    "grad: x + v": lambda lib, v: lib.grad(lambda x: jnp.sum(x + v))(X),
    "grad: v * x": lambda lib, v: lib.grad(lambda x: jnp.sum(v * x))(X),
    "grad: x ** v": lambda lib, v: lib.grad(lambda x: jnp.sum(x**v))(X),
    "grad: x @ v": lambda lib, v: lib.grad(lambda x: jnp.sum(x @ v))(X),
    "grad: x < v": lambda lib, v: lib.grad(lambda x: jnp.sum(jnp.where(x < v, x, 0.0)))(X),
    "grad: x == v": lambda lib, v: lib.grad(lambda x: x[0] * (x == v).sum())(X),
    "grad: x[v]": lambda lib, v: lib.grad(lambda x: jnp.sum(x[v]))(X),
    "grad: x.at[v]": lambda lib, v: lib.grad(lambda x: jnp.sum(x.at[v].set(1.0)))(X),
    "grad: set(v)": lambda lib, v: lib.grad(lambda x: jnp.sum(x.at[0].set(v)))(X),
    "grad: x.reshape(v)": lambda lib, v: lib.grad(lambda x: jnp.sum(x.reshape(v)))(X),
    "grad: x.sum(v)": lambda lib, v: lib.grad(lambda x: jnp.sum(x.sum(v)))(X),
    "grad: x.astype(v)": lambda lib, v: lib.grad(lambda x: jnp.sum(x.astype(v)))(X),
    "grad: closed over": lambda lib, v: lib.grad(lambda x: jnp.sum(x * jnp.asarray(v)))(X),
    # functions that take functions, inside
    "grad: scan init": lambda lib, v: lib.grad(lambda x: jax.lax.scan(lambda c, y: (c, y * x), v, X)[1].sum())(1.0),
    "grad: scan length": lambda lib, v: lib.grad(
        lambda x: jax.lax.scan(lambda c, y: (c * x, None), 1.0, None, length=v)[0]
    )(1.0),
    "grad: scan body": lambda lib, v: lib.grad(lambda x: jax.lax.scan(lambda c, y: v, x, None, length=2)[0])(1.0),
    "grad: cond predicate": lambda lib, v: lib.grad(lambda x: jax.lax.cond(v, jnp.sin, jnp.cos, x))(1.0),
    "grad: cond branch": lambda lib, v: lib.grad(lambda x: jax.lax.cond(True, jnp.sin, lambda x: v, x))(1.0),
}

#: those of fgrad alone
OWN: dict[str, Call] = {
    "make_graph: fun": lambda lib, v: lib.make_graph(v)(1.0),
    "make_graph: args": lambda lib, v: lib.make_graph(f)(v),
    "make_graph: output": lambda lib, v: lib.make_graph(returning(v))(1.0),
    "graph: args": lambda lib, v: lib.make_graph(f)(X)(v),
    "grad: argnums of a graph": lambda lib, v: lib.make_graph(loss)(X).grad(v),
    "replace: value": lambda lib, v: lib.make_graph(f)(X).replace(v, v),
    "diff: other": lambda lib, v: lib.make_graph(f)(X).diff(v),
    "save: path": lambda lib, v: lib.make_graph(f)(X).save(v) if not isinstance(v, str | bytes) else None,
    "load: path": lambda lib, v: lib.load(v) if not isinstance(v, bool | int) or v < 0 or v > 2**20 else None,
    "load: file": lambda lib, v: lib.load(io.BytesIO(repr(v).encode())),
    "to_text: source": lambda lib, v: lib.make_graph(f)(X).to_text(source=v),
    "hvp: fun": lambda lib, v: lib.hvp(v, (X,), (X,)),
    "hvp: primals": lambda lib, v: lib.hvp(loss, v, (X,)),
    "hvp: tangents": lambda lib, v: lib.hvp(loss, (X,), v),
    "jacfwd: chunk_size": lambda lib, v: lib.jacfwd(f, chunk_size=v)(X),
    "jacrev: chunk_size": lambda lib, v: lib.jacrev(f, chunk_size=v)(X),
    "hessian: chunk_size": lambda lib, v: lib.hessian(loss, chunk_size=v)(X),
    "swap_convention: fun": lambda lib, v: lib.swap_convention(v),
    "checkpoint_name: x": lambda lib, v: lib.grad(lambda x: lib.checkpoint_name((x, v), "n")[0])(1.0),
    "checkpoint_name: name": lambda lib, v: lib.grad(lambda x: lib.checkpoint_name(x, v))(1.0),
    "define_rule: of": lambda lib, v: lib.define_rule(v, vjp=lambda *a: a),
    "define_rule: vjp": lambda lib, v: lib.define_rule(f, vjp=v),
    "define_rule: jvp": lambda lib, v: lib.define_rule(f, jvp=v),
    "define_rule: batching": lambda lib, v: lib.define_rule(f, batching=v),
    "check_rule: args": lambda lib, v: lib.check_rule("sin", v),
    "check_rule: of": lambda lib, v: lib.check_rule(v, 1.0),
    "bounded_while: cond": lambda lib, v: lib.bounded_while(v, lambda x: x * 2.0, 1.0, max_steps=3),
    "bounded_while: body": lambda lib, v: lib.bounded_while(lambda x: x < 3.0, v, 1.0, max_steps=3),
    "bounded_while: init": lambda lib, v: lib.bounded_while(lambda x: True, lambda x: x, v, max_steps=3),
    "bounded_while: max_steps": lambda lib, v: lib.bounded_while(
        lambda x: x < 3.0, lambda x: x * 2.0, 1.0, max_steps=v
    ),
    "check_grads: f": lambda lib, v: lib.testing.check_grads(v, (1.0,), order=1),
    "check_grads: args": lambda lib, v: lib.testing.check_grads(loss, v, order=1),
    "check_grads: args[0]": lambda lib, v: lib.testing.check_grads(loss, (v,), order=1),
    "check_grads: order": lambda lib, v: lib.testing.check_grads(
        loss, (X,), order=v if not isinstance(v, int) or v < 2 else 2
    ),
    "check_grads: modes": lambda lib, v: lib.testing.check_grads(loss, (X,), order=1, modes=v),
    "check_grads: atol": lambda lib, v: lib.testing.check_grads(loss, (X,), order=1, atol=v),
    "check_grads: eps": lambda lib, v: lib.testing.check_grads(loss, (X,), order=1, eps=v),
    "policy: chosen": lambda lib, v: lib.policy(v).__enter__(),
    "compare: one": lambda lib, v: lib.compare(v, loss)(X),
    "compare: two": lambda lib, v: str(lib.compare(loss, v)(X)),
    "compare: args": lambda lib, v: str(lib.compare(loss, loss)(v)),
    "compile_cost: fun": lambda lib, v: str(lib.compile_cost(v)(X)),
    "compile_cost: args": lambda lib, v: str(lib.compile_cost(loss)(v)),
    "draw: fun": lambda lib, v: str(lib.draw(v)(X)),
    "draw: argnums": lambda lib, v: str(lib.draw(two, argnums=v)(X, X)),
    "draw: args": lambda lib, v: str(lib.draw(loss)(v)),
    "nonfinite: fun": lambda lib, v: str(lib.nonfinite(v)(X)),
    "nonfinite: argnums": lambda lib, v: str(lib.nonfinite(two, argnums=v)(X, X)),
    "nonfinite: args": lambda lib, v: str(lib.nonfinite(loss)(v)),
    "residuals: fun": lambda lib, v: str(lib.residuals(v)(X)),
    "residuals: argnums": lambda lib, v: str(lib.residuals(two, argnums=v)(X, X)),
    "residuals: args": lambda lib, v: str(lib.residuals(loss)(v)),
    "residuals: has_aux": lambda lib, v: str(lib.residuals(loss, has_aux=v)(X)),
    "watch: fun": lambda lib, v: str(lib.watch(v)(X)),
    "watch: names": lambda lib, v: str(lib.watch(loss, v)(X)),
    "watch: args": lambda lib, v: str(lib.watch(loss)(v)),
    "why_zero: fun": lambda lib, v: str(lib.why_zero(v)(X)),
    "why_zero: argnums": lambda lib, v: str(lib.why_zero(two, argnums=v)(X, X)),
    "why_zero: args": lambda lib, v: str(lib.why_zero(loss)(v)),
}
