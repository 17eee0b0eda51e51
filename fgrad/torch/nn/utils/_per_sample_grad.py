"""Gradients for each example of a batch, from one backward: ``call_for_per_sample_grads``."""

import functools
from collections.abc import Callable
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.autograd import Function
from fgrad.torch.func.maps import vmap
from fgrad.torch.func.modules import functional_call
from fgrad.torch.nn import functional
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.trees import flatten, unflatten

#: the functions that compute each example on its own; their first argument is the batch
_BY_EXAMPLE = (
    functional.linear,
    functional.conv1d,
    functional.conv2d,
    functional.conv3d,
    functional.embedding,
    functional.layer_norm,
    functional.group_norm,
    functional.instance_norm,
)


class _Copies(Function):
    """A parameter, copied for each example; the gradients of the copies go to its ``grad_sample``."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, batch_size: int, scale: int) -> Tensor:
        ctx.parameter, ctx.scale = parameter, scale
        return parameter.detach().expand(batch_size, *parameter.shape)

    @staticmethod
    def backward(ctx: Any, grads: Tensor) -> Any:
        parameter = ctx.parameter
        before = getattr(parameter, "grad_sample", None)
        grads = grads * ctx.scale
        parameter.grad_sample = grads if before is None else before + grads
        return None, None, None


class ExpandedWeight(Tensor):
    """A parameter inside a call for gradients by example: functions map over its copies and the batch."""

    copies: Tensor

    @staticmethod
    def of(parameter: Tensor, batch_size: int, loss_reduction: str) -> "ExpandedWeight":
        weight = Tensor._make_subclass(ExpandedWeight, parameter, True)  # type: ignore[attr-defined]
        weight.copies = _Copies.apply(parameter, batch_size, batch_size if loss_reduction == "mean" else 1)
        return weight

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ == "__get__":  # its shape, its type, ...
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[misc]
        if func not in _BY_EXAMPLE:
            raise RuntimeError(f"Expanded Weights encountered but cannot handle function {func.__name__}")
        batch = args[0]
        if not isinstance(batch, Tensor) or isinstance(batch, ExpandedWeight) or not batch.dim():
            raise RuntimeError(
                "Expanded Weights requires a Tensor with a batch dimension as the first input, got "
                f"{type(batch).__name__} in function {func.__name__}"
            )
        leaves, structure = flatten((args[1:], kwargs or {}))
        dims = [0 if isinstance(x, ExpandedWeight) else None for x in leaves]
        copies = [x.copies if isinstance(x, ExpandedWeight) else x for x in leaves]

        def of_example(example: Tensor, *leaves: Any) -> Tensor:
            args, kwargs = unflatten(leaves, structure)
            return func(example.unsqueeze(0), *args, **kwargs).squeeze(0)

        return vmap(of_example, in_dims=(0, *dims))(batch, *copies)


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:
    """A module's call whose backward puts the gradients of each example into the parameters' ``grad_sample``.

    The parameters' ``grad`` stays as it is.

    Arguments:
      module: of linear, convolution, embedding, and layer, group and instance normalisation layers.
      batch_size: of the arguments; that of the first axis of the tensors among them if None.
      loss_reduction: "mean" multiplies the gradients by the batch's size, which the mean in the loss divides by.
      batch_first: the batch is the first axis of the arguments, or the second.

    Raises:
      RuntimeError: an argument does not fit, a parameter has a ``grad_sample``, or a function of a parameter is not
        one of the above.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> call_for_per_sample_grads(layer)(torch.tensor([[1., 2.], [3., 4.]])).sum().backward()
    >>> layer.weight.grad_sample
    tensor([[[1., 2.]],
    <BLANKLINE>
            [[3., 4.]]])
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for weight in module.parameters():
        if getattr(weight, "grad_sample", None) is not None:
            raise RuntimeError(
                "Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls "
                f"without clearing gradients. Please clear out the grad_sample parameter of {weight} or post an issue "
                "to pytorch/pytorch to prioritize correct behavior"
            )

    @functools.wraps(module.forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        size = _batch_size((args, kwargs), 0 if batch_first else 1) if batch_size is None else batch_size
        state: dict[str, Tensor] = {
            name: ExpandedWeight.of(value, size, loss_reduction) if value.requires_grad else value
            for name, value in module.named_parameters()
        }
        return functional_call(module, state, args, kwargs)

    return call


def _batch_size(tree: Any, dim: int) -> int:
    sizes = [x.shape[dim] for x in flatten(tree)[0] if isinstance(x, Tensor)]
    for size in sizes:
        if size != sizes[0]:
            raise RuntimeError(
                f"When computing batch size, found at least one input with batch size {sizes[0]} and one with batch "
                f"size {size}. Please specify it explicitly using the batch size kwarg in call_for_per_sample_grads"
            )
    if not sizes:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so "
            "ExpandedWeights cannot compute the batch size from the inputs. Please specify it explicitly"
        )
    return sizes[0]
