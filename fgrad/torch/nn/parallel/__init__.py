"""``torch.nn.parallel``: modules run on several devices; here they run where their parameters are."""

from fgrad.torch.nn.parallel.data_parallel import DataParallel as DataParallel, data_parallel as data_parallel

__all__ = ["DataParallel", "data_parallel"]
