"""``torch.distributed``: queries about processes; here there is only one."""

from fgrad.torch.stand_ins import names, submodules

globals().update(names("distributed"))
__getattr__, __dir__ = submodules(__name__, {__name__: "optim"})
