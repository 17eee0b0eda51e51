"""``torch.distributed.optim``, for ``isinstance`` checks; there are no instances here."""

from typing import Any

from fgrad.torch.optim.optimizer import Optimizer


class ZeroRedundancyOptimizer(Optimizer):
    """An optimiser whose state is sharded over processes.

    Raises:
      ValueError: always, as in PyTorch where no processes are joined.
    """

    def __init__(self, params: Any, optimizer_class: Any, **defaults: Any) -> None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
