"""``torch.library``: user-defined operators, see ``custom_op``.

PyTorch's dispatcher (``Library``, ``define``, ``impl``) is not supported; its names can be imported.

Source: `torch.library <https://docs.pytorch.org/docs/stable/library.html>`_.
"""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred
from fgrad.torch.stand_ins import names

if TYPE_CHECKING:
    from fgrad.torch.library import registering as registering, schema as schema
    from fgrad.torch.library.custom_op import CustomOpDef as CustomOpDef, custom_op as custom_op
    from fgrad.torch.library.registering import (
        register_autograd as register_autograd,
        register_fake as register_fake,
        register_kernel as register_kernel,
        register_vmap as register_vmap,
    )
    from fgrad.torch.library.schema import infer_schema as infer_schema
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            __name__: "registering schema",
            f"{__name__}.custom_op": "CustomOpDef custom_op",
            f"{__name__}.registering": "register_autograd register_fake register_kernel register_vmap",
            f"{__name__}.schema": "infer_schema",
        },
    )

globals().update(names("library"))

__all__ = [
    "CustomOpDef", "custom_op", "infer_schema", "register_autograd", "register_fake", "register_kernel",
    "register_vmap",
]  # fmt: skip
