"""``torch.distributed``: programs ask whether they run in several processes; here they never do."""

from fgrad.torch.stand_ins import names, submodules

globals().update(names("distributed"))
__getattr__, __dir__ = submodules(__name__, {__name__: "optim"})
