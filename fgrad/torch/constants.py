"""The numbers that ``torch`` names as NumPy does.

>>> import fgrad.torch as torch
>>> torch.pi, torch.inf
(3.141592653589793, inf)
"""

import math

pi: float = math.pi
e: float = math.e
inf: float = math.inf
nan: float = math.nan
#: makes a new axis in an index
newaxis = None
