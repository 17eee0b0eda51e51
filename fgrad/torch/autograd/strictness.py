"""What the functions of ``torch.autograd.functional`` share: preparing arguments, and the checks of ``strict``."""

from collections.abc import Sequence
from typing import Any

from fgrad.mutable.operation.operation_node import zeros
from fgrad.mutable.tensor.tensor import Tensor, alias, is_tracked
from fgrad.torch.autograd.backward import grad

Tensors = tuple[Tensor, ...]


def tupled(value: Any, argument: str = "argument", function: str = "function") -> tuple[bool, Tensors]:
    """Whether the argument is a tuple, and its tensors as a tuple.

    Raises:
      TypeError: one is not a tensor.
    """
    several = isinstance(value, tuple)
    listed = value if several else (value,)
    for i, x in enumerate(listed):
        if not isinstance(x, Tensor):
            which = f"the value at index {i}" if several else f"the given {argument}"
            raise TypeError(
                f"The {argument} given to {function} must be either a Tensor or a tuple of Tensors but {which} has "
                f"type {type(x)}."
            )
    return several, listed


def untupled(values: Any, several: bool) -> Any:
    """The inverse of ``tupled``."""
    return values if several else values[0]


def prepared(inputs: Sequence[Tensor], create_graph: bool, need_graph: bool) -> Tensors:
    """Aliases of tensors, which the function cannot mistake for those that it closes over.

    They are views of the originals with ``create_graph``; otherwise leaves, which require grad with ``need_graph``.
    """
    return tuple(
        [x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_(need_graph) for x in inputs]
    )


def released(values: Any, create_graph: bool) -> Any:
    """Results without history, unless ``create_graph``."""
    if create_graph:
        return values
    return tuple([x.detach() if isinstance(x, Tensor) else released(x, create_graph) for x in values])


def vector(v: Any, like: Tensors, several: bool, function: str, create_graph: bool) -> Tensors | None:
    """The vector of a product, prepared.

    Raises:
      RuntimeError: it does not fit ``like``, or is None for more than one number.
    """
    if v is None:
        if len(like) != 1 or like[0].nelement() != 1:
            subject = "the user-provided function returns"
            if function != "vjp":
                subject = "the input to the user-provided function is"
            raise RuntimeError(f"The vector v can only be None if {subject} a single Tensor with a single element.")
        return None
    _, tensors = tupled(v, "v", function)
    vectors = prepared(tensors, create_graph, False)
    if len(vectors) != len(like):
        if several:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (x, other) in enumerate(zip(vectors, like, strict=True)):
        if x._type.shape != other._type.shape:
            which = f"Entry {i} in " if several else ""
            raise RuntimeError(f"{which}v has invalid size: should be {other.size()} but got {x.size()}.")
    return vectors


_INDEPENDENT = {
    "outputs": "Output {i} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {i} is independent of the inputs of the user-provided function. "
    "This is not allowed in strict mode.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to "
    "input {i} is independent of the input. This is not allowed in strict mode. You should ensure that your function "
    "is twice differentiable and that the jacobian depends on the inputs (this would be violated by a linear function "
    "for example).",
    "hessian": "The hessian of the user-provided function with respect to input {i} is independent of the input. This "
    "is not allowed in strict mode. You should ensure that your function is thrice differentiable and that the hessian "
    "depends on the inputs.",
}


def check_dependent(values: Sequence[Tensor | None], name: str) -> None:
    """For ``strict``: raise if a value does not depend on the inputs."""
    for i, x in enumerate(values):
        if x is None:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {i}. This is not allowed in strict "
                "mode."
            )
        if not is_tracked(x):
            raise RuntimeError(_INDEPENDENT[name].format(i=i))


def gradients(
    outputs: Sequence[Tensor | None],
    inputs: Sequence[Tensor],
    seeds: Sequence[Tensor | None] | None = None,
    *,
    create_graph: bool = False,
    retain_graph: bool | None = None,
    batched: bool = False,
) -> tuple[Tensor | None, ...]:
    """``autograd.grad`` of the outputs that require grad; None where an input is not reached."""
    cotangents = [None] * len(outputs) if seeds is None else seeds
    pairs = [(x, g) for x, g in zip(outputs, cotangents, strict=True) if x is not None and is_tracked(x)]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [x for x, _ in pairs],
        inputs,
        [g for _, g in pairs],
        allow_unused=True,
        create_graph=create_graph,
        retain_graph=retain_graph,
        is_grads_batched=batched,
    )


#: for each step, the error for an input that is not reached
_UNREACHED = {
    "back": "The output of the user-provided function is independent of input {i}. This is not allowed in strict mode.",
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using "
    "the double backward trick to compute forward mode gradients. This is not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {i}. This is not allowed in "
    "strict mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian. "
    "This is not allowed in strict mode as it prevents from using the double backward trick to replace forward mode "
    "AD.",
}


def filled(grads: Sequence[Tensor | None], like: Tensors, strict: bool, create_graph: bool, step: str) -> Tensors:
    """Gradients, with zeros for None.

    Raises:
      RuntimeError: with ``strict``, one is None, or has no history although it is to be differentiated again.
    """
    results = []
    for i, (g, x) in enumerate(zip(grads, like, strict=True)):
        if g is None and strict:
            raise RuntimeError(_UNREACHED[step].format(i=i))
        if g is not None and strict and create_graph and not is_tracked(g):
            raise RuntimeError(
                f"The {'hessian' if 'double' in step else 'jacobian'} of the user-provided function is independent of "
                f"input {i}. This is not allowed in strict mode when create_graph=True."
            )
        results.append(zeros(x._type) if g is None else g)
    return tuple(results)


def tracked_zeros(like: Sequence[Tensor]) -> Tensors:
    """Zeros that require grad."""
    tensors = tuple([alias(zeros(x._type)) for x in like])
    for x in tensors:
        x._requires_grad = True
    return tensors
