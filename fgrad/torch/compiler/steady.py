"""Compiled calls that go on from one another: what one has left is what the next one reads (NOTE [Owned tensors]).

NOTE [Steady calls]
A program owns what it writes, and a call takes its arrays from the last one and leaves its own in their place.  What it
asks of the tensors that it owns is whether they have the fields that they had, of all of them at once (NOTE
[Identities]), and only where a field of some tensor has been written since it last asked (NOTE [Changes]): nothing else
can have happened to them while their owner is open.  The other tensors of the call are asked as at any other.

A program whose tensors are written or whose gradients are read between its calls soon after it has taken them waits
twice as long before it takes them again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.owned import Owner, Pending
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.compiler.effects import Effects, Fresh, Tree, Value
from fgrad.torch.compiler.executed import Execution
from fgrad.torch.compiler.guards import Guards
from fgrad.torch.compiler.identities import Contents
from fgrad.torch.compiler.straight import Fitting, Leaving, Scope, is_plain, is_run, made_and_returned, reading

#: so many calls of a program come before it owns what it writes
FIRST_CALLS = 0
#: a program that has lost its tensors before so many calls waits longer the next time
WORTH = 16


class Steady:
    """How calls of a program go on from one another.

    Attributes:
      owner: has what the last call left, if the program owns it.
      execution: runs the program.
      wait: how many calls come before that.
      calls: how many there have been.
    """

    def __init__(self, effects: Effects, guards: Guards, reads: Sequence[Any], leaving: Leaving, run: Execution):
        located = effects.located
        self.owner: Owner | None = None
        self.wait: int = FIRST_CALLS
        self.calls: int = 0
        self.execution: Execution = run
        self._effects = effects
        self._guards = guards
        self._leaving = leaving
        written = {guards.shared[at] for at, _ in effects.writes}
        self._mine: list[int] = [
            i for i, (kind, _) in enumerate(located.ways) if kind == "fixed" and guards.shared[i] in written
        ]
        self._leaves: list[Tensor] = [located.tensors[i] for i in self._mine]
        self._fitting = Fitting(effects, guards, self._mine)
        pending = [(located.tensors[at], effects.made[value.place]) for at, _, value in gradients_of(effects)]
        self._pending = [Pending(leaf, each.like, i) for i, (leaf, each) in enumerate(pending)]
        numbers = {at: i for i, at in enumerate(self._fitting.asked)}
        self.others: Callable[..., list[Any]] = reading(
            [numbers[read] if isinstance(read, int) else read for read in reads], len(numbers)
        )
        places = {value.place for _, _, value in gradients_of(effects)}
        self.returned: Callable[..., Any] = _returning(effects, self._fitting.asked, places, run.rest)
        self._asked: list[Tensor] = []
        self._classes: list[type] = []
        self._hooks: Contents = Contents([])
        self._fields: Contents = Contents([])
        #: ``changes.fields`` when the fields were looked at
        self._seen: object = None

    def fits(self, arguments: Sequence[Tensor]) -> list[Tensor] | None:
        """The tensors of a call that the program does not own, if the call can go on from the last one."""
        owner = self.owner
        if owner is None or not owner.open or [*map(type, self._asked)] != self._classes or not self._hooks.hold():
            return None
        now = changes.fields
        if now is not self._seen:
            if not self._fields.hold():
                return None
            self._seen = now
        return self._fitting(arguments)

    def end(self) -> None:
        """Own nothing any more, since somebody has come in between."""
        owner = self.owner
        if owner is not None:
            self.rest()
            self.wait = FIRST_CALLS if owner.calls >= WORTH else min(2 * self.wait + 1, 1 << 16)
            self.calls = 0

    def rest(self) -> None:
        """Own nothing until the next call."""
        owner = self.owner
        if owner is not None:
            owner.release()
            self.owner = None

    def begin(self, found: Sequence[Tensor]) -> list[Tensor] | None:
        """Own what a call writes, before it runs; the tensors of the call that the program does not own.

        None where it cannot be owned, or not yet.
        """
        self.calls += 1
        if self.calls <= self.wait:
            return None
        effects = self._effects
        self._leaving.begin(found)
        counters = [(found[at]._counter, delta) for at, delta, _ in effects.counts]
        if all("_grad" in vars(pending.leaf) for pending in self._pending):
            owner = Owner(self._pending)
            if owner.own([found[at]._storage for at, _ in effects.writes], counters):
                taken_down = self._take_down()
                self._fitting.know(found)
                if self._guards.fit(found):  # as what was taken down just now
                    self.owner, self._seen = owner, None
                    self._asked, self._classes, self._hooks, self._fields = taken_down
                    return [found[i] for i in self._fitting.asked]
            owner.release()
        self.calls = 0
        self.wait = min(2 * self.wait + 1, 1 << 16)
        return None

    def _take_down(self) -> tuple[list[Tensor], list[type], Contents, Contents]:
        """The tensors that the program owns and their gradients that are not pending, their classes, hooks and fields.

        Tables of hooks are filled in place, so what they hold is taken down too.
        """
        pending = {id(each.leaf) for each in self._pending}
        gradients = [t._grad for t in self._leaves if id(t) not in pending]
        asked = [*self._leaves, *[grad for grad in gradients if grad is not None]]
        tables = [table for t in asked for table in (t._tensor_hooks, t._post_accumulate_grad_hooks)]
        hooks = [table.values() for table in tables if table is not None]
        held = [[x for name, x in vars(t).items() if name != "_grad" or id(t) not in pending] for t in asked]
        return asked, [*map(type, asked)], Contents(hooks), Contents([vars(t).values() for t in asked], held)


def can_be_steady(effects: Effects, guards: Guards) -> bool:
    """Whether what a call leaves behind are values of tensors that are always the same, new gradients, and a result."""
    located = effects.located
    kinds = {kind for kind, _ in located.ways}
    fields = gradients_of(effects)
    places = {value.place for _, _, value in fields}
    written = {guards.shared[at] for at, _ in effects.writes}
    returned = _places(effects.result)
    return (
        is_plain(effects)
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
    return made.storage is None and made.counter is None and made.like._node is None


def gradients_of(effects: Effects) -> list[tuple[int, str, Fresh]]:
    """The gradients that a call makes anew."""
    return [(at, name, x) for at, name, x in effects.fields if name == "_grad" and isinstance(x, Fresh)]


def _places(value: Value) -> set[int]:
    """The places of the new tensors in a result."""
    if isinstance(value, Tree):
        return {place for leaf in value.leaves for place in _places(leaf)}
    return {value.place} if isinstance(value, Fresh) else set()


def _returning(effects: Effects, asked: Sequence[int], but: set[int], rest: Mapping[int, int]) -> Callable[..., Any]:
    """What makes the result of a call of the tensors that were asked, and of the rest of the outputs."""
    tensors = {f"t{i}": each for i, each in enumerate(effects.located.tensors) if i not in asked}
    return made_and_returned(effects, Scope(tensors), asked, but, rest)
