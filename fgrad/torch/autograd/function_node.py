"""Calls of an ``autograd.Function``: the context, which is the node, and the recording.

NOTE [The context is the node]
``ctx`` is an instance of a class made for the function, and it is the node itself: ``backward`` and ``grad_fn`` see the
attributes that ``forward`` sets (PyTorch: torch/csrc/autograd/python_function.cpp).
"""

from collections.abc import Sequence
from typing import Any

from fgrad.graph.source import RawSource, here
from fgrad.mutable import explain
from fgrad.mutable.context.modes import modes, no_grad
from fgrad.mutable.context.torch_function.protocol import plain as plain_classes
from fgrad.mutable.context.warning import warn
from fgrad.mutable.operation.operation_node import zeros
from fgrad.mutable.operation.saved_attributes import SavedNothing
from fgrad.mutable.ports import AUDIT, REFUSED_WRITE
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.cut import cut, may_vary
from fgrad.mutable.tensor.node import TWICE, Edge, Node, node_name
from fgrad.mutable.tensor.saved import SavedTensor, save
from fgrad.mutable.tensor.tensor import (
    OwnTangent,
    Tensor,
    ViewOf,
    alias,
    gradient_edge,
    gradient_function,
    is_tracked,
)
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.transforms.forward import tangent_of
from fgrad.mutable.transforms.levels import MapLevel, inside, lifted
from fgrad.mutable.write.inplace import VIEW_OF_LEAF, rebase
from fgrad.torch.autograd.delayed_errors import once_differentiable as once_differentiable
from fgrad.torch.autograd.function_rules import own_handle, rule_outputs
from fgrad.torch.autograd.function_tangents import push

#: what is raised if an output that is an input is saved in ``setup_context``
SAVED_INPUT = (
    "An input that has been returned as-is as output is being saved for backward. This is not supported if you "
    "override setup_context. You should return and save a view of the input instead, e.g. with x.view_as(x) or setup "
    "ctx inside the forward function itself."
)


class FunctionCtx:
    """The methods of the context for ``forward`` and ``setup_context``."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors for ``backward``, as ``ctx.saved_tensors``."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Save tensors for ``jvp``."""
        for tensor in tensors:
            if not isinstance(tensor, Tensor) and tensor is not None:
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as "
                    "attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Declare the inputs that ``forward`` has written; they must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Declare the outputs that have no derivative."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether ``backward`` gets zeros instead of None for outputs without gradient."""
        self.materialize_grads = value


class Rules:
    """The methods of a Function that its author overrides."""

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; with ``setup_context`` defined it is called without the context."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Prepare the context from the inputs and the output."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the inputs of ``forward``, None for those that have none."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """``backward`` by another name."""
        return Rules.backward(ctx, *grad_outputs)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of the outputs from those of the inputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """The function on inputs with a mapped axis."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )


class FunctionNode(Node, FunctionCtx):
    """The context of one call of a function, and its node."""

    calls_user = True

    _forward_cls: Any

    def __init__(self) -> None:
        super().__init__((), (), here(3))
        self.to_save: tuple[Any, ...] | None = None
        self.saved_for_forward: tuple[Any, ...] | None = None
        self.dirty_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True
        #: whether outputs that have no derivative get zeros too
        self._materialize_non_diff_grads = True
        self.needs_input_grad: tuple[bool, ...] = ()
        self._saved: list[SavedTensor | None] = []
        self._freed = False
        #: during an audit, the tensors that forward has set on the context
        self._kept: Sequence[Any] = ()
        #: for each argument of apply, whether it is a tensor
        self._is_tensor: tuple[bool, ...] = ()
        #: for each output, its type, or None if it is not a tensor
        self._outputs: list[TensorType | None] = []
        #: for each output, whether it has a derivative
        self._differentiable: tuple[bool, ...] = ()
        #: the levels of ``vmap`` in which it was called: its gradients are those of their examples
        self._maps: tuple[MapLevel, ...] = modes.maps

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors saved by ``save_for_backward``; in ``jvp``, by ``save_for_forward``."""
        if self.saved_for_forward is not None:
            return self.saved_for_forward
        if self._freed:
            raise RuntimeError(TWICE)
        if modes.findings is not None:
            for s in self._saved:
                if s is not None and s.array is not None:
                    AUDIT.call(s, self)
        return tuple([None if s is None else s.unpack(self) for s in self._saved])

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The former name of ``saved_tensors``."""
        warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if self._freed:
            raise RuntimeError(TWICE)
        return tuple([SavedNothing() if x is None else x for x in self._saved])

    def _rule(self) -> Any:
        cls = self._forward_cls
        return cls.backward if cls.backward is not Rules.backward else cls.vjp

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:  # type: ignore[override]
        cls = self._forward_cls
        backward = self._rule()
        if cls.backward is not Rules.backward and cls.vjp is not Rules.vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement one of them."
            )
        if self._kept:
            explain.restore_context(self, self._kept)
        cotangents: list[Any] = []
        for type, differentiable, grad in zip(self._outputs, self._differentiable, grads, strict=True):
            materialize = self.materialize_grads and (differentiable or self._materialize_non_diff_grads)
            cotangents.append(zeros(type) if grad is None and materialize and type is not None else grad)
        with inside(self._maps):
            returned = backward(self, *cotangents)
        results = self._checked(list(returned) if isinstance(returned, tuple | list) else [returned])
        if modes.grad:
            explain.warn_of_lost_history(self, self._saved, results)
        return results

    def _checked(self, grads: list[Any]) -> list[Tensor | None]:
        name = node_name(self)
        count = len(self._is_tensor)
        if len(grads) > count and all(g is None for g in grads[count:]):
            grads = grads[:count]
        if len(grads) != count:
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {count}, got {len(grads)})"
            )
        results = []
        for i, (is_tensor, grad) in enumerate(zip(self._is_tensor, grads, strict=True)):
            if not is_tensor:
                if grad is not None:
                    raise RuntimeError(
                        f"function {name} returned a gradient different than None at position {i + 1}, but the "
                        "corresponding forward input was not a Variable"
                    )
                continue
            if grad is not None and not isinstance(grad, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(grad).__name__})")
            results.append(grad)
        return results

    def _release(self, source: RawSource | None = None) -> None:
        for s in self._saved:
            if s is not None:
                s.release()
        self._freed = True

    def maybe_clear_saved_tensors(self) -> None:
        self._release()

    def __repr__(self) -> str:
        return f"<torch.autograd.function.{type(self).__name__} object at {hex(id(self))}>"


NOT_AN_INPUT = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should be "
    "passed to ctx.mark_dirty()."
)
WRITTEN_VIEW = (
    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more "
    "than one Tensor. This is not supported by the current autograd engine. You should either make sure the input is "
    "not a view (using .clone() for example) or make your Function only return one Tensor (potentially splitting it "
    "into two Functions: one doing the inplace that returns a single Tensor and a second one that does the other "
    "operations). You can ask on the forum https://discuss.pytorch.org/ if you need help to do this change."
)


def call(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], forward: Any = None) -> Any:
    """Call a function on tensors, and record it; ``forward`` runs in place of its own."""
    if modes.maps:
        args = tuple(lifted(args))
    running = _Call(cls, args)
    tangents = running.tangents()
    returned = running.forward(kwargs, forward or cls.forward)
    several = isinstance(returned, tuple)
    results = running.results(list(returned) if several else [returned])
    for level in reversed(range(len(tangents))):
        if any(t is not None for t in tangents[level]):
            push(cls, running.ctx, args, running.inputs, tangents[level], results, level)
    # with their tangents, which are differentiated together with what backward reads
    results = running.finish(results)
    return tuple(results) if several else results[0]


class _Call:
    """A running call of a function.

    Attributes:
      inputs: the tensors among the arguments.
      recorded: whether a derivative passes through the node.
      ruled: whether a capture records the call with its rule.
    """

    def __init__(self, cls: Any, args: tuple[Any, ...]):
        ctx: FunctionNode = cls._backward_cls()
        self.cls, self.ctx, self.args = cls, ctx, args
        self.inputs = [x for x in args if isinstance(x, Tensor)]
        self.recorded = modes.grad and any(map(is_tracked, self.inputs))
        self.ruled = bool(modes.capture) and modes.grad
        ctx._is_tensor = tuple([isinstance(x, Tensor) for x in args])
        ctx.needs_input_grad = tuple([isinstance(x, Tensor) and self._may_need_gradient(x) for x in args])

    def _may_need_gradient(self, x: Tensor) -> bool:
        return is_tracked(x) or (self.ruled and may_vary(x._value()))

    def tangents(self) -> list[list[Tensor | None]]:
        """The inputs' tangents at each level of forward mode."""
        return [[tangent_of(x, level) for x in self.inputs] for level in range(modes.dual_level + 1)]

    @property
    def sets_up(self) -> bool:
        """Whether the user's function has a ``setup_context``."""
        return self.cls.setup_context is not Rules.setup_context

    def forward(self, kwargs: dict[str, Any], function: Any) -> Any:
        """The result of the user's forward, run without recording and without tangents."""
        edges: list[Edge | None] = [
            gradient_edge(x) if self.recorded and x._type.inexact and is_tracked(x) else None for x in self.inputs
        ]
        forward_grad, modes.forward_grad = modes.forward_grad, False
        try:
            with no_grad():
                if self.sets_up:
                    returned = function(*self.args, **kwargs)
                    self.cls.setup_context(self.ctx, self.args, returned)
                else:
                    returned = self.cls.forward(self.ctx, *self.args, **kwargs)
        finally:
            modes.forward_grad = forward_grad
        self.ctx.next_edges = edges
        return returned

    def results(self, outputs: list[Any]) -> list[Any]:
        """The outputs, attached to the node."""
        ctx = self.ctx
        self._check_dirty(outputs)
        results = [self._result(i, out) for i, out in enumerate(outputs)]
        types = [out._type if isinstance(out, Tensor) else None for out in results]
        ctx._outputs = types
        ctx._differentiable = tuple([self._is_differentiable(*pair) for pair in zip(outputs, results, strict=True)])
        ctx.out_types = types  # type: ignore[assignment]
        return results

    def finish(self, results: list[Any]) -> list[Any]:
        """Save the tensors for backward; the results."""
        ctx = self.ctx
        try:
            if self.recorded or self.ruled:
                self._save()
                if modes.findings is not None:
                    ctx._kept = explain.tensors_on_context(ctx)
        finally:  # an output among them would keep its own node alive
            ctx.to_save = ctx.saved_for_forward = None
        if self.ruled:
            results = [own_handle(x) if isinstance(x, Tensor) else x for x in results]
            rule_outputs(ctx, self.inputs, results)
        return results

    def _is_differentiable(self, output: Any, result: Any) -> bool:
        if not isinstance(result, Tensor):
            return False
        return result._node is not None or (self.ruled and not self._is_plain(output))

    def _is_plain(self, out: Tensor) -> bool:
        """Whether an output has no derivative."""
        return any(out is x for x in self.ctx.non_differentiable) or not out._type.inexact

    def _check_dirty(self, outputs: list[Any]) -> None:
        ctx = self.ctx
        for x in ctx.non_differentiable:
            if not isinstance(x, Tensor):
                raise RuntimeError("mark_non_differentiable only accepts variable arguments, but got ")
        for x in ctx.dirty_tensors:
            if not isinstance(x, Tensor):
                raise RuntimeError("mark_dirty can only accept variables, but argument ")
            x._bump(self.cls.__name__, here(4))
        for x in ctx.dirty_tensors:
            if not any(x is out for out in outputs):
                raise RuntimeError(
                    "Some elements marked as dirty during the forward method were not returned as output. The inputs "
                    "that are modified inplace must all be outputs of the Function."
                )
            if self.recorded:
                self._check_recorded_write(x, len(outputs))

    def _check_recorded_write(self, x: Tensor, outputs: int) -> None:
        if not any(x is input for input in self.inputs):
            if x._view is not None:
                raise REFUSED_WRITE.call(x, NOT_AN_INPUT)
            warn(NOT_AN_INPUT, UserWarning)
        elif x._view is not None and outputs > 1:
            raise REFUSED_WRITE.call(x, WRITTEN_VIEW)
        elif x._view is not None and is_tracked(x) and gradient_function(x._view.base) is None:
            raise REFUSED_WRITE.call(x, VIEW_OF_LEAF)
        elif is_tracked(x) and gradient_function(x) is None:
            raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")

    def _result(self, i: int, out: Any) -> Any:
        """An output, attached to the node: a written input is rebased, one returned unchanged becomes a view."""
        if not isinstance(out, Tensor):
            return out
        plain = self._is_plain(out)
        if any(out is x for x in self.ctx.dirty_tensors):
            return self._dirty_result(i, out, plain)
        if any(out is x for x in self.inputs):
            if not plain and self.sets_up and any(out is x for x in self.ctx.to_save or ()):
                raise RuntimeError(SAVED_INPUT)
            base = out
            if (plain or not self.recorded) and is_tracked(base):
                return alias(base)
            out = cut(alias(base, None, Tensor if type(base) in plain_classes else type(base)))
            out._geometry = base._geometry_of()
            view = out._view = self._view_of(base if base._view is None else base._view.base, base, out._geometry)
            if view.dual is OwnTangent.ITSELF:
                view.dual = base
        elif out._view is not None:
            out._view = self._view_of(out._view.base, out, out._geometry_of())
        if self.recorded:
            out._requires_grad = False
            out._node, out._output_nr = (None, 0) if plain else (self.ctx, i)
        return out

    def _dirty_result(self, i: int, out: Tensor, plain: bool) -> Tensor:
        if plain and is_tracked(out):
            return alias(out)
        if not self.recorded or plain:
            return out
        if out._view is None:
            now = object()
            out._node, out._output_nr = self.ctx, i
            out._tensor_hooks = None
            changes.fields = now
        else:
            self.ctx.out_types = (out._type,)
            rebase(out, self.ctx)
        return out

    def _view_of(self, base: Tensor, parent: Tensor, geometry: Any) -> ViewOf:
        """The view relation of an output."""
        name, version, shown = self.cls.__name__, parent._counter.value, parent._view
        dual = None if shown is None or modes.transforms else shown.dual
        return ViewOf(base, "custom", version, name, self.ctx._source, dual, geometry, shown)

    def _save(self) -> None:
        ctx = self.ctx
        for i, x in enumerate(ctx.to_save or ()):
            if x is not None and not isinstance(x, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type {type(x).__name__}"
                )
            ctx._saved.append(None if x is None else save(x, "tensors", output=x._node is ctx))
