"""What a training writes for TensorBoard, read again: numbers, a histogram, images, a text and hyperparameters."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

torch.manual_seed(0)
folder = tempfile.mkdtemp()
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with SummaryWriter(folder, purge_step=0) as writer:
    for step in range(3):
        loss = (net(torch.ones(4, 3)) - 2).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss", loss, step)
        writer.add_scalar("exact", loss.item(), step, new_style=True, double_precision=True)
        writer.add_histogram("weight", net.weight, step)
        writer.add_histogram("few", net.weight.bfloat16(), step, bins=10, max_bins=3)
    writer.add_scalars("both", {"a": 1, "b": torch.tensor(2.0)}, 1)
    writer.add_image("image", torch.rand(1, 4, 5))
    writer.add_images("images", np.arange(10 * 4 * 5 * 3, dtype=np.uint8).reshape(10, 4, 5, 3), dataformats="NHWC")
    writer.add_text("notes", "| lr | 0.1 |")
    writer.add_hparams({"lr": 0.1, "name": "a", "on": True}, {"best": loss}, {"name": ["a", "b"]}, run_name="run")
    for summary in hparams({"lr": torch.tensor([0.1])}, {"hp_metric": -1}):  # as Lightning and Stable-Baselines3 do
        writer.file_writer.add_summary(summary)

outputs = {}
for path in sorted({path.parent for path in Path(folder).rglob("events.*")}):
    read = EventAccumulator(str(path), {"tensors": 0})
    read.Reload()
    for tag in read.Tags()["scalars"]:
        outputs[f"{path.name[:3]} {tag}"] = [event.value for event in read.Scalars(tag)]
    for tag in read.Tags()["histograms"]:
        last = read.Histograms(tag)[-1].histogram_value
        outputs[tag] = [last.min, last.max, last.num, last.sum, last.sum_squares, *last.bucket_limit, *last.bucket]
    for tag in read.Tags()["images"]:
        outputs[tag] = list(read.Images(tag)[0].encoded_image_string)
    for tag in read.Tags()["tensors"]:
        last = read.Tensors(tag)[-1].tensor_proto
        outputs[tag] = list(last.double_val) or list(last.SerializeToString())
    if path.name == "run":
        for tag, content in read.PluginTagToContent("hparams").items():
            outputs[tag] = sorted(content)  # hyperparameters are in no order
