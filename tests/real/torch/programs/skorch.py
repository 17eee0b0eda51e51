"""A classifier in scikit-learn's manner."""

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

rng = np.random.default_rng(0)
X, y = rng.standard_normal((60, 8)).astype("f4"), rng.integers(0, 2, 60).astype("i8")
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, units=10):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, units), nn.ReLU(), nn.Linear(units, 2), nn.Softmax(-1))

    def forward(self, X):
        return self.layers(X)


net = NeuralNetClassifier(Net, max_epochs=3, lr=0.1, iterator_train__shuffle=False, verbose=0)
net.fit(X, y)
losses = net.history[:, "train_loss"]
outputs = {"first": net.module_.layers[0].weight, "losses": np.array(losses), "p": net.predict_proba(X)}
