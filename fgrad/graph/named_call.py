"""Calls of which only the name and the types are known: what they do was not recorded.

The graph behind a tensor has them where a node is no operation of the table, such as a custom ``autograd.Function``.
Such a graph can be read, compared, drawn and differentiated, but not run.
"""

from collections.abc import Sequence
from typing import Any

from fgrad import errors
from fgrad.graph.op import Region
from fgrad.jaxcore import ShapedArray


class NamedCall(Region):
    """A call by its name.

    Parameters: ``label``; ``results``: their types; ``saved``: what its derivative reads, numbers for inputs and, after
    them, results, types for what else it keeps.
    """

    name = "named_call"

    def bind(self, op: Any, args: Sequence[Any]) -> Sequence[Any]:
        raise errors.unrecorded(op.params["label"])

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        return params["results"]


named_call: NamedCall = NamedCall()
