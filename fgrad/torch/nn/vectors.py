"""All parameters as one vector, and back."""

from collections.abc import Iterable, Iterator

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.nn.modules.registration import typename


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, concatenated.

    Args:
      parameters: the parameters of a model.

    Returns:
      A vector; gradients flow through it to the parameters.

    Raises:
      TypeError: the parameters are on different devices.

    >>> import fgrad.torch as torch
    >>> torch.nn.utils.parameters_to_vector([torch.zeros(1, 2), torch.ones(1)])
    tensor([0., 0., 1.])

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.parameters_to_vector.html
    """
    return ops.cat([parameter.view(-1) for parameter in _on_one_device(parameters)])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set the ``data`` of the parameters to consecutive elements of a vector.

    Args:
      vec: the vector.
      parameters: the parameters of a model; each becomes a view of the vector's memory, as in PyTorch.

    Raises:
      TypeError: ``vec`` is not a tensor, or the parameters are on different devices.

    >>> import fgrad.torch as torch
    >>> w, b = torch.zeros(1, 2), torch.zeros(1)
    >>> torch.nn.utils.vector_to_parameters(torch.tensor([1.0, 2.0, 3.0]), [w, b])
    >>> w, b
    (tensor([[1., 2.]]), tensor([3.]))

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.vector_to_parameters.html
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    start = 0
    for parameter in _on_one_device(parameters):
        end = start + parameter.numel()
        parameter.data = vec[start:end].view_as(parameter).data
        start = end


def _on_one_device(parameters: Iterable[Tensor]) -> Iterator[Tensor]:
    """The parameters, checked to be on one device."""
    first = None
    for parameter in parameters:
        # all devices but GPUs count as one
        device = parameter.get_device() if parameter.device.type == "cuda" else -1
        if first is None:
            first = device
        elif device != first:
            raise TypeError("Found two parameters on different devices, this is currently not supported.")
        yield parameter
