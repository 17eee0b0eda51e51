"""``torch.nn.parallel``: modules run on several devices; here they run where their parameters are."""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred

if TYPE_CHECKING:
    from fgrad.torch.nn.parallel import distributed as distributed, scatter_gather as scatter_gather
    from fgrad.torch.nn.parallel.data_parallel import DataParallel as DataParallel, data_parallel as data_parallel
    from fgrad.torch.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
    from fgrad.torch.nn.parallel.scatter_gather import scatter as scatter
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            __name__: "distributed scatter_gather",
            f"{__name__}.data_parallel": "DataParallel data_parallel",
            f"{__name__}.distributed": "DistributedDataParallel",
            f"{__name__}.scatter_gather": "scatter",
        },
    )

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "scatter"]
