"""``torch.utils.tensorboard``: what a training writes for TensorBoard, by the package ``tensorboard``.

Without that package the import fails, as PyTorch's does.
"""

from fgrad.torch.utils.tensorboard.writer import (
    FileWriter as FileWriter,
    RecordWriter as RecordWriter,
    SummaryWriter as SummaryWriter,
)

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
