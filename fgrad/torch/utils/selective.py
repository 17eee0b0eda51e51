"""Selective checkpoints, which keep the results of some operations, and the log of operations in errors.

NOTE [Selective checkpoints]
During the forward a policy decides for every operation whether its result is kept; the recomputation takes kept results
instead of computing them.  Results are immutable arrays, so later writes to the tensor do not change a kept one.  A
policy names an operation as PyTorch's dispatcher does (``torch.ops.aten.mm.default``), or as a function (``torch.mm``).
"""

import enum
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from fgrad.graph.source import Source, here
from fgrad.mutable.context.modes import ITSELF, Scope
from fgrad.torch.ops.dispatcher import OpOverloadPacket, packet
from fgrad.torch.utils.checkpoint_texts import REPORT
from fgrad.torch.utils.recomputation import CheckpointError


class CheckpointPolicy(enum.Enum):
    """Whether an operation's result is kept or recomputed."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_RECOMPUTED = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


@frozen
class SelectiveCheckpointContext:
    """The context of a policy's decision: whether this is the recomputation, and the operation's result."""

    is_recompute: bool
    op_output: Any = None


#: replaces a result that has been taken
_TAKEN: Any = object()


class _Intercepting(Scope):
    """A context in which operations run through a method of this object."""

    as_value = ITSELF

    def values(self) -> dict[str, Any]:
        return {"interceptor": self.run}

    def run(self, operation: Any, plan: Any, values: Sequence[Any], operands: Sequence[Any]) -> Sequence[Any]:
        """The values of an operation's outputs."""
        raise NotImplementedError


class _Caching(_Intercepting):
    """The forward: keeps results by the policy."""

    def __init__(self, policy: Callable[..., Any], cache: dict[Any, Any]):
        self.policy = policy
        self.cache = cache
        self.counts: Counter[Any] = Counter()

    def run(self, operation: Any, plan: Any, values: Sequence[Any], operands: Sequence[Any]) -> Sequence[Any]:
        outs = plan.routine(values)
        function = packet("aten", operation.name).default
        index = self.counts[function]
        self.counts[function] += 1
        decision = self.policy(SelectiveCheckpointContext(False, outs), function, *operands)
        self.cache[function, index] = None if decision is False or decision in _RECOMPUTED else outs
        return outs


CHOOSE = (
    "Please update the OpOverloadPacket to a specific OpOverload.For example, if you have `torch.ops.aten.mm`, change "
    "it to `torch.ops.aten.mm.default`."
)
_MISMATCH = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state that "
    "changed between forward and backward."
)


class _Cached(_Intercepting):
    """The recomputation: takes kept results."""

    def __init__(self, cache: dict[Any, Any]):
        self.cache = cache
        self.counts: Counter[Any] = Counter()

    def values(self) -> dict[str, Any]:
        self.counts.clear()
        return super().values()

    def run(self, operation: Any, plan: Any, values: Sequence[Any], operands: Sequence[Any]) -> Sequence[Any]:
        function = packet("aten", operation.name).default
        index = self.counts[function]
        self.counts[function] += 1
        if (function, 0) not in self.cache:
            raise RuntimeError(f"{operation.name} encountered during backward but not found in storage. {_MISMATCH}")
        if (function, index) not in self.cache:
            raise RuntimeError(
                f"{operation.name} invocation index {index} encountered during backward but not found in storage. "
                f"{_MISMATCH}"
            )
        outs = self.cache[function, index]
        if outs is None:
            return plan.routine(values)
        if outs is _TAKEN:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        self.cache[function, index] = _TAKEN
        return outs


def _saving(functions: list[Any]) -> Callable[..., Any]:
    """The policy that keeps the results of these functions."""
    chosen = list(functions)
    return lambda context, function, *args: (
        CheckpointPolicy.MUST_SAVE if function in chosen else CheckpointPolicy.PREFER_RECOMPUTE
    )


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """The contexts of a checkpoint that keeps the results of some operations: for ``context_fn`` of ``checkpoint``.

    Arguments:
      policy_fn_or_list: the operators whose results are kept, or a function of (context, operator, arguments) to a
        ``CheckpointPolicy`` or a bool.
      allow_cache_entry_mutation: accepted as in PyTorch; kept results cannot change here.

    Raises:
      TypeError: the policy is neither a function nor a list.

    >>> import functools
    >>> import fgrad.torch as torch
    >>> from fgrad.torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> contexts = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    >>> x = torch.ones(2, 2, requires_grad=True)
    >>> checkpoint(lambda x: torch.mm(x, x).sin(), x, use_reentrant=False, context_fn=contexts).sum().backward()

    Source: `torch.utils.checkpoint.create_selective_checkpoint_contexts
    <https://docs.pytorch.org/docs/stable/checkpoint.html#torch.utils.checkpoint.create_selective_checkpoint_contexts>`_.
    """
    if isinstance(policy_fn_or_list, list):
        for function in policy_fn_or_list:
            if not callable(function) or isinstance(function, OpOverloadPacket):
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {function} of type {type(function)}. "
                    + (CHOOSE if isinstance(function, OpOverloadPacket) else "")
                )
        policy = _saving(policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    cache: dict[Any, Any] = {}
    return _Caching(policy, cache), _Cached(cache)


class _Log(_Intercepting):
    """Logs every operation and the user's line that ran it."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str]] = []

    def values(self) -> dict[str, Any]:
        self.entries.clear()
        return super().values()

    def run(self, operation: Any, plan: Any, values: Sequence[Any], operands: Sequence[Any]) -> Sequence[Any]:
        types = ", ".join([repr(t) for t in plan.out_types])
        source = here(3)
        where = None if source is None else Source(*source)
        self.entries.append((f"{types} = {operation.name}", "" if where is None else f"{where.file}:{where.line}"))
        return plan.routine(values)

    def operations(self) -> str:
        return "\n".join([line for line, _ in self.entries])

    def traces(self, label: str) -> str:
        total = len(self.entries)
        return "".join(
            [
                f"{line}   ({i + 1} of {total} in {label})\n\n{where}\n\n\n"
                for i, (line, where) in enumerate(self.entries)
            ]
        )


def debug_contexts() -> tuple[Callable[[], tuple[Any, Any]], Callable[[CheckpointError], CheckpointError]]:
    """The contexts that log operations, and a function that adds the logs to an error."""
    forward, again = _Log(), _Log()

    def explain(error: CheckpointError) -> CheckpointError:
        return CheckpointError(
            REPORT.format(
                forward_traces=forward.traces("original"),
                recompute_traces=again.traces("recompute"),
                forward_ops=forward.operations(),
                recompute_ops=again.operations(),
            )
        )

    return lambda: (forward, again), explain
