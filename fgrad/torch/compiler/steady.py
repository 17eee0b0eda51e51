"""Consecutive calls of a program, each of which reads what the last one wrote (NOTE [Owned tensors]).

NOTE [Steady calls]
A program owns what it writes: a call takes the arrays of the last call and replaces them by its own.  While their owner
is open, only the fields of owned tensors can change.  So all of these are compared at once (NOTE [Identities]), and
only after some tensor's field has been written (NOTE [Changes]).  The other tensors of the call are guarded as usual.

If owned tensors are written, or pending gradients read, soon after a program has taken ownership, it waits twice as
long before it does so again.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.owned import Owner, Pending
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.compiler.codegen import (
    FastEffects,
    FastGuards,
    Read,
    is_plain,
    is_uniform,
    later_stores,
    reader,
    result_maker,
    stores_maker,
    undoing,
)
from fgrad.torch.compiler.effects import Effects
from fgrad.torch.compiler.execution import Execution
from fgrad.torch.compiler.generated import Scope
from fgrad.torch.compiler.guards import Guards
from fgrad.torch.compiler.identities import Contents
from fgrad.torch.compiler.new_tensors import NewTensor
from fgrad.torch.compiler.placement import Placement
from fgrad.torch.compiler.values import Constant, NewRef, NumberRef, Tree, Value
from fgrad.torch.compiler.windows import Window

#: calls of a program before it owns what it writes
FIRST_CALLS = 0
#: a program that loses its tensors within so many calls waits longer the next time
WORTH = 16


class Steady:
    """Ownership of what a program writes, from call to call.

    Attributes:
      owner: holds the results of the last call, while the program owns them.
      execution: runs the program.
      wait: the number of calls before it takes ownership.
      calls: how many there have been.
    """

    def __init__(
        self,
        effects: Effects,
        guards: Guards,
        reads: Sequence[Read],
        fast: FastEffects,
        execution: Execution,
        late: Sequence[int],
        required: Sequence[int],
    ):
        external = effects.external
        self.owner: Owner | None = None
        self.wait: int = FIRST_CALLS
        self.calls: int = 0
        self.execution: Execution = execution
        self._effects = effects
        self._guards = guards
        self._fast_effects = fast
        written = {guards.shared[at] for at, _ in effects.writes}
        self._owned: list[int] = [
            i for i, (kind, _) in enumerate(external.accesses) if kind == "fixed" and guards.shared[i] in written
        ]
        self._leaves: list[Tensor] = [external.tensors[i] for i in self._owned]
        self._fast_guards = FastGuards(effects, guards, self._owned)
        pending = [(external.tensors[at], effects.new_tensors[value.index]) for at, _, value in gradients_of(effects)]
        self._pending = [
            Pending(leaf, each.like, i) for i, (leaf, each) in enumerate(pending) if isinstance(each, NewTensor)
        ]
        checked = self._fast_guards.indices
        inputs = [_renumbered(read, checked) for read in reads]
        self.read_inputs: Callable[..., list[Any]] = reader(inputs, len(checked))
        self.read_required: Callable[..., list[Any]] = reader([checked.index(i) for i in required], len(checked))
        gradients = {value.index for _, _, value in gradients_of(effects)}
        others = Scope({f"t{i}": tensor for i, tensor in enumerate(external.tensors) if i not in checked})
        after = [x for x in effects.entries if isinstance(x[2], NumberRef) and x[2].index in late]
        entries = [x for x in effects.entries if x not in after]
        later = later_stores(effects, after, guards, others) if after or effects.additions else None
        #: whether it makes the result together with an iterator that stores what is known only then
        self.stores_later: bool = later is not None
        self.make_result: Callable[..., Any] = result_maker(effects, others, checked, gradients, execution.rest, later)
        self.stores: Callable[..., Sequence[Any]] | None = stores_maker(entries, guards) if entries else None
        self._entries = entries
        self._checked: list[Tensor] = []
        self._classes: list[type] = []
        self._hooks: Contents = Contents([])
        self._fields: Contents = Contents([])
        #: ``changes.fields`` when the fields were last compared
        self._fields_checked: object = None

    def undo(self) -> Sequence[Any]:
        """Iterators that set what the stores will set to what it is now."""
        return [undoing(container, key) for container, key, _ in self._entries]

    def match(self, arguments: Sequence[Tensor]) -> list[Tensor] | None:
        """The tensors of a call that the program does not own, or None if the call cannot continue from the last."""
        owner = self.owner
        if owner is None or not owner.open or [*map(type, self._checked)] != self._classes or not self._hooks.hold():
            return None
        now = changes.fields
        if now is not self._fields_checked:
            if not self._fields.hold():
                return None
            self._fields_checked = now
        return self._fast_guards(arguments)

    def give_up(self) -> None:
        """Give up ownership, because something else has intervened."""
        owner = self.owner
        if owner is not None:
            self.release()
            self.wait = FIRST_CALLS if owner.calls >= WORTH else min(2 * self.wait + 1, 1 << 16)
            self.calls = 0

    def release(self) -> None:
        """Give up ownership until the next call."""
        owner = self.owner
        if owner is not None:
            owner.release()
            self.owner = None

    def take_ownership(self, tensors: Sequence[Tensor]) -> list[Tensor] | None:
        """Take ownership of what a call is about to write; returns the tensors that the program does not own.

        None if that is not possible, or not yet.
        """
        self.calls += 1
        if self.calls <= self.wait:
            return None
        effects = self._effects
        self._fast_effects.attribute_versions(tensors)
        counters = [(tensors[at]._counter, delta) for at, delta, _ in effects.counts]
        if all("_grad" in fields_of(pending.leaf) for pending in self._pending):
            owner = Owner(self._pending)
            if owner.own([tensors[at]._storage for at, _ in effects.writes], counters):
                contents = self._contents()
                self._fast_guards.remember(tensors)
                if self._guards.match(tensors):  # the contents were just noted
                    self.owner, self._fields_checked = owner, None
                    self._checked, self._classes, self._hooks, self._fields = contents
                    return [tensors[i] for i in self._fast_guards.indices]
            owner.release()
        self.calls = 0
        self.wait = min(2 * self.wait + 1, 1 << 16)
        return None

    def _contents(self) -> tuple[list[Tensor], list[type], Contents, Contents]:
        """The owned tensors and their gradients that are not pending, with their classes, hooks and fields.

        Tables of hooks are filled in place, so their contents are noted, too.
        """
        pending = {id(each.leaf) for each in self._pending}
        gradients = [t._grad for t in self._leaves if id(t) not in pending]
        tensors = [*self._leaves, *[grad for grad in gradients if grad is not None]]
        tables = [table for t in tensors for table in (t._tensor_hooks, t._post_accumulate_grad_hooks)]
        hooks = [table.values() for table in tables if table is not None]
        values = [[x for name, x in fields_of(t).items() if name != "_grad" or id(t) not in pending] for t in tensors]
        return (
            tensors,
            [*map(type, tensors)],
            Contents(hooks),
            Contents([fields_of(t).values() for t in tensors], values),
        )


def _renumbered(read: Read, checked: Sequence[int]) -> Read:
    """How an input is read from those tensors only that are checked."""
    if isinstance(read, int):
        return checked.index(read)
    return read.renumbered(checked) if isinstance(read, Window) else read


def can_be_steady(effects: Effects, guards: Guards, placement: Placement) -> bool:
    """Whether the only effects of a call are new values of fixed tensors, new gradients, numbers, and a result.

    All but the result have to be where the program runs.
    """
    external = effects.external
    fields = gradients_of(effects)
    indices = {value.index for _, _, value in fields}
    written = {guards.shared[at] for at, _ in effects.writes}
    # the base of a view is guarded as an argument is, if the call does not write to it
    kinds = {kind for i, (kind, _) in enumerate(external.accesses) if kind != "base" or guards.shared[i] in written}
    returned = _indices(effects.result).union(*[_indices(x) for *_, values in effects.additions for x in values])
    return (
        is_plain(effects)
        and bool(effects.writes)
        and kinds <= {"fixed", "argument"}
        and not (external.aliases or guards.tensor_attributes)
        and all(isinstance(value, NumberRef | Constant) for *_, value in effects.entries)
        and len(fields) == len(effects.fields) == len(indices)
        and not (indices & returned)
        and all(guards.shared[at] in written for at, *_ in (*effects.counts, *fields))
        and all(external.accesses[at][0] == "fixed" for at, *_ in (*effects.writes, *effects.counts, *effects.fields))
        and all(is_uniform(delta, writes) for _, delta, writes in effects.counts)
        and not any(isinstance(x, NewRef) and x.index in indices for new in effects.new_tensors for x in new.bases)
        and all(_is_single(effects, index) for index in indices)
        and not any(effects.new_tensors[index].output in placement.outputs for index in indices)
        and not any(output in placement.outputs for _, output in effects.writes)
    )


def _is_single(effects: Effects, index: int) -> bool:
    """Whether a new tensor has a storage and a counter of its own, and no history."""
    new = effects.new_tensors[index]
    return isinstance(new, NewTensor) and new.bases == (None, None) and new.like._node is None


def gradients_of(effects: Effects) -> list[tuple[int, str, NewRef]]:
    """The gradients that each call makes."""
    return [(at, name, x) for at, name, x in effects.fields if name == "_grad" and isinstance(x, NewRef)]


def _indices(value: Value) -> set[int]:
    """The indices of the new tensors in a result."""
    if isinstance(value, Tree):
        return {index for leaf in value.leaves for index in _indices(leaf)}
    return {value.index} if isinstance(value, NewRef) else set()
