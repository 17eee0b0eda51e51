"""``torch.testing``: assertions about tensors, and tensors to test with.

Source: `torch.testing <https://docs.pytorch.org/docs/2.13/testing.html>`_.
"""

from fgrad.torch.testing.closeness import assert_allclose as assert_allclose, assert_close as assert_close
from fgrad.torch.testing.creation import make_tensor as make_tensor
