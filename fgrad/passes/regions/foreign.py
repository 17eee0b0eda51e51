"""Operations with foreign rules, in both modes: recorded from what the author's functions compute.

See NOTE [Foreign rules].
"""

from collections.abc import Sequence
from typing import Any

from fgrad import errors
from fgrad.graph.foreign import foreign_linear
from fgrad.graph.graph import Builder, applied
from fgrad.graph.op import Op
from fgrad.passes.dependence import FOREIGN, of_integers
from fgrad.passes.linearity import dependent_on
from fgrad.passes.local import Adjoint, Local, recorded, tangent_type
from fgrad.passes.regions.custom import adjoint_of_tangents, results_moved
from fgrad.rules.foreign import pulled, pushed
from fgrad.rules.kinds import RULES, Region


def _tangents(op: Op, live: tuple[bool, ...]) -> Local:
    n = len(op.in_types)
    moving = [tangent_type(t) for t, is_live in zip(op.in_types, live, strict=True) if is_live]

    def function(*flat: Any) -> list[Any]:
        given = iter(flat[n:])
        outs, tangents = pushed(op, flat[:n], [next(given) if is_live else None for is_live in live])
        return [*outs, *tangents]

    expected = [*op.out_types, *map(tangent_type, op.out_types)]
    full = recorded(function, [*op.in_types, *moving], expected, op)
    m = len(op.out_types)
    return Local(full.graph, tuple([None if r is None else r - m for r in full.results[m:]]))


def _adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    _refuse_integers(op, needs)
    return adjoint_of_tangents(op, _with_own_values(op, _tangents(op, needs)), needs, live)


def _with_own_values(op: Op, local: Local) -> Local:
    """The same with values from the operation itself, where the rule computes them along with the tangents."""
    graph, n, m = local.graph, len(op.in_types), len(op.out_types)
    if dependent_on(graph, range(n, len(graph.in_types))).isdisjoint(graph.outputs[:m]):
        return local
    builder = Builder(graph.in_types)
    first = builder.emit(op, tuple(builder.inputs[:n]))
    outs = builder.splice(graph, builder.inputs)
    return Local(builder.finish([*range(first, first + m), *outs[m:]]), local.results)


def _varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    return [True] * len(op.out_types) if _of_integers(op, needs) else results_moved(op, _tangents(op, needs))


RULES[FOREIGN] = Region(adjoint=_adjoint, tangents=_tangents, varied=_varied)


def _linear_tangents(op: Op, live: tuple[bool, ...]) -> Local:
    return _tangents(op.params["op"], live)


def _transposed(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    _refuse_integers(op, needs)
    inner, linear = op.params["op"], op.params["linear"]
    n, m = len(op.in_types), len(op.out_types)

    def function(*flat: Any) -> list[Any]:
        given = iter(flat[n + m :])
        cotangents = pulled(inner, flat[:n], linear, [next(given) if is_live else None for is_live in live])
        return [x for x, needed in zip(cotangents, needs, strict=True) if needed]

    ct_types = [tangent_type(t) for t, is_live in zip(op.out_types, live, strict=True) if is_live]
    expected = [tangent_type(t) for t, needed in zip(op.in_types, needs, strict=True) if needed]
    transposed = recorded(function, [*op.in_types, *op.out_types, *ct_types], expected, inner)
    return Adjoint(applied(inner), transposed.graph, transposed.results)


def _of_integers(op: Op, needs: Sequence[bool]) -> bool:
    return of_integers(t for t, needed in zip(op.in_types, needs, strict=True) if needed)


def _refuse_integers(op: Op, needs: Sequence[bool]) -> None:
    if _of_integers(op, needs):
        raise errors.not_linear(op.name)


RULES[foreign_linear] = Region(adjoint=_transposed, tangents=_linear_tangents)
