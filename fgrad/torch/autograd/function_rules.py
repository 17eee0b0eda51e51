"""A Function's ``backward`` as the rule of its outputs in a functionalized function's graph.

``forward`` runs in ``no_grad``, so its results would be constants (NOTE [Cuts]).  Its outputs therefore become those of
a ``custom_vjp`` call, whose backward rule runs the node on the tensors that the context has saved: these are operands
of the call, and hold the values of the rule's own recording while it runs.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

from jax import tree_util

from fgrad.api.custom import custom_vjp
from fgrad.mutable.backward.accumulate import reduced
from fgrad.mutable.context.modes import modes
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.cut import constant_of, cut, derive, may_vary
from fgrad.mutable.tensor.node import copy_node
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor, alias, new_tensor
from fgrad.mutable.transforms.levels import capturing
from fgrad.mutable.values.evaluation import Routine, array_type, is_abstract, recorded


def rule_outputs(ctx: Any, inputs: Sequence[Tensor], results: Sequence[Any]) -> None:
    """Give the results of a Function the derivative that its ``backward`` defines.

    Arguments:
      ctx: the node, with what it has saved, and which of its outputs have a derivative.
      inputs: the tensors that it was called with.
      results: its outputs.
    """
    varying = [i for i, x in enumerate(inputs) if may_vary(x._value())]
    differentiable = [i for i, derived in enumerate(ctx._differentiable) if derived]
    if not varying or not differentiable:
        return
    ctx = _copied(ctx)
    outputs = [results[i] for i in differentiable]
    pairs = [(x, _output_sharing(x, outputs)) for x in tensors_of(ctx)]
    intermediates = [x for x, output in pairs if output is None and is_abstract(x._storage.array)]
    operands = [inputs[i]._value() for i in varying]
    operands += [constant_of(x._value()) for x in outputs]
    operands += [x._storage.array for x in intermediates]
    first, second = len(varying), len(varying) + len(outputs)

    @custom_vjp
    def rule(*arrays: Any) -> Any:
        return arrays[first:second]

    def forward(*arrays: Any) -> Any:
        values = rule(*arrays)
        return values, (values, arrays[second:])

    def backward(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
        values, arrays = residuals
        cells = [(x, x._storage.holding(a), x._geometry) for x, a in zip(intermediates, arrays, strict=True)]
        cells += [(x, Storage(values[k], x._type.dtype), None) for x, k in pairs if k is not None]
        arriving: list[Any] = [None] * len(results)
        for i, ct in zip(differentiable, cotangents, strict=True):
            arriving[i] = new_tensor(ct, results[i]._type)
        with _RuleLevel():
            grads = _with_storages(cells, lambda: ctx.apply(arriving))
            return (*[_value(ctx, i, grads[i], inputs[i]) for i in varying], *[None] * (len(operands) - first))

    rule.defvjp(forward, backward)
    types = [array_type(tuple(v.shape), v.dtype) for v in operands]
    values = Routine(recorded(lambda *arrays: list(rule(*arrays)), types))(operands)
    for x, value in zip(outputs, values, strict=True):
        derive(x, value)


def _value(ctx: Any, i: int, grad: Tensor | None, x: Tensor) -> Any:
    """The array of the gradient of an input."""
    return None if grad is None else reduced(ctx, i, grad, x._type)._value()


def own_handle(tensor: Tensor) -> Tensor:
    """An output as a tensor of the capture: one from outside, which must not change, gets an alias."""
    if tensor._level >= modes.capture:
        return tensor
    handle = cut(alias(tensor))
    handle._level = modes.level
    return handle


def tensors_of(ctx: Any) -> list[Tensor]:
    """The distinct tensors that a context has saved or has as attributes."""
    saved = [s.tensor for s in ctx._saved if s is not None]
    attributes = tree_util.tree_leaves(list(vars(ctx).values()), is_leaf=is_tensor)
    return list({id(x): x for x in (*saved, *attributes) if isinstance(x, Tensor)}.values())


class _RuleLevel(capturing):
    """Opens a level for a backward rule, whose cotangents and residuals belong to no open level."""

    def values(self) -> dict[str, Any]:
        outside = {"transforms": (), "maps": (), "differentiating": (), "dual_level": -1, "saved_hooks": ()}
        return {**super().values(), **outside, "grad": True, "inference": False}


def _copied(ctx: Any) -> Any:
    """A copy of a node, whose saved tensors survive the release of the original's, and which runs in no level."""
    copied: Any = copy_node(ctx)
    copied._maps = ()
    copied._saved = [copy.copy(s) for s in ctx._saved]
    return copied


def _output_sharing(x: Tensor, outputs: Sequence[Tensor]) -> int | None:
    """The index of the output that shares a tensor's elements, if any."""
    same = (k for k, out in enumerate(outputs) if out._storage is x._storage and out._geometry == x._geometry)
    return next(same, None)


def _with_storages(cells: Sequence[tuple[Tensor, Storage, Any]], run: Callable[[], Any]) -> Any:
    """Run a function while tensors have other storages and geometries."""
    before = [(x, x._storage, x._geometry, x._cache) for x, _, _ in cells]
    try:
        for x, storage, geometry in cells:
            x._storage, x._geometry, x._cache = storage, geometry, None
        return run()
    finally:
        for x, storage, geometry, cache in before:
            x._storage, x._geometry, x._cache = storage, geometry, cache
