"""Compiled calls that go on from one another: what one has left is what the next one reads (NOTE [Owned tensors]).

NOTE [Steady calls]
After some calls of a program with nothing else in between, the program owns what it writes.  From then on a call takes
its arrays from the last one, and leaves its own by one store.  What it asks of the tensors that it owns is whether they
have the fields that they had, of all of them at once (NOTE [Identities]): nothing else can have happened to them while
their owner is open.  The other tensors of the call are asked as at any other.

A program whose tensors are written or whose gradients are read between its calls soon after it has taken them waits
twice as long before it takes them again.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from fgrad.mutable.tensor.owned import Owner, Pending
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.run.generated import function_of
from fgrad.torch.compiler.effects import Effects, Fresh, Tree, Value
from fgrad.torch.compiler.guards import Guards
from fgrad.torch.compiler.identities import Contents
from fgrad.torch.compiler.straight import Fitting, Leaving, Scope, is_run, made_and_returned, reading

#: so many calls of a program with nothing in between come before it owns what it writes
FIRST_CALLS = 4
#: a program that has lost its tensors before so many calls waits longer the next time
WORTH = 16


class Steady:
    """How calls of a program go on from one another.

    Attributes:
      owner: has what the last call left, if the program owns it.
      wait: how many calls come before that.
      calls: how many there have been.
    """

    def __init__(self, effects: Effects, guards: Guards, reads: Sequence[Any], leaving: Leaving):
        located = effects.located
        self.owner: Owner | None = None
        self.wait: int = FIRST_CALLS
        self.calls: int = 0
        self._effects = effects
        self._guards = guards
        self._leaving = leaving
        written = {guards.shared[at]: place for place, (at, _) in enumerate(effects.writes)}
        self._mine: list[int] = [
            i for i, (kind, _) in enumerate(located.ways) if kind == "fixed" and guards.shared[i] in written
        ]
        self._leaves: list[Tensor] = [located.tensors[i] for i in self._mine]
        self._fitting = Fitting(effects, guards, self._mine)
        gradients = [(located.tensors[at], effects.made[value.place]) for at, _, value in _gradients(effects)]
        kept = [output for _, output in effects.writes] + [
            each.output for _, each in gradients if each.output is not None
        ]
        self._keep = _taking(kept)
        first = len(effects.writes)
        self._pending = [Pending(leaf, each.like, first + i) for i, (leaf, each) in enumerate(gradients)]
        # what a call reads is taken from what the last one has kept, and from the others
        others, order = [], []
        numbers = {at: i for i, at in enumerate(self._fitting.asked)}
        for read in reads:
            place = written.get(guards.shared[read]) if isinstance(read, int) else None
            order.append(len(kept) + len(others) if place is None else place)
            if place is None:
                others.append(numbers[read] if isinstance(read, int) else read)
        self._reading = reading(others, len(numbers))
        self._take = _taking(order)
        self._returning = _returning(effects, self._fitting.asked, {value.place for _, _, value in _gradients(effects)})
        self._commit = _committing(len(gradients))
        self._asked: list[Tensor] = []
        self._classes: list[type] = []
        self._contents: Contents = Contents([])

    def fits(self, arguments: Sequence[Tensor]) -> list[Tensor] | None:
        """The tensors of a call that the program does not own, if the call can go on from the last one."""
        owner = self.owner
        if owner is None or not owner.open or [*map(type, self._asked)] != self._classes or not self._contents.hold():
            return None
        return self._fitting(arguments)

    def end(self) -> None:
        """Own nothing any more."""
        owner = self.owner
        if owner is not None:
            owner.release()
            self.owner = None
            self.wait = FIRST_CALLS if owner.state[1] >= WORTH else min(2 * self.wait, 1 << 16)
            self.calls = 0

    def leaving(self) -> Callable[..., Any]:
        """What leaves the effects of a call behind that reads its tensors one by one."""
        self.calls += 1
        return self.begin if self.calls > self.wait else self._leaving

    def begin(self, found: Sequence[Tensor], outs: Sequence[Any]) -> tuple[list[Tensor], Any]:
        """Leave the effects of a call behind, and own them; or only leave them behind, where they cannot be owned."""
        effects, leaving = self._effects, self._leaving
        counters = [(found[at]._counter, delta) for at, delta, _ in effects.counts]
        known = all(counter.writes is run for (counter, _), run in zip(counters, leaving.runs, strict=True))
        if known and all("_grad" in vars(pending.leaf) for pending in self._pending):
            owner = Owner(self._pending)
            if owner.own([found[at]._storage for at, _ in effects.writes], counters):
                taken_down = self._take_down()
                self._fitting.know(found)
                result = self._returning([found[i] for i in self._fitting.asked], outs)
                state = self._keep(outs), 1
                if self._guards.fit(found):  # as what was taken down just now
                    before = owner.state
                    if self._commit(owner, before, state, [pending.leaf for pending in self._pending]):
                        self.owner, (self._asked, self._classes, self._contents) = owner, taken_down
                        return [], result
            owner.release()
        self.calls = 0
        self.wait = min(2 * self.wait, 1 << 16)
        return leaving(found, outs)

    def _take_down(self) -> tuple[list[Tensor], list[type], Contents]:
        """The tensors that the program owns and their gradients that are not pending, their classes, what they hold.

        Tables of hooks are filled in place, so what they hold is taken down too.
        """
        pending = {id(each.leaf) for each in self._pending}
        gradients = [t._grad for t in self._leaves if id(t) not in pending]
        asked = [*self._leaves, *[grad for grad in gradients if grad is not None]]
        tables = [table for t in asked for table in (t._backward_hooks, t._post_accumulate_grad_hooks)]
        hooks = [table.values() for table in tables if table is not None]
        held = [[x for name, x in vars(t).items() if name != "_grad" or id(t) not in pending] for t in asked]
        return asked, [*map(type, asked)], Contents([*[vars(t).values() for t in asked], *hooks], [*held, *hooks])

    def values(self, state: Any, others: Sequence[Tensor], drawn: Any) -> Sequence[Any]:
        """The inputs of a call that goes on from a state."""
        return self._take((*state[0], *self._reading(others, drawn)))

    def left(self, owner: Owner, before: Any, others: Sequence[Tensor], outs: Sequence[Any]) -> tuple[Any] | None:
        """Leave the effects of a call behind that has gone on from a state, and its result; None if it is another."""
        result = self._returning(others, outs)
        state = self._keep(outs), before[1] + 1
        # from here on nothing is called
        if owner.open and owner.state is before:
            owner.state = state
            return (result,)
        return None


def can_be_steady(effects: Effects, guards: Guards, leaving: Leaving) -> bool:
    """Whether what a call leaves behind are values of tensors that are always the same, new gradients, and a result."""
    located = effects.located
    kinds = {kind for kind, _ in located.ways}
    fields = _gradients(effects)
    places = {value.place for _, _, value in fields}
    written = {guards.shared[at] for at, _ in effects.writes}
    returned = _places(effects.result)
    return (
        leaving.run is not None
        and bool(effects.writes)
        and kinds <= {"fixed", "argument"}
        and not (located.again or guards.marks or effects.entries)
        and len(fields) == len(effects.fields) == len(places)
        and not (places & returned)
        and all(guards.shared[at] in written for at, *_ in (*effects.counts, *fields))
        and all(located.ways[at][0] == "fixed" for at, *_ in (*effects.writes, *effects.counts, *effects.fields))
        and all(is_run(delta, writes) for _, delta, writes in effects.counts)
        and not any(made.storage in places or made.counter in places for made in effects.made)
        and all(_is_single(effects, place) for place in places)
    )


def _is_single(effects: Effects, place: int) -> bool:
    """Whether a new tensor has a storage and a counter of its own, and no history."""
    made = effects.made[place]
    return made.storage is None and made.counter is None and made.like._grad_fn is None


def _gradients(effects: Effects) -> list[tuple[int, str, Fresh]]:
    """The gradients that a call makes anew."""
    return [(at, name, x) for at, name, x in effects.fields if name == "_grad" and isinstance(x, Fresh)]


def _places(value: Value) -> set[int]:
    """The places of the new tensors in a result."""
    if isinstance(value, Tree):
        return {place for leaf in value.leaves for place in _places(leaf)}
    return {value.place} if isinstance(value, Fresh) else set()


def _taking(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes the elements at some places."""
    if len(places) < 2:
        return lambda values: [values[i] for i in places]
    return itemgetter(*places)


def _returning(effects: Effects, asked: Sequence[int], but: set[int]) -> Callable[..., Any]:
    """What makes the result of a call of the tensors that were asked, and of the outputs of the program."""
    tensors = {f"t{i}": each for i, each in enumerate(effects.located.tensors) if i not in asked}
    return made_and_returned(effects, Scope(tensors), asked, but)


def _committing(gradients: int) -> Callable[..., bool]:
    """What has the gradients of leaves become pending, and an owner go on from a state, or does nothing."""
    lines = ["def run(owner, before, state, leaves):"]
    lines += [f"    [{', '.join([f't{i}' for i in range(gradients)])}] = leaves"] if gradients else []
    lines.append("    if not owner.open or owner.state is not before: return False")
    lines += [f"    del t{i}._grad" for i in range(gradients)]
    lines += ["    owner.state = state", "    return True"]
    return function_of(lines, Scope(), "compiled call")
