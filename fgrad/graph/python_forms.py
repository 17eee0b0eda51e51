"""How people write operations: ``x @ w`` for a ``dot_general``, ``jnp.sum(x, axis=0)`` for a ``reduce_sum``.

A form is a guess.  The writer accepts the first one that records to the same operation.
"""

from collections.abc import Callable, Iterator, Sequence

import jax
from jax import lax

from fgrad.graph.encoding import key_dtypes, key_implementations
from fgrad.graph.op import Op
from fgrad.graph.python_values import dtype_expression

Form = Callable[[Op, Sequence[str]], Iterator[str]]

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_NAMES = {
    "max": "jnp.maximum", "min": "jnp.minimum", "logistic": "jax.nn.sigmoid", "neg": "-", "not": "~",
    "rem": "lax.rem", "clamp": "lax.clamp", "stop_gradient": "lax.stop_gradient", "select_n": "lax.select_n",
}  # fmt: skip
_REDUCTIONS = {
    "reduce_sum": "jnp.sum", "reduce_max": "jnp.max", "reduce_min": "jnp.min", "reduce_prod": "jnp.prod",
    "reduce_and": "jnp.all", "reduce_or": "jnp.any",
}  # fmt: skip


def forms(op: Op, args: Sequence[str]) -> Iterator[str]:
    """Expressions that may record to an operation, the most readable first."""
    name = op.name
    if name in _INFIX and len(args) == 2:
        yield f"{args[0]} {_INFIX[name]} {args[1]}"
    if name in _NAMES:
        call = _NAMES[name]
        yield f"{call}{args[0]}" if call in "-~" else f"{call}({', '.join(args)})"
    if name in _REDUCTIONS:
        yield from _reduction(op, args[0])
    if name in _SPECIAL:
        yield from _SPECIAL[name](op, args)
    for module, prefix in ((jax.numpy, "jnp"), (lax, "lax"), (lax.linalg, "lax.linalg")):
        if hasattr(module, name):
            yield f"{prefix}.{name}({', '.join(args)})"
            if all(type(x) in (bool, int, float) for x in op.params.values()):
                yield f"{prefix}.{name}({', '.join([*args, *[f'{k}={x!r}' for k, x in op.params.items()]])})"
    if name in ("custom_jvp", "custom_vjp"):
        label = op.params["label"]
        for module, prefix in ((jax.nn, "jax.nn"), (jax.numpy, "jnp"), (jax.scipy.special, "jax.scipy.special")):
            if hasattr(module, label):
                yield f"{prefix}.{label}({', '.join(args)})"


def _reduction(op: Op, x: str) -> Iterator[str]:
    axes, call = op.params["axes"], _REDUCTIONS[op.name]
    if len(axes) == len(op.in_types[0].shape):
        yield f"{call}({x})"
    yield f"{call}({x}, axis={axes[0] if len(axes) == 1 else axes})"


def _dot(op: Op, args: Sequence[str]) -> Iterator[str]:
    x, y = args
    p = op.params
    yield f"{x} @ {y}"
    yield f"jnp.dot({x}, {y})"
    if p["precision"] is None:
        kind = p["preferred_element_type"]
        more = "" if kind is None else f", preferred_element_type={dtype_expression(kind)}"
        yield f"lax.dot_general({x}, {y}, {p['dimension_numbers']!r}{more})"


def _broadcast(op: Op, args: Sequence[str]) -> Iterator[str]:
    p = op.params
    if len(args) == 1:
        yield f"lax.broadcast_in_dim({args[0]}, {p['shape']!r}, {p['broadcast_dimensions']!r})"


def _reshape(op: Op, args: Sequence[str]) -> Iterator[str]:
    if len(args) == 1:
        yield f"jnp.reshape({args[0]}, {op.params['new_sizes']!r})"
        yield f"lax.reshape({args[0]}, {op.params['new_sizes']!r})"


def _transpose(op: Op, args: Sequence[str]) -> Iterator[str]:
    yield f"jnp.transpose({args[0]})"
    yield f"jnp.transpose({args[0]}, {op.params['permutation']!r})"


def _convert(op: Op, args: Sequence[str]) -> Iterator[str]:
    kind = dtype_expression(op.params["new_dtype"])
    yield f"lax.convert_element_type({args[0]}, {kind})"


def _slice(op: Op, args: Sequence[str]) -> Iterator[str]:
    p = op.params
    more = "" if p["strides"] is None else f", {p['strides']!r}"
    yield f"lax.slice({args[0]}, {p['start_indices']!r}, {p['limit_indices']!r}{more})"


def _concatenate(op: Op, args: Sequence[str]) -> Iterator[str]:
    axis = op.params["dimension"]
    yield f"jnp.concatenate([{', '.join(args)}]{f', axis={axis}' if axis else ''})"
    yield f"lax.concatenate([{', '.join(args)}], {axis})"


def _iota(op: Op, args: Sequence[str]) -> Iterator[str]:
    p = op.params
    if not args:
        if len(p["shape"]) == 1:
            yield f"lax.iota({dtype_expression(p['dtype'])}, {p['shape'][0]})"
        yield f"lax.broadcasted_iota({dtype_expression(p['dtype'])}, {p['shape']!r}, {p['dimension']})"


def _power(op: Op, args: Sequence[str]) -> Iterator[str]:
    if args[0].isidentifier():
        yield f"{args[0]} ** {op.params['y']}"
    yield f"lax.integer_pow({args[0]}, {op.params['y']})"


def _cumulative(op: Op, args: Sequence[str]) -> Iterator[str]:
    p = op.params
    yield f"lax.{op.name}({args[0]}, axis={p['axis']}{', reverse=True' if p['reverse'] else ''})"


def _argument(op: Op, args: Sequence[str]) -> Iterator[str]:
    p = op.params
    yield f"lax.{op.name}({args[0]}, {p['axes'][0]}, {dtype_expression(p['index_dtype'])})"


def _dynamic_slice(op: Op, args: Sequence[str]) -> Iterator[str]:
    yield f"lax.dynamic_slice({args[0]}, ({', '.join(args[1:])},), {op.params['slice_sizes']!r})"


def _dynamic_update_slice(op: Op, args: Sequence[str]) -> Iterator[str]:
    yield f"lax.dynamic_update_slice({args[0]}, {args[1]}, ({', '.join(args[2:])},))"


def _pad(op: Op, args: Sequence[str]) -> Iterator[str]:
    yield f"lax.pad({args[0]}, {args[1]}, {op.params['padding_config']!r})"


def _squeeze(op: Op, args: Sequence[str]) -> Iterator[str]:
    yield f"lax.squeeze({args[0]}, {op.params['dimensions']!r})"


def _reverse(op: Op, args: Sequence[str]) -> Iterator[str]:
    yield f"lax.rev({args[0]}, {op.params['dimensions']!r})"


def _sort(op: Op, args: Sequence[str]) -> Iterator[str]:
    p = op.params
    operands = args[0] if len(args) == 1 else f"({', '.join(args)})"
    call = f"lax.sort({operands}, dimension={p['dimension']}, is_stable={p['is_stable']}, num_keys={p['num_keys']})"
    yield f"[{call}]" if len(args) == 1 else call


def _random_seed(op: Op, args: Sequence[str]) -> Iterator[str]:
    for name, known in key_implementations().items():
        if known == op.params["impl"]:
            yield f"jax.random.key({args[0]}, impl={name!r})"


def _random_wrap(op: Op, args: Sequence[str]) -> Iterator[str]:
    for name, known in key_implementations().items():
        if known == op.params["impl"]:
            yield f"jax.random.wrap_key_data({args[0]}, impl={name!r})"


def _random_unwrap(op: Op, args: Sequence[str]) -> Iterator[str]:
    if key_dtypes():
        yield f"jax.random.key_data({args[0]})"


def _device_put(op: Op, args: Sequence[str]) -> Iterator[str]:
    if len(args) == 1:
        yield f"[jax.device_put({args[0]})]"


_SPECIAL: dict[str, Form] = {
    "dot_general": _dot, "broadcast_in_dim": _broadcast, "reshape": _reshape, "transpose": _transpose,
    "convert_element_type": _convert, "slice": _slice, "concatenate": _concatenate, "iota": _iota,
    "integer_pow": _power, "cumsum": _cumulative, "cumprod": _cumulative, "cummax": _cumulative,
    "cummin": _cumulative, "cumlogsumexp": _cumulative, "argmax": _argument, "argmin": _argument,
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update_slice, "pad": _pad, "squeeze": _squeeze,
    "rev": _reverse, "sort": _sort, "random_seed": _random_seed, "random_wrap": _random_wrap,
    "random_unwrap": _random_unwrap, "device_put": _device_put,
}  # fmt: skip
