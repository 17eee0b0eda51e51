"""A classifier trained by one cycle, with three optimisers."""

import torch
from fastai.callback import progress, schedule  # noqa: F401  (they add methods to Learner)
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader
from fastai.learner import Learner
from fastai.losses import CrossEntropyLossFlat
from fastai.metrics import accuracy
from fastai.optimizer import SGD, Adam, ranger

outputs = {}
for optimizer in (SGD, Adam, ranger):
    torch.manual_seed(0)
    samples = torch.utils.data.TensorDataset(torch.randn(24, 4), torch.arange(24) % 3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    loaders = DataLoaders(DataLoader(samples, bs=8), DataLoader(samples, bs=8))
    loss = CrossEntropyLossFlat()
    learner = Learner(loaders, model, loss_func=loss, opt_func=optimizer, metrics=accuracy, lr=0.05)
    with learner.no_bar(), learner.no_logging():
        learner.fit_one_cycle(2)
    outputs[optimizer.__name__] = model[0].weight
    outputs[f"{optimizer.__name__} losses"] = [float(x) for x in learner.recorder.values[-1]]
