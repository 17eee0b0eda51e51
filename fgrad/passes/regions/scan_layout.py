"""The inputs of a scan by group, and a builder of scans that takes them one by one."""

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import scan
from fgrad.jaxcore import ShapedArray
from fgrad.passes.dependence import passed_on_by


@frozen
class ScanLayout:
    """Inputs of a scan, and of its body, by group: positions among all of them."""

    consts: Sequence[int]
    carry: Sequence[int]
    xs: Sequence[int]

    @property
    def all(self) -> list[int]:
        return [*self.consts, *self.carry, *self.xs]

    @classmethod
    def of(cls, op: Op) -> "ScanLayout":
        """All inputs."""
        nc, nk = op.params["num_consts"], op.params["num_carry"]
        return cls(range(nc), range(nc, nc + nk), range(nc + nk, len(op.in_types)))

    @classmethod
    def varied(cls, op: Op, live: Sequence[bool]) -> "ScanLayout":
        """The inputs of the body that vary, in whichever step, when the scan's ``live`` inputs do."""
        every = cls.of(op)
        consts, xs = [i for i in every.consts if live[i]], [i for i in every.xs if live[i]]
        carried = varied_carry(op.params["body"], consts, [live[i] for i in every.carry], xs, len(every.consts))
        return cls(consts, [i for i, varies in zip(every.carry, carried, strict=True) if varies], xs)


def varied_carry(
    body: Graph, before: Sequence[int], carry: Sequence[bool], after: Sequence[int], offset: int
) -> list[bool]:
    """Which carries vary, given the varied inputs before and after them: the smallest set closed under the body."""
    n = len(carry)
    carried = list(carry)
    while True:
        passed = passed_on_by(body, [*before, *(offset + i for i in range(n) if carried[i]), *after])
        wider = [a or b for a, b in zip(carried, passed[:n], strict=True)]
        if wider == carried:
            return carried
        carried = wider


class ScanBuilder:
    """Writes a scan into ``outer``: each input of its body is declared with the value that it comes from there."""

    def __init__(self, outer: Builder):
        self.outer: Builder = outer
        self.body: Builder = Builder()
        #: by group: the values of ``outer`` and the inputs of the body
        self._consts: list[tuple[int, int]] = []
        self._carry: list[tuple[int, int]] = []
        self._xs: list[tuple[int, int]] = []

    def const(self, value: int, type: ShapedArray) -> int:
        """The body's input for a value that is the same in every step."""
        return self._declare(self._consts, value, type)

    def carry(self, value: int, type: ShapedArray) -> int:
        """The body's input for a carry that starts with this value."""
        return self._declare(self._carry, value, type)

    def x(self, value: int, type: ShapedArray) -> int:
        """The body's input for the slices of a value, of this type each."""
        return self._declare(self._xs, value, type)

    def _declare(self, group: list[tuple[int, int]], value: int, type: ShapedArray) -> int:
        number = self.body.input(type)
        group.append((value, number))
        return number

    def inputs(self, layout: ScanLayout, value_of: Callable[[int], int], types: Sequence[ShapedArray]) -> list[int]:
        """An input for each that another body has, in the same group."""
        return [
            *(self.const(value_of(i), types[i]) for i in layout.consts),
            *(self.carry(value_of(i), types[i]) for i in layout.carry),
            *(self.x(value_of(i), types[i]) for i in layout.xs),
        ]

    def finish(self, carry: Sequence[int], ys: Sequence[int], params: dict[str, Any]) -> tuple[list[int], list[int]]:
        """Emit the scan, whose body outputs are the next carries and the ys.

        Returns the numbers of the last carries and of the stacked ys.
        """
        outputs = [*carry, *ys]
        declared = [*self._consts, *self._carry, *self._xs]
        body = self.body.finish(outputs, [number for _, number in declared])
        read = {i for node in body.nodes for i in node.inputs} | {*body.outputs}
        # a const or x that the body does not read is dropped; a carry always stays
        kept = {number for k, (_, number) in enumerate(declared) if k in read} | {number for _, number in self._carry}
        consts = [each for each in self._consts if each[1] in kept]
        declared = [*consts, *self._carry, *(each for each in self._xs if each[1] in kept)]
        body = self.body.finish(outputs, [number for _, number in declared])
        args = tuple([value for value, _ in declared])
        params = {**params, "body": body, "num_consts": len(consts), "num_carry": len(carry)}
        first = self.outer.emit(intern(scan, params, [self.outer.types[i] for i in args]), args)
        numbers = list(range(first, first + len(carry) + len(ys)))
        return numbers[: len(carry)], numbers[len(carry) :]
