"""``backward`` and ``grad``: checks of roots and targets, and calls of the engine."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.mutable import explain
from fgrad.mutable.backward import engine
from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.torch_function.protocol import Rule
from fgrad.mutable.context.torch_function.wrap import overridable
from fgrad.mutable.context.warning import first_time, warn
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.tensor.cut import cut
from fgrad.mutable.tensor.tensor import (
    GradientEdge,
    Tensor,
    accumulator,
    alias,
    gradient_edge,
    gradient_function,
    is_tracked,
    new_tensor,
    to_device_of,
)
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.transforms.levels import cross_in, cross_out, mapping_gradients
from fgrad.mutable.types.size import Size
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import filled
from fgrad.mutable.write.copying import kept_strides

CREATE_GRAPH = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
    "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you "
    "have to use this function, make sure to reset the .grad fields of your parameters to None after use to break the "
    "cycle and avoid the leak."
)


def _listed(tensors: Any) -> list[Any]:
    if tensors is None:
        return []
    return [tensors] if isinstance(tensors, Tensor | GradientEdge) else list(tensors)


def checked_roots(tensors: Any) -> list[Any]:
    """The tensors at which a backward pass begins.

    Raises:
      TypeError: one is not a tensor.  PyTorch has an AssertionError there.
    """
    roots = _listed(tensors)
    for i, root in enumerate(roots):
        if not isinstance(root, Tensor | GradientEdge):
            raise TypeError(f"Expected output to be a torch.Tensor, got {type_name(root)} at position {i}")
    return roots


def checked_targets(tensors: Any, who: str) -> list[Any]:
    """The tensors whose gradients are wanted; of a dict, its values.

    Raises:
      RuntimeError: there are none, or one is not a tensor.
      TypeError: a mapping that is not a dict.
    """
    if isinstance(tensors, Mapping) and type(tensors) is not dict:
        raise TypeError(
            f"`inputs` argument to `{who}()` must be a dict, not {type(tensors).__name__}. Other Mapping types are not "
            "supported."
        )
    targets = list(tensors.values()) if type(tensors) is dict else _listed(tensors)
    if not targets:
        raise RuntimeError(f"`inputs` argument to `{who}()` cannot be empty.")
    for target in targets:
        if not isinstance(target, Tensor | GradientEdge):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type_name(target)}")
    return targets


def checked_flags(**flags: Any) -> None:
    """Refuse values that are not bools."""
    for name, value in flags.items():
        if not (value is None or isinstance(value, bool | int | np.bool_)):
            raise TypeError(f"backward: {name} must be a bool, not {type_name(value)}")


def _calculate_shape(output: Tensor | GradientEdge, grad: Tensor, is_grads_batched: bool) -> tuple[Size, Size]:
    """The shape of a root and that of each of its gradients."""
    if isinstance(output, GradientEdge) and is_grads_batched:
        raise RuntimeError("Batched grads are not supported with GradientEdge")
    return Size(_type_of(output).shape), Size(grad._type.shape[is_grads_batched:])


def _is_checkpoint_valid() -> bool:
    """Whether what runs is not a backward to chosen inputs, in which reentrant checkpoints would miss gradients."""
    return not engine.running.tasks or engine.running.tasks[-1].needed is None


def _type_of(root: Tensor | GradientEdge) -> TensorType:
    return root._type if isinstance(root, Tensor) else root.node.out_types[root.output_nr]


def _ones(type: TensorType) -> Tensor:
    return new_tensor(filled(type.shape, type.dtype.numpy, 1), type)


def _zeros(target: Tensor, tracked: bool) -> Tensor:
    type = target._type
    zeros = new_tensor(filled(type.shape, type.dtype.numpy, 0), type, kept_strides(target))
    zeros._requires_grad = tracked
    return zeros


def seeds(outputs: Sequence[Any], grads: Sequence[Any], batched: bool) -> list[Tensor | None]:
    """The initial gradients: ones where a single-element output is given none."""
    gradients: list[Tensor | None] = []
    for i, (output, grad) in enumerate(zip(outputs, grads, strict=True)):
        type = _type_of(output)
        if isinstance(grad, Tensor):
            shape: Ints = grad._type.shape[1:] if batched else grad._type.shape
            if shape != type.shape:
                if batched:
                    raise RuntimeError(
                        "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
                        "batch dimension. The sizes of the remaining dimensions are expected to match the shape of "
                        f"corresponding output, but a mismatch was detected: grad_output[{i}] has a shape of "
                        f"{grad.shape} and output[{i}] has a shape of {Size(type.shape)}. If you only want some "
                        "tensors in `grad_output` to be considered batched, consider using vmap."
                    )
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] has a shape of {Size(grad._type.shape)} and output[{i}] has "
                    f"a shape of {Size(type.shape)}."
                )
            if type.dtype.is_complex != grad._type.dtype.is_complex:
                raise RuntimeError(
                    "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
                    f"dtype: grad_output[{i}] has a dtype of {grad._type.dtype} and output[{i}] has a dtype of "
                    f"{type.dtype}."
                )
            gradients.append(grad)
        elif grad is None:
            if isinstance(output, Tensor) and not is_tracked(output):
                gradients.append(None)
                continue
            if type.numel != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if not type.dtype.is_floating_point:
                raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {type.dtype}")
            gradients.append(to_device_of(output, _ones(type)) if isinstance(output, Tensor) else _ones(type))
        else:
            raise TypeError("gradients can be either Tensors or None, but got " + type_name(grad))
    return gradients


def _roots(outputs: Sequence[Any], grads: Sequence[Tensor | None], what: str) -> list[Any]:
    roots = []
    for i, (output, grad) in enumerate(zip(outputs, grads, strict=True)):
        edge = (output.node, output.output_nr) if isinstance(output, GradientEdge) else gradient_edge(output)
        if edge is None:
            text = f"element {i} of tensors does not require grad and does not have a grad_fn"
            raise RuntimeError(explain.no_history(output, text))
        roots.append((edge, grad))
    return roots


def _call(
    tensors: Any, grad_tensors: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """The parameters of ``backward`` as ``__torch_function__`` gets them."""


@functools.partial(overridable, name="torch.autograd.backward", rule=Rule.WRITTEN, like=_call)
def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of tensors to the ``.grad`` of the leaves that they were computed from.

    Arguments:
      tensors: a tensor, gradient edge, or sequence of them.
      grad_tensors: the initial gradient of each; None stands for 1 where a tensor has one element.
      retain_graph: keep the saved tensors for another backward; defaults to ``create_graph``.
      create_graph: record backward too, so that the gradients can be differentiated.
      inputs: accumulate into these only; a tensor, gradient edge, sequence or dict of them.

    Raises:
      RuntimeError: a tensor does not require grad, or is not a scalar and has no initial gradient; the graph was freed;
        or a saved tensor was overwritten.

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> torch.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])

    Source: `torch.autograd.backward <https://docs.pytorch.org/docs/stable/generated/torch.autograd.backward.html>`_.
    """
    checked_flags(retain_graph=retain_graph, create_graph=create_graph)
    if grad_variables is not None:
        warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only "
                "use `grad_tensors`."
            )
        grad_tensors = grad_variables
    targets = None if inputs is None else checked_targets(inputs, "backward")
    outputs = checked_roots(tensors)
    grads = [None] * len(outputs) if grad_tensors is None else _listed(grad_tensors)[: len(outputs)]
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    keep = create_graph if retain_graph is None else retain_graph
    roots = _roots(outputs, seeds(outputs, grads, False), "tensors")
    if create_graph and targets is None and first_time(CREATE_GRAPH):
        warn(CREATE_GRAPH, UserWarning)
    edges = None
    if targets is not None:
        edges = [_target(x, True) for x in targets]
    engine.run_backward(roots, keep, create_graph, edges, True)


def _target(target: Any, accumulate: bool) -> Any:
    if isinstance(target, GradientEdge):
        return target.node, target.output_nr
    if accumulate and not is_tracked(target):
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if not is_tracked(target):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    if accumulate and gradient_function(target) is not None and not target._retains_grad:
        target.retain_grad()
    edge = gradient_edge(target)
    return (accumulator(target), 0) if edge is None else edge


ONLY_INPUTS = (
    "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other parts "
    "of the graph, please use torch.autograd.backward."
)
UNUSED = "appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."


@functools.partial(overridable, name="torch.autograd.grad", rule=Rule.WRITTEN)
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of outputs with respect to inputs, which may be tensors anywhere in the graph.

    Returns a tuple, or of a dict of inputs a dict with the same keys.

    Arguments:
      outputs, inputs: tensors, gradient edges, or sequences of them; ``inputs`` may also be a dict of tensors.
      grad_outputs: the initial gradient of each output.
      retain_graph, create_graph: as in ``backward``.
      only_inputs: has no effect.
      allow_unused: return None for an input that the outputs do not depend on, instead of raising.
      is_grads_batched: ``grad_outputs`` and results have a leading batch axis.
      materialize_grads: return zeros instead of None.

    Raises:
      RuntimeError: as ``backward`` does, or an input is not part of the graph.

    >>> import fgrad.torch as torch
    >>> x = torch.tensor(3., requires_grad=True)
    >>> torch.autograd.grad(x ** 2, x)
    (tensor(6.),)

    Source: `torch.autograd.grad <https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html>`_.
    """
    checked_flags(retain_graph=retain_graph, create_graph=create_graph, allow_unused=allow_unused)
    if not only_inputs:
        warn(ONLY_INPUTS, FutureWarning)
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    allow = bool(materialize_grads if allow_unused is None else allow_unused)
    outs, targets = checked_roots(outputs), checked_targets(inputs, "grad")
    grads = [None] * len(outs) if grad_outputs is None else _listed(grad_outputs)[: len(outs)]
    if len(grads) != len(outs):
        raise RuntimeError(f"got {len(outs)} tensors and {len(grads)} gradients")
    keep = create_graph if retain_graph is None else retain_graph
    roots = _roots(outs, seeds(outs, grads, is_grads_batched), "tensors")
    edges = [_target(x, False) for x in targets]
    if is_grads_batched:
        gradients = _batched_gradients(roots, keep, create_graph, edges)
    else:
        gradients = engine.run_backward(roots, keep, create_graph, edges, False)
    if modes.capture and not create_graph:
        gradients = [None if g is None else cut(alias(g)) for g in gradients]
    results = materialized(gradients, targets, allow, materialize_grads, create_graph, outs)
    return dict(zip(inputs, results, strict=True)) if type(inputs) is dict else results


def materialized(
    gradients: Sequence[Tensor | None],
    targets: Sequence[Any],
    allow: bool,
    materialize: bool,
    tracked: bool,
    outputs: Sequence[Any] = (),
) -> tuple[Any, ...]:
    """The gradients, missing ones refused or replaced by zeros, which require grad if ``tracked``."""
    if materialize:
        if any(g is None and isinstance(t, GradientEdge) for g, t in zip(gradients, targets, strict=True)):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        return tuple([_zeros(t, tracked) if g is None else g for g, t in zip(gradients, targets, strict=True)])
    for i, g in enumerate(gradients):
        if g is None and not allow:
            raise RuntimeError(
                explain.not_used(outputs, targets[i], f"The differentiated Tensor at index {i} {UNUSED}")
            )
    return tuple(gradients)


def _batched_gradients(
    roots: Sequence[tuple[Any, Tensor | None]], keep_graph: bool, create_graph: bool, inputs: Sequence[Any]
) -> list[Tensor | None]:
    """``run_backward`` mapped over gradients with a leading batch axis, which the results have too.

    Raises:
      ValueError: the batch sizes differ.
    """
    sizes = [g._type.shape[0] for _, g in roots if g is not None]
    if len(set(sizes)) != 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    with mapping_gradients(sizes[0]) as level:
        examples = [(edge, None if g is None else cross_in(g, level)) for edge, g in roots]
        gradients = engine.run_backward(examples, keep_graph, create_graph, inputs, False)
    return [None if g is None else cross_out(g, level) for g in gradients]
