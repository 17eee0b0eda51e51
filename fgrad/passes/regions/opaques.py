"""Calls that ran while recording (``io_callback``): a derivative through them is refused."""

from typing import Any, NoReturn

from fgrad import errors
from fgrad.graph.op import Op
from fgrad.passes.dependence import rule_of_name
from fgrad.rules.kinds import Region, Undefined, define


def _refuse(op: Op, *_: Any) -> NoReturn:
    rule = rule_of_name(op.params["of"])
    reason = rule.reason if isinstance(rule, Undefined) else "it runs outside of the recorded program"
    raise errors.undefined(op.params["of"], reason)


define("opaque", Region(adjoint=_refuse, tangents=_refuse))


def _ask(op: Op, *_: Any) -> NoReturn:
    raise errors.undefined(
        "a custom rule that branches on numbers",
        "which are known only when it runs, so that it cannot be transposed. Write it with jnp.where or jax.lax.cond",
    )


define("python_call", Region(adjoint=_ask, tangents=_ask))
