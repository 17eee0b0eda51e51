"""Optimisers and learning-rate schedulers, under the names of ``torch.optim``."""

from fgrad.torch.optim import lr_scheduler, swa_utils
from fgrad.torch.optim.adadelta import Adadelta
from fgrad.torch.optim.adafactor import Adafactor
from fgrad.torch.optim.adagrad import Adagrad
from fgrad.torch.optim.adam import Adam
from fgrad.torch.optim.adamax import Adamax
from fgrad.torch.optim.adamw import AdamW
from fgrad.torch.optim.asgd import ASGD
from fgrad.torch.optim.lbfgs import LBFGS
from fgrad.torch.optim.muon import Muon
from fgrad.torch.optim.nadam import NAdam
from fgrad.torch.optim.optimizer import Optimizer
from fgrad.torch.optim.radam import RAdam
from fgrad.torch.optim.rmsprop import RMSprop
from fgrad.torch.optim.rprop import Rprop
from fgrad.torch.optim.sgd import SGD
from fgrad.torch.optim.sparse_adam import SparseAdam
from fgrad.torch.optim.swapping import swap_in_optimizer_params_and_state

__all__ = [
    "Adafactor",
    "Adadelta",
    "Adagrad",
    "Adam",
    "Adamax",
    "AdamW",
    "ASGD",
    "LBFGS",
    "lr_scheduler",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
    "swap_in_optimizer_params_and_state",
    "swa_utils",
]
