"""``torch.testing``: assertions about tensors, and random tensors for tests.

Source: `torch.testing <https://docs.pytorch.org/docs/2.13/testing.html>`_.
"""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred

if TYPE_CHECKING:
    from fgrad.torch.testing import closeness as closeness, creation as creation, mismatches as mismatches
    from fgrad.torch.testing.closeness import assert_allclose as assert_allclose, assert_close as assert_close
    from fgrad.torch.testing.creation import make_tensor as make_tensor
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            __name__: "closeness creation mismatches",
            f"{__name__}.closeness": "assert_allclose assert_close",
            f"{__name__}.creation": "make_tensor",
        },
    )
