"""Checkpoints on saved-tensor hooks: tensors saved inside are not kept, but recomputed in backward.

NOTE [Nested checkpoints]
A saved tensor belongs to the innermost checkpoint; a checkpoint's own inputs are saved like any tensor, so they belong
to the next one outside.  Unpacking a tensor therefore recomputes every checkpoint that was open when it was saved.

NOTE [Life of recomputed tensors]
They belong to one backward and are released as they are unpacked, even if the graph is retained.  The packed object is
a holder, alive as long as the graph; a dead one, whose node is gone, is skipped.

NOTE [Early stop]
A recomputation ends as soon as it has all tensors that the forward saved, by an exception that only it catches.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fgrad.mutable.backward.engine import running
from fgrad.mutable.context.modes import enable_grad
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.saved import SavedTensor, StopRecomputation, save
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.autograd.graph import saved_tensors_hooks
from fgrad.torch.utils.checkpoint_texts import TIP


class CheckpointError(RuntimeError):
    """A recomputation saved other tensors than the original forward."""


class Holder:
    """The placeholder in the graph for a tensor that was not kept."""

    __slots__ = ("values", "__weakref__")

    def __init__(self) -> None:
        #: for each backward the recomputed tensor, None once it has been unpacked
        self.values: dict[Any, Tensor | None] = {}


class Frame:
    """One call of a checkpointed function.

    Arguments:
      recompute: runs the function again on its inputs.
      inputs: the arguments.
      early_stop: see NOTE [Early stop].
      metadata: the properties of a tensor that have to agree; None for nothing.
      explain: adds detail to an error of the recomputation.
    """

    def __init__(
        self,
        recompute: Callable[..., None],
        inputs: Sequence[Any],
        early_stop: bool,
        metadata: Callable[[Tensor], Any],
        explain: Callable[[CheckpointError], CheckpointError] | None,
    ):
        self.recompute = recompute
        self.early_stop = early_stop
        self.metadata = metadata
        self.explain = explain
        #: stands for this call in the errors of its saved inputs
        self.node: Node = Node((), (), None)
        self.inputs: list[SavedTensor | Any] = [save(x, "input") if isinstance(x, Tensor) else x for x in inputs]
        self.holders: list[weakref.ref[Holder]] = []
        self.seen: list[Any] = []
        #: for each backward, how many tensors its recomputation has saved so far
        self.counts: dict[Any, int] = {}
        self.done: set[Any] = set()
        self.forward_completed = False
        #: whether the number of saved tensors may differ, because of a backward inside the forward
        self.may_differ = False

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """A context in which saved tensors are not kept."""
        with saved_tensors_hooks(self._pack, self._unpack):
            yield
        self.forward_completed: bool = True

    def _pack(self, tensor: Tensor) -> Holder:
        holder = Holder()
        self.holders.append(weakref.ref(holder))
        self.seen.append(self.metadata(tensor))
        return holder

    def _unpack(self, holder: Holder) -> Tensor:
        try:
            return self._recomputed(holder)
        except CheckpointError as error:
            if self.explain is None:
                raise
            raise self.explain(error) from error

    def _recomputed(self, holder: Holder) -> Tensor:
        # by its number, since the backward itself keeps the graph alive
        task = running.tasks[-1].number if running.tasks else object()
        if task not in self.done:
            self._run(task)
        value = holder.values.get(task)
        if value is None:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If you "
                "are calling ctx.saved_tensors in backward, make sure to do so only once. Otherwise please open an "
                "issue with details on your use case."
            )
        holder.values[task] = None
        return value

    def _run(self, task: Any) -> None:
        args = [x.unpack(self.node) if isinstance(x, SavedTensor) else x for x in self.inputs]
        self.counts[task] = 0
        keeping = saved_tensors_hooks(lambda x: self._keep(task, x), lambda x: x)
        with contextlib.suppress(StopRecomputation), keeping, enable_grad():
            self.recompute(*args)
        self.done.add(task)
        self._check(task)

    def _keep(self, task: Any, tensor: Tensor) -> Tensor:
        """Pack a tensor of the recomputation: for the graph of the forward, and for its own."""
        value = tensor.detach() if tensor.requires_grad else tensor
        index = self.counts[task]
        self.counts[task] += 1
        if index >= len(self.holders):
            if not self.forward_completed:
                self.may_differ: bool = True
                return value
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original "
                f"forward pass.\n{TIP}"
            )
        holder = self.holders[index]()
        if holder is not None:
            holder.values[task] = value
        if self.early_stop and self.counts[task] == len(self.holders):
            raise StopRecomputation
        return value

    def _check(self, task: Any) -> None:
        """Raise an error if the recomputation saved other tensors than the forward."""
        if self.may_differ:
            return
        if self.counts[task] != len(self.holders):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.holders)}\nNumber of tensors saved "
                f"during recomputation: {self.counts[task]}.\n{TIP}"
            )
        different = ""
        for i, (reference, before) in enumerate(zip(self.holders, self.seen, strict=True)):
            holder = reference()
            value = None if holder is None else holder.values[task]
            if value is not None and self.metadata(value) != before:
                different += (
                    f"tensor at position {i}:\nsaved metadata: {before}\nrecomputed metadata: {self.metadata(value)}\n"
                )
        if different:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass.\n{different}.\n{TIP}"
            )
