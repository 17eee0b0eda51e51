"""``torch.signal``: windows.

Source: `torch.signal <https://docs.pytorch.org/docs/2.13/signal.html>`_.
"""

from fgrad.torch.signal import windows as windows
