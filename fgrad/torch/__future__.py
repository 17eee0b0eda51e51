"""Conventions that PyTorch means to adopt, to be switched on before it does."""

_overwrites_params = False
_swaps_params = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Set whether ``Module.to`` and its relatives put new parameters into a module, not new data into the old ones.

    Arguments:
      value: whether they do; False at first.

    >>> import fgrad.torch as torch
    >>> torch.__future__.set_overwrite_module_params_on_conversion(True)
    >>> layer = torch.nn.Linear(2, 2)
    >>> weight = layer.weight
    >>> layer.double().weight is weight
    False
    >>> torch.__future__.set_overwrite_module_params_on_conversion(False)
    """
    global _overwrites_params
    _overwrites_params = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether ``Module.to`` and its relatives put new parameters into a module.

    >>> import fgrad.torch as torch
    >>> torch.__future__.get_overwrite_module_params_on_conversion()
    False
    """
    return _overwrites_params


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Set whether ``Module.to`` and its relatives swap the parameters of a module with new ones (``swap_tensors``).

    Arguments:
      value: whether they do; False at first.

    >>> import fgrad.torch as torch
    >>> torch.__future__.set_swap_module_params_on_conversion(True)
    >>> layer = torch.nn.Linear(2, 2)
    >>> weight = layer.weight
    >>> layer.double().weight is weight
    True
    >>> torch.__future__.set_swap_module_params_on_conversion(False)
    """
    global _swaps_params
    _swaps_params = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether converting a module swaps its parameters with new ones.

    >>> import fgrad.torch as torch
    >>> torch.__future__.get_swap_module_params_on_conversion()
    False
    """
    return _swaps_params
