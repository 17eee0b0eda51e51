"""``autograd.Function``: operations whose derivative the user writes.

NOTE [The context is the node]
``ctx`` is an object of a class made for the function, and it is the node itself: what ``forward`` puts on it,
``backward`` finds there, and ``grad_fn`` shows it (PyTorch: torch/csrc/autograd/python_function.cpp).
"""

import functools
import inspect
from collections.abc import Sequence
from typing import Any

from fgrad.graph.source import RawSource, here
from fgrad.mutable.context.modes import modes, no_grad
from fgrad.mutable.context.torch_function.protocol import plain as plain_classes
from fgrad.mutable.context.warning import warn
from fgrad.mutable.explain.audit import kept_on, put_back
from fgrad.mutable.explain.lost_history import warn_of_lost_history
from fgrad.mutable.operation.operation_node import zeros
from fgrad.mutable.tensor import saved
from fgrad.mutable.tensor.cut import cut, may_vary
from fgrad.mutable.tensor.node import TWICE, Edge, Node
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import Tensor, ViewOf, alias, gradient_edge, gradient_function, is_tracked
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.transforms.forward import tangent_of
from fgrad.mutable.write.inplace import VIEW_OF_LEAF, explanation, rebase
from fgrad.torch.autograd.delayed_errors import once_differentiable as once_differentiable
from fgrad.torch.autograd.function_rules import own_handle, rule_outputs
from fgrad.torch.autograd.function_tangents import push


class FunctionCtx:
    """What ``forward`` and ``setup_context`` may ask of the context."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for ``backward``, which finds them in ``ctx.saved_tensors``."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for ``jvp``."""
        for tensor in tensors:
            if not isinstance(tensor, Tensor) and tensor is not None:
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as "
                    "attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs ``forward`` has written; they must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs have no derivative."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` is given zeros for outputs that got no gradient; else None."""
        self.materialize_grads = value


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
        #: whether the outputs that have no derivative get zeros too
        self._materialize_non_diff_grads = True
        self.needs_input_grad: tuple[bool, ...] = ()
        self._saved: list[SavedTensor | None] = []
        self._freed = False
        #: while an audit runs, the tensors that forward has put on the context
        self._kept: Sequence[Any] = ()
        #: for each argument of apply, whether it is a tensor
        self._is_tensor: tuple[bool, ...] = ()
        #: for each output, its type, None if it is no tensor
        self._outputs: list[TensorType | None] = []
        #: for each output, whether it has a derivative
        self._differentiable: tuple[bool, ...] = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What ``save_for_backward`` was given; in ``jvp``, ``save_for_forward``."""
        if self.saved_for_forward is not None:
            return self.saved_for_forward
        if self._freed:
            raise RuntimeError(TWICE)
        if modes.findings is not None:
            for s in self._saved:
                if s is not None and s.array is not None:
                    saved.explanation.audit(s, self)
        return tuple([None if s is None else s.unpack(self) for s in self._saved])

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """``saved_tensors`` by its former name."""
        warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if self._freed:
            raise RuntimeError(TWICE)
        return tuple(self._saved)

    def rule(self) -> Any:
        cls = self._forward_cls
        return cls.backward if cls.backward is not Function.backward else cls.vjp

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:  # type: ignore[override]
        cls = self._forward_cls
        backward = self.rule()
        if cls.backward is not Function.backward and cls.vjp is not Function.vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement "
                "one of them."
            )
        if self._freed and self._saved:
            raise RuntimeError(TWICE)
        if self._kept:
            put_back(self, self._kept)
        given: list[Any] = []
        for type, differentiable, grad in zip(self._outputs, self._differentiable, grads, strict=True):
            wanted = self.materialize_grads and (differentiable or self._materialize_non_diff_grads)
            given.append(zeros(type) if grad is None and wanted and type is not None else grad)
        found = backward(self, *given)
        results = self._checked(list(found) if isinstance(found, tuple | list) else [found])
        if modes.grad:
            warn_of_lost_history(self, self._saved, results)
        return results

    def _checked(self, found: list[Any]) -> list[Tensor | None]:
        name = self.name()
        count = len(self._is_tensor)
        if len(found) > count and all(g is None for g in found[count:]):
            found = found[:count]
        if len(found) != count:
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {count}, got {len(found)})"
            )
        results = []
        for i, (is_tensor, grad) in enumerate(zip(self._is_tensor, found, strict=True)):
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

    def release(self, source: RawSource | None = None) -> None:
        for s in self._saved:
            if s is not None:
                s.release()
        self._freed = True

    def maybe_clear_saved_tensors(self) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<torch.autograd.function.{type(self).__name__} object at {hex(id(self))}>"


BackwardCFunction = FunctionNode


class FunctionMeta(type):
    """Makes the class of a function's contexts."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]):
        super().__init__(name, bases, attrs)
        cls._backward_cls = type(
            name + "Backward", (FunctionNode,), {"_forward_cls": cls, "__module__": "torch.autograd.function"}
        )


_signature = functools.lru_cache(inspect.signature)


class Function(metaclass=FunctionMeta):
    """An operation with a derivative of its own: a subclass defines ``forward`` and ``backward``; ``apply`` calls it.

    >>> import fgrad.torch as torch
    >>> class Exp(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         result = x.exp()
    ...         ctx.save_for_backward(result)
    ...         return result
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         result, = ctx.saved_tensors
    ...         return grad * result
    >>> x = torch.zeros(2, requires_grad=True)
    >>> Exp.apply(x)
    tensor([1., 1.], grad_fn=<ExpBackward>)

    Source: `Extending torch.autograd <https://docs.pytorch.org/docs/stable/notes/extending.html>`_.
    """

    _backward_cls: Any
    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any):
        warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

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
        return Function.backward(ctx, *grad_outputs)

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

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if cls.setup_context is not Function.setup_context:
            # the context is set up from all arguments, those left out too
            bound = _signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        return transformed.apply(cls, args, kwargs) if modes.transforms else call(cls, args, kwargs)


class _Transformed:
    """What calls a function inside ``torch.func``; ``fgrad.torch.func.functions`` enters it when it is defined."""

    apply: Any = None


transformed: _Transformed = _Transformed()


def call(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], forward: Any = None) -> Any:
    """Call a function on tensors, and record it; ``forward`` runs in place of its own."""
    ctx: FunctionNode = cls._backward_cls()
    tensors = [x for x in args if isinstance(x, Tensor)]
    recorded = modes.grad and any(map(is_tracked, tensors))
    ctx._is_tensor = tuple([isinstance(x, Tensor) for x in args])
    ruled = bool(modes.capture) and modes.grad
    ctx.needs_input_grad = tuple(
        [isinstance(x, Tensor) and (is_tracked(x) or (ruled and may_vary(x._value()))) for x in args]
    )
    edges: list[Edge | None] = [
        gradient_edge(x) if recorded and x._type.inexact and is_tracked(x) else None for x in tensors
    ]
    forward_grad = modes.dual_level
    tangents = [[tangent_of(x, level) for x in tensors] for level in range(forward_grad + 1)]
    modes.dual_level = -1
    try:
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                found = (forward or cls.forward)(*args, **kwargs)
                cls.setup_context(ctx, args, found)
            else:
                found = cls.forward(ctx, *args, **kwargs)
    finally:
        modes.dual_level = forward_grad
    several = isinstance(found, tuple)
    outputs = list(found) if several else [found]
    ctx.next_edges = edges
    _check_dirty(ctx, cls, outputs, tensors, recorded)
    results = [_wrapped(ctx, cls, i, out, tensors, recorded) for i, out in enumerate(outputs)]
    types = [out._type if isinstance(out, Tensor) else None for out in results]
    ctx._outputs = types
    ctx._differentiable = tuple(
        [
            isinstance(out, Tensor)
            and (out._grad_fn is not None or (ruled and not _is_plain(ctx, outputs[i], out._type)))
            for i, out in enumerate(results)
        ]
    )
    ctx.out_types = types  # type: ignore[assignment]
    for level in reversed(range(len(tangents))):
        if any(t is not None for t in tangents[level]):
            push(cls, ctx, args, tensors, tangents[level], results, level)
    if recorded or ruled:
        # with their tangents, which are differentiated along with what backward reads
        _save(ctx, results)
        if modes.findings is not None:
            ctx._kept = kept_on(ctx)
    ctx.to_save = ctx.saved_for_forward = None
    if ruled:
        results = [own_handle(x) if isinstance(x, Tensor) else x for x in results]
        rule_outputs(ctx, tensors, results)
    return tuple(results) if several else results[0]


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


def _check_dirty(ctx: FunctionNode, cls: type, outputs: list[Any], inputs: list[Tensor], recorded: bool) -> None:
    for x in ctx.non_differentiable:
        if not isinstance(x, Tensor):
            raise RuntimeError("mark_non_differentiable only accepts variable arguments, but got ")
    for x in ctx.dirty_tensors:
        if not isinstance(x, Tensor):
            raise RuntimeError("mark_dirty can only accept variables, but argument ")
        x._bump(cls.__name__, here(4))
    for x in ctx.dirty_tensors:
        if not any(x is out for out in outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
                "are modified inplace must all be outputs of the Function."
            )
        if not recorded:
            continue
        if not any(x is given for given in inputs):
            if x._view is not None:
                raise explanation.write(x, NOT_AN_INPUT)
            warn(NOT_AN_INPUT, UserWarning)
        elif x._view is not None and len(outputs) > 1:
            raise explanation.write(x, WRITTEN_VIEW)
        elif x._view is not None and is_tracked(x) and gradient_function(x._view.base) is None:
            raise explanation.write(x, VIEW_OF_LEAF)
        elif is_tracked(x) and gradient_function(x) is None:
            raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")


def _wrapped(
    ctx: FunctionNode,
    cls: Any,
    place: int,
    out: Any,
    inputs: list[Tensor],
    recorded: bool,
) -> Any:
    """An output as the node's: an input that was written is rebased, one returned as it was becomes a view."""
    if not isinstance(out, Tensor):
        return out
    is_input = any(out is x for x in inputs)
    dirty = any(out is x for x in ctx.dirty_tensors)
    plain = _is_plain(ctx, out, out._type)
    if dirty:
        if plain and is_tracked(out):
            return alias(out)
        if recorded and not plain:
            if out._view is None:
                out._grad_fn, out._output_nr = ctx, place
                out._backward_hooks = None
            else:
                ctx.out_types = (out._type,)
                rebase(out, ctx)
        return out
    if is_input:
        base = out
        if (plain or not recorded) and is_tracked(base):
            return alias(base)
        out = cut(alias(base, None, Tensor if type(base) in plain_classes else type(base)))
        root = base if base._view is None else base._view.base
        out._geometry = base._geometry_of()
        out._view = _view_of(ctx, cls, root, base, out._geometry)
    elif out._view is not None:
        out._view = _view_of(ctx, cls, out._view.base, out, out._geometry_of())
    if not recorded:
        return out
    out._requires_grad = False
    out._grad_fn, out._output_nr = (None, 0) if plain else (ctx, place)
    return out


def _is_plain(ctx: FunctionNode, out: Tensor, type: TensorType) -> bool:
    """Whether an output has no derivative."""
    return any(out is x for x in ctx.non_differentiable) or not type.inexact


def _view_of(ctx: FunctionNode, cls: type, base: Tensor, parent: Tensor, geometry: Any) -> ViewOf:
    """What says that an output of a Function is a view."""
    version = parent._counter.value
    return ViewOf(base, "custom", version, cls.__name__, ctx.source, None, geometry, parent._view)


def _save(ctx: FunctionNode, results: list[Any]) -> None:
    for i, x in enumerate(ctx.to_save or ()):
        if x is None:
            ctx._saved.append(None)
            continue
        if not isinstance(x, Tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {i} is of type {type(x).__name__}"
            )
        ctx._saved.append(SavedTensor(x, "tensors", output=x._grad_fn is ctx))


class InplaceFunction(Function):
    """A function that may write its input; kept for old programs."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """Kept for old programs; refuses to be used."""

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("NestedIOFunction is not supported; flatten the structure and use Function.")
