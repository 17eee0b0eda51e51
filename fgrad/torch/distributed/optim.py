"""``torch.distributed.optim``: programs ask whether an optimiser shares its state among processes; none does here."""

from typing import Any

from fgrad.torch.optim.optimizer import Optimizer


class ZeroRedundancyOptimizer(Optimizer):
    """An optimiser of which each process keeps a part.

    Raises:
      ValueError: always, as in PyTorch where no processes are joined.
    """

    def __init__(self, params: Any, optimizer_class: Any, **defaults: Any) -> None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
