"""``torch.utils.data``: sets of samples, the order in which they are visited, and batches of them.

Source: `torch.utils.data <https://docs.pytorch.org/docs/2.13/data.html>`_.
"""

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
