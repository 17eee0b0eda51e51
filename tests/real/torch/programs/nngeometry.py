"""The Fisher information matrix of a classifier, in several representations."""

import torch
from nngeometry.metrics import FIM
from nngeometry.object import PMatDense, PMatDiag, PMatKFAC
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
loader = DataLoader(TensorDataset(torch.randn(6, 3), torch.randint(0, 2, (6,))), batch_size=3)
outputs = {}
for representation in (PMatDense, PMatKFAC, PMatDiag):
    fisher = FIM(model=model, loader=loader, representation=representation, variant="classif_logits", device="cpu")
    outputs |= {
        f"{representation.__name__} trace": fisher.trace(),
        f"{representation.__name__} norm": fisher.frobenius_norm(),
    }
