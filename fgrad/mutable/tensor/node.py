"""Nodes of the backward graph: what ``grad_fn`` shows.

NOTE [What a node holds]
A node has an edge for each differentiable input of the operation: the node, and which of its outputs, that made the
input; None where no derivative flows.  What few nodes have, such as hooks (see NOTE [Hook order]), is in a record
that is made with the first of them: every operation makes a node, and each field of it takes time.
"""

import itertools
import os
import re
import threading
import traceback
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from fgrad.mutable.context.modes import modes, unusual
from fgrad.mutable.ports import CALL_NODE
from fgrad.mutable.tensor.hooks import RemovableHandle, register
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.seam import RawSource, is_hidden

_updating_leaf = threading.RLock()
#: held from where a leaf's ``.grad``, or the node that adds to it, is read to where the new one is there: several
#: threads may use a leaf
updating_leaf: AbstractContextManager[object] = _updating_leaf
if hasattr(os, "register_at_fork"):
    _release = _updating_leaf.release
    os.register_at_fork(before=_updating_leaf.acquire, after_in_parent=_release, after_in_child=_release)

#: the sequence number of AccumulateGrad, which runs before every other ready node
LAST = (1 << 64) - 1

TWICE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


class _Sequence(threading.local):
    """Sequence numbers of nodes, counted per thread as in PyTorch."""

    def __init__(self) -> None:
        self.numbers: Iterator[int] = itertools.count()


numbering: _Sequence = _Sequence()


def next_sequence() -> int:
    """Take the next sequence number of this thread."""
    return next(numbering.numbers)


Edge = tuple["Node", int]


class InputMetadata:
    """What a node knows of a gradient that comes in."""

    is_nested_tensor = False
    is_cpp_nested_tensor = False

    def __init__(self, type: TensorType):
        self.shape: list[int] = list(type.shape)
        self.dtype: Dtype = type.dtype


class Attached:
    """What is attached to a node once it exists: see NOTE [What a node holds]."""

    __slots__ = ("tensor_hooks", "retains", "pre_hooks", "post_hooks", "metadata", "forward_trace", "parent")

    def __init__(self) -> None:
        #: (hooks of a tensor, its output number)
        self.tensor_hooks: list[tuple[OrderedDict[int, Any], int]] | None = None
        #: the outputs that retain their gradient, and what stores it
        self.retains: dict[int, Any] | None = None
        self.pre_hooks: OrderedDict[int, Any] | None = None
        self.post_hooks: OrderedDict[int, Any] | None = None
        self.metadata: dict[Any, Any] | None = None
        #: in anomaly mode: the user's stack at the forward call, and the node whose backward made this one
        self.forward_trace: list[str] | None = None
        self.parent: Node | None = None


class Node:
    """One step of backward: gradients of an operation's outputs to gradients of its inputs.

    The context of a user's Function is a node, and the user sets attributes of any name on it. So what PyTorch has not
    on its contexts begins with an underscore if it is an ordinary word, and the layer asks for a name by ``node_name``.
    """

    __slots__ = (
        "next_edges",
        "_sequence",
        "out_types",
        "_source",
        "_scope",
        "_attached",
        "__weakref__",
    )

    #: the name with its C++ namespace, which only ``name()`` shows
    full_name: ClassVar[str] = ""
    #: whether it can be part of a fused backward: see NOTE [A backward met often is one program]
    fusible: ClassVar[bool] = False
    #: whether it runs a user's function, which has lines of its own
    calls_user: ClassVar[bool] = False
    #: whether its results are its operands, unchanged
    passes_on: ClassVar[bool] = False
    #: whether an incoming gradient keeps its element type
    _takes_any_dtype: ClassVar[bool] = False

    next_edges: Sequence[Edge | None]
    #: the types of the operation's outputs, and so of the incoming gradients
    out_types: Sequence[TensorType]
    #: the user's line that ran the operation
    _source: RawSource | None

    def __init__(
        self,
        next_edges: Sequence[Edge | None],
        out_types: Sequence[TensorType],
        source: RawSource | None,
        sequence: int | None = None,
    ) -> None:
        self.next_edges = next_edges
        self.out_types = out_types
        self._source = source
        #: the modules being called at the time: see NOTE [Names in the mutable layer]
        self._scope: Any = modes.module
        #: the sequence number, in order of creation, which orders ready nodes
        self._sequence: int = next(numbering.numbers) if sequence is None else sequence
        #: hooks and the like; None until there are some
        self._attached: Attached | None = None
        if unusual.on:
            self.trace()

    def trace(self) -> None:
        """Note where the node was made, if anomaly mode wants to know."""
        if modes.anomaly:
            attached = self._attach()
            attached.forward_trace = current_trace()
            attached.parent = modes.evaluating

    def _attach(self) -> Attached:
        """The record of its hooks and the like, made if there is none."""
        if self._attached is None:
            self._attached = Attached()
        return self._attached

    # -- called by the engine ----------------------------------------------------------------------------------------

    @property
    def broadcasts_saved(self) -> bool:
        """Whether it works elementwise, so that its saved values may have any shape that broadcasts."""
        return False

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        """Gradients of the inputs, one for each edge, None where there is none."""
        raise NotImplementedError

    def _release(self, source: RawSource | None = None) -> None:
        """Free the saved values: backward has run and the graph is not retained."""

    def _rule(self) -> Any:
        """The user's backward function, if it has one."""
        return None

    # -- public ------------------------------------------------------------------------------------------------------

    def name(self) -> str:
        """The node's name, as PyTorch has it."""
        return self.full_name or type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that gradients go to, each with the number of its output."""
        return tuple([(None, 0) if edge is None else edge for edge in self.next_edges])

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for the user's own notes."""
        attached = self._attach()
        if attached.metadata is None:
            attached.metadata = {}
            if attached.forward_trace is not None:
                attached.metadata["traceback_"] = attached.forward_trace
            if attached.parent is not None:
                attached.metadata["parent_"] = attached.parent
        if modes.capturing is not None:
            modes.capturing.note_change(attached.metadata)
        return attached.metadata

    @property
    def requires_grad(self) -> bool:
        return True

    @property
    def _input_metadata(self) -> list["InputMetadata"]:
        return [InputMetadata(type) for type in self.out_types]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def _sequence_nr(self) -> int:
        return self._sequence

    def _set_sequence_nr(self, number: int) -> None:
        self._sequence = number

    def __call__(self, *grads: Any, **named: Any) -> Any:
        return CALL_NODE.call(self, *grads, **named)

    def register_hook(self, fn: Any) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after the node has run; what it returns replaces ``grad_inputs``."""
        attached = self._attach()
        if attached.post_hooks is None:
            attached.post_hooks = OrderedDict()
        return register(attached.post_hooks, fn)

    def register_prehook(self, fn: Any) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the node runs; what it returns replaces ``grad_outputs``."""
        attached = self._attach()
        if attached.pre_hooks is None:
            attached.pre_hooks = OrderedDict()
        return register(attached.pre_hooks, fn)

    def _register_hook_dict(self, hooks: "OrderedDict[int, Any]", output_nr: int = 0) -> None:
        attached = self._attach()
        if attached.tensor_hooks is None:
            attached.tensor_hooks = []
        attached.tensor_hooks.append((hooks, output_nr))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {hex(id(self))}>"


def node_name(node: Node) -> str:
    """The node's name; a user's Function may have an attribute of this name on its context, which is the node."""
    return type(node).name(node)


def has_hooks(node: Node) -> bool:
    """Whether anything runs along with a node: hooks, and what stores retained gradients."""
    attached = node._attached
    return attached is not None and bool(
        attached.tensor_hooks or attached.retains or attached.pre_hooks or attached.post_hooks
    )


def forward_trace(node: Node) -> list[str] | None:
    """The user's stack at the forward call of a node that was made in anomaly mode; None for any other."""
    return None if node._attached is None else node._attached.forward_trace


def function_name(node: Node) -> str:
    """The name of the operation behind a node, as in errors: ``Sigmoid`` for ``SigmoidBackward0``."""
    return re.sub(r"Backward0?(\d*)$", r"\1", node_name(node))


def current_trace() -> list[str]:
    """The user's lines that lead to the forward call, kept by anomaly mode."""
    frames = [(frame, line) for frame, line in traceback.walk_stack(None) if not is_hidden(frame.f_code)]
    return traceback.StackSummary.extract(iter(reversed(frames))).format()


_classes: dict[tuple[type, str], type] = {}


def copy_node(node: Node) -> Node:
    """A node with the same fields; ``copy.copy`` refuses nodes, as in PyTorch."""
    state: Any = object.__reduce_ex__(node, 2)[2]
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    copy = object.__new__(type(node))
    for name, value in slots.items():
        setattr(copy, name, value)
    if attributes:
        copy.__dict__.update(attributes)
    return copy


def named(base: type, name: str) -> type:
    """The class of nodes with a name: PyTorch has a class per operation, and prints its name."""
    node_class = _classes.get((base, name))
    if node_class is None:
        members = {"__slots__": (), "__module__": "builtins", "full_name": name}
        node_class = _classes.setdefault((base, name), type(name.rpartition("::")[2], (base,), members))
    return node_class
