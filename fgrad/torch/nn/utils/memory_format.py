"""The memory format of the weights of convolutions."""

from typing import Any

from fgrad.torch.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Set the memory format of the weights of a module's two-dimensional convolutions; returns the module.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.Conv2d(3, 1, 2)
    >>> torch.nn.utils.convert_conv2d_weight_memory_format(layer, torch.channels_last).weight.stride()
    (12, 1, 6, 3)

    Source: `torch.nn.utils.convert_conv2d_weight_memory_format
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.convert_conv2d_weight_memory_format.html>`_.
    """
    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Set the memory format of the weights of a module's three-dimensional convolutions; returns the module.

    Source: `torch.nn.utils.convert_conv3d_weight_memory_format
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.convert_conv3d_weight_memory_format.html>`_.
    """
    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))


def _convert(module: Any, memory_format: Any, kinds: tuple[type[Any], ...]) -> Any:
    for each in module.modules():
        if isinstance(each, kinds):
            each.weight.data = each.weight.detach().clone(memory_format=memory_format)
    return module
