"""``torch.utils.dlpack``: arrays exchanged with other libraries.

Source: `torch.utils.dlpack <https://docs.pytorch.org/docs/2.13/dlpack.html>`_.
"""

from fgrad.torch.ops.creation.interchange import from_dlpack as from_dlpack, to_dlpack as to_dlpack
