"""``torch.nn.DataParallel`` as without a GPU: it passes its arguments on."""

from collections.abc import Sequence
from typing import Any, NoReturn

from fgrad.torch.nn.modules.module import Module


class DataParallel(Module):
    """A wrapper of a module; its parameters are named ``module.weight`` and so on.

    PyTorch splits batches among GPUs if it has some.  Here the module runs undivided, where its parameters are.

    Arguments:
      module: the module that is called.
      device_ids, output_device, dim: accepted as in PyTorch.

    >>> import fgrad.torch as torch
    >>> list(torch.nn.DataParallel(torch.nn.Linear(2, 1)).state_dict())
    ['module.weight', 'module.bias']

    Source: `torch.nn.DataParallel <https://docs.pytorch.org/docs/2.13/generated/torch.nn.DataParallel.html>`_.
    """

    def __init__(
        self, module: Any, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Any,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> NoReturn:
    """Call a module on several GPUs, of which there are none.

    Raises:
      RuntimeError: always.

    Source: `torch.nn.parallel.data_parallel
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.parallel.data_parallel.html>`_.
    """
    raise RuntimeError("device type could not be determined")
