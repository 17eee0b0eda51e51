"""Optimisers and learning-rate schedulers, under the names of ``torch.optim``."""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred

if TYPE_CHECKING:
    from fgrad.torch.optim import (
        adadelta as adadelta,
        adafactor as adafactor,
        adagrad as adagrad,
        adam as adam,
        adamax as adamax,
        adamw as adamw,
        asgd as asgd,
        checks as checks,
        lbfgs as lbfgs,
        line_search as line_search,
        lr_scheduler as lr_scheduler,
        muon as muon,
        nadam as nadam,
        optimizer as optimizer,
        radam as radam,
        rmsprop as rmsprop,
        rprop as rprop,
        sgd as sgd,
        sparse_adam as sparse_adam,
        swa_utils as swa_utils,
        swapping as swapping,
        update as update,
    )
    from fgrad.torch.optim.adadelta import Adadelta as Adadelta
    from fgrad.torch.optim.adafactor import Adafactor as Adafactor
    from fgrad.torch.optim.adagrad import Adagrad as Adagrad
    from fgrad.torch.optim.adam import Adam as Adam
    from fgrad.torch.optim.adamax import Adamax as Adamax
    from fgrad.torch.optim.adamw import AdamW as AdamW
    from fgrad.torch.optim.asgd import ASGD as ASGD
    from fgrad.torch.optim.lbfgs import LBFGS as LBFGS
    from fgrad.torch.optim.muon import Muon as Muon
    from fgrad.torch.optim.nadam import NAdam as NAdam
    from fgrad.torch.optim.optimizer import Optimizer as Optimizer
    from fgrad.torch.optim.radam import RAdam as RAdam
    from fgrad.torch.optim.rmsprop import RMSprop as RMSprop
    from fgrad.torch.optim.rprop import Rprop as Rprop
    from fgrad.torch.optim.sgd import SGD as SGD
    from fgrad.torch.optim.sparse_adam import SparseAdam as SparseAdam
    from fgrad.torch.optim.swapping import swap_in_optimizer_params_and_state as swap_in_optimizer_params_and_state
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            __name__: "adadelta adafactor adagrad adam adamax adamw asgd checks lbfgs line_search lr_scheduler muon "
            "nadam optimizer radam rmsprop rprop sgd sparse_adam swa_utils swapping update",
            f"{__name__}.adadelta": "Adadelta",
            f"{__name__}.adafactor": "Adafactor",
            f"{__name__}.adagrad": "Adagrad",
            f"{__name__}.adam": "Adam",
            f"{__name__}.adamax": "Adamax",
            f"{__name__}.adamw": "AdamW",
            f"{__name__}.asgd": "ASGD",
            f"{__name__}.lbfgs": "LBFGS",
            f"{__name__}.muon": "Muon",
            f"{__name__}.nadam": "NAdam",
            f"{__name__}.optimizer": "Optimizer",
            f"{__name__}.radam": "RAdam",
            f"{__name__}.rmsprop": "RMSprop",
            f"{__name__}.rprop": "Rprop",
            f"{__name__}.sgd": "SGD",
            f"{__name__}.sparse_adam": "SparseAdam",
            f"{__name__}.swapping": "swap_in_optimizer_params_and_state",
        },
    )

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
