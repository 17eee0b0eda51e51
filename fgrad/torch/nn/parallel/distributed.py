"""``torch.nn.parallel.DistributedDataParallel``, for ``isinstance`` checks; there are no instances here."""

from typing import Any

from fgrad.torch.nn.modules.module import Module


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over several processes.

    Raises:
      ValueError: always, as in PyTorch where no processes are joined.

    Source: `torch.nn.parallel.DistributedDataParallel
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.parallel.DistributedDataParallel.html>`_.
    """

    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
