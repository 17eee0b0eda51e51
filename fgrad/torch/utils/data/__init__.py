"""``torch.utils.data``: data sets, samplers and loaders.

Source: `torch.utils.data <https://docs.pytorch.org/docs/2.13/data.html>`_.
"""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred

if TYPE_CHECKING:
    from fgrad.torch.utils.data import (
        collate as collate,
        dataloader as dataloader,
        dataset as dataset,
        distributed as distributed,
        sampler as sampler,
        workers as workers,
    )
    from fgrad.torch.utils.data.collate import default_collate as default_collate, default_convert as default_convert
    from fgrad.torch.utils.data.dataloader import DataLoader as DataLoader
    from fgrad.torch.utils.data.dataset import (
        ChainDataset as ChainDataset,
        ConcatDataset as ConcatDataset,
        Dataset as Dataset,
        IterableDataset as IterableDataset,
        StackDataset as StackDataset,
        Subset as Subset,
        TensorDataset as TensorDataset,
        random_split as random_split,
    )
    from fgrad.torch.utils.data.distributed import DistributedSampler as DistributedSampler
    from fgrad.torch.utils.data.sampler import (
        BatchSampler as BatchSampler,
        RandomSampler as RandomSampler,
        Sampler as Sampler,
        SequentialSampler as SequentialSampler,
        SubsetRandomSampler as SubsetRandomSampler,
        WeightedRandomSampler as WeightedRandomSampler,
    )
    from fgrad.torch.utils.data.workers import get_worker_info as get_worker_info
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            __name__: "collate dataloader dataset distributed sampler workers",
            f"{__name__}.collate": "default_collate default_convert",
            f"{__name__}.dataloader": "DataLoader",
            f"{__name__}.dataset": "ChainDataset ConcatDataset Dataset IterableDataset StackDataset Subset "
            "TensorDataset random_split",
            f"{__name__}.distributed": "DistributedSampler",
            f"{__name__}.sampler": "BatchSampler RandomSampler Sampler SequentialSampler SubsetRandomSampler "
            "WeightedRandomSampler",
            f"{__name__}.workers": "get_worker_info",
        },
    )
