"""The recorder: a recording that knows the values of its inputs, and works out others when Python asks for them."""

from collections.abc import Iterable, Sequence
from typing import Any

from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import is_inexact, opaque
from fgrad.graph.source import RawSource
from fgrad.jaxcore import is_concrete, set_trace, take_trace, typeof
from fgrad.record.recording import LITERAL, Recording
from fgrad.record.tracer import Tracer
from fgrad.run.program import run


class Recorder(Recording):
    """Records a function on values; see NOTE [Two kinds of recording]."""

    __slots__ = ("parent", "inputs", "known")

    def __init__(self, inputs: Sequence[Any]):
        super().__init__()
        with take_trace() as parent:
            self.parent = parent
        self.inputs = list(inputs)
        #: values worked out on demand, by number
        self.known: dict[int, Any] = {}

    def start(self) -> list[Tracer]:
        tracers = [self.new_input(typeof(x)) for x in self.inputs]
        self.known.update(enumerate(self.inputs))
        return tracers

    def lift(self, value: Any) -> int:
        number = super().lift(value)
        self.known[number] = value
        return number

    def records(self, args: Sequence[Any]) -> bool:
        return any(type(x) is Tracer and x._trace is self for x in args)

    def outer(self) -> Any:
        return self.parent

    def outside(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        with set_trace(self.parent):
            return primitive.bind(*args, **params)

    def emit(self, op: Op, args: Sequence[Any], source: RawSource | None) -> list[Any]:
        if not op.effects:
            return super().emit(op, args, source)
        # a print or a callback runs now and once; what it returns is then a value like any other from outside
        numbers = [self.number(x) for x in args]
        values = self.values(numbers)
        with set_trace(self.parent):
            results = list(op.bind(values))
        if not any(map(is_inexact, op.out_types)) or not any(map(is_inexact, op.in_types)):
            return results
        # a derivative through it must be refused, not be silently zero
        every = [*results, *args]
        link = intern(opaque, {"count": len(results), "of": op.name}, [typeof(x) for x in every])
        return super().emit(link, every, source)

    def inner(self, function: Any, args: Sequence[Any]) -> tuple[Graph, list[Any]]:
        # the inner recording knows the same values, so that a function with a custom rule may branch on them too
        with set_trace(self):
            child = Recorder(args)
        tracers = child.start()
        try:
            with set_trace(child):
                outs = function(*tracers)
            return child.graph([child.number(x) for x in outs])
        finally:
            child.open = False

    def concrete(self, number: int) -> Any:
        if not all(map(is_concrete, self.inputs)):
            return None
        (value,) = self.values([number])
        return value if is_concrete(value) else None

    def values(self, numbers: Sequence[int]) -> list[Any]:
        """The values with these numbers: what they need of the tape is run under the outer trace, and remembered."""
        known = self.known
        missing = {i for i in numbers if i not in known}
        if missing:
            # walk back only as far as something is wanted, so that a long Python loop costs each step its own length
            steps: list[tuple[int, Op, tuple[int, ...]]] = []
            wanted, at, end, first = set(missing), len(self.ops), len(self.args), self.count
            while wanted:
                at -= 1
                op = self.ops[at]
                start = end - len(op.in_types)
                first -= len(op.out_types)
                outs = range(first, first + len(op.out_types))
                if not wanted.isdisjoint(outs):
                    wanted.difference_update(outs)
                    ins = tuple(self.args[start:end])
                    wanted.update([i for i in ins if i not in known])
                    steps.append((first, op, ins))
                end = start
            self._work_out(reversed(steps))
        return [known[i] for i in numbers]

    def _work_out(self, steps: Iterable[tuple[int, Op, tuple[int, ...]]]) -> None:
        """Run some operations of the tape, whose other inputs are known, and remember all they give."""
        known = self.known
        builder = Builder()
        new: dict[int, int] = {}
        args: list[Any] = []
        made: list[int] = []
        for first, op, ins in steps:
            if op.primitive is LITERAL:
                new[first] = builder.const(op.params["key"])
                known[first] = op.params["key"].value
                continue
            for i in ins:
                if i not in new:
                    new[i] = builder.input(typeof(known[i]))
                    args.append(known[i])
            number = builder.emit(op, tuple([new[i] for i in ins]))
            for k in range(len(op.out_types)):
                new[first + k] = number + k
                made.append(first + k)
        if made:
            with set_trace(self.parent):
                results = run(builder.finish([new[i] for i in made]), args)
            known.update(zip(made, results, strict=True))
