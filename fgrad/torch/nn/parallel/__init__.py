"""``torch.nn.parallel``: modules run on several devices; here they run where their parameters are."""

from fgrad.torch.nn.parallel.data_parallel import DataParallel as DataParallel, data_parallel as data_parallel
from fgrad.torch.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
from fgrad.torch.nn.parallel.scatter_gather import scatter as scatter

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "scatter"]
