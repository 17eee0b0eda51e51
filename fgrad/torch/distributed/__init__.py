"""``torch.distributed``: programs ask whether they run in several processes; here they never do."""

from fgrad.torch.distributed import optim as optim
from fgrad.torch.stand_ins import names, submodules

globals().update(names("distributed"))
__getattr__ = submodules(__name__)
